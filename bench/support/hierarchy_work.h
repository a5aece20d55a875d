// bench/support/hierarchy_work.h -- small and huge instances over the same data, under one
// contestant, on 1 or 2 processes.
// Shape:     data: a raw segment of `pages` pages, and one more page whose first word is the lock
//            of the lock fallback. Small: transfers between 4 random words on random pages, through
//            tmh::field. Huge: adds 1 to one word of each of `huge_lines` lines of each of
//            `huge_pages` pages; the lines differ from page to page, so that a cache of any
//            geometry is filled evenly.
// Checked:   after the last close the file's words sum up to what the huge instances added.
// The lock fallback: level 1 as an HTM library uses it (Intel's optimisation manual, lock elision):
//            every instance reads the lock word first and waits while it is held. A huge one
//            overflows; the abort says that a retry is of no use, so it takes the lock (one small
//            instance) and runs alone, in portions that fit. Taking the lock fails the instances
//            that have read it; none begins until it is free.
//            Fair: an HTM's holder runs plain code, which this level 1 does not have, so a
//            portion's stores cost what every store of this contestant and of the hybrid's level 1
//            costs; the row "mutex, plain memory" bounds what plain code would gain. It gets for
//            free what it cannot do: undo a huge instance, or survive its death half-way.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <tmh/options.hpp>

namespace tmh::bench {

enum class HierarchyKind : std::uint8_t {
  kMutex,     // one mutex around plain shared memory: what the machine can give
  kLockLine,  // level 1 with a capacity, and a lock for what does not fit
  kLine,      // level 1 without a capacity
  kPage,      // level 2 only
  kHybrid,    // with the same capacity as kLockLine
  // Both levels at once, whatever the instances fail by: small ones at level 1 (three attempts),
  // huge ones at level 2.
  kCrossing,
};

struct HierarchyContestant {
  std::string name;
  HierarchyKind kind;
  std::string escalation;             // kHybrid
  CrossPolicy cross = CrossPolicy{};  // kCrossing
};

[[nodiscard]] std::vector<HierarchyContestant> hierarchy_contestants();
// One kCrossing for each cross-level policy.
[[nodiscard]] std::vector<HierarchyContestant> crossing_contestants();

struct HierarchyRun {
  unsigned huge_percent = 0;
  unsigned processes = 1;
  std::uint64_t pages = 0, huge_pages = 0, huge_lines = 1;
  std::string capacity;
  // Stores in one instance under the lock; they must fit into `capacity`.
  std::uint64_t portion = 0;
  double warm_up_ms = 0, run_ms = 0;
  std::uint64_t seed = 0;
};

struct HierarchyOutcome {
  double commits_per_s = 0;
  // All processes, warm-up included.
  std::uint64_t small = 0, huge = 0;
  std::uint64_t line_commits = 0, unlimited_commits = 0, page_commits = 0, line_aborts = 0,
                page_aborts = 0;
  std::uint64_t for_capacity = 0, for_attempts = 0, for_pages = 0, de_escalations = 0;
  std::uint64_t recalls = 0, releases = 0;
  // At either level, because of the other one.
  std::uint64_t cross_line_aborts = 0, cross_page_aborts = 0;
  std::uint64_t locked = 0;  // huge instances that ran under the lock
};

// Throws std::runtime_error when the sum is wrong. `folder`: new and empty.
[[nodiscard]] HierarchyOutcome run_hierarchy(const HierarchyContestant &contestant,
                                             const HierarchyRun &run, const std::string &folder);

}  // namespace tmh::bench
