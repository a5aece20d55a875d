// compat/libitm/gate.cpp -- waiting for other threads' transactions.
#include "compat/libitm/gate.h"

#include <immintrin.h>
#include <sched.h>

#include "levels/line/process_thread.h"
#include "platform/patience.h"
#include "platform/process.h"

namespace tmh::itm {

namespace {

// 0.1 ms: most transactions end sooner. Then the processor is another thread's.
constexpr std::uint32_t kSpinRounds = 256, kPausesPerRound = 8;
constexpr std::uint64_t kAwakeNs = 5'000'000;
// 0.3 us: a waiter for a smallest transaction sees its end at once.
constexpr std::uint32_t kShortRounds = 16;
// 0.7 us: the smallest transactions end sooner, and are not asked.
constexpr std::uint32_t kRoundsPerEach = 2;

// each: now and then meanwhile.
template <class Condition, class Each>
void wait_until(const Condition &condition, const Each &each) noexcept {
  for (std::uint32_t round = 0; round < kShortRounds; ++round) {
    if (condition()) return;
    _mm_pause();
  }
  for (std::uint32_t round = 0; round < kSpinRounds; ++round) {
    if (condition()) return;
    for (std::uint32_t i = 0; i < kPausesPerRound; ++i) _mm_pause();
    if (round % kRoundsPerEach == kRoundsPerEach - 1) each();
  }
  const std::uint64_t start = platform::monotonic_ns();
  platform::Patience patience;
  while (!condition()) {
    const std::uint64_t waited = platform::monotonic_ns() - start;
    // A sleep ends late: a long transaction is waited for awake.
    waited < kAwakeNs ? static_cast<void>(sched_yield()) : patience.pause(waited);
    each();
  }
}

template <class Condition>
void wait_until(const Condition &condition) noexcept {
  wait_until(condition, [] {});
}

}  // namespace

Gate::Slot *Gate::take_slot() noexcept {
  for (std::uint32_t i = 0; i < line::kContextsMax; ++i) {
    if (slots_[i].is_used.load(std::memory_order_relaxed) ||
        slots_[i].is_used.exchange(true, std::memory_order_acquire))
      continue;
    std::uint32_t high = high_.load(std::memory_order_relaxed);
    // Before the slot is entered. seq_cst: as the slot itself.
    while (high <= i && !high_.compare_exchange_weak(high, i + 1, std::memory_order_seq_cst)) {
    }
    return &slots_[i];
  }
  return nullptr;
}

void Gate::give_back(Slot &slot) noexcept {
  leave(slot);
  slot.is_used.store(false, std::memory_order_release);
}

void Gate::wait_for(const Slot &slot, std::uint64_t stamp) noexcept {
  wait_until([&] { return slot.snapshot.load(std::memory_order_acquire) >= stamp; },
             [&] {
               // acquire: the object is there for good
               auto *const bytes = slot.window_bytes.load(std::memory_order_acquire);
               if (bytes != nullptr) line::ask_to_move_on(bytes);
             });
}

void Gate::wait_for_all(const Slot *own) noexcept {
  // seq_cst: see the head of gate.h
  const std::uint32_t high = high_.load(std::memory_order_seq_cst);
  for (std::uint32_t i = 0; i < high; ++i)
    if (&slots_[i] != own)
      wait_until([&] { return slots_[i].snapshot.load(std::memory_order_seq_cst) == kOutside; });
}

void Gate::wait_until_nobody_is_alone() noexcept {
  wait_until([&] { return alone_.load(std::memory_order_acquire) == nullptr; });
}

void Gate::be_alone(const void *owner) noexcept {
  TMH_ASSERT(owner != nullptr && !is_alone(owner));
  for (;;) {
    const void *nobody = nullptr;
    if (alone_.compare_exchange_strong(nobody, owner, std::memory_order_seq_cst)) break;
    wait_until_nobody_is_alone();
  }
  wait_for_all(nullptr);
}

bool Gate::try_be_alone(const void *owner, Slot *own) noexcept {
  const void *nobody = nullptr;
  if (!alone_.compare_exchange_strong(nobody, owner, std::memory_order_seq_cst)) return false;
  wait_for_all(own);
  return true;
}

void Gate::end_alone(const void *owner) noexcept {
  TMH_ASSERT(owner != nullptr);
  // relaxed: only the owner stores its own
  if (irrevocable_.load(std::memory_order_relaxed) == owner)
    irrevocable_.store(nullptr, std::memory_order_seq_cst);
  for (;;) {  // a fork moves it from one to the other
    for (std::atomic<const void *> *const word : {&alone_, &displaced_}) {
      const void *expected = owner;
      if (word->compare_exchange_strong(expected, nullptr, std::memory_order_seq_cst)) return;
    }
    _mm_pause();
  }
}

void Gate::hold(const void *owner) noexcept {
  for (;;) {
    const void *found = nullptr;
    if (alone_.compare_exchange_strong(found, owner, std::memory_order_seq_cst)) break;
    if (irrevocable_.load(std::memory_order_seq_cst) == found) {
      displaced_.store(found, std::memory_order_seq_cst);
      const void *expected = found;
      if (alone_.compare_exchange_strong(expected, owner, std::memory_order_seq_cst)) {
        if (irrevocable_.load(std::memory_order_seq_cst) == found) return;
        let_go(owner);  // it had ended, and is alone again
      } else {
        displaced_.store(nullptr, std::memory_order_seq_cst);
      }
    }
    wait_until([&] {
      const void *const now = alone_.load(std::memory_order_seq_cst);
      return now == nullptr || irrevocable_.load(std::memory_order_seq_cst) == now;
    });
  }
  wait_for_all(nullptr);
}

void Gate::let_go(const void *owner) noexcept {
  const void *const other = displaced_.load(std::memory_order_seq_cst);
  const void *expected = owner;
  alone_.compare_exchange_strong(expected, other, std::memory_order_seq_cst);
  if (other == nullptr) return;
  expected = other;
  if (displaced_.compare_exchange_strong(expected, nullptr, std::memory_order_seq_cst)) return;
  // It has ended since, and has not seen its name come back.
  expected = other;
  alone_.compare_exchange_strong(expected, nullptr, std::memory_order_seq_cst);
}

void Gate::forget_others(const Slot *own, const void *lone) noexcept {
  // relaxed, all: one thread
  alone_.store(lone, std::memory_order_relaxed);
  displaced_.store(nullptr, std::memory_order_relaxed);
  if (irrevocable_.load(std::memory_order_relaxed) != lone)
    irrevocable_.store(nullptr, std::memory_order_relaxed);
  const bool is_inside =
      own != nullptr && own->snapshot.load(std::memory_order_relaxed) != kOutside;
  software_.store(is_inside && has_software() ? 1 : 0, std::memory_order_relaxed);
  const std::uint32_t high = high_.load(std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < high; ++i)
    if (&slots_[i] != own) {
      slots_[i].owner = nullptr;  // as the other thread has left it
      give_back(slots_[i]);
    }
}

}  // namespace tmh::itm
