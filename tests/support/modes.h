// tests/support/modes.h -- the ways to run the page engine that every semantic and history test
// goes through.
#pragma once

#include <algorithm>
#include <iosfwd>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <tmh/options.hpp>

namespace tmh::test {

struct Mode {
  const char *name;  // as part of a test's name
  Detection detection;
  Tracking tracking;
  Levels levels = Levels::kPage;
  LineChoice line = LineChoice::kAuto;
  Durability durability = Durability{};  // unset: volatile
  Isolation isolation = Isolation{};     // unset: serializable
};

inline constexpr Mode kModes[] = {
    {"LazyKernelHot", Detection::kLazy, Tracking::kKernelHot},
    {"LazyKernel", Detection::kLazy, Tracking::kKernel},
    {"LazySignalHot", Detection::kLazy, Tracking::kSignalHot},
    {"LazySignal", Detection::kLazy, Tracking::kSignal},
    {"EagerSignal", Detection::kEager, Tracking::kSignal},
    {"HybridKernelHot", Detection::kLazy, Tracking::kKernelHot, Levels::kHybrid},
    {"HybridKernel", Detection::kLazy, Tracking::kKernel, Levels::kHybrid},
    {"HybridSignalHot", Detection::kLazy, Tracking::kSignalHot, Levels::kHybrid},
    {"RtmKernelHot", Detection::kLazy, Tracking::kKernelHot, Levels::kHybrid, LineChoice::kRtm},
    {"RtmSignalHot", Detection::kLazy, Tracking::kSignalHot, Levels::kHybrid, LineChoice::kRtm},
};

// Durable domains with both levels, for tests of what processes do to each other.
inline constexpr Mode kDurableHybridModes[] = {
    {"HybridStrict", Detection::kLazy, Tracking::kKernelHot, Levels::kHybrid, LineChoice::kAuto,
     Durability::kStrict},
    {"HybridBuffered", Detection::kLazy, Tracking::kSignalHot, Levels::kHybrid, LineChoice::kAuto,
     Durability::kBuffered},
};

// Those of `modes` for which `condition(mode)` is true: for a suite of these alone, so that no test
// skips itself in the others.
template <class Modes, class Condition>
[[nodiscard]] std::vector<Mode> modes_where(const Modes &modes, const Condition &condition) {
  std::vector<Mode> found;
  std::copy_if(std::begin(modes), std::end(modes), std::back_inserter(found), condition);
  return found;
}
// Of kModes: without level 1. Only such domains hold a past.
[[nodiscard]] std::vector<Mode> page_modes();
// Of kModes and kDurableHybridModes.
[[nodiscard]] std::vector<Mode> lazy_modes();
[[nodiscard]] std::vector<Mode> hybrid_modes();

// Domains whose updates at level 2 run under snapshot isolation.
inline constexpr Mode kSnapshotModes[] = {
    {"SnapshotKernelHot", Detection::kLazy, Tracking::kKernelHot, Levels::kPage, LineChoice::kAuto,
     Durability{}, Isolation::kSnapshot},
    {"SnapshotSignal", Detection::kLazy, Tracking::kSignal, Levels::kPage, LineChoice::kAuto,
     Durability{}, Isolation::kSnapshot},
    {"SnapshotHybridStrict", Detection::kLazy, Tracking::kSignalHot, Levels::kHybrid,
     LineChoice::kAuto, Durability::kStrict, Isolation::kSnapshot},
};

// Do the mode's domains take a conflict policy? Others refuse it.
[[nodiscard]] bool decides_conflicts(const Mode &mode);
// `policy` but for its conflict policy where that would be refused.
[[nodiscard]] DomainOptions options_for(const Mode &mode, const std::string &policy = "");

// Where a domain of that mode lies: durable ones on the disk, whose syncs they wait for; others in
// memory.
[[nodiscard]] std::string place_for(const Mode &mode);

// Why this machine cannot run `mode` (the library's own sentence), empty when it can. Asked once
// per mode, in a child.
[[nodiscard]] std::string why_unavailable(const Mode &mode);

void PrintTo(const Mode &mode, std::ostream *out);  // found by GoogleTest

[[nodiscard]] std::string mode_name(const testing::TestParamInfo<Mode> &info);

}  // namespace tmh::test
