// platform/event_count.cpp -- the way of notify() that is seldom taken.
#include "platform/event_count.h"

#include "observe/planted.h"

namespace tmh::platform {

void EventCount::wake() noexcept {
  if (observe::is_planted(observe::Planted::kNobodyWoken)) return;
  std::uint32_t seen = word_.load(std::memory_order_relaxed);
  // seq_cst: a prepare() that comes later sees everything before. Another notifier that has been
  // quicker wakes for us.
  observe::step(observe::Step::kGapEventWake);
  if ((seen & kAwaited) != 0 &&
      word_.compare_exchange_strong(seen, seen + 1, std::memory_order_seq_cst))
    futex_wake(word_);
}

}  // namespace tmh::platform
