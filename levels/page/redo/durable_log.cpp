// levels/page/redo/durable_log.cpp -- what the parts of the log do together.
#include "levels/page/redo/durable_log.h"

#include "platform/try.h"

namespace tmh::page {

Errc DurableLog::make_room(LogRoom::Room room, storage::Lsn end, RedoPlan *plan) noexcept {
  switch (room) {
    case LogRoom::Room::kYes:
      break;
    case LogRoom::Room::kFailed:
      return LogRoom::fail_written();
    case LogRoom::Room::kSegment:
      return plan->make_sizes_durable();
    case LogRoom::Room::kFlush:
      return group_.wait(memory_.state().clock.load(std::memory_order_acquire));
    case LogRoom::Room::kFile:
      return room_.make_files_up_to(end);
  }
  return Errc::kOk;
}

Errc DurableLog::flush_all() noexcept {
  const std::uint64_t line = line_clock();
  return group_.flush(memory_.state().clock.load(std::memory_order_acquire), line);
}

Errc DurableLog::await_all() noexcept {
  const std::uint64_t line = line_clock();
  const std::uint64_t clock = memory_.state().clock.load(std::memory_order_acquire);
  if (line != 0) TMH_TRY(group_.wait_lower(line));
  return group_.flush(clock, line);
}

void DurableLog::free_lower() noexcept {
  gatherer_->forget(group_.lock().take(), writer_.point().line);
}

}  // namespace tmh::page
