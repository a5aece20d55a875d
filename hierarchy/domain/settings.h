// hierarchy/domain/settings.h -- what a domain is opened with: options, else TMH_POLICIES, else the
// variable of each choice, else what the domain is, else a default.
// Shape:     pure functions; the caller hands over the environment and what the domain's files say.
//            First read_settings(), so that a wrong value is refused before recovery makes a clean
//            domain one that has been opened. Then settle().
// Contexts:  not in handlers.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <tmh/options.hpp>

#include "hierarchy/watch/watch.h"
#include "levels/line/capacity.h"

namespace tmh::hierarchy {

// As getenv(): null where the variable is not set.
using Environment = std::function<const char *(const char *variable)>;

struct Settings {
  // The domain's, the same in each of its processes. Unset until settle() where nothing is asked
  // for.
  Durability durability{};
  Detection detection{};
  Levels levels{};
  // Unset where nothing is asked for: the domain stays as it is.
  PageChecksums page_checksums{};

  // This process's own.
  Policy policy;
  Tracking tracking = Tracking::kAuto;
  LineChoice line = LineChoice::kAuto;
  CrossPolicy cross{};
  Escalation escalation;
  // Of instances at level 1.
  line::CapacityModel capacity;
  // read_settings() sets these, and `cross` and `early_release`.
  ThreadViewUse thread_views{};
  Latency latency{};
  // Unset where nothing is asked for: fault where there is a protection key.
  Stray stray{};
  GroupCommit group_commit;
  EarlyRelease early_release{};
  // TMH_SKEW.
  bool records_skew = false;
  // Of the variable.
  SlowReaderRule slow_reader;
  // With its bytes where it is set.
  History history;

  // A recording shows what each instance has touched, so no page stays mapped from one to the next.
  [[nodiscard]] Tracking tracking_to_use() const noexcept;
  [[nodiscard]] bool is_limited() const noexcept { return capacity != line::CapacityModel{}; }
};

// What the files of the domain say. Of a fresh one, which no process has open, `durability` alone
// counts.
struct PresentDomain {
  bool is_fresh = false;
  Durability durability{};
  Detection detection{};
  Levels levels{};
};

// What a new domain is made with. Before the domain's files are looked at.
[[nodiscard]] Errc read_durability(const DomainOptions &options, const Environment &environment,
                                   Durability *out);
// Errors: a wrong value, each with its own code and the right values.
[[nodiscard]] Errc read_settings(const DomainOptions &options, const Environment &environment,
                                 Settings *out);
// What the domain is settles the rest; what contradicts it, or itself, is refused.
// Errors: kDurabilityMismatch, kDetectionMismatch, kLevelsMismatch.
[[nodiscard]] Errc settle(const PresentDomain &present, Settings *settings);
// May a second open() in this process, with the options `options`, share the domain that the first
// has opened with the options `first`? Instances may be running, so it keeps its settings; the
// environment has had its say at the first open. The first difference found is the one that is
// told.
// Errors: kAlreadyInitialized, as settle(), as read_settings().
[[nodiscard]] Errc check_agreement(const std::string &folder, const Settings &present,
                                   Tracking tracking_in_use, const DomainOptions &first,
                                   const DomainOptions &asked);

}  // namespace tmh::hierarchy
