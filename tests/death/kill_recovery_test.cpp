// tests/death/kill_recovery_test.cpp -- the process that recovers a domain dies at each step of the
// recovery; the next one recovers all the same.
// Invariant: every acknowledged commit is there, no partial one is, however often recovery was cut.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <tuple>

#include <tmh/tmh.hpp>

#include "observe/steps.h"
#include "storage/log/log_format.h"
#include "tests/support/children.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

using observe::Step;

constexpr std::uint64_t kCommits = 200;
constexpr std::uint64_t kPages = 16;

DomainOptions strict(Levels levels) {
  DomainOptions options;
  options.levels = levels;
  options.policies.detection = Detection::kLazy;
  options.durability = Durability::kStrict;
  options.log_file_bytes = storage::kLogFileBytesMin;
  options.flush_interval_ms = 60'000;
  return options;
}

class Table {
 public:
  Table(const std::string &folder, Levels levels) : domain_(Domain::open(folder, strict(levels))) {
    SegmentOptions raw;
    raw.size_bytes = kPages * kPageBytes;
    raw.layout = Layout::kRaw;
    segment_ = domain_.map("table.db", raw);
  }
  [[nodiscard]] Domain &domain() noexcept { return domain_; }
  [[nodiscard]] field<std::uint64_t> &word(std::uint64_t page) const {
    return *reinterpret_cast<field<std::uint64_t> *>(segment_.data() + page * kPageBytes);
  }

 private:
  Domain domain_;
  Segment segment_;
};

// Every commit stores its number in all pages. The last `buffered` are acknowledged only as
// buffered. In a hybrid domain three of four commits are level 1's.
void commit_and_die(const std::string &folder, Levels levels, std::uint64_t first,
                    std::uint64_t buffered) {
  Table table(folder, levels);
  const Site lines(table.domain(), "lines", "on-capacity"),
      pages(table.domain(), "pages", "always");
  for (std::uint64_t i = first; i < first + kCommits; ++i) {
    atomically(i % 4 == 0 ? pages : lines,
               i + buffered < first + kCommits ? Durability::kStrict : Durability::kBuffered,
               [&](Fields) {
                 for (std::uint64_t page = 0; page < kPages; ++page) table.word(page).store(i);
               });
  }
  raise(SIGKILL);
}

class KillRecoveryTest : public testing::TestWithParam<std::tuple<Levels, std::uint32_t>> {};

TEST_P(KillRecoveryTest, TheNextOneFindsEverything) {
  const TempFolder folder;
  const Levels levels = std::get<0>(GetParam());
  const std::string crash_at =
      std::string(observe::step_name(static_cast<Step>(std::get<1>(GetParam())))) + ":1";
  std::uint64_t last = 0;
  for (int life = 0; life < 4; ++life) {
    const std::uint64_t first = last + 1;
    EXPECT_EQ(run_in_child("writer", [&] { commit_and_die(folder / "domain", levels, first, 20); })
                  .signal,
              SIGKILL);
    last += kCommits;
    for (int cut = 0; cut <= life; ++cut) {
      const ChildEnd end = run_in_child("recovering", [&] {
        setenv("TMH_CRASH_AT", crash_at.c_str(), 1);
        const Table table(folder / "domain", levels);
      });
      // Salvage has nothing to do, and is not passed, once a recovery has been cut behind it.
      if (cut == 0) {
        EXPECT_EQ(end.signal, SIGKILL) << "the step was not passed";
      }
    }
    const ChildEnd end = run_in_child("reader", [&] {
      Table table(folder / "domain", levels);
      query(table.domain(), [&] {
        for (std::uint64_t page = 0; page < kPages; ++page)
          EXPECT_EQ(table.word(page).load(), last);
      });
      table.domain().close();
    });
    EXPECT_TRUE(end.succeeded());
  }
}

INSTANTIATE_TEST_SUITE_P(
    EveryStep, KillRecoveryTest,
    testing::Combine(testing::Values(Levels::kPage, Levels::kHybrid),
                     testing::Range(static_cast<std::uint32_t>(Step::kRecoverySalvaged),
                                    static_cast<std::uint32_t>(Step::kRecoveryDone) + 1)),
    [](const testing::TestParamInfo<std::tuple<Levels, std::uint32_t>> &one) {
      std::string name = std::string(to_string(std::get<0>(one.param))) + "_" +
                         observe::step_name(static_cast<Step>(std::get<1>(one.param)));
      for (char &c : name) c = c == '-' ? '_' : c;
      return name;
    });

}  // namespace
}  // namespace tmh::test
