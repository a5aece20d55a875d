// levels/line/capacity_spelling.cpp -- the one spelling of a capacity model.
// Invariant: parse(to_string(model)) == model for every model that parse() makes.
#include <unistd.h>

#include <charconv>

#include "levels/line/capacity.h"

namespace tmh::line {

namespace {

constexpr std::uint32_t kWaysMax = 64;           // more than any L1d; sets x ways stays far below 2^32 lines
constexpr std::uint32_t kTimeUsMax = 1'000'000;  // DESIGN 8: everybody goes on within a second
constexpr std::uint32_t kChanceMax = 1'000'000;  // per million
constexpr std::uint64_t kBytesMax = std::uint64_t{1} << 32;  // before a product could overflow

bool parse_number(std::string_view text, std::uint64_t max, std::uint64_t *out) noexcept {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty() || value > max) return false;
  *out = value;
  return true;
}

// "32KiB", "1MiB", "4096".
bool parse_bytes(std::string_view text, std::uint64_t *out) noexcept {
  std::uint64_t unit = 1;
  if (text.ends_with("KiB")) unit = 1 << 10;
  if (text.ends_with("MiB")) unit = 1 << 20;
  if (unit != 1) text.remove_suffix(3);
  if (!parse_number(text, kBytesMax / unit, out)) return false;
  *out *= unit;
  return true;
}

bool set_geometry(std::uint64_t bytes, std::uint64_t ways, std::uint64_t line_bytes, CapacityModel *model) noexcept {
  if (line_bytes != kLineBytes || ways == 0 || ways > kWaysMax || bytes == 0) return false;
  const std::uint64_t set_bytes = ways * line_bytes;
  if (bytes % set_bytes != 0 || bytes / set_bytes > kWriteSetsMax) return false;
  model->write_sets = static_cast<std::uint32_t>(bytes / set_bytes);
  model->write_ways = static_cast<std::uint32_t>(ways);
  return true;
}

bool parse_geometry(std::string_view text, CapacityModel *model) noexcept {
  const auto first = text.find('/');
  if (first == std::string_view::npos) return false;
  const auto second = text.find('/', first + 1);
  if (second == std::string_view::npos) return false;
  std::uint64_t bytes = 0, ways = 0, line_bytes = 0;
  return parse_bytes(text.substr(0, first), &bytes) &&
         parse_number(text.substr(first + 1, second - first - 1), kWaysMax, &ways) &&
         parse_number(text.substr(second + 1), kLineBytes, &line_bytes) && set_geometry(bytes, ways, line_bytes, model);
}

Errc of_this_machine(CapacityModel *model) noexcept {
  const long bytes = sysconf(_SC_LEVEL1_DCACHE_SIZE), ways = sysconf(_SC_LEVEL1_DCACHE_ASSOC),
             line_bytes = sysconf(_SC_LEVEL1_DCACHE_LINESIZE);
  if (bytes <= 0 || ways <= 0 || line_bytes <= 0) return Errc::kBadArgument;
  const bool is_right = set_geometry(static_cast<std::uint64_t>(bytes), static_cast<std::uint64_t>(ways),
                                     static_cast<std::uint64_t>(line_bytes), model);
  return is_right ? Errc::kOk : Errc::kBadArgument;
}

// What may follow the geometry, each once. 0 is the default, hence no spelling.
struct Extra {
  std::string_view key, unit;
  std::uint32_t CapacityModel::*field;
  std::uint32_t max;
};
constexpr Extra kExtras[] = {
    {"read=", "", &CapacityModel::read_lines_max, 0xffff'ffff},
    {"nesting=", "", &CapacityModel::nesting_max, 0xffff'ffff},
    {"spurious=", "", &CapacityModel::spurious_per_1e6, kChanceMax},
    {"time=", "us", &CapacityModel::time_us_max, kTimeUsMax},
    {"seed=", "", &CapacityModel::seed, 0xffff'ffff},
};

bool parse_extra(std::string_view text, CapacityModel *model) noexcept {
  for (const Extra &extra : kExtras) {
    if (!text.starts_with(extra.key) || !text.ends_with(extra.unit)) continue;
    text.remove_prefix(extra.key.size());
    text.remove_suffix(extra.unit.size());
    std::uint64_t value = 0;
    if (model->*extra.field != 0 || !parse_number(text, extra.max, &value) || value == 0) return false;
    model->*extra.field = static_cast<std::uint32_t>(value);
    return true;
  }
  return false;
}

}  // namespace

Errc parse(std::string_view spec, CapacityModel *out) noexcept {
  if (out == nullptr) return Errc::kBadArgument;
  CapacityModel model;
  auto comma = spec.find(',');
  const std::string_view geometry = spec.substr(0, comma);
  if (geometry == "unlimited") {
    if (comma != std::string_view::npos) return Errc::kBadLevels;
  } else if (geometry == "l1d") {
    if (const Errc error = of_this_machine(&model); error != Errc::kOk) return error;
  } else if (!parse_geometry(geometry, &model)) {
    return Errc::kBadLevels;
  }
  while (comma != std::string_view::npos) {
    spec.remove_prefix(comma + 1);
    comma = spec.find(',');
    if (!parse_extra(spec.substr(0, comma), &model)) return Errc::kBadLevels;
  }
  *out = model;
  return Errc::kOk;
}

std::string to_string(const CapacityModel &model) {
  if (model.write_sets == 0) return "unlimited";
  const std::uint64_t bytes = std::uint64_t{model.write_sets} * model.write_ways * kLineBytes;
  std::string text = bytes % 1024 == 0 ? std::to_string(bytes / 1024) + "KiB" : std::to_string(bytes);
  text += '/' + std::to_string(model.write_ways) + '/' + std::to_string(kLineBytes);
  for (const Extra &extra : kExtras) {
    if (model.*extra.field == 0) continue;
    text += ',';
    text += extra.key;
    text += std::to_string(model.*extra.field);
    text += extra.unit;
  }
  return text;
}

const char *capacity_values() noexcept {
  return "unlimited; or l1d, or bytes/ways/64 as in 32KiB/8/64 (ways 1 to 64, at most 4096 sets), either followed by "
         "any of read=LINES, "
         "nesting=DEPTH, spurious=PER_MILLION, time=1us to 1000000us, seed=NUMBER, comma-separated";
}

}  // namespace tmh::line
