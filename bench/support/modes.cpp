// bench/support/modes.cpp -- the ways of running level 2 that benches compare.
#include "bench/support/modes.h"

#include <cstdio>
#include <filesystem>
#include <stdexcept>

#include "bench/support/worker.h"
#include "platform/assert.h"

namespace tmh::bench {

Logged logged(const Domain &domain, Durability durability) {
  if (durability == Durability::kBuffered) domain.flush();
  const Counters counters = domain.counters();
  return {counters.log_bytes, counters.log_flushes};
}

const char *durability_note(Durability durability) noexcept {
  if (durability == Durability::kStrict) return "";
  return durability == Durability::kBuffered ? "not durable at return" : "not durable";
}

const std::vector<Mode> &all_modes() {
  static const std::vector<Mode> modes = {
      {"kernel-hot", Tracking::kKernelHot, Detection::kLazy, true},
      {"kernel", Tracking::kKernel, Detection::kLazy, false},
      {"signal-hot", Tracking::kSignalHot, Detection::kLazy, true},
      {"signal", Tracking::kSignal, Detection::kLazy, false},
      {"signal-eager", Tracking::kSignal, Detection::kEager, false},
      {"signal-locking", Tracking::kSignal, Detection::kLocking, false},
  };
  return modes;
}

Domain open_domain(const Mode &mode, const std::string &folder, const std::string &policy) {
  TMH_ASSERT(!folder.empty());
  DomainOptions options;
  options.tracking = mode.tracking;
  options.policies.detection = mode.detection;
  options.policies.conflict = policy;
  options.policies.group_commit = mode.group_commit;
  options.policies.early_release = mode.early_release;
  options.policies.isolation = mode.isolation;
  options.levels = mode.levels;
  options.durability = mode.durability;  // the one place where benches switch it on
  Domain domain = Domain::open(folder, options);
  const TrackingReport report = domain.tracking();
  if (mode.tracking != Tracking::kAuto && report.tracking != mode.tracking) {
    throw std::runtime_error(std::string("fell back to ") + to_string(report.tracking) + ": " +
                             report.reason);
  }
  if (domain.detection() != mode.detection)
    throw std::runtime_error("the domain has the other detection mode");
  return domain;
}

std::string why_unavailable(const Mode &mode, const std::string &folder) {
  const Worker<int, int> probe([&]() -> std::function<int(const int &)> {
    open_domain(mode, folder).close();
    return [](const int &) { return 0; };
  });
  return probe.reason();
}

std::vector<Mode> available_modes(const std::string &scratch_folder) {
  std::vector<Mode> usable;
  for (const Mode &mode : all_modes()) {
    const std::string folder = scratch_folder + "/probe-" + mode.name;
    std::filesystem::create_directories(folder);
    const std::string reason = why_unavailable(mode, folder);
    if (reason.empty()) {
      usable.push_back(mode);
    } else {
      std::printf("unavailable: %s (%s)\n", mode.name.c_str(), reason.c_str());
    }
  }
  return usable;
}

}  // namespace tmh::bench
