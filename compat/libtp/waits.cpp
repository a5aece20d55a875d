// compat/libtp/waits.cpp -- events on words, and counts.
#include "compat/libtp/waits.h"

#include <algorithm>

#include "platform/assert.h"
#include "platform/futex.h"

namespace tmh::tp {

namespace {
// A sleeper looks by itself: the waker may die before it wakes.
constexpr std::uint64_t kLongestSleepNs = 100'000'000;
}  // namespace

std::atomic<std::uint32_t> &Waits::word(std::uint64_t event) const noexcept {
  static_assert((lock::kEventWords & (lock::kEventWords - 1)) == 0);
  return file_.header().events[(event ^ event >> 6 ^ event >> 32) % lock::kEventWords];
}

std::uint32_t Waits::now(std::uint64_t event) const noexcept {
  // acquire: pairs with wake()
  return word(event).load(std::memory_order_acquire);
}

bool Waits::sleep(std::uint64_t event, std::uint32_t seen, lock::Patience patience) const noexcept {
  bool has_changed = false;
  count(lock::WaitCause::kEvent, [&] {
    const std::uint64_t begin = platform::monotonic_ns();
    for (;;) {
      has_changed = now(event) != seen;
      const std::uint64_t waited = platform::monotonic_ns() - begin;
      if (has_changed || waited >= patience.longest_ns) return;
      (void)platform::futex_wait(
          word(event), seen,
          static_cast<long>(std::min(patience.longest_ns - waited, kLongestSleepNs)));
    }
  });
  return has_changed;
}

void Waits::wake(std::uint64_t event) const noexcept {
  word(event).fetch_add(1, std::memory_order_release);
  platform::futex_wake(word(event));
}

void Waits::add(lock::WaitCause cause, std::uint64_t ns) const noexcept {
  const auto which = static_cast<std::size_t>(cause);
  TMH_ASSERT(which < lock::kWaitCauses);
  file_.header().waits[which].fetch_add(1, std::memory_order_relaxed);
  file_.header().waited_ns[which].fetch_add(ns, std::memory_order_relaxed);
}

std::uint64_t Waits::waits(lock::WaitCause cause) const noexcept {
  TMH_ASSERT(static_cast<std::size_t>(cause) < lock::kWaitCauses);
  return file_.header().waits[static_cast<std::size_t>(cause)].load(std::memory_order_relaxed);
}

std::uint64_t Waits::waited_ns(lock::WaitCause cause) const noexcept {
  TMH_ASSERT(static_cast<std::size_t>(cause) < lock::kWaitCauses);
  return file_.header().waited_ns[static_cast<std::size_t>(cause)].load(std::memory_order_relaxed);
}

}  // namespace tmh::tp
