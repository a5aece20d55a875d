// tools/doctor/machine.h -- where the facts come from: files below a root, and probes. A test gives
// another root and other probes.
// Contexts:  NOT async-signal-safe. The probes of this machine make and remove: a child process
//            (RTM), a domain in the folder for temporary files (tracking), a file of 1 MiB in the
//            folder asked about (storage).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "tools/doctor/facts.h"

namespace tmh::tools::doctor {

struct Machine {
  // CPUID, and the root before /proc and /sys
  line::RtmSources rtm;
  // Empty optional: not readable.
  std::function<std::optional<std::uint64_t>(std::uint32_t number)> msr;
  std::function<RtmTrial()> rtm_trial;
  std::function<PageTrials()> page_trials;
  std::function<TopologyPart()> topology;
  std::function<CounterPart()> counters;  // without what /proc and /sys say
  std::function<StorageFacts(const std::string &folder)> storage;
};
[[nodiscard]] Machine this_machine();

[[nodiscard]] Facts collect(const Machine &machine, const std::string &folder);

// The probes of this machine.
inline constexpr std::uint32_t kTrialCommits = 1'000;
[[nodiscard]] RtmTrial try_rtm();
[[nodiscard]] PageTrials try_pages();
[[nodiscard]] TopologyPart ask_hwloc();
[[nodiscard]] CounterPart ask_libpfm();
[[nodiscard]] StorageFacts try_storage(const std::string &folder);

}  // namespace tmh::tools::doctor
