// platform/event_count.h -- waiting, between processes, for something that others change without a
// lock.
// Shape:     32-bit futex word. Odd: a thread sleeps, or is about to. Each wake-up makes it even
//            again, one higher.
// Invariant: a sleeper that dies leaves an odd word, which costs the next notify() one system call,
//            and costs nothing after that.
// Ordering:  prepare() comes before the caller's look (seq_cst). notify() adds no fence to its
//            caller's stores: a prepare() and a look in the tens of nanoseconds while these stores
//            are on their way miss both. So the first sleep after a look in vain must be short, and
//            after each look whose prepare() tells of a wake-up since the one before: see
//            sleep_until() in hierarchy/transaction/retry.h. A fence would cost every commit what a
//            lock costs.
// Sharing:   between processes.
// Contexts:  async-signal-safe; errno is preserved.
// Why not std::atomic::wait: see platform/futex.h.
// Source:    Eventcounts.
#pragma once

#include <atomic>
#include <cstdint>

#include "observe/steps.h"
#include "platform/assert.h"
#include "platform/futex.h"

namespace tmh::platform {

class EventCount {
 public:
  // What wait() is given, from before the look.
  [[nodiscard]] std::uint32_t prepare() noexcept {
    return word_.fetch_or(kAwaited, std::memory_order_seq_cst) | kAwaited;
  }
  // Sleeps until a notify() after prepare(), or for the time. True: the whole time passed. Wakes
  // spuriously. The event count may be unmapped meanwhile: then it returns at once.
  [[nodiscard]] bool wait(std::uint32_t prepared, long timeout_ns) noexcept {
    TMH_ASSERT((prepared & kAwaited) != 0 && timeout_ns > 0);
    observe::step(observe::Step::kGapEventPrepared);
    return futex_wait(word_, prepared, timeout_ns);
  }
  // Wakes all. When no thread waits, one load of a word that is seldom written.
  void notify() noexcept {
    if (is_awaited()) [[unlikely]]
      wake();
  }
  // relaxed: see the head
  [[nodiscard]] bool is_awaited() const noexcept {
    return (word_.load(std::memory_order_relaxed) & kAwaited) != 0;
  }

 private:
  static constexpr std::uint32_t kAwaited = 1;
  void wake() noexcept;
  std::atomic<std::uint32_t> word_;
};
static_assert(sizeof(EventCount) == 4);

}  // namespace tmh::platform
