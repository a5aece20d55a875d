// tests/power/judge.cpp -- judging one image, and images of its recovery.
#include "tests/power/judge.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <random>
#include <vector>

#include "observe/planted.h"
#include "tests/power/simulated_disk.h"
#include "tests/power/worker.h"
#include "tests/power/world.h"
#include "tests/support/children.h"
#include "tests/support/shared.h"
#include "tests/support/temp_folder.h"

namespace tmh::test::power {

namespace {

// Of one recovery; address space only. A run whose checkpoints were late leaves a log of some
// 70,000 lines, each a store that is recorded.
constexpr std::uint64_t kLifeEntries = 1u << 20, kLifeBytes = 1u << 30;
// Ids of the judge's own transactions, apart from the run's.
constexpr std::uint32_t kFirstJudgeWorker = 1000;

// Applies what the table says to the model, and compares.
std::string follow(World *world, const Promises &promises, Model *model) {
  const std::uint64_t *table = world->words(kLedger) + kWordsPerPage;
  for (std::uint64_t next = model->g() + 1; next <= world->g(); ++next) {
    Effects effects;
    if (const std::string why = promises.explain(next, table[next], &effects); !why.empty())
      return why;
    model->apply(effects);
  }
  return compare(world, *model);
}

void count(const Report &report, Tally *tally) {
  ++tally->images;
  tally->torn += report.was_torn ? 1u : 0u;
  tally->clean += report.was_clean ? 1u : 0u;
  tally->replayed += report.replayed;
}

// Cuts in what the journal says about `disk`.
void judge_life(SimulatedDisk *disk, const Journal &journal, const Trial &trial,
                const JudgePlan &plan, std::uint64_t seed, Tally *tally) {
  std::mt19937_64 random(seed);
  const std::vector<Entry> entries = journal.read();
  std::vector<std::size_t> cuts;
  for (std::uint32_t i = 0; i < plan.cuts_within && !entries.empty(); ++i)
    cuts.push_back(random() % entries.size());
  // The power also goes when nothing is under way.
  if (!cuts.empty()) cuts.front() = entries.size() - 1;
  std::sort(cuts.begin(), cuts.end());
  const std::unique_ptr<Trial> now = trial.clone();
  JudgePlan deeper = plan;
  --deeper.depth;
  std::size_t done = 0;
  for (const std::size_t cut : cuts) {
    for (; done <= cut; ++done) {
      disk->apply(entries[done]);
      now->apply(entries[done]);
    }
    const MemoryFolder image;
    const std::uint64_t image_seed = random();
    disk->build_image(image.path(), image_seed);
    const std::uint64_t before = tally->findings;
    ++tally->nested;
    judge(image.path(), *now, deeper, image_seed, tally);
    if (before == 0 && tally->findings != 0)
      tally->first_finding += "\n    in a recovery that was cut behind its entry " +
                              std::to_string(cut + 1) + " of " + std::to_string(entries.size());
  }
}

}  // namespace

std::string examine(World *world, const Promises &promises, Model *model,
                    std::vector<std::uint64_t> *ids) {
  return tmh::query(world->domain(), [&]() -> std::string {
    const std::uint64_t g = world->g();
    if (g > kCommitsMax) return "G is " + std::to_string(g);
    if (g < promises.required())
      return "only " + std::to_string(g) + " commits are there, " +
             std::to_string(promises.required()) + " were acknowledged as durable";
    const std::uint64_t *table = world->words(kLedger) + kWordsPerPage;
    ids->assign(table + 1, table + 1 + g);
    return follow(world, promises, model);
  });
}

void WorldTrial::apply(const Entry &entry) {
  if (!entry.is_note()) return;
  promises_.apply(entry);
  promises_.advance(&model_);
}

std::string WorldTrial::live(const std::string &folder, const JudgePlan &plan, std::uint64_t seed,
                             Journal *journal, Report *report) const {
  World world(folder, plan.mix_of ? plan.mix_of(seed).options : plan.options, true);
  const RecoveryInfo info = world.domain().recovery();
  report->was_clean = info.was_clean;
  report->was_torn = info.tail_was_torn;
  report->replayed = info.transactions;
  Model mine = model_;
  std::vector<std::uint64_t> ids;
  if (const std::string why = examine(&world, promises_, &mine, &ids); !why.empty())
    return "after recovery: " + why;
  journal->note(Note::kRecovered, ids.size(), ids.data(), ids.size() * sizeof ids[0]);
  WorkerPlan worker_plan = plan.further;
  worker_plan.worker = kFirstJudgeWorker + plan.depth;
  worker_plan.first_attempt = 1 + (seed & 0xffff'ffff);
  worker_plan.seed = seed;
  Worker worker(&world, journal, worker_plan);
  for (std::uint64_t i = 0; i < plan.further_commits; ++i) {
    if (!worker.update(plan.all_strict || i % 3 != 2)) break;
  }
  Promises later = promises_;
  for (const Entry &entry : journal->read()) later.apply(entry);
  const std::string why = tmh::query(world.domain(), [&] { return follow(&world, later, &mine); });
  if (!why.empty()) return "after further commits: " + why;
  if (seed % 3 != 0) world.close();  // else it leaves like one that was killed
  return "";
}

void judge(const std::string &folder, const Trial &trial, const JudgePlan &plan, std::uint64_t seed,
           Tally *tally) {
  std::unique_ptr<SimulatedDisk> disk;
  if (plan.depth > 0) {
    disk = std::make_unique<SimulatedDisk>(folder);
    disk->load();
  }
  Journal journal(kLifeEntries, kLifeBytes);
  Shared<Report> report;
  Children children;
  children.spawn("judge", [&] {
    record_into(plan.depth > 0 ? &journal : nullptr);
    observe::plant(plan.planted);
    std::string found;
    try {
      found = trial.live(folder, plan, seed, &journal, &*report);
    } catch (const std::exception &error) {
      found = std::string("refused: ") + error.what();
    }
    std::snprintf(report->finding, sizeof report->finding, "%s", found.c_str());
    report->finished = true;
    std::fflush(nullptr);
    _exit(0);
  });
  const ChildEnd end = children.wait(0);
  std::string finding = report->finding;
  if (!report->finished)
    finding = end.hung ? "it hangs"
                       : "the process that opened it died of signal " + std::to_string(end.signal);
  if (journal.overflowed())
    finding = "no judgement, the judge's own journal is full; it had found: " + finding;
  count(*report, tally);
  if (!finding.empty()) {
    if (tally->findings++ == 0) tally->first_finding = finding;
    return;
  }
  if (disk != nullptr) judge_life(disk.get(), journal, trial, plan, seed, tally);
}

}  // namespace tmh::test::power
