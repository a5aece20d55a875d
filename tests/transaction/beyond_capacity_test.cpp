// tests/transaction/beyond_capacity_test.cpp -- updates that exceed the capacity model of level 1:
// adaptive sites run them there without it.
// Invariants: (1) such an update commits at level 1, whole, and takes no page from it; the site's
//             next ones begin without the model, until one fits again. (2) what cannot be done at
//             level 1 either, or exceeds software lines, goes to level 2. (3) beside others first;
//             after a failure nobody else commits until it has ended, by whatever end. (4)
//             adaptive-pages, queries and domains without a model know none of this.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include <tmh/tmh.hpp>

#include "hierarchy/api/handles.h"
#include "hierarchy/domain/domain_impl.h"
#include "hierarchy/domain/line_domain.h"
#include "hierarchy/transaction/beyond_capacity.h"
#include "tests/support/children.h"
#include "tests/support/temp_folder.h"
#include "tests/support/thread_table.h"

namespace tmh::test {
namespace {

constexpr std::uint64_t kPages = 64, kLinesPerPage = kPageBytes / 64;
constexpr const char *kModel = "1KiB/1/64";  // 16 lines

class BeyondCapacityTest : public testing::Test {
 protected:
  void open(const std::string &capacity = kModel, std::uint64_t pages = kPages) {
    DomainOptions options;
    options.levels = Levels::kHybrid;
    options.line = LineChoice::kSoftware;  // whatever TMH_LINE says
    options.policies.capacity = capacity;
    domain_ = Domain::open(folder_.path(), options);
    segment_ = domain_.map("words.raw", words_options(pages));
  }
  // The first one of a line.
  [[nodiscard]] field<std::uint64_t> &word(std::uint64_t page, std::uint64_t line = 0) const {
    return *reinterpret_cast<field<std::uint64_t> *>(segment_.data() + page * kPageBytes +
                                                     line * 64);
  }
  void add_to_all(std::uint64_t pages = kPages) const {
    for (std::uint64_t page = 0; page < pages; ++page) ++word(page);
  }
  void expect_all(std::uint64_t value) const {
    query(domain_, [&] {
      for (std::uint64_t page = 0; page < kPages; ++page)
        EXPECT_EQ(word(page).load(), value) << page;
    });
  }
  // A commit at level 1 by another thread.
  void commit_elsewhere(const Site &site, std::uint64_t page) const {
    std::thread([&] { atomically(site, [&](Fields) { ++word(page); }); }).join();
  }
  [[nodiscard]] std::uint64_t priority() const {
    return detail::impl_of(domain_)->lines()->memory().state().priority.load();
  }

  MemoryFolder folder_;
  Domain domain_;
  Segment segment_;
};

TEST_F(BeyondCapacityTest, AnUpdateStaysAtLevel1AndTheNextOnesBeginWithoutTheModel) {
  open();
  const Site site(domain_, "large", "adaptive");
  for (std::uint64_t i = 1; i <= 10; ++i) atomically(site, [&](Fields) { add_to_all(); });
  const SiteReport report = site.report();
  EXPECT_EQ(report.line_commits, 10U);
  EXPECT_EQ(report.unlimited_commits, 10U);
  EXPECT_EQ(report.page_commits, 0U);
  EXPECT_EQ(
      report.escalations_capacity + report.escalations_attempts + report.escalations_needs_pages,
      0U);
  // The first, and one each after one and after two more that began without it; the next comes
  // after four.
  EXPECT_EQ(report.line_aborts, 3U);
  EXPECT_EQ(report.line_aborts_by_cause[static_cast<std::size_t>(AbortCause::kCapacity)], 3U);
  EXPECT_EQ(report.de_escalations, 0U);
  EXPECT_EQ(domain_.counters().unlimited_commits, 10U);
  EXPECT_EQ(domain_.counters().recalls, 0U);
  EXPECT_EQ(priority(), 0U);
  expect_all(10);
}

TEST_F(BeyondCapacityTest, ASiteWhoseWorkShrinksIsBackWithinTheModel) {
  open();
  const Site site(domain_, "shrinks", "adaptive");
  for (int i = 0; i < 8; ++i) atomically(site, [&](Fields) { add_to_all(); });
  const std::uint64_t before = site.report().unlimited_commits;
  for (int i = 0; i < 600; ++i) atomically(site, [&](Fields) { ++word(0); });
  EXPECT_LE(site.report().unlimited_commits, before + 16) << "those that still began without it";
  EXPECT_GT(site.report().de_escalations, 0U);
  EXPECT_EQ(site.report().page_commits, 0U);
}

TEST_F(BeyondCapacityTest, AdaptivePagesGoesToLevel2) {
  open();
  const Site site(domain_, "large", "adaptive-pages");
  for (int i = 0; i < 4; ++i) atomically(site, [&](Fields) { add_to_all(); });
  EXPECT_EQ(site.report().page_commits, 4U);
  EXPECT_EQ(site.report().unlimited_commits, 0U);
  EXPECT_GT(site.report().escalations_capacity, 0U);
  expect_all(4);
}

TEST_F(BeyondCapacityTest, QueriesGoToLevel2) {
  open();
  const Site site(domain_, "reads", "adaptive");
  for (int i = 0; i < 3; ++i) {
    const std::uint64_t sum = query(site, [&](Fields) {
      std::uint64_t words = 0;
      for (std::uint64_t page = 0; page < kPages; ++page)
        for (std::uint64_t line = 0; line < kLinesPerPage; ++line) words += word(page, line);
      return words;
    });
    EXPECT_EQ(sum, 0U);
  }
  EXPECT_EQ(site.report().page_commits, 3U);
  EXPECT_EQ(site.report().unlimited_commits, 0U);
}

// Software lines hold 16,384 written lines; level 2 any number.
TEST_F(BeyondCapacityTest, WhatExceedsSoftwareLinesGoesToLevel2) {
  constexpr std::uint64_t kMany = 300;
  open(kModel, kMany);
  const Site site(domain_, "larger", "adaptive");
  const auto store_all = [&](std::uint64_t value) {
    atomically(site, [&](Fields) {
      for (std::uint64_t page = 0; page < kMany; ++page)
        for (std::uint64_t line = 0; line < kLinesPerPage; ++line) word(page, line).store(value);
    });
  };
  store_all(1);
  EXPECT_EQ(site.report().line_aborts, 2U) << "with the model and without it";
  EXPECT_EQ(site.report().page_commits, 1U);
  EXPECT_EQ(site.report().escalations_capacity, 1U);
  store_all(2);
  EXPECT_EQ(site.report().line_aborts, 2U) << "the site knows both by now";
  EXPECT_EQ(site.report().page_commits, 2U);
  query(domain_, [&] {
    for (std::uint64_t page = 0; page < kMany; ++page)
      for (std::uint64_t line = 0; line < kLinesPerPage; ++line)
        ASSERT_EQ(word(page, line).load(), 2U);
  });
}

TEST_F(BeyondCapacityTest, WhatLevel1CannotDoGoesToLevel2) {
  open();
  const Site site(domain_, "irrevocable", "adaptive");
  for (int i = 0; i < 3; ++i) {
    atomically(site, [&](Fields) {
      add_to_all();
      become_irrevocable();
    });
  }
  EXPECT_EQ(site.report().page_commits, 3U);
  EXPECT_EQ(site.report().unlimited_commits, 0U);
  EXPECT_GT(site.report().escalations_needs_pages, 0U);
  EXPECT_EQ(priority(), 0U);
  expect_all(3);
}

TEST_F(BeyondCapacityTest, AnExceptionUndoesIt) {
  open();
  const Site site(domain_, "throws", "adaptive");
  atomically(site, [&](Fields) { add_to_all(); });
  EXPECT_THROW(atomically(site,
                          [&](Fields) {
                            add_to_all();
                            throw std::runtime_error("no");
                          }),
               std::runtime_error);
  expect_all(1);
  EXPECT_EQ(priority(), 0U);
}

// Runs its first attempt without the model, in which another thread commits what it has read.
class Duel {
 public:
  Duel(const Site &large, std::function<void()> commits)
      : large_(large), commits_(std::move(commits)) {}
  template <class Body>
  void run(const Body &body) {
    int attempt = 0;
    atomically(large_, [&](Fields) {
      body();  // with the model it ends here
      if (++attempt == 1) commits_();
    });
    EXPECT_EQ(attempt, 2);
  }

 private:
  const Site &large_;
  const std::function<void()> commits_;
};

TEST_F(BeyondCapacityTest, WhoFailsBesideOthersGoesOnAlone) {
  open();
  const Site large(domain_, "large", "adaptive"), small(domain_, "small", "never");
  std::uint64_t alone = 0;
  Duel(large, [&] {
    EXPECT_EQ(priority(), 0U) << "beside others first";
    commit_elsewhere(small, 0);
  }).run([&] {
    add_to_all();
    if (priority() != 0) ++alone;
  });
  EXPECT_EQ(alone, 1U);
  EXPECT_EQ(priority(), 0U);
  EXPECT_EQ(large.report().unlimited_commits, 1U);
  EXPECT_EQ(large.report().page_commits, 0U);
  atomically(large, [&](Fields) {
    add_to_all();
    EXPECT_NE(priority(), 0U) << "the next one is alone at once";
  });
  query(domain_, [&] {
    EXPECT_EQ(word(0).load(), 3U);
    EXPECT_EQ(word(1).load(), 2U);
  });
}

TEST_F(BeyondCapacityTest, OthersGoOnBehindTheDeathOfOneThatRanAlone) {
  open();
  const ChildEnd end = run_in_child("runs alone", [&] {
    domain_ = {};
    open();
    const Site large(domain_, "large", "adaptive"), small(domain_, "small", "never");
    int attempt = 0;
    atomically(large, [&](Fields) {
      add_to_all();
      if (++attempt == 1) commit_elsewhere(small, 0);
      if (priority() != 0) die_unless_failed();
    });
  });
  EXPECT_EQ(end.signal, SIGKILL);
  EXPECT_NE(priority(), 0U);
  const Site site(domain_, "goes on", "never");
  atomically(site, [&](Fields) { ++word(0); });
  EXPECT_EQ(priority(), 0U);
  query(domain_, [&] {
    EXPECT_EQ(word(0).load(), 2U);
    EXPECT_EQ(word(1).load(), 0U);
  });
}

TEST(BeyondCapacityLearns, RunsAreDoubledByFailuresAndHalvedByCommits) {
  hierarchy::BeyondCapacity beyond;
  EXPECT_FALSE(beyond.is_expected());
  beyond.escalated_from_model(true);
  EXPECT_TRUE(beyond.is_expected());
  beyond.escalated_from_model(false);
  EXPECT_FALSE(beyond.is_expected());
  const auto runs = [](const auto &begins) {
    int count = 0;
    while (begins()) ++count;
    return count;
  };
  const auto at_pages = [&] { return runs([&] { return beyond.begins_at_pages(); }); };
  const auto alone = [&] { return runs([&] { return beyond.begins_alone(); }); };
  EXPECT_EQ(at_pages() + alone(), 0);
  for (int penalty = 1; penalty <= 512; penalty *= 2) {
    beyond.escalated();
    EXPECT_EQ(at_pages(), std::min<int>(penalty, hierarchy::SiteState::kPageRunsMax));
    beyond.failed_beside_others();
    EXPECT_EQ(alone(), std::min<int>(penalty, hierarchy::SiteState::kPageRunsMax));
  }
  for (int i = 0; i < 8; ++i) beyond.committed_at_lines(true);
  beyond.escalated();
  beyond.failed_beside_others();
  EXPECT_EQ(at_pages(), 2) << "256 halved eight times, and doubled";
  EXPECT_EQ(alone(), hierarchy::SiteState::kPageRunsMax)
      << "who was alone says nothing of those beside others";
  for (int i = 0; i < 9; ++i) beyond.committed_at_lines(false);
  beyond.failed_beside_others();
  EXPECT_EQ(alone(), 1);
}

}  // namespace
}  // namespace tmh::test
