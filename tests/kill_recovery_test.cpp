// tests/kill_recovery_test.cpp -- the process that recovers a domain dies at each step of the recovery; the next one recovers all the same.
// Invariant: every acknowledged commit is there, no partial one is, however often recovery was cut.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <string>

#include <tmh/tmh.hpp>

#include "levels/storage/log_format.h"
#include "platform/steps.h"
#include "tests/support/children.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

using platform::Step;

constexpr std::uint64_t kCommits = 200;
constexpr std::uint64_t kPages = 16;

DomainOptions strict() {
  DomainOptions options;
  options.durability = Durability::kStrict;
  options.log_file_bytes = storage::kLogFileBytesMin;
  options.flush_interval_ms = 60'000;
  return options;
}

class Table {
 public:
  explicit Table(const std::string &folder) : domain_(Domain::open(folder, strict())) {
    SegmentOptions raw;
    raw.size_bytes = kPages * kPageBytes;
    raw.layout = Layout::kRaw;
    segment_ = domain_.map("table.db", raw);
  }
  [[nodiscard]] Domain &domain() noexcept { return domain_; }
  [[nodiscard]] std::uint64_t &word(std::uint64_t page) const {
    return *reinterpret_cast<std::uint64_t *>(segment_.data() + page * kPageBytes);
  }

 private:
  Domain domain_;
  Segment segment_;
};

// Every commit stores its number in all pages. The last `buffered` are acknowledged only as buffered.
void commit_and_die(const std::string &folder, std::uint64_t first, std::uint64_t buffered) {
  Table table(folder);
  for (std::uint64_t i = first; i < first + kCommits; ++i) {
    table.domain().begin();
    for (std::uint64_t page = 0; page < kPages; ++page) table.word(page) = i;
    (void)table.domain().end(i + buffered < first + kCommits ? Durability::kStrict : Durability::kBuffered);
  }
  raise(SIGKILL);
}

class KillRecoveryTest : public testing::TestWithParam<std::uint32_t> {};

TEST_P(KillRecoveryTest, TheNextOneFindsEverything) {
  const TempFolder folder;
  const std::string crash_at = std::string(platform::step_name(static_cast<Step>(GetParam()))) + ":1";
  std::uint64_t last = 0;
  for (int life = 0; life < 4; ++life) {
    const std::uint64_t first = last + 1;
    EXPECT_EQ(run_in_child("writer", [&] { commit_and_die(folder / "domain", first, 20); }).signal, SIGKILL);
    last += kCommits;
    for (int cut = 0; cut <= life; ++cut) {
      const ChildEnd end = run_in_child("recovering", [&] {
        setenv("TMH_CRASH_AT", crash_at.c_str(), 1);
        const Table table(folder / "domain");
      });
      // Salvage has nothing to do, and is not passed, once a recovery has been cut behind it.
      if (cut == 0) {
        EXPECT_EQ(end.signal, SIGKILL) << "the step was not passed";
      }
    }
    const ChildEnd end = run_in_child("reader", [&] {
      Table table(folder / "domain");
      query(table.domain(), [&] {
        for (std::uint64_t page = 0; page < kPages; ++page) EXPECT_EQ(table.word(page), last);
      });
      table.domain().close();
    });
    EXPECT_TRUE(end.succeeded());
  }
}

INSTANTIATE_TEST_SUITE_P(EveryStep, KillRecoveryTest,
                         testing::Range(static_cast<std::uint32_t>(Step::kRecoverySalvaged),
                                        static_cast<std::uint32_t>(Step::kRecoveryDone) + 1),
                         [](const testing::TestParamInfo<std::uint32_t> &step) {
                           std::string name = platform::step_name(static_cast<Step>(step.param));
                           for (char &c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace tmh::test
