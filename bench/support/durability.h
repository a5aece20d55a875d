// bench/support/durability.h -- how durable the engine's commits are: the one place where benches switch it on.
// Shape:   written before DomainOptions had a field for it. While there is none, kNone is the only choice, and benches say
//          so beside every number.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <tmh/domain.hpp>

namespace tmh::bench {

enum class Durable : std::uint8_t {
  kNone,      // survives the death of any process
  kBuffered,  // logged; a power cut may take the last commits, whole ones
  kStrict,    // on the device when end() returns
};
[[nodiscard]] const char *to_string(Durable durable) noexcept;

[[nodiscard]] bool durability_available() noexcept;          // does this library have it at all
[[nodiscard]] std::vector<Durable> durabilities();           // those that it has, kNone first
[[nodiscard]] std::string durability_note(Durable durable);  // "" when it is what it says, else what it really is

// Does nothing where the library has no durability: durability_note() must then be shown.
void set_durability(DomainOptions *options, Durable durable);

// Of the whole domain so far; zeros where the library does not count them.
struct LogCounters {
  std::uint64_t bytes = 0, flushes = 0;
};
[[nodiscard]] LogCounters log_counters(const Counters &counters) noexcept;

}  // namespace tmh::bench
