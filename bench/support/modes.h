// bench/support/modes.h -- the ways of running level 2 that benches compare.
#pragma once

#include <string>
#include <vector>

#include <tmh/domain.hpp>

#include "bench/support/durability.h"

namespace tmh::bench {

struct Mode {
  std::string name;
  Tracking tracking = Tracking::kAuto;
  Detection detection = Detection::kLazy;
  bool keeps_pages = false;  // hot: pages stay mapped between instances
  Durable durable = Durable::kNone;
};

// Tracking modes, best first; signal also with eager detection, which is how the thesis detects conflicts.
[[nodiscard]] const std::vector<Mode> &all_modes();

// Opens (or joins) the domain in `folder` in exactly this mode. Throws std::runtime_error with the reason when the mode is
// not to be had here; a fallback to another mode counts as that, unless tracking is kAuto.
[[nodiscard]] Domain open_domain(const Mode &mode, const std::string &folder, const std::string &policy = {});

// Why `mode` is not to be had; empty when it is. Opens a throw-away domain in a child process, in `folder`.
[[nodiscard]] std::string why_unavailable(const Mode &mode, const std::string &folder);

// The modes that can be had here. The others are printed with their reason.
[[nodiscard]] std::vector<Mode> available_modes(const std::string &scratch_folder);

}  // namespace tmh::bench
