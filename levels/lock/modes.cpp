// levels/lock/modes.cpp -- the two matrices that are given.
#include "levels/lock/modes.h"

#include <algorithm>
#include <iterator>

namespace tmh::lock {

namespace {

constexpr std::uint32_t bits(std::initializer_list<Mode> modes) {
  std::uint32_t all = 0;
  for (const Mode mode : modes) all |= ModeSet::bit(mode);
  return all;
}

}  // namespace

ModeSet ModeSet::hierarchical() noexcept {
  using enum Mode;
  ModeSet set{};
  set.count = 5;
  set.writes = bits({kIntendExclusive, kSharedIntendExclusive, kExclusive});
  const auto excludes = [&](Mode held, std::initializer_list<Mode> waiting) {
    set.conflicts[static_cast<std::uint32_t>(held)] = bits(waiting);
  };
  excludes(kIntendShared, {kExclusive});
  excludes(kIntendExclusive, {kShared, kSharedIntendExclusive, kExclusive});
  excludes(kShared, {kIntendExclusive, kSharedIntendExclusive, kExclusive});
  excludes(kSharedIntendExclusive, {kIntendExclusive, kShared, kSharedIntendExclusive, kExclusive});
  excludes(kExclusive,
           {kIntendShared, kIntendExclusive, kShared, kSharedIntendExclusive, kExclusive});
  return set;
}

ModeSet ModeSet::shared_exclusive() noexcept {
  ModeSet set{};
  set.count = 2;
  set.writes = bit(kWrite);
  set.conflicts[0] = bit(kWrite);
  set.conflicts[1] = bit(kRead) | bit(kWrite);
  return set;
}

bool ModeSet::is_valid() const noexcept {
  if (count == 0 || count > kModesMax) return false;
  const std::uint32_t all = count == kModesMax ? ~0u : (1u << count) - 1;
  return (writes & ~all) == 0 && std::all_of(conflicts, conflicts + count,
                                             [&](std::uint32_t row) { return (row & ~all) == 0; });
}

std::uint32_t ModeSet::excluders(Mode wanted) const noexcept {
  std::uint32_t all = 0;
  for (std::uint32_t held = 0; held < std::min(count, kModesMax); ++held)
    if ((conflicts[held] & bit(wanted)) != 0) all |= 1u << held;
  return all;
}

bool ModeSet::operator==(const ModeSet &other) const noexcept {
  return count == other.count && writes == other.writes &&
         std::equal(std::begin(conflicts), std::end(conflicts), std::begin(other.conflicts));
}

}  // namespace tmh::lock
