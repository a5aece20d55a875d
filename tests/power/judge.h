// tests/power/judge.h -- opens an image as a user would after the power is back, and says whether
// it is what was promised.
// Invariants: (1) open succeeds, (2) the state is exactly the effects of a prefix of the commit
//             order, (3) that prefix has every commit that was acknowledged as durable, (4) the
//             recovered domain takes further commits, (5) all of this holds when the recovery, or
//             the life after it, is cut again, some levels deep.
// Shape:     each open runs in a child of its own: a crash is a finding, not the end of the test.
//            What was worked at is a Trial: the World of this folder, or one of another folder's.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
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

// What the child that opened an image says.
struct Report {
  std::atomic<bool> finished;
  bool was_clean, was_torn;
  std::uint64_t replayed;
  char finding[1000];
};

// What a journal has promised up to some moment, of a kind of domain, and how that is judged.
class Trial {
 public:
  virtual ~Trial() = default;
  [[nodiscard]] virtual std::unique_ptr<Trial> clone() const = 0;
  virtual void apply(const Entry &entry) = 0;
  // In a process of its own: opens the domain, judges it, works on, with notes, and judges that.
  // What it found; empty when all is right. It may leave with the domain open.
  [[nodiscard]] virtual std::string live(const std::string &folder, const JudgePlan &plan,
                                         std::uint64_t seed, Journal *journal,
                                         Report *report) const = 0;
};

class WorldTrial final : public Trial {
 public:
  WorldTrial() = default;
  explicit WorldTrial(Promises promises) : promises_(std::move(promises)) {}
  [[nodiscard]] std::unique_ptr<Trial> clone() const override {
    return std::make_unique<WorldTrial>(*this);
  }
  void apply(const Entry &entry) override;
  [[nodiscard]] std::string live(const std::string &folder, const JudgePlan &plan,
                                 std::uint64_t seed, Journal *journal,
                                 Report *report) const override;

 private:
  Promises promises_;
  Model model_;  // some prefix that is required anyway
};

// Judges the domain in `folder` by what `trial` holds. The folder is used up.
void judge(const std::string &folder, const Trial &trial, const JudgePlan &plan, std::uint64_t seed,
           Tally *tally);

}  // namespace tmh::test::power
