// levels/line/capacity.cpp -- the model's arithmetic, and its spelling.
// Invariant: parse(to_string(model)) == model for every model that parse() can return.
#include "levels/line/capacity.h"

#include <charconv>
#include <iterator>

#include "platform/assert.h"
#include "platform/cache_geometry.h"

namespace tmh::line {

namespace {

// splitmix64's step: a chance per first touch, the same for the same seed.
std::uint64_t next_random(std::uint64_t *state) noexcept {
  std::uint64_t z = (*state += 0x9e37'79b9'7f4a'7c15ull);
  z = (z ^ (z >> 30)) * 0xbf58'476d'1ce4'e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d0'49bb'1331'11ebull;
  return z ^ (z >> 31);
}

struct Aspect {
  const char *key;
  std::uint32_t CapacityModel::*field;
  std::uint32_t max;
  const char *unit;
};
constexpr Aspect kAspects[] = {{"read", &CapacityModel::read_lines_max, 1u << 30, ""},
                               {"nesting", &CapacityModel::nesting_max, 1'000, ""},
                               {"spurious", &CapacityModel::spurious_per_1e6, 1'000'000, ""},
                               {"seed", &CapacityModel::seed, ~0u, ""},
                               {"time", &CapacityModel::time_us_max, 1'000'000, "us"}};

bool parse_number(std::string_view text, std::uint32_t max, std::uint32_t *out) noexcept {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value == 0 || value > max)
    return false;
  *out = value;
  return true;
}

bool set_geometry(std::uint64_t bytes, std::uint32_t ways, CapacityModel *model) noexcept {
  const std::uint64_t sets = ways == 0 ? 0 : bytes / (std::uint64_t{ways} * kLineBytes);
  if (sets == 0 || sets > kWriteSetsMax || sets * ways * kLineBytes != bytes) return false;
  model->write_sets = static_cast<std::uint32_t>(sets);
  model->write_ways = ways;
  return true;
}

// "32KiB/8/64"
bool parse_geometry(std::string_view text, CapacityModel *model) noexcept {
  const auto first = text.find('/');
  if (first == std::string_view::npos) return false;
  const auto second = text.find('/', first + 1);
  if (second == std::string_view::npos) return false;
  std::string_view size = text.substr(0, first);
  if (!size.ends_with("KiB")) return false;
  size.remove_suffix(3);
  std::uint32_t kib = 0, ways = 0, line_bytes = 0;
  return parse_number(size, 1u << 20, &kib) &&
         parse_number(text.substr(first + 1, second - first - 1), 1'024, &ways) &&
         parse_number(text.substr(second + 1), 4'096, &line_bytes) && line_bytes == kLineBytes &&
         set_geometry(std::uint64_t{kib} * 1024, ways, model);
}

Errc parse_base(std::string_view text, CapacityModel *model) noexcept {
  if (text == "unlimited") return Errc::kOk;
  if (text != "l1d") return parse_geometry(text, model) ? Errc::kOk : Errc::kBadLevels;
  const platform::CacheGeometry first = platform::data_cache(1), second = platform::data_cache(2);
  if (first.line_bytes != kLineBytes || !set_geometry(first.bytes, first.ways, model))
    return Errc::kBadArgument;
  // Read lines that leave the first cache are remembered in a filter as long as the second holds
  // them.
  model->read_lines_max = static_cast<std::uint32_t>(second.bytes / kLineBytes);
  return Errc::kOk;
}

bool parse_aspect(std::string_view text, CapacityModel *model, unsigned *seen) noexcept {
  const auto equals = text.find('=');
  if (equals == std::string_view::npos) return false;
  for (unsigned i = 0; i < std::size(kAspects); ++i) {
    const Aspect &aspect = kAspects[i];
    if (text.substr(0, equals) != aspect.key || (*seen & 1u << i) != 0) continue;
    *seen |= 1u << i;
    std::string_view value = text.substr(equals + 1);
    if (!value.ends_with(aspect.unit)) return false;
    value.remove_suffix(std::string_view(aspect.unit).size());
    return parse_number(value, aspect.max, &(model->*aspect.field));
  }
  return false;
}

}  // namespace

void CapacityUse::begin(const CapacityModel &model, std::uint64_t now_ns,
                        std::uint64_t seed_more) noexcept {
  TMH_ASSERT(model.write_sets <= kWriteSetsMax);
  TMH_ASSERT(model.write_sets == 0 || model.write_ways != 0);
  model_ = model;
  begin_ns_ = now_ns;
  reads_ = 0;
  if (++attempt_ == 0) {  // after 2^32 attempts
    sets_.fill({});
    attempt_ = 1;
  }
  // attempt_: one that failed by chance is not to fail by the same one again.
  random_ = (std::uint64_t{model.seed} << 32) + (seed_more << 20) + attempt_;
}

AbortCause CapacityUse::chance(std::uint64_t now_ns) noexcept {
  if (model_.time_us_max != 0 && now_ns - begin_ns_ > std::uint64_t{model_.time_us_max} * 1000)
    return AbortCause::kSpurious;
  if (model_.spurious_per_1e6 != 0 && next_random(&random_) % 1'000'000 < model_.spurious_per_1e6)
    return AbortCause::kSpurious;
  return AbortCause::kNone;
}

AbortCause CapacityUse::read(std::uint64_t now_ns) noexcept {
  if (model_.read_lines_max != 0 && ++reads_ > model_.read_lines_max) return AbortCause::kCapacity;
  return chance(now_ns);
}

AbortCause CapacityUse::write(std::uint64_t line, std::uint64_t now_ns) noexcept {
  if (model_.write_sets != 0) {
    Set &set = sets_[line % model_.write_sets];
    if (set.attempt != attempt_) set = {attempt_, 0};
    if (++set.lines > model_.write_ways) return AbortCause::kCapacity;
  }
  return chance(now_ns);
}

Errc parse(std::string_view spec, CapacityModel *out) noexcept {
  if (out == nullptr) return Errc::kBadArgument;
  CapacityModel model;
  auto comma = spec.find(',');
  if (const Errc error = parse_base(spec.substr(0, comma), &model); error != Errc::kOk)
    return error;
  for (unsigned seen = 0; comma != std::string_view::npos;) {
    spec.remove_prefix(comma + 1);
    comma = spec.find(',');
    if (!parse_aspect(spec.substr(0, comma), &model, &seen)) return Errc::kBadLevels;
  }
  *out = model;
  return Errc::kOk;
}

std::string to_string(const CapacityModel &model) {
  std::string text = "unlimited";
  if (model.write_sets != 0) {
    const std::uint64_t bytes = std::uint64_t{model.write_sets} * model.write_ways * kLineBytes;
    text = std::to_string(bytes / 1024) + "KiB/" + std::to_string(model.write_ways) + "/" +
           std::to_string(kLineBytes);
  }
  for (const Aspect &aspect : kAspects) {
    if (model.*aspect.field == 0) continue;
    text += ',';
    text += aspect.key;
    text += '=';
    text += std::to_string(model.*aspect.field);
    text += aspect.unit;
  }
  return text;
}

const char *capacity_values() noexcept {
  return "unlimited, l1d, or <size>KiB/<ways>/64, e.g. 32KiB/8/64; then, comma-separated: "
         "read=<lines>, "
         "nesting=<depth>, "
         "spurious=<per million>, seed=<number>, time=<number>us";
}

}  // namespace tmh::line
