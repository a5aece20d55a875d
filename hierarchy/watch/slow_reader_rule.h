// hierarchy/watch/slow_reader_rule.h -- what TMH_SLOW_READER asks for: report:10s and the like.
// Shape:     pure. A kind, and after a colon the seconds from which on a reader is slow.
// Contexts:  not in handlers.
#pragma once

#include <cstdint>
#include <string_view>

#include <tmh/options.hpp>

namespace tmh::hierarchy {

struct SlowReaderRule {
  // {}: nothing is watched.
  SlowReader what{};
  std::uint32_t after_ms = DomainOptions().slow_reader_ms;
  bool operator==(const SlowReaderRule &) const = default;
};

// *out is untouched after an error: kBadArgument.
[[nodiscard]] Errc parse(std::string_view spec, SlowReaderRule *out) noexcept;
[[nodiscard]] const char *slow_reader_values() noexcept;

inline constexpr Spelling<SlowReader> kSlowReaders[] = {
    {"off", SlowReader{}, "no participant is watched, unless the program has on_slow_reader", true},
    {"report:10s", SlowReader::kReport,
     "one line on standard error about a participant whose instance has run for so many seconds, "
     "or for 100 ms and holds 1 GiB, and whose snapshot keeps versions"},
    {"ask:10s", SlowReader::kAskToEnd,
     "the same, and it is asked to end: an update runs again, a query's body learns by "
     "tmh::should_end()"},
    {"end:10s", SlowReader::kEndProcess, "the same, and its process is killed"},
};

}  // namespace tmh::hierarchy
