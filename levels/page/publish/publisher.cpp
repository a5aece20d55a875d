// levels/page/publish/publisher.cpp -- the domain lock, with room for content.
#include "levels/page/publish/publisher.h"

#include "levels/page/publish/outcome.h"

namespace tmh::page {

std::optional<DomainLock::Held> Publisher::lock_with_room(const Content &content,
                                                          storage::Lsn *log_end,
                                                          Errc *error) noexcept {
  TMH_ASSERT(!content.writes.empty());
  *log_end = 0;
  for (;;) {
    DomainLock::Held held = ours_.turn.take_lock();
    *error =
        ours_.memory.commits().make_room(held, ConsistencyTree::entries_of(content.writes.size()));
    if (*error != Errc::kOk) {
      held.release();
      *error = no_room(*error);
      return std::nullopt;
    }
    if (log_ == nullptr) return held;
    TMH_ASSERT(content.plan.page_count() == content.writes.size());
    const LogRoom::Room room = log_->room().reserve_planned(held, content.plan, log_end);
    if (room == LogRoom::Room::kYes) return held;
    held.release();
    if (*error = log_->make_room(room, *log_end, &content.plan); *error != Errc::kOk)
      return std::nullopt;
  }
}

}  // namespace tmh::page
