// tests/transaction/site_queries_test.cpp -- tmh::query(site, body): queries of a site in a hybrid
// domain, at software level 1 while they are small.
// Invariants: (1) a small one takes no page from level 1; (2) what does not fit, or stores, goes to
//             level 2 whatever the site's policy says, and what meets changes when it says so; at
//             level 2 a query cannot fail; (3) what queries have learned is not the updates', nor
//             the other way round; (4) it sees one snapshot; (5) nested in an update it is
//             subsumed, an update in it is refused.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <tmh/tmh.hpp>

#include "hierarchy/api/handles.h"
#include "hierarchy/domain/domain_impl.h"
#include "hierarchy/domain/line_domain.h"
#include "tests/support/code_of.h"
#include "tests/support/temp_folder.h"
#include "tests/support/thread_table.h"

namespace tmh::test {
namespace {

constexpr std::uint64_t kPages = 64, kLinesPerPage = kPageBytes / 64;

class SiteQueriesTest : public testing::Test {
 protected:
  explicit SiteQueriesTest(const std::string &capacity = {}, CrossPolicy cross = {}) {
    DomainOptions options;
    options.policies.cross = cross;
    options.levels = Levels::kHybrid;
    options.line = LineChoice::kSoftware;  // whatever TMH_LINE says
    options.policies.capacity = capacity;
    options.stray = Stray::kAllow;  // one of them stores
    domain_ = Domain::open(folder_.path(), options);
    segment_ = domain_.map("words.raw", words_options(kPages));
  }
  // The first one of a line.
  [[nodiscard]] field<std::uint64_t> &word(std::uint64_t page, std::uint64_t line = 0) const {
    return *reinterpret_cast<field<std::uint64_t> *>(segment_.data() + page * kPageBytes +
                                                     line * 64);
  }
  [[nodiscard]] std::uint64_t sum_of_lines() const {
    std::uint64_t sum = 0;
    for (std::uint64_t page = 0; page < kPages; ++page)
      for (std::uint64_t line = 0; line < kLinesPerPage; ++line) sum += word(page, line);
    return sum;
  }

  MemoryFolder folder_;
  Domain domain_;
  Segment segment_;
};

TEST_F(SiteQueriesTest, SmallOneTakesNoPageFromLevel1) {
  const Site site(domain_, "small");
  for (std::uint64_t i = 1; i <= 10; ++i) {
    atomically(site, [&](Fields) { word(0).store(i), word(1).store(i); });
    EXPECT_EQ(query(site, [&](Fields) { return word(0) + word(1); }), 2 * i);
  }
  EXPECT_EQ(site.report().line_commits, 20U);
  EXPECT_EQ(site.report().page_commits, 0U);
  EXPECT_EQ(domain_.counters().recalls, 0U);
  EXPECT_EQ(domain_.counters().queries, 0U);
}

TEST_F(SiteQueriesTest, SeesWhatLevel2HasCommitted) {
  const Site site(domain_, "small");
  atomically(domain_, [&] { word(5).store(7); });
  EXPECT_EQ(query(site, [&](Fields) { return word(5).load(); }), 7U);
}

TEST_F(SiteQueriesTest, ALargeOneStaysWhereNobodyChangesWhatItReads) {
  const Site site(domain_, "large", "on-capacity");
  for (int i = 0; i < 1000; ++i)  // among them attempts that are timed
    ASSERT_EQ(query(site, [&](Fields) { return sum_of_lines(); }), 0U);
  EXPECT_EQ(site.report().line_commits, 1000U);
  EXPECT_EQ(site.report().page_commits, 0U);
}

TEST_F(SiteQueriesTest, ALargeOneBesideUpdatesGoesUpAndTheSiteLearnsItForQueriesAlone) {
  const Site others(domain_, "others");
  const auto change = [&] {
    std::thread([&] { atomically(others, [&](Fields) { ++word(kPages - 1); }); }).join();
  };
  for (const char *policy : {"adaptive", "never", "on-capacity"}) {
    const Site site(domain_, policy, policy);
    int runs = 0;
    const auto sum = [&](int changed_in) {
      const std::uint64_t changes = others.report().line_commits;
      EXPECT_GE(query(site,
                      [&](Fields) {
                        const std::uint64_t first = word(0);
                        if (++runs == changed_in) change();
                        return first + sum_of_lines();
                      }),
                changes)
          << policy;
    };
    sum(1);
    EXPECT_EQ(runs, 3) << policy << ": without a log, with one, at level 2";
    EXPECT_EQ(site.report().escalations_capacity, 1U) << policy;
    EXPECT_EQ(site.report().page_commits, 1U) << policy;
    sum(0);
    EXPECT_EQ(runs, 4) << policy;
    EXPECT_EQ(site.report().line_aborts, 2U) << policy;
    atomically(site, [&](Fields) { word(0).store(0); });
    EXPECT_EQ(site.report().line_commits, 1U) << policy;
    // Tries level 1 again.
    sum(5);
    EXPECT_EQ(runs, 7) << policy;
  }
}

TEST_F(SiteQueriesTest, ASiteThatIsAlwaysAtPagesAsksItsQueriesThereToo) {
  const Site site(domain_, "pages", "always");
  EXPECT_EQ(query(site, [&](Fields) { return word(0).load(); }), 0U);
  EXPECT_EQ(site.report().page_commits, 1U);
  EXPECT_EQ(site.report().line_aborts, 0U);
}

TEST_F(SiteQueriesTest, AfterAChangeItBeginsAgainAndGoesUpWhenItsPolicySays) {
  const Site others(domain_, "others");
  for (const char *policy : {"never", "after-n=2"}) {
    const Site site(domain_, policy, policy);
    int runs = 0;
    const bool is_equal = query(site, [&](Fields) {
      const std::uint64_t first = word(0);
      if (++runs <= 3)
        std::thread([&] { atomically(others, [&](Fields) { ++word(0), ++word(1); }); }).join();
      return word(1).load() == first;
    });
    EXPECT_TRUE(is_equal) << policy;
    EXPECT_EQ(runs, 4) << policy << ": the first kept no log, and does not count";
    const bool stays = site.report().escalation.kind == EscalationKind::kNever;
    EXPECT_EQ(site.report().escalations_attempts, stays ? 0U : 1U) << policy;
    EXPECT_EQ(site.report().line_commits, stays ? 1U : 0U) << policy;
  }
}

TEST_F(SiteQueriesTest, AChangeOfWhatItHasNotReadDisturbsItOnce) {
  const Site site(domain_, "meets", "after-n=1"), others(domain_, "others");
  std::uint64_t runs = 0;
  query(site, [&](Fields) {
    EXPECT_EQ(word(0).load(), 0U);
    if (++runs <= 2)
      std::thread([&] { atomically(others, [&](Fields) { word(1).store(runs); }); }).join();
    EXPECT_EQ(word(1).load(), 2U);  // by the first run it is not read
  });
  EXPECT_EQ(runs, 2U);
  EXPECT_EQ(site.report().line_aborts, 1U);
  EXPECT_EQ(site.report().line_commits, 1U);
}

TEST_F(SiteQueriesTest, AStoreIsReportedWithItsAddressAndUndone) {
  const Site site(domain_, "stores");
  try {
    query(site, [&](Fields) { word(3, 2).store(9); });
    ADD_FAILURE() << "a query stored";
  } catch (const Error &error) {
    EXPECT_EQ(error.errc(), Errc::kQueryWrote);
    char at[32];
    std::snprintf(at, sizeof at, "%p", static_cast<const void *>(&word(3, 2)));
    EXPECT_NE(std::string(error.what()).find(at), std::string::npos) << error.what();
  }
  EXPECT_EQ(query(site, [&](Fields) { return word(3, 2).load(); }), 0U);
}

TEST_F(SiteQueriesTest, NestedInAnUpdateItIsSubsumed) {
  const Site site(domain_, "nests");
  atomically(site, [&](Fields) {
    word(0).store(5);
    query(site, [&](Fields) {
      EXPECT_EQ(word(0).load(), 5U);
      word(1).store(6);
    });
  });
  EXPECT_EQ(site.report().line_commits, 1U);
  EXPECT_EQ(site.report().line_aborts, 0U);
  EXPECT_EQ(query(site, [&](Fields) { return word(0) + word(1); }), 11U);
}

TEST_F(SiteQueriesTest, AnUpdateInItIsRefusedAndAQueryIsNot) {
  const Site site(domain_, "nests");
  EXPECT_EQ(
      query(site, [&](Fields) { return query(site, [&](Fields) { return word(0).load(); }); }), 0U);
  EXPECT_EQ(site.report().line_commits, 1U);
  try {
    query(site, [&](Fields) { atomically(site, [&](Fields) { ++word(0); }); });
    ADD_FAILURE() << "an update in a query";
  } catch (const Error &error) {
    EXPECT_EQ(error.errc(), Errc::kNestedMisuse);
  }
  try {
    query(site, [](Fields) { become_irrevocable(); });
    ADD_FAILURE() << "an irrevocable query";
  } catch (const Error &error) {
    EXPECT_EQ(error.errc(), Errc::kNestedMisuse);
  }
  EXPECT_EQ(query(site, [&](Fields) { return word(0).load(); }), 0U);
}

TEST_F(SiteQueriesTest, AnExceptionLeavesIt) {
  const Site site(domain_, "throws");
  EXPECT_THROW(query(site, [](Fields) { throw std::runtime_error("user's"); }), std::runtime_error);
  EXPECT_EQ(query(site, [&](Fields) { return word(0).load(); }), 0U);
}

TEST_F(SiteQueriesTest, RetryWaitsForAChange) {
  const Site site(domain_, "waits"), others(domain_, "others");
  std::atomic<bool> has_looked{false};
  std::thread setter([&] {
    while (!has_looked.load()) std::this_thread::yield();
    atomically(others, [&](Fields) { word(0).store(3); });
  });
  EXPECT_EQ(query(site,
                  [&](Fields) {
                    has_looked = true;
                    if (word(0).load() == 0) retry();
                    return word(0).load();
                  }),
            3U);
  setter.join();
  EXPECT_EQ(site.report().page_commits, 0U);
}

// An adaptive site goes by measured time: where one instance takes long (a sanitizer, a busy
// machine), nearly all may find their pages at level 2, and stay there. One that never escalates
// stays at level 1 but for queries that keep aborting.
TEST_F(SiteQueriesTest, ManyThreadsSeeOneSnapshotEach) {
  constexpr std::uint64_t kThreads = 4, kRounds = 3000, kWords = 32, kEach = 100;
  constexpr std::uint64_t kUpdates = kThreads * kRounds / 2;  // of the site, beside the first one
  for (const char *policy : {"adaptive", "never"}) {
    const Site site(domain_, policy, policy);
    atomically(site, [&](Fields) {
      for (std::uint64_t i = 0; i < kWords; ++i) word(i % 4, i / 4).store(kEach);
    });
    std::vector<std::thread> threads;
    for (std::uint64_t t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        std::uint64_t random = t;
        for (std::uint64_t round = 0; round < kRounds; ++round) {
          random = random * 6364136223846793005ull + 1442695040888963407ull;
          const std::uint64_t from = random >> 33 & (kWords - 1), to = random >> 43 & (kWords - 1);
          if (round % 2 == 0) {
            atomically(site, [&](Fields) { --word(from % 4, from / 4), ++word(to % 4, to / 4); });
          } else if (round % 64 == 1) {  // at level 2, so that pages go to and fro
            atomically(domain_, [&] { --word(from % 4, from / 4), ++word(to % 4, to / 4); });
          } else {
            const std::uint64_t sum = query(site, [&](Fields) {
              std::uint64_t all = 0;
              for (std::uint64_t i = 0; i < kWords; ++i) all += word(i % 4, i / 4);
              return all;
            });
            ASSERT_EQ(sum, kWords * kEach);
          }
        }
      });
    for (std::thread &thread : threads) thread.join();
    if (std::string_view(policy) == "never") {
      EXPECT_GT(site.report().line_commits, kUpdates + 1) << "no query at level 1";
    }
  }
}

TEST_F(SiteQueriesTest, WithoutAContextItRunsAtLevel2) {
  const Site site(domain_, "comes too late", "never");
  const auto impl = detail::impl_of(domain_);
  line::LineMemory &lines = impl->lines()->memory();
  std::vector<std::uint32_t> taken(1);
  while (lines.take_context(impl->slot(),
                            impl->memory().participant(impl->slot()).incarnation.load(),
                            &taken.back()) == Errc::kOk)
    taken.push_back(0);
  taken.pop_back();
  EXPECT_EQ(code_of([&] { atomically(site, [&](Fields) { ++word(0); }); }),
            Errc::kTooManyParticipants);
  EXPECT_EQ(query(site, [&](Fields) { return word(0).load(); }), 0U);
  EXPECT_EQ(site.report().page_commits, 1U);
  for (const std::uint32_t number : taken) lines.give_back(number);
}

class ImpoliteSiteQueriesTest : public SiteQueriesTest {
 protected:
  ImpoliteSiteQueriesTest() : SiteQueriesTest({}, CrossPolicy::kAbortUpper) {}
};

// Level 1 may fail updates of level 2 here. A query has no reason to: it goes up.
TEST_F(ImpoliteSiteQueriesTest, NobodyAboveIsFailedForThem) {
  const Site site(domain_, "asks", "never");
  domain_.begin();
  word(0).store(1);
  std::thread([&] { EXPECT_EQ(query(site, [&](Fields) { return word(0).load(); }), 0U); }).join();
  EXPECT_EQ(domain_.end(), Status::kCommitted);
  EXPECT_EQ(site.report().line_aborts, 1U);
  EXPECT_EQ(site.report().page_commits, 1U);
  EXPECT_EQ(query(site, [&](Fields) { return word(0).load(); }), 1U);
}

class LimitedSiteQueriesTest : public SiteQueriesTest {
 protected:
  LimitedSiteQueriesTest() : SiteQueriesTest("1KiB/1/64,read=4") {}
};

TEST_F(LimitedSiteQueriesTest, TheCapacityModelHoldsForThemToo) {
  const Site site(domain_, "limited");
  EXPECT_EQ(query(site, [&](Fields) { return word(0) + word(1) + word(2); }), 0U);
  EXPECT_EQ(site.report().line_commits, 1U);
  EXPECT_EQ(query(site, [&](Fields) { return word(0) + word(1) + word(2) + word(3) + word(4); }),
            0U);
  EXPECT_EQ(site.report().page_commits, 1U);
}

}  // namespace
}  // namespace tmh::test
