// tests/rtm_test.cpp -- level 1 in hardware: RTM sites of one process, beside level 2 and software lines.
// Invariants: what committed is there, once, whichever level ran it; a body leaves RTM by no way but its end; counters say what happened.
// Skipped:    where RTM does not work, with the library's sentence. Nothing here demands that one attempt commits.
// Source:     thesis, section 6.2; hierarchy/PROTOCOL.md, "Hardware lines".
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <thread>
#include <vector>

#include <tmh/tmh.hpp>

#include "tests/support/children.h"
#include "tests/support/rtm_table.h"
#include "tests/support/seed.h"

namespace tmh::test {
namespace {

class RtmTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = why_no_rtm(); !why.empty()) GTEST_SKIP() << why;
  }
  TempFolder folder_;
};

TEST_F(RtmTest, PlainBodyCommitsInHardwareAndPagesSeeIt) {
  const RtmTable table(folder_.path());
  const Site site(table.domain, "count", {}, BodyKind::kPlain);
  for (int i = 0; i < 1000; ++i) atomically(site, [&] { ++table.word(3); });
  const SiteReport report = site.report();
  EXPECT_EQ(report.line_commits + report.page_commits, 1000U);
  EXPECT_GT(report.hardware_commits, 900U)
      << "zero " << report.hardware_zero << " findings " << report.hardware_findings << " conflicts "
      << report.hardware_conflicts << " capacity " << report.hardware_capacity << " gate " << report.hardware_gate;
  EXPECT_EQ(table.committed(3), 1000U);
}

TEST_F(RtmTest, ThreadsAndProcessesKeepTheSum) {
  constexpr std::uint64_t kStart = 1000, kCells = 64;
  constexpr int kPerThread = 20'000;
  const auto cell = [](const RtmTable &table, std::uint64_t i) -> std::uint64_t & {
    return table.word(i % 16, i / 16 * 8);
  };
  const RtmTable first(folder_.path());
  atomically(first.domain, [&] {
    for (std::uint64_t i = 0; i < kCells; ++i) cell(first, i) = kStart;
  });
  Children children;
  for (int process = 0; process < 2; ++process) {
    children.spawn("process " + std::to_string(process), [&, process] {
      const RtmTable table(folder_.path());
      const Site site(table.domain, "transfer", {}, BodyKind::kPlain);
      std::vector<std::thread> threads;
      for (std::uint64_t t = 0; t < 2; ++t) {
        threads.emplace_back([&, t] {
          std::uint64_t random = seed() + 10 * static_cast<std::uint64_t>(process) + t;
          const auto draw = [&random] {
            return (random = random * 6364136223846793005ull + 1442695040888963407ull) >> 33;
          };
          for (int i = 0; i < kPerThread; ++i) {
            const std::uint64_t from = draw() % kCells, to = draw() % kCells;
            atomically(site, [&] {
              --cell(table, from);
              ++cell(table, to);
            });
          }
        });
      }
      for (std::thread &thread : threads) thread.join();
      const SiteReport report = site.report();
      EXPECT_EQ(report.line_commits + report.page_commits, 2U * kPerThread);
      std::printf("hardware %lu pages %lu conflicts %lu capacity %lu zero %lu gate %lu findings %lu\n",
                  report.hardware_commits, report.page_commits, report.hardware_conflicts, report.hardware_capacity,
                  report.hardware_zero, report.hardware_gate, report.hardware_findings);
    });
  }
  children.spawn("level 2", [&] {
    const RtmTable table(folder_.path());
    for (int i = 0; i < 200; ++i) {
      std::uint64_t sum = 0;
      query(table.domain, [&] {
        sum = 0;
        for (std::uint64_t c = 0; c < kCells; ++c) sum += cell(table, c);
      });
      ASSERT_EQ(sum, kStart * kCells);
      atomically(table.domain, [&] {
        --cell(table, static_cast<std::uint64_t>(i) % kCells);
        ++cell(table, static_cast<std::uint64_t>(i) * 7 % kCells);
      });
    }
  });
  children.spawn("software", [&] {
    const RtmTable table(folder_.path(), hybrid_options(LineChoice::kSoftware));
    const Site site(table.domain, "transfer");
    for (std::uint64_t i = 0; i < 2000; ++i) {
      atomically(site, [&] {
        auto &from = reinterpret_cast<field<std::uint64_t> &>(cell(table, i % kCells));
        auto &to = reinterpret_cast<field<std::uint64_t> &>(cell(table, i * 11 % kCells));
        --from;
        ++to;
      });
    }
  });
  children.expect_success();
  std::uint64_t sum = 0;
  query(first.domain, [&] {
    for (std::uint64_t c = 0; c < kCells; ++c) sum += cell(first, c);
  });
  EXPECT_EQ(sum, kStart * kCells);
}

}  // namespace
}  // namespace tmh::test
