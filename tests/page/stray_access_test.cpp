// tests/page/stray_access_test.cpp -- accesses to a segment that no instance covers fault, and one
// sentence says what they are.
// Invariants: with protection keys, in every tracking mode, (1) a load or store outside any
//             instance dies by SIGSEGV, whatever the process has written there lately, (2) so does
//             a plain access of a body at level 1 or in its thread's own view, a store in a query,
//             and an access of a signal handler, (3) a system call on segment memory gets EFAULT
//             there, (4) TMH_STRAY=allow leaves all of it to the tracking. Without keys, (5) a
//             demanded fault is refused, and exact signal tracking still finds (1). Everywhere, (6)
//             behind a segment's end and after a close the sentence is as clear.
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <tmh/field.hpp>
#include <tmh/lab.hpp>
#include <tmh/pool.hpp>
#include <tmh/site.hpp>

#include "platform/protection_keys.h"
#include "tests/support/durable_folder.h"
#include "tests/support/last_words.h"
#include "tests/support/slowdown.h"
#include "tests/support/stage.h"

namespace tmh::test {
namespace {

void expect_stray(const std::string &part, const std::function<void()> &body,
                  const std::string &name = "stray") {
  const Death death = death_of(name, body);
  EXPECT_EQ(death.signal, SIGSEGV) << death.said;
  EXPECT_NE(death.said.find("tmh: stray "), std::string::npos) << death.said;
  EXPECT_NE(death.said.find(part), std::string::npos) << death.said;
  EXPECT_EQ(death.said.find('\n'), death.said.size() - 1)
      << "more than one sentence: " << death.said;
}

class StrayTest : public ModeTest {
 protected:
  void SetUp() override {
    ModeTest::SetUp();
    if (IsSkipped()) return;
    if (!platform::has_keys()) GTEST_SKIP() << "protection keys: " << platform::key_refusal();
  }
};
INSTANTIATE_TEST_SUITE_P(Modes, StrayTest, testing::ValuesIn(kModes), mode_name);

TEST_P(StrayTest, AccessOutsideAnInstanceFaultsWhateverWasTouchedBefore) {
  for (const bool written_before : {false, true})
    for (const bool writes : {false, true})
      expect_stray(writes ? "store to segment 'first.raw', offset 0x1000"
                          : "load from segment 'first.raw', offset 0x1000",
                   [&] {
                     const Actor self = actor();
                     if (written_before)
                       for (std::uint64_t round = 1; round <= 3; ++round) self.commit(1, round);
                     writes ? self.set(1, 9) : static_cast<void>(self.get(1));
                   });
}

TEST_P(StrayTest, StoreInAQueryFaultsAtTheStore) {
  expect_stray("inside a query", [&] {
    const Actor self = actor();
    for (std::uint64_t round = 1; round <= 3; ++round) self.commit(1, round);
    query(self.domain, [&] {
      EXPECT_EQ(self.get(1), 3u);
      self.set(1, 9);
    });
  });
}

// Domains have keys of their own.
TEST_P(StrayTest, AccessToASegmentOfAnotherDomainFaultsInAnInstance) {
  for (const bool writes : {false, true})
    expect_stray("in an instance of another domain", [&] {
      const Actor self = actor();
      const TempFolder folder;
      const Domain other = Domain::open(folder.path());
      for (std::uint64_t round = 1; round <= 3; ++round) self.commit(1, round);
      atomically(other, [&] { writes ? self.set(1, 9) : static_cast<void>(self.get(1)); });
    });
}

// A domain that closes leaves its key to the next one; more domains than there are keys share.
TEST_P(StrayTest, AnyNumberOfDomainsCanBeOpen) {
  if (is_thread_sanitized()) GTEST_SKIP() << "ThreadSanitizer takes the address space";
  expect_child("many domains", [&] {
    for (int round = 0; round < 3; ++round) {
      const TempFolder folder;
      SegmentOptions anywhere = raw_pages(4);
      anywhere.relocatable = true;
      std::vector<Domain> domains;
      std::vector<Segment> segments;
      for (int i = 0; i < 20; ++i) {
        domains.push_back(Domain::open(folder.path() + "/" + std::to_string(i)));
        segments.push_back(domains.back().map("a.db", anywhere));
      }
      for (std::size_t i = 0; i < domains.size(); ++i)
        EXPECT_EQ(atomically(domains[i], [&] { return ++word_of(segments[i], 1); }), 1u);
      for (Domain &domain : domains) domain.close();
    }
  });
}

TEST_P(StrayTest, PoolsRefuseAQueryBeforeTheyStore) {
  expect_child("pools", [&] {
    const TempFolder folder;
    const Domain domain = Domain::open(folder.path());
    auto *const memory = domain.map("heap").root<pools>("pools");
    void *const block = atomically(domain, [&] { return memory->allocate(64); });
    const auto expect_refused = [&](const std::function<void()> &body) {
      expect_error(
          Errc::kQueryWrote, [&] { query(domain, body); }, "in a query");
    };
    expect_refused([&] { (void)memory->allocate(64); });
    expect_refused([&] { memory->deallocate(block, 64); });
  });
}

// The engine stores to views on behalf of a query, which may not: advice, first touches of pages
// that others have changed.
TEST_P(StrayTest, QueriesAmongForeignCommitsReadTheirSnapshot) {
  run_pair(
      "",
      [](Actor &self, Turn &turn) {
        self.domain.begin_query();
        EXPECT_EQ(self.get(0), 0u);
        turn.reach(1);
        turn.await(2);
        self.domain.advise(&self.word(1), Access::kRead);
        EXPECT_EQ(self.get(1), 0u);
        EXPECT_EQ(self.get(2), 0u);
        self.domain.end_query();
        EXPECT_EQ(self.committed(1), 7u);
      },
      [](Actor &self, Turn &turn) {
        turn.await(1);
        for (std::uint64_t page = 1; page <= 2; ++page) self.commit(page, 7);
        turn.reach(2);
      });
}

TEST_P(StrayTest, SystemCallsOnSegmentMemoryFailOutsideAnInstanceAndWorkInside) {
  expect_child("system calls", [&] {
    const Actor self = actor();
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const std::uint64_t sent = 42;
    ASSERT_EQ(write(ends[1], &sent, sizeof sent), 8);
    EXPECT_EQ(read(ends[0], &self.word(1), sizeof sent), -1);
    EXPECT_EQ(errno, EFAULT);
    EXPECT_EQ(write(ends[1], &self.word(1), sizeof sent), -1);
    EXPECT_EQ(errno, EFAULT);
    self.domain.begin();
    self.set(1, 1);  // under signal tracking a system call opens no page
    EXPECT_EQ(read(ends[0], &self.word(1), sizeof sent), 8);
    EXPECT_EQ(self.domain.end(), Status::kCommitted);
    EXPECT_EQ(self.committed(1), 42u);
  });
}

const Actor *in_handler = nullptr;

TEST_P(StrayTest, SignalHandlerThatInterruptsAnInstanceHasNoAccess) {
  if (is_thread_sanitized()) GTEST_SKIP() << "ThreadSanitizer calls handlers later";
  expect_stray("in a signal handler", [&] {
    const Actor self = actor();
    in_handler = &self;
    signal(SIGUSR1, [](int) { static_cast<void>(in_handler->get(1)); });
    atomically(self.domain, [&] {
      self.set(1, 1);
      raise(SIGUSR1);
    });
  });
}

// The handler returns, and the instance goes on with its rights.
TEST_P(StrayTest, SignalHandlerThatTouchesNothingDisturbsNothing) {
  expect_child("handler", [&] {
    const Actor self = actor();
    signal(SIGUSR1, [](int) {});
    atomically(self.domain, [&] {
      self.set(1, 1);
      raise(SIGUSR1);
      self.set(2, 2);
    });
    EXPECT_EQ(self.committed(2), 2u);
  });
}

TEST_P(StrayTest, ThreadsThatRunNoInstanceHaveNoAccessBesideOneThatDoes) {
  expect_stray("outside any instance", [&] {
    const Actor self = actor();
    std::thread other;
    std::mutex mutex;
    std::condition_variable changed;
    bool is_running = false;
    other = std::thread([&] {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return is_running; });
      self.set(1, 9);
    });
    self.domain.begin();
    {
      const std::scoped_lock lock(mutex);
      is_running = true;
    }
    changed.notify_one();
    other.join();
  });
}

// What maps pages anew keeps the key: growth, conflicts that drop pages, a segment that comes and
// goes.
TEST_P(StrayTest, ViewsStayGuardedWhateverIsMappedAnew) {
  const auto change_mappings = [&](const Actor &self) {
    for (std::uint64_t page = 0; page < kStagePages; ++page) self.commit(page, page);
    self.first.grow(2 * kStagePages * kPageBytes);
    self.commit(kStagePages + 1, 1);
    query(self.domain, [&] { static_cast<void>(self.get(3)); });
    self.domain.begin();
    self.set(5, 5);
    self.domain.abort();
  };
  for (const std::uint64_t page :
       {std::uint64_t{0}, std::uint64_t{5}, kStagePages + 1, 2 * kStagePages - 1})
    expect_stray("load from", [&] {
      const Actor self = actor();
      change_mappings(self);
      static_cast<void>(self.get(page));
    });
}

TEST_P(StrayTest, AllowLeavesItToTheTracking) {
  if (GetParam().tracking == Tracking::kSignal)
    GTEST_SKIP() << "exact signal tracking faults by itself";
  if (GetParam().levels == Levels::kHybrid)
    GTEST_SKIP() << "a page that is not resident faults by itself";
  expect_child("allowed", [&] {
    DomainOptions allowed = options();
    allowed.stray = Stray::kAllow;
    const Actor self(folder_.path(), allowed);
    for (std::uint64_t round = 1; round <= 3; ++round) self.commit(1, round);  // it stays mapped
    self.set(1, 9);
    EXPECT_EQ(self.get(1), 9u);
  });
}

TEST_P(StrayTest, ForkedChildThatOpensNothingHasNoAccess) {
  expect_stray("forked child", [&] {
    const Actor self = actor();
    self.domain.begin();
    self.set(1, 1);
    const pid_t child = fork();
    if (child == 0) {
      static_cast<void>(self.get(1));
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    signal(WTERMSIG(status), SIG_DFL);
    raise(WTERMSIG(status));
  });
}

// The body promises fields; its plain store would go to a view that no instance of this thread has.
TEST_P(StrayTest, PlainStoreOfAnInstrumentedBodyFaults) {
  if (GetParam().levels != Levels::kHybrid || GetParam().line == LineChoice::kRtm)
    GTEST_SKIP() << "its instrumented bodies do not run on software lines";
  expect_stray("by plain code in a body that runs at level 1", [&] {
    const Actor self = actor();
    for (std::uint64_t round = 1; round <= 3; ++round) self.commit(1, round);
    const Site site(self.domain, "fields");
    atomically(site, [&](Fields) { self.set(1, 9); });
  });
}

TEST_P(StrayTest, PlainStoreOfAnInstrumentedBodyInTheThreadsOwnViewFaults) {
  if (GetParam().detection == Detection::kEager)
    GTEST_SKIP() << "eager detection has no such views";
  expect_stray("runs in its thread's own view", [&] {
    DomainOptions own_views = options();
    own_views.policies.thread_views = lab::kOwnViewAlways;
    own_views.policies.escalation = "always";
    const Actor self(folder_.path(), own_views);
    for (std::uint64_t round = 1; round <= 3; ++round) self.commit(1, round);
    const Site site(self.domain, "fields");
    atomically(site, [&](Fields) { self.set(1, 9); });
  });
}

// In RTM, at level 2 without it, and from one to the other.
TEST_P(StrayTest, PlainBodiesOfSitesHaveAccessAndNothingAfterThem) {
  expect_stray("outside any instance; thread", [&] {
    const Actor self = actor();
    const Site site(self.domain, "plain");
    for (std::uint64_t round = 0; round < 20; ++round)
      atomically(site, [&] { self.set(round % 3, self.get(round % 3) + 1); });
    EXPECT_EQ(self.committed(0), 7u);
    EXPECT_FALSE(testing::Test::HasFailure());
    static_cast<void>(self.get(1));
  });
}

using EverywhereTest = ModeTest;
INSTANTIATE_TEST_SUITE_P(Modes, EverywhereTest, testing::ValuesIn(kModes), mode_name);

TEST_P(EverywhereTest, AccessBehindTheEndIsNamed) {
  const Death death = death_of("behind", [&] {
    const Actor self = actor();
    atomically(self.domain,
               [&] { static_cast<void>(load(self.first.data()[self.first.size_bytes()])); });
  });
  EXPECT_TRUE(death.signal == SIGSEGV || death.signal == SIGBUS);
  EXPECT_NE(death.said.find("behind the segment's end"), std::string::npos) << death.said;
}

TEST_P(EverywhereTest, AccessAfterACloseIsNamed) {
  expect_stray("load from segment 'first.raw', offset 0x0", [&] {
    Actor self = actor();
    const std::uint64_t &word = self.word(0);
    self.domain.close();
    static_cast<void>(load(word));
  });
  expect_stray("after the segment was unmapped or its domain closed", [&] {
    const Actor self = actor();
    const std::uint64_t &word = self.word(0);
    self.domain.unmap(self.first);
    static_cast<void>(load(word));
  });
}

TEST(StrayOptionTest, ADemandThatTheProcessorCannotKeepIsRefused) {
  const TempFolder folder;
  DomainOptions options;
  options.stray = Stray::kFault;
  if (!platform::has_keys())
    expect_error(
        Errc::kTrackingUnavailable, [&] { (void)Domain::open(folder.path(), options); },
        "TMH_STRAY=fault");
  else
    EXPECT_TRUE(Domain::open(folder.path(), options));
}

TEST(StrayOptionTest, AWrongValueIsRefusedWithTheRightOnes) {
  const TempFolder folder;
  setenv("TMH_STRAY", "perhaps", 1);
  expect_error(
      Errc::kBadArgument, [&] { (void)Domain::open(folder.path()); }, "fault, allow");
  unsetenv("TMH_STRAY");
}

TEST(StrayOptionTest, ExactSignalTrackingFindsStrayAccessesWithoutKeys) {
  const TempFolder folder;
  for (const bool writes : {false, true})
    expect_stray("outside any instance", [&] {
      DomainOptions options;
      options.tracking = Tracking::kSignal;
      options.stray = Stray::kAllow;
      const Actor self(folder.path(), options);
      self.commit(1, 1);
      writes ? self.set(1, 9) : static_cast<void>(self.get(1));
    });
}

}  // namespace
}  // namespace tmh::test
