// levels/page/publish/publisher.h -- publishes content that is complete: takes the domain lock when
// there is room for it, and makes it a commit with a stamp of its own. It knows neither the
// content's maker nor what that made it of.
// Invariant: ConsistencyTree::publish() stores the clock: that is the commit point. Nothing behind
//            it can fail.
// Ordering:  see consistency_tree.h for pins and clock.
// Contexts:  not in handlers.
// Source:    thesis, section 3.3, step 3; docs/design.md D5.
#pragma once

#include <cstdint>
#include <optional>

#include "levels/page/publish/content.h"
#include "levels/page/redo/redo.h"
#include "levels/page/shared/shared.h"
#include "levels/page/versions/versions.h"
#include "platform/assert.h"

namespace tmh::page {

class Publisher {
 public:
  // ours outlives it: of the participant that has reserved the content's slots.
  explicit Publisher(Ours &ours) noexcept : ours_(ours) {}

  // Durable domains: before the first publish().
  void use_log(DurableLog *log) noexcept { log_ = log; }

  // Takes the domain lock when no other participant has the turn, and there is room for what the
  // content enters into the ring and for its log records. Empty: *error says why. *log_end: for
  // publish().
  [[nodiscard]] std::optional<DomainLock::Held> lock_with_room(const Content &content,
                                                               storage::Lsn *log_end,
                                                               Errc *error) noexcept;
  // Returns the stamp; the slots are versions afterwards. will_wait: the caller waits until it is
  // durable. held, log_end: of lock_with_room() of this content.
  std::uint64_t publish(const DomainLock::Held &held, const Content &content, storage::Lsn log_end,
                        bool will_wait) noexcept {
    TMH_ASSERT(!will_wait || log_ != nullptr);
    const auto stamp = ours_.tree.publish(held, content.writes, log_end, ours_.lower_clock());
    if (will_wait) log_->group().announce(stamp);
    return stamp;
  }
  // Instead of it.
  void give_room_back(const DomainLock::Held &held) noexcept {
    TMH_ASSERT(held.is_valid());
    if (log_ != nullptr) log_->room().give_back_planned();
  }

 private:
  Ours &ours_;
  // Durable domains only.
  DurableLog *log_ = nullptr;
};

}  // namespace tmh::page
