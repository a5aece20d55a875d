// levels/process/alone.cpp -- waits for all others, and answers their requests meanwhile.
#include "levels/process/alone.h"

#include <cstdint>

#include "levels/process/control.h"
#include "levels/process/ground/ground.h"
#include "levels/process/own_pages.h"
#include "levels/process/requests.h"
#include "platform/futex.h"
#include "platform/patience.h"
#include "platform/process.h"

namespace tmh::itm::pages {

namespace {

constexpr long kLookNs = 20'000'000;  // after which a waiter looks whether another task lives

// A task that died inside, and that no thread waits for, is found here.
void wait_until_outside(std::uint32_t slot) noexcept {
  platform::Patience patience;
  const std::uint64_t start = platform::monotonic_ns();
  std::uint64_t looked = start;
  TMH_ASSERT(slot != self_slot && is_alone());
  Slot &each = control->slots[slot];
  for (std::uint64_t pin; (pin = each.pin.load(std::memory_order_acquire)) != kOutside;) {
    const std::uint64_t now = platform::monotonic_ns();
    if (now - looked > static_cast<std::uint64_t>(kLookNs)) {
      looked = now;
      // Another task may have got the slot since.
      if (!is_alive(slot)) {
        OwnPages::forget_dead(slot);
        each.pin.compare_exchange_strong(pin, kOutside);
      }
    }
    answer_if_wanted();
    patience.pause(now - start);
  }
}

void wait_for_all() noexcept {
  const std::uint32_t high = control->high.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < high; ++i)
    if (i != self_slot) wait_until_outside(i);
}

}  // namespace

void be_alone() noexcept {
  TMH_ASSERT(!is_running_inside && self().pin.load(std::memory_order_relaxed) == kOutside);
  for (;;) {
    std::uint32_t expected = 0;
    if (control->alone.compare_exchange_strong(expected, self_slot + 1)) break;
    wait_while_another_is_alone();
  }
  wait_for_all();
}

bool try_be_alone() noexcept {
  if (is_alone()) return true;
  TMH_ASSERT(is_running_inside);
  std::uint32_t expected = 0;
  if (!control->alone.compare_exchange_strong(expected, self_slot + 1)) return false;
  wait_for_all();
  return true;
}

void end_alone() noexcept {
  std::uint32_t own = self_slot + 1;
  if (control->alone.compare_exchange_strong(own, 0)) platform::futex_wake(control->alone);
}

bool is_alone() noexcept {
  // relaxed: only this task stores its own
  return control->alone.load(std::memory_order_relaxed) == self_slot + 1;
}

void wait_while_another_is_alone() noexcept {
  for (;;) {
    const std::uint32_t seen = control->alone.load(std::memory_order_acquire);
    if (seen == 0 || seen == self_slot + 1) return;
    answer_if_wanted();
    // Of a dead one, forget_dead() ends it.
    static_cast<void>(platform::futex_wait(control->alone, seen, kLookNs));
  }
}

}  // namespace tmh::itm::pages
