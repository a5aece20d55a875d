// levels/page/redo/durable_log.cpp -- what the parts of the log do together.
#include "levels/page/redo/durable_log.h"

namespace tmh::page {

Errc DurableLog::make_room(Room room, storage::Lsn end, RedoPlan *plan) noexcept {
  switch (room) {
    case Room::kYes:
      break;
    case Room::kFailed:
      return LogRoom::fail_written();
    case Room::kSegment:
      return plan->make_sizes_durable();
    case Room::kFlush:
      return wait(memory_.state().clock.load(std::memory_order_acquire));
    case Room::kFile:
      return make_files_up_to(end);
  }
  return Errc::kOk;
}

Errc DurableLog::flush_all() noexcept {
  const std::uint64_t line = line_clock();
  return flush(memory_.state().clock.load(std::memory_order_acquire), line);
}

void DurableLog::free_lower() noexcept { gatherer_->forget(lock(), point().line); }

}  // namespace tmh::page
