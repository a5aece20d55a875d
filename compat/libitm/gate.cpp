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
  const void *expected = owner;
  alone_.compare_exchange_strong(expected, nullptr, std::memory_order_release);
}

void Gate::forget_others(const Slot *own) noexcept {
  const std::uint32_t high = high_.load(std::memory_order_relaxed);  // one thread
  for (std::uint32_t i = 0; i < high; ++i)
    if (&slots_[i] != own) {
      slots_[i].owner = nullptr;  // as the other thread has left it
      give_back(slots_[i]);
    }
}

}  // namespace tmh::itm
