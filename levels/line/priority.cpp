// levels/line/priority.cpp -- taking priority, giving it up, and waiting for its holder.
#include "levels/line/priority.h"

#include "platform/assert.h"
#include "platform/patience.h"
#include "platform/process.h"

namespace tmh::line {

namespace {
// A holder that does not end, as a stopped one, loses its priority.
constexpr std::uint64_t kPriorityNsMax = 100'000'000;
// Pauses, 8 us: most holders end sooner, and a yield costs as much as a small instance.
constexpr std::uint32_t kAwakeRounds = 8 * kRoundsPerLook;
}  // namespace

void Priority::take(std::uint32_t context) noexcept {
  TMH_ASSERT(context < kContextsMax);
  if (is_mine_) return;
  LineWord &holder = memory_.state().priority;
  const std::uint64_t start = platform::monotonic_ns();
  for (;;) {
    std::uint64_t free = 0;
    // acquire: pairs with give()
    if (holder.compare_exchange_strong(free, context + 1ull, std::memory_order_acquire,
                                       std::memory_order_relaxed)) {
      is_mine_ = true;
      return;
    }
    wait(context);
    if (platform::monotonic_ns() - start > 2 * kPriorityNsMax) return;
  }
}

void Priority::give(std::uint32_t context) noexcept {
  TMH_ASSERT(is_mine_);
  TMH_ASSERT(context < kContextsMax);
  is_mine_ = false;
  std::uint64_t own = context + 1ull;
  // release: pairs with take() and wait(). It may be another's by now.
  memory_.state().priority.compare_exchange_strong(own, 0, std::memory_order_release,
                                                   std::memory_order_relaxed);
}

void Priority::wait(std::uint32_t context) noexcept {
  LineWord &word = memory_.state().priority;
  const std::uint64_t start = platform::monotonic_ns();
  bool suspected = false;
  platform::Patience patience;
  for (;;) {
    std::uint64_t holder = word.load(std::memory_order_acquire);
    if (holder == 0 || holder == context + 1ull) return;
    if (spin_until_changed(word, holder, kAwakeRounds)) return;
    const std::uint64_t waited = platform::monotonic_ns() - start;
    // As in Rivals::wait_until_changed().
    if (waited > kSuspectNs && !suspected) {
      suspected = true;
      rivals_.suspect(static_cast<std::uint32_t>(holder - 1));
      continue;
    }
    if (waited > kPriorityNsMax) {
      // Else each commit would wait so long. It only keeps the holder from failing, so nothing is
      // wrong when both go on. acquire: as above
      word.compare_exchange_strong(holder, 0, std::memory_order_acquire, std::memory_order_relaxed);
      return;
    }
    patience.pause(waited);
  }
}

}  // namespace tmh::line
