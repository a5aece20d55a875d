// tests/refused_open_test.cpp -- an open of a new durable folder that is refused for its options, and the corrected one.
// Invariants: (1) what a domain keeps for good is what the open asked for that made it, and not one that was refused before. (2) what the refused one
//             has not made stays.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include <tmh/tmh.hpp>

#include "tests/support/stage.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

constexpr std::uint64_t kMiB = 1u << 20;

DomainOptions strict(std::uint64_t log_file_bytes) {
  DomainOptions options;
  options.durability = Durability::kStrict;
  options.log_file_bytes = log_file_bytes;
  return options;
}

struct Refused {
  const char *name;
  void (*make_wrong)(DomainOptions *options);
  Errc error;
};
const Refused kRefused[] = {
    {"DurableByRtm",
     [](DomainOptions *options) {
       options->levels = Levels::kHybrid;
       options->line = LineChoice::kRtm;
     },
     Errc::kLevelsMismatch},
    {"Policy", [](DomainOptions *options) { options->policy = "nonsense"; }, Errc::kBadPolicy},
    {"GroupCommit", [](DomainOptions *options) { options->group_commit = "nonsense"; }, Errc::kBadDurability},
    {"Latency", [](DomainOptions *options) { options->latency = static_cast<Latency>(77); }, Errc::kBadArgument},
    {"Capacity",
     [](DomainOptions *options) {
       options->levels = Levels::kHybrid;
       options->capacity = "nonsense";
     },
     Errc::kBadLevels}};

class RefusedOpenTest : public testing::TestWithParam<Refused> {
 protected:
  const TempFolder parent_;
  const std::string folder_ = parent_.path() + "/new";
};

TEST_P(RefusedOpenTest, ACorrectedOpenMakesWhatItAsksFor) {
  DomainOptions wrong = strict(2 * kMiB);
  GetParam().make_wrong(&wrong);
  for (const DomainOptions &right : {strict(4 * kMiB), DomainOptions{}}) {
    expect_error(GetParam().error, [&] { (void)Domain::open(folder_, wrong); });
    for (const auto &entry : std::filesystem::directory_iterator(folder_))
      EXPECT_EQ(entry.path().filename(), "tmh.lock");
    Domain domain = Domain::open(folder_, right);
    const bool is_durable = right.durability == Durability::kStrict;
    EXPECT_EQ(domain.durability(), is_durable ? Durability::kStrict : Durability::kNone);
    if (is_durable) {
      EXPECT_EQ(std::filesystem::file_size(folder_ + "/tmh.log.0000000000"), right.log_file_bytes);
    }
    domain.close();
    std::filesystem::remove_all(folder_);
  }
}

// Its control file may come back from a backup.
TEST_P(RefusedOpenTest, ALogWithoutItsControlFileStays) {
  Domain::open(folder_, strict(kMiB)).close();
  const std::string control = folder_ + "/tmh.control", aside = folder_ + "/aside";
  std::filesystem::rename(control, aside);
  DomainOptions wrong = strict(kMiB);
  GetParam().make_wrong(&wrong);
  expect_error(GetParam().error == Errc::kBadDurability ? Errc::kBadDurability : Errc::kNotADomain,
               [&] { (void)Domain::open(folder_, wrong); });
  EXPECT_FALSE(std::filesystem::exists(control));
  std::filesystem::rename(aside, control);
  EXPECT_EQ(Domain::open(folder_).durability(), Durability::kStrict);
}

INSTANTIATE_TEST_SUITE_P(Options, RefusedOpenTest, testing::ValuesIn(kRefused),
                         [](const auto &refused) { return std::string(refused.param.name); });

}  // namespace
}  // namespace tmh::test
