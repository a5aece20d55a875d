// examples/itm/cache/client_figures.h -- what a thread of the client has counted.
// Sharing:   of one thread; added up when it has ended.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace cache {

// Durations by size: 16 steps for each doubling, so that a percentile is right within 7 %.
class Durations {
 public:
  void add(std::uint64_t ns);
  Durations &operator+=(const Durations &other);
  // Of the part, in 0 to 1; 0: there are none. An upper bound of its step.
  [[nodiscard]] std::uint64_t at(double part) const;
  [[nodiscard]] std::uint64_t max() const { return max_; }

 private:
  static constexpr unsigned kStepBits = 4;
  static constexpr std::size_t kSteps = std::size_t{1} << kStepBits;
  std::array<std::uint64_t, 64 * kSteps> counts_{};
  std::uint64_t count_ = 0, max_ = 0;
};

struct Figures {
  Durations latencies;
  std::uint64_t operations = 0, hits = 0, misses = 0, stored = 0, errors = 0;
  // Connections that the server ended.
  std::uint64_t disconnects = 0;
  std::uint64_t faults = 0;
  // From the end of a connection, or from sending a fault, to the next answer on a new one.
  std::uint64_t recovery_ns_max = 0;
  // --verify: bytes that no set wrote; values older than an acknowledged set, or newer than any;
  // keys that are gone.
  std::uint64_t torn = 0, outdated = 0, lost = 0;
  // The first thing that was wrong.
  std::string problem;

  void note(std::string_view what) {
    if (problem.empty()) problem = what;
  }
  Figures &operator+=(const Figures &other);
};

}  // namespace cache
