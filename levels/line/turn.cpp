// levels/line/turn.cpp -- taking the turn, giving it, and waiting for it.
#include "levels/line/turn.h"

#include "platform/assert.h"
#include "platform/patience.h"
#include "platform/process.h"

namespace tmh::line {

namespace {
// An instance that has the turn and does not end, as a stopped one, loses it.
constexpr std::uint64_t kTurnNsMax = 100'000'000;
}  // namespace

void Turn::take(std::uint32_t context) noexcept {
  if (is_mine_) return;
  LineWord &turn = memory_.state().turn;
  const std::uint64_t start = platform::monotonic_ns();
  for (;;) {
    std::uint64_t free = 0;
    // acquire: pairs with give()
    if (turn.compare_exchange_strong(free, context + 1ull, std::memory_order_acquire,
                                     std::memory_order_relaxed)) {
      is_mine_ = true;
      return;
    }
    wait(context);
    if (platform::monotonic_ns() - start > 2 * kTurnNsMax) return;
  }
}

void Turn::give(std::uint32_t context) noexcept {
  TMH_ASSERT(is_mine_);
  is_mine_ = false;
  std::uint64_t own = context + 1ull;
  // release: pairs with take() and wait(). It may be another's by now.
  memory_.state().turn.compare_exchange_strong(own, 0, std::memory_order_release,
                                               std::memory_order_relaxed);
}

void Turn::wait(std::uint32_t context) noexcept {
  LineWord &turn = memory_.state().turn;
  const std::uint64_t start = platform::monotonic_ns();
  bool suspected = false;
  platform::Patience patience;
  for (;;) {
    std::uint64_t holder = turn.load(std::memory_order_acquire);
    if (holder == 0 || holder == context + 1ull) return;
    if (spin_until_changed(turn, holder, kRoundsPerLook)) return;
    const std::uint64_t waited = platform::monotonic_ns() - start;
    // As in Rivals::wait_until_changed().
    if (waited > kSuspectNs && !suspected) {
      suspected = true;
      rivals_.suspect(static_cast<std::uint32_t>(holder - 1));
      continue;
    }
    if (waited > kTurnNsMax) {
      // Else each commit would wait so long. It only keeps the holder from failing, so nothing is
      // wrong when both go on. acquire: as above
      turn.compare_exchange_strong(holder, 0, std::memory_order_acquire, std::memory_order_relaxed);
      return;
    }
    patience.pause(waited);
  }
}

}  // namespace tmh::line
