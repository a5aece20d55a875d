// tests/power/campaign.cpp -- where to cut.
#include "tests/power/campaign.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include <gtest/gtest.h>

#include "tests/power/simulated_disk.h"
#include "tests/support/children.h"
#include "tests/support/shared.h"
#include "tests/support/temp_folder.h"

namespace tmh::test::power {

namespace {

struct Cut {
  std::size_t behind;  // index of the entry
  std::uint64_t image_seed;
};

// Tally, as a child hands it over.
struct Handed {
  std::uint64_t cuts, images, nested, torn, clean, replayed, findings;
  char finding[2000], strays[300];
};

void use_memory_for_images() {
  struct stat info {};
  if (std::getenv("TMPDIR") == nullptr && stat("/dev/shm", &info) == 0 && S_ISDIR(info.st_mode))
    setenv("TMPDIR", "/dev/shm", 1);  // this process and its children: images need no disk
}

// A quarter of them anywhere, a quarter not between two stores of one data file (most entries are
// those), a quarter in the middle of an operation, where sectors and names are open, and a quarter
// behind a checkpoint's write of pages, of which there are few.
std::vector<Cut> choose_cuts(const std::vector<Entry> &entries, std::uint64_t count,
                             std::uint64_t seed) {
  using platform::DiskOp;
  std::mt19937_64 random(seed);
  std::vector<std::size_t> others, open, pages;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const Entry &entry = entries[i];
    if (entry.is_note() || entry.op() != DiskOp::kHomeWrite) others.push_back(i);
    if (entry.is_note()) continue;
    if (entry.op() == DiskOp::kWrite && entry.path.find("/tmh.") == std::string_view::npos)
      pages.push_back(i);
    if (entry.op() == DiskOp::kWrite || entry.op() == DiskOp::kWriteDurable ||
        entry.op() == DiskOp::kSync || entry.op() == DiskOp::kRename ||
        entry.op() == DiskOp::kCreate || entry.op() == DiskOp::kUnlink ||
        entry.op() == DiskOp::kFolderSync)
      open.push_back(i);
  }
  std::vector<Cut> cuts;
  for (std::uint64_t i = 0; i < count; ++i) {
    std::size_t behind = random() % entries.size();
    if (i % 4 == 1) behind = others[random() % others.size()];
    if (i % 4 == 2 && !open.empty()) behind = open[random() % open.size()];
    if (i % 4 == 3 && !pages.empty()) behind = pages[random() % pages.size()];
    cuts.push_back({behind, random()});
  }
  std::sort(cuts.begin(), cuts.end(),
            [](const Cut &a, const Cut &b) { return a.behind < b.behind; });
  return cuts;
}

std::vector<std::uint64_t> final_order(const std::vector<Entry> &entries) {
  for (auto at = entries.rbegin(); at != entries.rend(); ++at) {
    if (at->is_note() && at->note() == Note::kRecovered) return ids_of(*at);
  }
  return {};
}

WorldTrial world_trial(const Recording &recording) {
  Promises promises;
  promises.foresee(final_order(recording.entries));
  return WorldTrial(std::move(promises));
}

class Walk {
 public:
  Walk(const Recording &recording, const Trial &trial, const CampaignPlan &plan)
      : recording_(recording), plan_(plan), disk_(recording.folder), trial_(trial.clone()) {}

  void judge_cut(const Cut &cut, bool nested, CampaignResult *result) {
    for (; done_ <= cut.behind; ++done_) {
      disk_.apply(recording_.entries[done_]);
      trial_->apply(recording_.entries[done_]);
    }
    const MemoryFolder image;
    disk_.build_image(image.path(), cut.image_seed);
    JudgePlan judge_plan = plan_.judge;
    judge_plan.depth = nested ? plan_.depth : 0;
    Tally &tally = result->tally;
    const std::uint64_t before = tally.findings;
    judge(image.path(), *trial_, judge_plan, cut.image_seed, &tally);
    ++result->cuts;
    if (before == 0 && tally.findings != 0)
      tally.first_finding +=
          "\n    TMH_POWER_CUT=" + std::to_string(recording_.entries[cut.behind].number) +
          " TMH_POWER_IMAGE=" + std::to_string(cut.image_seed) + (nested ? " (nested)" : "");
  }
  [[nodiscard]] std::string strays() const {
    std::string all;
    for (const std::string &name : disk_.strays()) {
      if (all.find(name) == std::string::npos) all += name + " ";
    }
    return all;
  }

 private:
  const Recording &recording_;
  const CampaignPlan &plan_;
  SimulatedDisk disk_;
  const std::unique_ptr<Trial> trial_;
  std::size_t done_ = 0;
};

void hand_over(const CampaignResult &result, Handed *to) {
  const Tally &tally = result.tally;
  *to = {result.cuts,    tally.images,   tally.nested, tally.torn, tally.clean,
         tally.replayed, tally.findings, {},           {}};
  std::snprintf(to->finding, sizeof to->finding, "%s", tally.first_finding.c_str());
  std::snprintf(to->strays, sizeof to->strays, "%s", result.strays.c_str());
}

void add(const Handed &from, CampaignResult *to) {
  Tally &tally = to->tally;
  to->cuts += from.cuts;
  tally.images += from.images;
  tally.nested += from.nested;
  tally.torn += from.torn;
  tally.clean += from.clean;
  tally.replayed += from.replayed;
  if (tally.findings == 0) tally.first_finding = from.finding;
  tally.findings += from.findings;
  if (to->strays.empty()) to->strays = from.strays;
}

}  // namespace

CampaignResult cut_everywhere(const Recording &recording, const CampaignPlan &plan,
                              std::uint64_t seed) {
  return cut_everywhere(recording, world_trial(recording), plan, seed);
}

CampaignResult cut_everywhere(const Recording &recording, const Trial &trial,
                              const CampaignPlan &plan, std::uint64_t seed) {
  const std::vector<Cut> cuts = choose_cuts(recording.entries, plan.cuts, seed);
  const SharedBytes memory(plan.processes * sizeof(Handed));
  auto *handed = static_cast<Handed *>(memory.get());
  const Shared<std::atomic<std::uint64_t>> findings;
  Children children;
  for (std::uint32_t self = 0; self < plan.processes; ++self) {
    children.spawn("walker " + std::to_string(self), [&, self] {
      use_memory_for_images();
      Walk walk(recording, trial, plan);
      CampaignResult mine;
      for (std::size_t i = self; i < cuts.size() && findings->load() < plan.until_findings;
           i += plan.processes) {
        const std::uint64_t before = mine.tally.findings;
        const bool nested = plan.nested_one_in != 0 && cuts[i].image_seed % plan.nested_one_in == 0;
        walk.judge_cut(cuts[i], nested, &mine);
        findings->fetch_add(mine.tally.findings - before);
      }
      mine.strays = walk.strays();
      hand_over(mine, handed + self);
    });
  }
  CampaignResult result;
  for (std::uint32_t self = 0; self < plan.processes; ++self) {
    // As long as it takes: each image has its own deadline, and ctest one for all.
    EXPECT_TRUE(children.wait(self, 600 * hang_deadline()).succeeded()) << "walker " << self;
    add(handed[self], &result);
  }
  return result;
}

CampaignResult cut_once(const Recording &recording, const CampaignPlan &plan, std::uint64_t number,
                        std::uint64_t image_seed) {
  CampaignResult result;
  Walk walk(recording, world_trial(recording), plan);
  for (std::size_t i = 0; i < recording.entries.size(); ++i) {
    if (recording.entries[i].number != number) continue;
    const bool nested = plan.nested_one_in != 0 && image_seed % plan.nested_one_in == 0;
    walk.judge_cut({i, image_seed}, nested, &result);
  }
  return result;
}

void print(const char *title, const CampaignResult &result, double seconds) {
  const auto number = [](std::uint64_t n) { return static_cast<unsigned long long>(n); };
  std::printf(
      "%s: %llu cuts, %llu more within recoveries, %llu logs with a torn tail, %llu clean, %llu "
      "transactions "
      "replayed, %llu findings, %.1f s\n",
      title, number(result.cuts), number(result.tally.nested), number(result.tally.torn),
      number(result.tally.clean), number(result.tally.replayed), number(result.tally.findings),
      seconds);
}

}  // namespace tmh::test::power
