// hierarchy/watch/slow_reader_rule.cpp -- parsing what is to be done about slow readers.
#include "hierarchy/watch/slow_reader_rule.h"

#include <charconv>
#include <limits>

#include "platform/assert.h"

namespace tmh::hierarchy {

namespace {

// "10s", "0s", "2.5s": whole and decimal seconds.
bool parse_seconds(std::string_view text, std::uint32_t *out_ms) noexcept {
  double seconds = 0;
  const char *const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, seconds, std::chars_format::fixed);
  if (parsed.ec != std::errc() || std::string_view(parsed.ptr, end) != "s") return false;
  const double ms = seconds * 1000;
  if (!(ms >= 0 && ms <= std::numeric_limits<std::uint32_t>::max())) return false;
  *out_ms = static_cast<std::uint32_t>(ms);
  return true;
}

}  // namespace

Errc parse(std::string_view spec, SlowReaderRule *out) noexcept {
  TMH_ASSERT(out != nullptr);
  const std::size_t colon = spec.find(':');
  const std::string_view kind = spec.substr(0, colon);
  for (const auto &row : kSlowReaders) {
    const std::string_view text(row.text);
    if (kind != text.substr(0, text.find(':'))) continue;
    SlowReaderRule rule;
    rule.what = row.value;
    const bool has_time = colon != std::string_view::npos;
    if (has_time &&
        (rule.what == SlowReader{} || !parse_seconds(spec.substr(colon + 1), &rule.after_ms)))
      return Errc::kBadArgument;
    *out = rule;
    return Errc::kOk;
  }
  return Errc::kBadArgument;
}

const char *slow_reader_values() noexcept {
  return "off, report, ask, end; a time may follow: report:10s";
}

}  // namespace tmh::hierarchy
