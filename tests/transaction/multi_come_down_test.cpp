// tests/transaction/multi_come_down_test.cpp -- adaptive sites of more processes than the machine
// has processors, which all change the same lines: at which level they run, by the counters.
// Invariants: (1) updates that only other updates of level 1 keep from committing stay there.
//             (2) sites that needed level 2 and need it no more are back at level 1 all together,
//                 although each finds the pages at level 2 because of the others; in a durable
//                 domain also pages whose versions the log does not have yet.
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <ostream>
#include <string>

#include <gtest/gtest.h>

#include <tmh/field.hpp>
#include <tmh/site.hpp>
#include <tmh/tmh.hpp>

#include "tests/support/children.h"
#include "tests/support/shared.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

constexpr std::uint32_t kProcesses = 6;
constexpr std::uint64_t kPages = 4;
// One that went up, and those that it kept from the pages meanwhile.
constexpr std::uint64_t kFew = 64;

struct Player {
  Player(const std::string &folder, Durability durability)
      : domain(Domain::open(folder, options(durability))),
        segment(domain.map("words", words())),
        site(domain, "update", "adaptive") {}
  static DomainOptions options(Durability durability) {
    DomainOptions options;
    options.levels = Levels::kHybrid;
    options.line = LineChoice::kSoftware;
    options.durability = durability;
    return options;
  }
  static SegmentOptions words() {
    SegmentOptions options;
    options.size_bytes = kPages * kPageBytes;
    options.layout = Layout::kRaw;
    return options;
  }
  [[nodiscard]] field<std::uint64_t> &word(std::uint64_t page) const {
    return *reinterpret_cast<field<std::uint64_t> *>(segment.data() + page * kPageBytes);
  }
  // All words are the same after each.
  void update(const std::function<void()> &first = [] {}) const {
    atomically(site, [&](Fields) {
      first();
      for (std::uint64_t page = 0; page < kPages; ++page) ++word(page);
    });
  }
  void expect_updates(std::uint64_t count) const {
    query(domain, [&] {
      for (std::uint64_t page = 0; page < kPages; ++page) EXPECT_EQ(word(page), count) << page;
    });
  }
  Domain domain;
  Segment segment;
  Site site;
};

struct Together {
  std::atomic<std::uint64_t> at_lines, at_pages;
  std::atomic<std::uint32_t> arrived;
  Turn begun;
  // All of them wait for each other.
  void meet() {
    if (arrived.fetch_add(1) + 1 == kProcesses) begun.reach(1);
    begun.await(1);
  }
  void count(const SiteReport &before, const SiteReport &after) {
    at_lines += after.line_commits - before.line_commits;
    at_pages += after.page_commits - before.page_commits;
  }
};

class ComeDownTest : public testing::TestWithParam<Durability> {
 protected:
  // Strict: each commit waits for the disk.
  [[nodiscard]] static std::uint64_t updates() {
    return GetParam() == Durability::kStrict ? 500 : 10000;
  }
  // Buffered: on a disk that takes its time versions wait for the log for long.
  const TempFolder folder_{GetParam() == Durability::kBuffered
                               ? std::filesystem::temp_directory_path().string()
                               : memory_folder()};
  const Shared<Together> together_;
};

TEST_P(ComeDownTest, WhatOnlyOthersDelayStays) {
  const Player parent(folder_.path(), GetParam());
  Children children;
  for (std::uint32_t i = 0; i < kProcesses; ++i)
    children.spawn("player " + std::to_string(i), [&] {
      const Player self(folder_.path(), GetParam());
      together_->meet();
      for (std::uint64_t n = 0; n < updates(); ++n) self.update();
      together_->count({}, self.site.report());
    });
  children.expect_success();
  EXPECT_EQ(together_->at_lines + together_->at_pages, kProcesses * updates());
  EXPECT_LE(together_->at_pages, kFew);
  parent.expect_updates(kProcesses * updates());
}

TEST_P(ComeDownTest, AllAreBackTogether) {
  constexpr std::uint64_t kLarge = 300;
  const Player parent(folder_.path(), GetParam());
  Children children;
  for (std::uint32_t i = 0; i < kProcesses; ++i)
    children.spawn("player " + std::to_string(i), [&] {
      const Player self(folder_.path(), GetParam());
      // Plain code needs level 2.
      for (std::uint64_t n = 0; n < kLarge; ++n)
        self.update([&] { atomically(self.domain, [] {}); });
      const SiteReport before = self.site.report();
      EXPECT_EQ(before.page_commits, kLarge);
      together_->meet();
      for (std::uint64_t n = 0; n < updates(); ++n) self.update();
      together_->count(before, self.site.report());
    });
  children.expect_success();
  EXPECT_EQ(together_->at_lines + together_->at_pages, kProcesses * updates());
  // What each has learned lasts for 256 instances.
  EXPECT_LE(together_->at_pages, kProcesses * 256 + kFew);
  parent.expect_updates(kProcesses * (kLarge + updates()));
}

INSTANTIATE_TEST_SUITE_P(Durabilities, ComeDownTest,
                         testing::Values(Durability::kNone, Durability::kBuffered,
                                         Durability::kStrict),
                         [](const auto &of) { return std::string(to_string(of.param)); });

}  // namespace
}  // namespace tmh::test
