// tests/power/judge.h -- opens an image as a user would after the power is back, and says whether
// it is what was promised.
// Invariants: (1) open succeeds, (2) the state is exactly the effects of a prefix of the commit
//             order, (3) that prefix has every commit that was acknowledged as durable, (4) the
//             recovered domain takes further commits, (5) all of this holds when the recovery, or
//             the life after it, is cut again, some levels deep.
// Shape:     each open runs in a child of its own: a crash is a finding, not the end of the test.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <tmh/options.hpp>

#include "observe/planted.h"
#include "tests/power/effects.h"
#include "tests/power/journal.h"
#include "tests/power/promises.h"
#include "tests/power/worker.h"
#include "tests/power/world.h"
#include "tests/support/mixes.h"

namespace tmh::test::power {

struct JudgePlan {
  DomainOptions options;
  MixOf mix_of;                   // of each image's options, if set
  std::uint32_t depth = 0;        // recoveries within recoveries
  std::uint32_t cuts_within = 2;  // of each recovery that is recorded
  std::uint64_t further_commits = 3;
  observe::Planted planted = observe::Planted::kNone;
  WorkerPlan further;       // how the further commits are
  bool all_strict = false;  // they wait for the disk one by one; else every third is buffered
};

struct Tally {
  std::uint64_t images = 0, nested = 0, torn = 0, clean = 0, replayed = 0, refused = 0;
  std::string first_finding;
  std::uint64_t findings = 0;
};

// Checks (2) and (3) for an open world; empty when they hold. `ids` becomes the commit order that
// was found.
[[nodiscard]] std::string examine(World *world, const Promises &promises, Model *model,
                                  std::vector<std::uint64_t> *ids);

// Judges the domain in `folder`, of which `promises` hold. The folder is used up. `model` is some
// prefix that is required anyway.
void judge(const std::string &folder, const Promises &promises, const Model &model,
           const JudgePlan &plan, std::uint64_t seed, Tally *tally);

}  // namespace tmh::test::power
