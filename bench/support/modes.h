// bench/support/modes.h -- the ways of running level 2 that benches compare.
#pragma once

#include <string>
#include <vector>

#include <tmh/domain.hpp>

namespace tmh::bench {

struct Mode {
  std::string name;
  Tracking tracking = Tracking::kAuto;
  Detection detection = Detection::kLazy;
  bool keeps_pages = false;              // hot: pages stay mapped between instances
  Durability durability = Durability{};  // unset: as the environment says, else none
  Levels levels = Levels{};              // the same; else pages
  // Unset: as the environment says, else the default.
  std::string group_commit = {};
  EarlyRelease early_release = EarlyRelease{};
  Isolation isolation = Isolation{};
};

// Bytes and durable writes of the domain's log so far. A buffered domain is flushed first: its
// commits are counted when they are written. Takes time: not for a timed part.
struct Logged {
  std::uint64_t bytes = 0, flushes = 0;
};
[[nodiscard]] Logged logged(const Domain &domain, Durability durability);

// What a reader of its numbers must know: "" for strict, else where it is less durable.
[[nodiscard]] const char *durability_note(Durability durability) noexcept;

// Tracking modes, best first; signal also with eager detection, which is how the thesis detects
// conflicts.
[[nodiscard]] const std::vector<Mode> &all_modes();

// Opens (or joins) the domain in `folder` in exactly this mode. Throws std::runtime_error with the
// reason when the mode is not to be had here; a fallback to another mode counts as that, unless
// tracking is kAuto.
[[nodiscard]] Domain open_domain(const Mode &mode, const std::string &folder,
                                 const std::string &policy = {});

// Why `mode` is not to be had; empty when it is. Opens a throw-away domain in a child process, in
// `folder`.
[[nodiscard]] std::string why_unavailable(const Mode &mode, const std::string &folder);

// The modes that can be had here. The others are printed with their reason.
[[nodiscard]] std::vector<Mode> available_modes(const std::string &scratch_folder);

}  // namespace tmh::bench
