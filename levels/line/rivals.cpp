// levels/line/rivals.cpp -- waiting for a line that another thread has locked, and who gives way.
#include "levels/line/rivals.h"

#include <immintrin.h>

#include "observe/probes.h"
#include "platform/patience.h"
#include "platform/process.h"
#include "storage/conflict.h"

namespace tmh::line {

namespace {
// A time slice or two; then the attempt aborts instead of waiting.
constexpr std::uint64_t kWaitNsMax = 10'000'000;
}  // namespace

bool spin_until_changed(const LineWord &word, std::uint64_t seen, std::uint32_t rounds) noexcept {
  for (std::uint32_t i = 0; i < rounds; ++i) {
    _mm_pause();
    // acquire: pairs with line-unlock
    if (word.load(std::memory_order_acquire) != seen) return true;
  }
  return false;
}

bool Rivals::wait_until_changed(const LineWord &word, std::uint64_t seen) noexcept {
  const std::uint64_t start = platform::monotonic_ns();
  bool suspected = false;
  platform::Patience patience;
  while (!spin_until_changed(word, seen, kRoundsPerLook)) {
    const std::uint64_t waited = platform::monotonic_ns() - start;
    // Before giving up: a thread that had no core for so long has not looked yet.
    if (waited > kSuspectNs && !suspected) {
      suspected = true;
      if (is_locked(seen)) suspect(context_of(seen));
      continue;
    }
    if (waited > kWaitNsMax) return false;
    patience.pause(waited);
  }
  return true;
}

void Rivals::wait_at_begin(const LineWord &word, std::uint64_t seen) noexcept {
  blocked_on_ = &word;
  blocked_seen_ = seen;
  blocked_removals_ = memory_.removals();
}

void Rivals::wait_for_blocker() noexcept {
  if (blocked_on_ != nullptr && blocked_removals_ == memory_.removals())
    static_cast<void>(wait_until_changed(*blocked_on_, blocked_seen_));
}

void Rivals::suspect(std::uint32_t context) noexcept {
  if (context >= kContextsMax) return;  // bytes of shared memory are not believed
  // acquire: pairs with take_context()
  const Owner owner = memory_.context(context).owner.load(std::memory_order_acquire);
  if (owner != Owner{}) releaser_.suspect(slot_of(owner), incarnation_of(owner));
}

Rivals::Met Rivals::decide(const LineWord &word, std::uint64_t seen) noexcept {
  observe::probe::conflict(observe::probe::kLines, reinterpret_cast<std::uintptr_t>(&word));
  if (context_of(seen) >= kContextsMax) return Met::kFailSelf;
  LineContextV1 &other = memory_.context(context_of(seen));
  // acquire: pairs with the release that made it PENDING; its age was stored before
  std::uint64_t status = other.status.load(std::memory_order_acquire);
  if (state_of(status) != State::kPending) return Met::kGone;
  const std::uint64_t other_age = other.age.load(std::memory_order_relaxed);
  // After the status: it is this instance's lock, not an earlier one's.
  if (word.load(std::memory_order_acquire) != seen) return Met::kGone;
  if (storage::resolve(conflict_, age_, other_age, other_age) == storage::Verdict::kFailSelf)
    return Met::kFailSelf;
  // Only that instance: the number is in the word. relaxed: nothing is published with it; the
  // other's CAS at its commit point finds it.
  other.status.compare_exchange_strong(status, status_word(number_of(status), State::kFailed),
                                       std::memory_order_relaxed);
  return Met::kGone;
}

}  // namespace tmh::line
