// hierarchy/domain/history_rule.cpp -- parsing how much of its past a domain holds.
#include "hierarchy/domain/history_rule.h"

#include <charconv>
#include <cstdint>

namespace tmh {

namespace {

struct Unit {
  std::string_view text;
  // Milliseconds, or bytes.
  std::uint64_t worth;
  bool is_time;
};
constexpr Unit kUnits[] = {{"ms", 1, true},          {"s", 1000, true},
                           {"min", 60'000, true},    {"h", 3'600'000, true},
                           {"MiB", 1u << 20, false}, {"GiB", 1u << 30, false}};
// In no unit does it overflow; what is too much is refused where an option is.
constexpr std::uint64_t kNumberMax = 1'000'000'000;

bool parse_part(std::string_view part, History *out) noexcept {
  std::uint64_t number = 0;
  const char *const end = part.data() + part.size();
  const auto parsed = std::from_chars(part.data(), end, number);
  if (parsed.ec != std::errc() || number == 0 || number > kNumberMax) return false;
  const std::string_view unit(parsed.ptr, static_cast<std::size_t>(end - parsed.ptr));
  for (const Unit &one : kUnits) {
    if (unit != one.text) continue;
    if (one.is_time ? out->time.count() != 0 : out->bytes != 0) return false;  // twice
    if (one.is_time)
      out->time = std::chrono::milliseconds(number * one.worth);
    else
      out->bytes = number * one.worth;
    return true;
  }
  return false;
}

}  // namespace

Errc parse(std::string_view spec, History *out) noexcept {
  History wanted;
  if (spec != "off") {
    const std::size_t comma = spec.find(',');
    const bool is_right =
        parse_part(spec.substr(0, comma), &wanted) &&
        (comma == std::string_view::npos || parse_part(spec.substr(comma + 1), &wanted));
    if (!is_right) return Errc::kBadArgument;
  }
  *out = wanted;
  return Errc::kOk;
}

const char *hierarchy::history_values() noexcept {
  return "off, a time (500ms, 10s, 5min, 24h), bytes (64MiB, 2GiB), or both: 10s,64MiB";
}

}  // namespace tmh
