// levels/line/capacity.h -- the capacity model: makes software lines behave like a best-effort HTM.
// Shape:     CapacityModel is a pure value; CapacityUse is what one attempt has used of it so far.
//            An attempt's first touch of each line is reported to CapacityUse; its answer is an
//            AbortCause.
// Source:    docs/design.md 5. An HTM keeps written lines in its L1d (a full set evicts one:
//            capacity abort) and remembers read ones further out (here: up to a number of lines);
//            it aborts at interrupts (chance, time limit) and beyond a depth of nesting.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include <tmh/error.hpp>
#include <tmh/instance.hpp>
#include <tmh/options.hpp>

namespace tmh::line {

struct CapacityModel {
  std::uint32_t write_sets = 0;        // 0: unlimited
  std::uint32_t write_ways = 0;        // lines per set
  std::uint32_t read_lines_max = 0;    // 0: unlimited
  std::uint32_t nesting_max = 0;       // 0: unlimited. Intel's RTM: 7
  std::uint32_t spurious_per_1e6 = 0;  // of a million first touches so many abort for no reason
  std::uint32_t seed = 0;
  // 0: unlimited. An HTM ends at the next timer interrupt: 1 to 10 ms
  std::uint32_t time_us_max = 0;

  // Does nothing ever abort because of it?
  [[nodiscard]] constexpr bool is_unlimited() const noexcept {
    return write_sets == 0 && read_lines_max == 0 && nesting_max == 0 && spurious_per_1e6 == 0 &&
           time_us_max == 0;
  }
  friend constexpr bool operator==(const CapacityModel &, const CapacityModel &) noexcept = default;
};

// Sets that CapacityUse has room for: 4,096 x 8 ways x 64 bytes are 2 MiB, the largest L2 we know.
inline constexpr std::uint32_t kWriteSetsMax = 4096;

// "unlimited"; "l1d": this machine's (kBadArgument when the system does not tell); "32KiB/8/64":
// bytes, ways, line bytes. After any of them, comma-separated: read=<lines>, nesting=<depth>,
// spurious=<per million>, time=<us>us, seed=<number>. A time is no capacity: at a site that
// escalates for capacity alone ("on-capacity") an instance that always takes longer is repeated for
// ever, as under the timer of real hardware. kBadLevels: none of these, a line that is not 64
// bytes, or a geometry that does not divide.
[[nodiscard]] Errc parse(std::string_view spec, CapacityModel *out) noexcept;
[[nodiscard]] std::string to_string(const CapacityModel &model);
[[nodiscard]] const char *capacity_values() noexcept;

class CapacityUse {
 public:
  // Of one attempt. `seed_more`: differs between threads, so that they do not share their chances.
  void begin(const CapacityModel &model, std::uint64_t now_ns, std::uint64_t seed_more) noexcept;
  // First touches. line: number of the line in memory (address / 64). kNone: it fits.
  [[nodiscard]] AbortCause read(std::uint64_t now_ns) noexcept;
  [[nodiscard]] AbortCause write(std::uint64_t line, std::uint64_t now_ns) noexcept;
  // depth: of begins that are open, the outermost counts as 1.
  [[nodiscard]] AbortCause nest(std::uint32_t depth) const noexcept {
    return model_.nesting_max != 0 && depth > model_.nesting_max ? AbortCause::kCapacity
                                                                 : AbortCause::kNone;
  }
  [[nodiscard]] bool wants_time() const noexcept { return model_.time_us_max != 0; }

 private:
  [[nodiscard]] AbortCause chance(std::uint64_t now_ns) noexcept;

  CapacityModel model_;
  std::uint64_t begin_ns_ = 0, random_ = 0;
  std::uint32_t reads_ = 0;
  std::uint32_t attempt_ = 0;  // stamps the sets, so that a begin need not clear them
  struct Set {
    std::uint32_t attempt, lines;
  };
  std::array<Set, kWriteSetsMax> sets_{};
};

}  // namespace tmh::line
