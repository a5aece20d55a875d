// levels/line/capacity.cpp -- the model's arithmetic, and its spelling.
#include "levels/line/capacity.h"

#include <charconv>

namespace tmh::line {

namespace {

// splitmix64's step: a chance per first touch, the same for the same seed.
std::uint64_t next_random(std::uint64_t *state) noexcept {
  std::uint64_t z = (*state += 0x9e37'79b9'7f4a'7c15ull);
  z = (z ^ (z >> 30)) * 0xbf58'476d'1ce4'e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d0'49bb'1331'11ebull;
  return z ^ (z >> 31);
}

}  // namespace

void CapacityUse::begin(const CapacityModel &model, std::uint64_t now_ns,
                        std::uint64_t seed_more) noexcept {
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

}  // namespace tmh::line
