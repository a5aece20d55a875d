// tests/power/campaign.h -- many power cuts in one recorded run, by several processes.
// Shape:     each process walks through the journal once and stops at its cuts. Images lie in
//            memory (/dev/shm) where there is some.
#pragma once

#include <cstdint>
#include <string>

#include "tests/power/judge.h"
#include "tests/power/run.h"

namespace tmh::test::power {

struct CampaignPlan {
  std::uint64_t cuts = 1000;
  std::uint32_t processes = 2;
  JudgePlan judge;
  std::uint32_t depth = 3;
  std::uint32_t nested_one_in = 8;   // cuts whose recovery is recorded and cut again
  std::uint64_t until_findings = 1;  // enough is enough
};

struct CampaignResult {
  Tally tally;
  std::uint64_t cuts = 0;
  std::string strays;  // files written past DiskFile
};

[[nodiscard]] CampaignResult cut_everywhere(const Recording &recording, const CampaignPlan &plan,
                                            std::uint64_t seed);
// The same of a run that was not of a World: nothing of `trial` has been applied yet.
[[nodiscard]] CampaignResult cut_everywhere(const Recording &recording, const Trial &trial,
                                            const CampaignPlan &plan, std::uint64_t seed);
// One cut again: behind entry `number`, the image of `image_seed`.
[[nodiscard]] CampaignResult cut_once(const Recording &recording, const CampaignPlan &plan,
                                      std::uint64_t number, std::uint64_t image_seed);
void print(const char *title, const CampaignResult &result, double seconds);

}  // namespace tmh::test::power
