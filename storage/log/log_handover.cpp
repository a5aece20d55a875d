// storage/log/log_handover.cpp -- the word of an offer, and how long writes take by processor.
#include "storage/log/log_handover.h"

#include <sched.h>

#include <algorithm>

#include "observe/steps.h"
#include "platform/assert.h"

namespace tmh::storage {

namespace {
// The word: what it says in the lower two bits; of whom above them.
enum Say : std::uint32_t { kNothing = 0, kOffered = 1, kClaimed = 2, kGiven = 3 };
constexpr std::uint32_t word(Say say, std::uint32_t of_whom) noexcept { return of_whom << 2 | say; }
static_assert(kGiven == 3 && kParticipantsMax <= 1u << 30 && kLogCpus <= 1u << 30,
              "the lower two bits hold what it says, the others any slot and any processor");
constexpr Say said(std::uint32_t word) noexcept { return static_cast<Say>(word & 3); }

// So much of an estimate a single write may change it by: the estimate is to be one that most
// writes keep to, and a device's hiccup of a millisecond says nothing about the next write.
constexpr std::uint64_t kRiseShift = 6, kFallShift = 4;
constexpr std::uint64_t kFirstNsMax = 1'000'000;
}  // namespace

std::uint32_t LogHandover::this_cpu() noexcept {
  const int cpu = sched_getcpu();
  return cpu < 0 ? 0 : static_cast<std::uint32_t>(cpu) % kLogCpus;
}

std::uint64_t LogHandover::expected_ns(std::uint32_t cpu) const noexcept {
  return state_->write_ns_on[cpu % kLogCpus].load(std::memory_order_relaxed);
}

void LogHandover::note_write(std::uint32_t began_on, std::uint64_t took_ns) noexcept {
  TMH_ASSERT(began_on < kLogCpus);
  if (this_cpu() != began_on) return;  // of two processors, and a move
  const std::uint64_t known = expected_ns(began_on);
  std::uint64_t next = std::min(took_ns, kFirstNsMax);
  if (known != 0)
    next = std::clamp(next, known - (known >> kFallShift), known + (known >> kRiseShift));
  state_->write_ns_on[began_on].store(static_cast<std::uint32_t>(next), std::memory_order_relaxed);
}

bool LogHandover::is_quicker(std::uint32_t cpu, std::uint32_t than) const noexcept {
  const std::uint64_t own = expected_ns(cpu), other = expected_ns(than);
  return own != 0 && own < other - other / 8;
}

void LogHandover::offer() noexcept {
  state_->handover.store(word(kOffered, this_cpu()), std::memory_order_relaxed);
  observe::step(observe::Step::kLogOffered);
}

bool LogHandover::is_claimed() const noexcept {
  return said(state_->handover.load(std::memory_order_relaxed)) == kClaimed;
}

bool LogHandover::withdraw() noexcept {
  std::uint32_t seen = state_->handover.load(std::memory_order_relaxed);
  while (said(seen) == kOffered &&
         !state_->handover.compare_exchange_weak(seen, kNothing, std::memory_order_relaxed)) {
  }
  return said(seen) != kClaimed;
}

void LogHandover::give() noexcept {
  std::uint32_t seen = state_->handover.load(std::memory_order_relaxed);
  // A claim that was taken back meanwhile stays so: no claimant waits for what it would be given.
  if (said(seen) == kClaimed && state_->handover.compare_exchange_strong(
                                    seen, word(kGiven, seen >> 2), std::memory_order_relaxed))
    observe::step(observe::Step::kLogGiven);
}

void LogHandover::await_taken(bool yields) noexcept {
  std::uint32_t given = state_->handover.load(std::memory_order_relaxed);
  if (said(given) != kGiven) return;
  if (!spin_until([&] { return state_->handover.load(std::memory_order_relaxed) != given; },
                  yields))
    (void)state_->handover.compare_exchange_strong(given, kNothing, std::memory_order_relaxed);
}

bool LogHandover::claim(bool yields) noexcept {
  std::uint32_t seen = state_->handover.load(std::memory_order_relaxed);
  if (said(seen) != kOffered || !is_quicker(this_cpu(), seen >> 2)) return false;
  const std::uint32_t claimed = word(kClaimed, slot_);
  if (!state_->handover.compare_exchange_strong(seen, claimed, std::memory_order_relaxed))
    return false;
  observe::step(observe::Step::kLogClaimed);
  (void)spin_until([&] { return state_->handover.load(std::memory_order_relaxed) != claimed; },
                   yields);
  // relaxed throughout: the next writer acquires with the lock
  seen = claimed;
  if (state_->handover.compare_exchange_strong(seen, kNothing, std::memory_order_relaxed))
    return false;
  if (seen != word(kGiven, slot_)) return false;
  observe::step(observe::Step::kLogTaken);
  return true;
}

void LogHandover::taken() noexcept {
  std::uint32_t given = word(kGiven, slot_);
  (void)state_->handover.compare_exchange_strong(given, kNothing, std::memory_order_relaxed);
  state_->handovers.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace tmh::storage
