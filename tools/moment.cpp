// tools/moment.cpp -- parsing and printing times and sizes.
#include "tools/moment.h"

#include <time.h>

#include <array>
#include <charconv>
#include <limits>

#include <fmt/format.h>

#include "platform/assert.h"

namespace tmh::tools {

namespace {

constexpr std::uint64_t kNsPerSecond = 1'000'000'000;

// All of `text`, digits only.
template <class Number>
bool parse_digits(std::string_view text, Number *out) noexcept {
  TMH_ASSERT(out != nullptr);
  if (text.empty() || text.find_first_not_of("0123456789") != std::string_view::npos) return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc{} && end == text.data() + text.size();
}

// Digits behind the point.
bool parse_fraction(std::string_view digits, std::uint64_t *ns) noexcept {
  if (digits.size() > 9 || !parse_digits(digits, ns)) return false;
  for (std::size_t i = digits.size(); i < 9; ++i) *ns *= 10;
  return true;
}

std::optional<std::uint64_t> local_seconds(std::string_view text) {
  if (text.size() != 19 || text[4] != '-' || text[7] != '-' ||
      (text[10] != ' ' && text[10] != 'T') || text[13] != ':' || text[16] != ':')
    return std::nullopt;
  tm wanted{};
  const struct {
    std::size_t at, digits;
    int *to;
    int offset;
  } fields[] = {{0, 4, &wanted.tm_year, 1900}, {5, 2, &wanted.tm_mon, 1},
                {8, 2, &wanted.tm_mday, 0},    {11, 2, &wanted.tm_hour, 0},
                {14, 2, &wanted.tm_min, 0},    {17, 2, &wanted.tm_sec, 0}};
  for (const auto &field : fields) {
    TMH_ASSERT(field.at + field.digits <= text.size());
    if (!parse_digits(text.substr(field.at, field.digits), field.to)) return std::nullopt;
    *field.to -= field.offset;
  }
  wanted.tm_isdst = -1;
  tm settled = wanted;
  const time_t seconds = mktime(&settled);
  // mktime() makes 1 May of 31 April; a typing error is not to become another moment.
  const bool same = settled.tm_year == wanted.tm_year && settled.tm_mon == wanted.tm_mon &&
                    settled.tm_mday == wanted.tm_mday && settled.tm_hour == wanted.tm_hour &&
                    settled.tm_min == wanted.tm_min && settled.tm_sec == wanted.tm_sec;
  if (!same || seconds < 0) return std::nullopt;
  return static_cast<std::uint64_t>(seconds);
}

}  // namespace

std::optional<std::uint64_t> parse_moment(std::string_view text) {
  const auto point = text.find('.');
  std::uint64_t ns = 0;
  if (point != std::string_view::npos && !parse_fraction(text.substr(point + 1), &ns))
    return std::nullopt;
  const std::string_view whole = text.substr(0, point);
  std::uint64_t seconds = 0;
  if (!parse_digits(whole, &seconds)) {
    const auto local = local_seconds(whole);
    if (!local) return std::nullopt;
    seconds = *local;
  }
  if (seconds >= std::numeric_limits<std::uint64_t>::max() / kNsPerSecond) return std::nullopt;
  return seconds * kNsPerSecond + ns;
}

std::string moment_text(std::uint64_t time_ns) {
  if (time_ns == 0) return "-";
  const auto seconds = static_cast<time_t>(time_ns / kNsPerSecond);
  tm local{};
  if (localtime_r(&seconds, &local) == nullptr) return fmt::format("{} ns", time_ns);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02}.{:06}", local.tm_year + 1900,
                     local.tm_mon + 1, local.tm_mday, local.tm_hour, local.tm_min, local.tm_sec,
                     time_ns % kNsPerSecond / 1000);
}

std::string bytes_text(std::uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  static constexpr std::array kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; value >= 1023.95 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  TMH_ASSERT(unit < kUnits.size());
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string duration_text(std::uint64_t us) {
  if (us < 1000) return fmt::format("{} us", us);
  if (us < 999'950) return fmt::format("{:.1f} ms", static_cast<double>(us) / 1e3);
  return fmt::format("{:.2f} s", static_cast<double>(us) / 1e6);
}

std::string counted(std::uint64_t count, std::string_view noun) {
  TMH_ASSERT(!noun.empty());
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace tmh::tools
