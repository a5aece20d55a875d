// rtm_emulator/policy.h -- knobs, injected aborts, statistics.
// Shape:     knobs of the process (one copy, replaced whole); counters of the domain, in shared
//            memory.
// Contexts:  parse_environment(), report(): normal code only. Everything else: also inside.
#pragma once

#include <atomic>
#include <cstdint>

#include <tmh/rtm_emulation.h>

#include "rtm_emulator/assert.h"

namespace tmh::rtm {

using Knobs = tmh_rtm_emulation_knobs;

// Abort status bits, Intel SDM vol. 1, table 16-1.
inline constexpr std::uint32_t kStatusExplicit = 1, kStatusRetry = 2, kStatusConflict = 4,
                               kStatusCapacity = 8, kStatusDebug = 0x10, kStatusNested = 0x20;

// Why an attempt ended; the status follows from it.
enum class Cause : std::uint8_t {
  kExplicit,
  kConflict,
  kCapacity,
  kDebug,
  kPageFault,
  kSystem,
  kUnsupported,
  kBudget,
  kFault,
  kNesting,
  kSpurious
};
inline constexpr std::size_t kCauses = 11;
static_assert(kCauses == static_cast<std::size_t>(Cause::kSpurious) + 1);

[[nodiscard]] constexpr std::uint32_t status_of(Cause cause, std::uint8_t code) noexcept {
  switch (cause) {
    case Cause::kExplicit:
      return static_cast<std::uint32_t>(code) << 24 | kStatusExplicit;
    case Cause::kConflict:
      return kStatusConflict | kStatusRetry;
    case Cause::kCapacity:
      return kStatusCapacity;
    case Cause::kDebug:
      return kStatusDebug;
    default:
      return 0;
  }
}

inline constexpr std::size_t kMnemonics = 2048;  // above Zydis's 1,600 or so

struct Counters {
  std::atomic<std::uint64_t> commits, empty_commits, by_cause[kCauses], by_code[256], nested,
      injected, instructions, stops, recovered;
  std::atomic<std::uint32_t> refused[kMnemonics];
};
static_assert(sizeof(Counters::by_code) == 256 * sizeof(std::uint64_t),
              "an XABORT's code is a byte");

inline void count(std::atomic<std::uint64_t> &counter, std::uint64_t by = 1) noexcept {
  counter.fetch_add(by, std::memory_order_relaxed);  // relaxed: statistics
}

// The defaults are a common L1d: 64 sets x 8 ways for writes; reads go on in L2 on hardware, hence
// the larger number.
[[nodiscard]] Knobs default_knobs() noexcept;
[[nodiscard]] bool is_valid(const Knobs &knobs) noexcept;

// The environment's TMH_RTM_EMULATION_*; a wrong value is told on standard error and is an error:
// false.
[[nodiscard]] bool parse_environment(Knobs *knobs) noexcept;

// xorshift64*: a sequence per thread, from the seed and the thread's number.
class Dice {
 public:
  void seed(std::uint64_t value) noexcept { state_ = value * 0x9E37'79B9'7F4A'7C15u | 1; }
  [[nodiscard]] bool falls(std::uint32_t per_million) noexcept {
    TMH_ASSERT(per_million <= 1'000'000);
    if (per_million == 0) return false;
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return (state_ * 0x2545'F491'4F6C'DD1Du >> 33) % 1'000'000 < per_million;
  }

 private:
  std::uint64_t state_ = 1;
};

void report(const Counters &counters, int descriptor) noexcept;

}  // namespace tmh::rtm
