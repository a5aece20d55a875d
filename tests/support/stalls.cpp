// tests/support/stalls.cpp -- where and for how long.
#include "tests/support/stalls.h"

#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>

#include "observe/steps.h"
#include "tests/support/seed.h"

namespace tmh::test {

namespace {

using observe::kStepAndGapCount;
using observe::Step;

constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;
// A choice lasts for a few stalls; of a step that has become rare, for so many passages of any.
constexpr std::uint32_t kStallsPerChoiceMax = 4, kPassagesPerChoice = 400;
constexpr std::uint32_t kYieldOneIn = 64;
constexpr std::uint64_t kShortNs = 60'000, kLongNs = 400'000, kLongestNs = 2'000'000;

std::uint64_t base_seed = 0;
std::atomic<std::uint64_t> stalls_here{0};

struct Chance {
  std::uint64_t state;  // 0: this thread has none yet
  pid_t process;        // that it was seeded in
  std::uint32_t chosen, passages_left, stalls_left;
  std::array<bool, kStepAndGapCount> passed;

  std::uint64_t next() noexcept {  // xorshift*
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 0x2545f4914f6cdd1d;
  }
  std::uint32_t below(std::uint32_t count) noexcept {
    return static_cast<std::uint32_t>((next() >> 32) % count);
  }
};
// initial-exec: no memory is asked for in a fault handler
constinit thread_local Chance chance __attribute__((tls_model("initial-exec"))) = {};

void choose() noexcept {
  chance.passages_left = kPassagesPerChoice;
  chance.stalls_left = 1 + chance.below(kStallsPerChoiceMax);
  std::uint32_t at = chance.below(kStepAndGapCount);
  // The step that brought us here is one.
  while (!chance.passed[at]) at = (at + 1) % kStepAndGapCount;
  chance.chosen = at;
}

void stand_still() noexcept {
  const std::uint64_t dice = chance.next();
  const std::uint64_t most_ns = dice % 16 == 0 ? kLongestNs : dice % 4 == 0 ? kLongNs : kShortNs;
  const timespec pause{0, static_cast<long>((dice >> 8) % most_ns)};
  (void)nanosleep(&pause, nullptr);
  stalls_here.fetch_add(1, std::memory_order_relaxed);
  --chance.stalls_left;
}

void on_step(Step step) noexcept {
  const int errno_before = errno;
  if (chance.state == 0 || chance.process != getpid()) {
    chance = {};
    chance.process = getpid();
    chance.state = (base_seed + static_cast<std::uint64_t>(syscall(SYS_gettid))) * kGolden | 1;
  }
  chance.passed[static_cast<std::uint32_t>(step)] = true;
  if (chance.stalls_left == 0 || chance.passages_left == 0) choose();
  --chance.passages_left;
  if (static_cast<std::uint32_t>(step) == chance.chosen) {
    if (chance.below(2) == 0) stand_still();
  } else if (chance.below(kYieldOneIn) == 0) {
    sched_yield();
  }
  errno = errno_before;
}

}  // namespace

void stall_at_steps(std::uint64_t seed) noexcept {
  base_seed = seed;
  observe::set_step_hook(on_step);
}

void stall_if_asked() noexcept {
  if (const std::uint64_t seed = environment_number("TMH_STALLS", 0); seed != 0)
    stall_at_steps(seed);
}

namespace {
// Also for what a program does before it has children, or without any.
[[maybe_unused]] const bool is_asked_early = (stall_if_asked(), true);
}  // namespace

std::uint64_t stalls() noexcept { return stalls_here.load(std::memory_order_relaxed); }

}  // namespace tmh::test
