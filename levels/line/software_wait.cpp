// levels/line/software_wait.cpp -- lines locked by another thread, and the turn: who gives way, and
// how long anybody waits.
// Shape:     a commit locks its lines for a fraction of a microsecond, so a short spin ends nearly
//            every meeting. What it does not end is decided by the conflict policy; a holder that
//            is not running, or dead, is reported to the level above.
#include <immintrin.h>

#include "levels/line/software.h"
#include "levels/storage/conflict.h"
#include "platform/patience.h"
#include "platform/probes.h"
#include "platform/process.h"

namespace tmh::line {

namespace {

// PROTOCOL.md, "recall": a committer that runs is long done
constexpr std::uint64_t kSuspectNs = 1'000'000;
// A time slice or two; then the attempt aborts instead of waiting.
constexpr std::uint64_t kWaitNsMax = 10'000'000;
// Whoever has the turn and does not end, as a stopped one, loses it.
constexpr std::uint64_t kTurnNsMax = 100'000'000;
constexpr std::uint32_t kRoundsPerLook = 32;  // pauses between two looks at the clock: 1 us

}  // namespace

bool SoftwareThread::spin_until_changed(const LineWord &word, std::uint64_t seen,
                                        std::uint32_t rounds) noexcept {
  for (std::uint32_t i = 0; i < rounds; ++i) {
    _mm_pause();
    // acquire: pairs with line-unlock
    if (word.load(std::memory_order_acquire) != seen) return true;
  }
  return false;
}

// REQUIRES: this thread holds no line word. False: it gave up.
bool SoftwareThread::wait_until_changed(const LineWord &word, std::uint64_t seen) noexcept {
  const std::uint64_t start = platform::monotonic_ns();
  bool suspected = false;
  platform::Patience patience;
  while (!spin_until_changed(word, seen, kRoundsPerLook)) {
    const std::uint64_t waited = platform::monotonic_ns() - start;
    // Before giving up: who had no core for so long has not looked yet.
    if (waited > kSuspectNs && !suspected) {
      suspected = true;
      if (is_locked(seen)) suspect_context(context_of(seen));
      continue;
    }
    if (waited > kWaitNsMax) return false;
    patience.pause(waited);
  }
  return true;
}

// At the next one, of the same instance.
void SoftwareThread::wait_at_begin(const LineWord &word, std::uint64_t seen) noexcept {
  blocked_on_ = &word;
  blocked_seen_ = seen;
  blocked_removals_ = memory_.removals();
}

void SoftwareThread::suspect_context(std::uint32_t number) noexcept {
  if (number >= kContextsMax) return;  // bytes of shared memory are not believed
  // acquire: pairs with take_context()
  const Owner owner = memory_.context(number).owner.load(std::memory_order_acquire);
  if (owner != Owner{}) upper_.suspect(slot_of(owner), incarnation_of(owner));
}

// The line is locked by another: who gives way? kGone: not this instance; the other has been
// failed, is past its commit point, or has let go.
SoftwareThread::Met SoftwareThread::decide(const LineWord &word, std::uint64_t seen) noexcept {
  platform::probe::conflict(platform::probe::kLines, reinterpret_cast<std::uintptr_t>(&word));
  if (context_of(seen) >= kContextsMax) return Met::kFailSelf;
  LineContextV1 &other = memory_.context(context_of(seen));
  // acquire: pairs with the release that made it PENDING; its age was stored before
  std::uint64_t status = other.status.load(std::memory_order_acquire);
  if (state_of(status) != State::kPending) return Met::kGone;
  const std::uint64_t other_age = other.age.load(std::memory_order_relaxed);
  // After the status: it is this instance's lock, not an earlier one's.
  if (word.load(std::memory_order_acquire) != seen) return Met::kGone;
  if (storage::resolve(policy_.conflict, age_, other_age, other_age) == storage::Verdict::kFailSelf)
    return Met::kFailSelf;
  // Only that instance: the number is in the word. relaxed: nothing is published with it; the
  // other's CAS at its commit point finds it.
  other.status.compare_exchange_strong(status, status_word(number_of(status), State::kFailed),
                                       std::memory_order_relaxed);
  return Met::kGone;
}

void SoftwareThread::take_turn() noexcept {
  LineWord &turn = memory_.state().turn;
  const std::uint64_t start = platform::monotonic_ns();
  for (;;) {
    std::uint64_t free = 0;
    // acquire: pairs with give_turn()
    if (turn.compare_exchange_strong(free, number_ + 1ull, std::memory_order_acquire,
                                     std::memory_order_relaxed)) {
      has_turn_ = true;
      return;
    }
    wait_for_turn();
    if (platform::monotonic_ns() - start > 2 * kTurnNsMax) return;  // without: others were quicker
  }
}

void SoftwareThread::give_turn() noexcept {
  has_turn_ = false;
  std::uint64_t own = number_ + 1ull;
  // release: pairs with take_turn() and wait_for_turn(). It may be another's by now.
  memory_.state().turn.compare_exchange_strong(own, 0, std::memory_order_release,
                                               std::memory_order_relaxed);
}

// REQUIRES: this thread holds no line word.
void SoftwareThread::wait_for_turn() noexcept {
  LineWord &turn = memory_.state().turn;
  const std::uint64_t start = platform::monotonic_ns();
  bool suspected = false;
  platform::Patience patience;
  for (;;) {
    std::uint64_t holder = turn.load(std::memory_order_acquire);
    if (holder == 0 || holder == number_ + 1ull) return;
    if (spin_until_changed(turn, holder, kRoundsPerLook)) return;
    const std::uint64_t waited = platform::monotonic_ns() - start;
    if (waited > kSuspectNs && !suspected) {  // as above
      suspected = true;
      suspect_context(static_cast<std::uint32_t>(holder - 1));
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
