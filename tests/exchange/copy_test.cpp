// tests/exchange/copy_test.cpp -- Domain::copy(): what a query copies, and that level 1 keeps its
// pages meanwhile.
// Source:     hierarchy/exchange/PROTOCOL.md, "Beside level 1".
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <tmh/tmh.hpp>

#include "tests/support/code_of.h"
#include "tests/support/hybrid_table.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

class CopyTest : public testing::Test {
 protected:
  MemoryFolder folder_;
};

std::uint64_t copied(const Table &table, std::size_t word) {
  std::uint64_t value = 0;
  table.domain.copy(&table.word(word), &value, sizeof value);
  return value;
}

TEST_F(CopyTest, LeavesPagesToLevelOne) {
  const Table table(folder_.path());
  const Site site(table.domain, "count");
  const auto count = [&](std::uint64_t value) {
    std::thread([&] {
      atomically(site, [&](Fields) {
        table.word(0).store(value);
        table.word(1).store(value);
      });
    }).join();
  };
  count(1);
  table.domain.begin_query();
  EXPECT_EQ(copied(table, 0), 1U);
  for (std::uint64_t i = 2; i < 50; ++i) {
    count(i);
    EXPECT_EQ(copied(table, 0), 1U);
    EXPECT_EQ(copied(table, 1), 1U);
  }
  table.domain.end_query();
  EXPECT_EQ(site.report().line_commits, 49U);
  EXPECT_EQ(table.domain.counters().recalls, 0U);
  table.domain.begin_query();
  EXPECT_EQ(copied(table, 1), 49U);
  // A load takes the page, and sees the same.
  EXPECT_EQ(table.word(1).load(), 49U);
  EXPECT_EQ(copied(table, 1), 49U);
  table.domain.end_query();
}

TEST_F(CopyTest, OfPagesOfLevelTwo) {
  for (const Levels levels : {Levels::kHybrid, Levels::kPage}) {
    DomainOptions options;
    options.levels = levels;
    const Table table(folder_ / std::to_string(static_cast<int>(levels)), options);
    atomically(table.domain, [&] {
      for (std::size_t i = 0; i < 4; ++i) table.word(i).store(i + 1);
    });
    table.domain.begin_query();
    EXPECT_EQ(copied(table, 0), 1U);
    table.domain.end_query();
    // In an update: its own stores.
    atomically(table.domain, [&] {
      table.word(2).store(77);
      EXPECT_EQ(copied(table, 2), 77U);
      EXPECT_EQ(copied(table, 3), 4U);
    });
    table.domain.begin_query();
    EXPECT_EQ(copied(table, 2), 77U);
    table.domain.end_query();
  }
}

TEST_F(CopyTest, AcrossPagesAndWhereNothingWasStored) {
  DomainOptions options;
  options.levels = Levels::kHybrid;
  const Domain domain = Domain::open(folder_ / "domain", options);
  SegmentOptions raw;
  raw.layout = Layout::kRaw;
  raw.size_bytes = 64 << 10;
  const Segment segment = domain.map("bytes", raw);
  atomically(domain, [&] { std::memset(segment.data() + 4000, 'a', 5000); });
  std::vector<std::byte> all(64 << 10, std::byte{1});
  domain.begin_query();
  domain.copy(segment.data(), all.data(), all.size());
  domain.end_query();
  for (std::size_t i = 0; i < all.size(); ++i)
    ASSERT_EQ(all[i], i >= 4000 && i < 9000 ? std::byte{'a'} : std::byte{0}) << i;
}

TEST_F(CopyTest, IsRefused) {
  const Table table(folder_.path());
  std::array<std::byte, 64> to;
  EXPECT_EQ(code_of([&] { table.domain.copy(&table.word(0), to.data(), 8); }),
            Errc::kEndWithoutBegin);
  table.domain.begin_query();
  EXPECT_EQ(code_of([&] { table.domain.copy(to.data(), to.data(), 8); }), Errc::kNotMapped);
  EXPECT_EQ(code_of([&] { table.domain.copy(&table.word(0), to.data(), std::size_t{1} << 40); }),
            Errc::kNotMapped);
  table.domain.copy(nullptr, nullptr, 0);
  table.domain.end_query();
  // Level 1 has no snapshot to copy of.
  const Site site(table.domain, "lines", "never");
  EXPECT_EQ(code_of([&] {
              atomically(site, [&](Fields) {
                table.word(0).store(1);
                table.domain.copy(&table.word(0), to.data(), 8);
              });
            }),
            Errc::kEndWithoutBegin);
}

TEST_F(CopyTest, OfThePast) {
  DomainOptions options;
  options.levels = Levels::kPage;
  options.history = {.bytes = kHistoryBytesMin};
  const Table table(folder_.path(), options);
  atomically(table.domain, [&] { table.word(0).store(1); });
  const std::uint64_t then = table.domain.past().now;
  for (std::uint64_t i = 2; i < 9; ++i) atomically(table.domain, [&] { table.word(0).store(i); });
  table.domain.begin_query_at(Moment::clock(then));
  EXPECT_EQ(copied(table, 0), 1U);
  EXPECT_EQ(table.word(0).load(), 1U);
  EXPECT_EQ(copied(table, 0), 1U);
  table.domain.end_query();
}

}  // namespace
}  // namespace tmh::test
