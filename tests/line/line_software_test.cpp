// tests/line/line_software_test.cpp -- what one and two threads may rely on at level 1, in a fixed
// order of events.
// Invariants: (1) stores are visible to their instance at once, to others after its commit, never
//             after an abort. (2) every load of an instance, doomed ones too, is of one snapshot.
//             (3) an aborted attempt throws at every further access. (4) nobody gives up waiting
//             for a line before having looked whether its holder lives.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>

#include <cstdint>
#include <functional>
#include <utility>

#include <tmh/field.hpp>

#include "observe/steps.h"
#include "platform/process.h"
#include "tests/support/at_step.h"
#include "tests/support/children.h"
#include "tests/support/line_rig.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

using line::Begin;

class LineSoftwareTest : public testing::Test {
 protected:
  std::uint64_t &word(std::uint64_t line, std::uint64_t index = 0) {
    return rig_.words()[8 * line + index];
  }

  MemoryFolder folder_;
  LineRig rig_{folder_.path()};
  RigThread one_{rig_}, two_{rig_};
};

TEST_F(LineSoftwareTest, CommittedStoreIsHome) {
  one_.update([&] { one_.store(&word(1), std::uint64_t{7}); });
  EXPECT_EQ(word(1), 7U);
  EXPECT_EQ(rig_.word_of(&word(1)).load(), one_.stamp());
}

TEST_F(LineSoftwareTest, OwnStoreIsSeenAndNotHomeBeforeCommit) {
  one_.begin({});
  one_.store(&word(1), std::uint64_t{7});
  EXPECT_EQ(one_.load(&word(1)), 7U);
  EXPECT_EQ(word(1), 0U);
  EXPECT_EQ(one_.commit(), Status::kCommitted);
  EXPECT_EQ(word(1), 7U);
}

TEST_F(LineSoftwareTest, AbandonedInstanceLeavesNothing) {
  one_.begin({});
  one_.store(&word(1), std::uint64_t{7});
  one_.abandon();
  EXPECT_EQ(word(1), 0U);
  EXPECT_EQ(rig_.word_of(&word(1)).load(), 0U);
  EXPECT_EQ(one_.cause(), AbortCause::kUser);
}

// A null pointer's addresses are near to what says that no line was stored to.
TEST_F(LineSoftwareTest, StoreThroughANullPointerIsNoStoreToTheLineOfBefore) {
  Children children;
  const std::size_t child = children.spawn("stores", [] {
    const MemoryFolder folder;
    LineRig rig(folder.path());
    RigThread thread(rig);
    thread.update([&] { thread.store(rig.words(), std::uint64_t{7}); });
    const rlimit no_core{};
    setrlimit(RLIMIT_CORE, &no_core);
    signal(SIGSEGV, SIG_DFL);
    thread.begin({});
    auto *volatile nowhere = reinterpret_cast<std::uint64_t *>(8);
    thread.store(nowhere, std::uint64_t{8});
  });
  EXPECT_EQ(children.wait(child).signal, SIGSEGV);
}

TEST_F(LineSoftwareTest, AnAbortedAttemptThrowsAtANullPointerToo) {
  one_.begin({});
  one_.store(&word(1), std::uint64_t{7});
  EXPECT_THROW(one_.fail(AbortCause::kUser), detail::LineAbort);
  auto *volatile nowhere = reinterpret_cast<std::uint64_t *>(8);
  EXPECT_THROW(one_.store(nowhere, std::uint64_t{8}), detail::LineAbort);
  EXPECT_THROW((void)one_.load(nowhere), detail::LineAbort);
  one_.abandon();
}

// The line stored to last has a way of its own.
TEST_F(LineSoftwareTest, AnAbortedAttemptThrowsAtWhatItHasStoredToo) {
  one_.begin({});
  one_.store(&word(1), std::uint64_t{7});
  EXPECT_THROW(one_.fail(AbortCause::kUser), detail::LineAbort);
  EXPECT_THROW(one_.store(&word(1), std::uint64_t{8}), detail::LineAbort);
  EXPECT_THROW((void)one_.load(&word(1)), detail::LineAbort);
  one_.abandon();
}

TEST_F(LineSoftwareTest, PartsOfAWordAreMerged) {
  auto *bytes = reinterpret_cast<std::uint8_t *>(&word(2));
  word(2) = 0x1111'1111'1111'1111;
  one_.begin({});
  one_.store(bytes + 3, std::uint8_t{0xaa});
  one_.store(reinterpret_cast<std::uint16_t *>(bytes + 6), std::uint16_t{0xbbcc});
  EXPECT_EQ(one_.load(&word(2)), 0xbbcc'1111'aa11'1111U);
  EXPECT_EQ(one_.load(reinterpret_cast<std::uint32_t *>(bytes)), 0xaa11'1111U);
  EXPECT_EQ(one_.commit(), Status::kCommitted);
  EXPECT_EQ(word(2), 0xbbcc'1111'aa11'1111U);
}

TEST_F(LineSoftwareTest, OverwrittenReadAbortsTheCommit) {
  one_.begin({});
  const std::uint64_t seen = one_.load(&word(1));
  one_.store(&word(2), seen + 1);
  two_.update([&] { two_.store(&word(1), std::uint64_t{5}); });
  EXPECT_EQ(one_.commit(), Status::kAborted);
  EXPECT_EQ(one_.cause(), AbortCause::kValidation);
  EXPECT_EQ(word(2), 0U);
}

TEST_F(LineSoftwareTest, OverwrittenRestOfAWordThatIsWrittenInPartAbortsTheCommit) {
  auto *const bytes = reinterpret_cast<std::uint8_t *>(&word(1));
  one_.begin({});
  one_.store(bytes, std::uint8_t{1});
  one_.store(&word(2), one_.load(&word(1)));
  two_.update([&] { two_.store(bytes + 4, std::uint8_t{1}); });
  EXPECT_EQ(one_.commit(), Status::kAborted);
  EXPECT_EQ(one_.cause(), AbortCause::kValidation);
}

// As after a commit, which stamps later than what the thread has seen.
Begin keeping() {
  Begin begin;
  begin.keeps_snapshot = true;
  return begin;
}

TEST_F(LineSoftwareTest, AKeptSnapshotIsThatOfTheCommitBefore) {
  one_.update([&] { one_.store(&word(1), std::uint64_t{1}); });
  const std::uint64_t stamp = one_.stamp();
  two_.update([&] { two_.store(&word(2), std::uint64_t{2}); });
  one_.begin(keeping());
  EXPECT_EQ(one_.load(&word(1)), 1U);
  EXPECT_EQ(one_.rv, stamp) << "an unchanged line needs no later one";
  EXPECT_EQ(one_.load(&word(2)), 2U);
  EXPECT_EQ(one_.rv, two_.stamp());
  one_.store(&word(3), std::uint64_t{3});
  EXPECT_EQ(one_.commit(), Status::kCommitted);
  EXPECT_EQ(one_.rv, one_.stamp());
  EXPECT_EQ(word(3), 3U);
}

TEST_F(LineSoftwareTest, AThreadThatHasRunNothingKeepsTheOldestSnapshot) {
  two_.update([&] { two_.store(&word(1), std::uint64_t{7}); });
  one_.begin(keeping());
  EXPECT_EQ(one_.load(&word(1)), 7U);
  EXPECT_EQ(one_.commit(), Status::kCommitted);
}

TEST_F(LineSoftwareTest, OverwrittenReadEndsAKeptSnapshot) {
  one_.update([&] { one_.store(&word(1), std::uint64_t{1}); });
  one_.begin(keeping());
  EXPECT_EQ(one_.load(&word(1)), 1U);
  two_.update([&] {
    two_.store(&word(1), std::uint64_t{2});
    two_.store(&word(2), std::uint64_t{2});
  });
  EXPECT_THROW((void)one_.load(&word(2)), detail::LineAbort);
  one_.abandon();
  EXPECT_EQ(one_.cause(), AbortCause::kValidation);
}

TEST_F(LineSoftwareTest, CommitAtAKeptSnapshotValidates) {
  one_.update([&] { one_.store(&word(1), std::uint64_t{1}); });
  for (const bool is_overwritten : {false, true}) {
    two_.update([&] { two_.store(&word(2), std::uint64_t{2}); });
    one_.begin(keeping());
    one_.store(&word(3), one_.load(&word(1)));
    if (is_overwritten) two_.update([&] { two_.store(&word(1), std::uint64_t{2}); });
    EXPECT_EQ(one_.commit(), is_overwritten ? Status::kAborted : Status::kCommitted);
  }
}

// The line read last has a way of its own, which notes nothing.
TEST_F(LineSoftwareTest, WhatTheInstanceBeforeReadLastIsReadAnew) {
  one_.update([&] {
    // The first one finds the segment.
    for (int i = 0; i < 3; ++i) EXPECT_EQ(one_.load(&word(1)), 0U);
  });
  one_.begin({});
  one_.store(&word(2), one_.load(&word(1)) + 1);
  two_.update([&] { two_.store(&word(1), std::uint64_t{5}); });
  EXPECT_EQ(one_.commit(), Status::kAborted);
  EXPECT_EQ(one_.cause(), AbortCause::kValidation);
}

// The one before met a locked line, went on elsewhere, and its segment has gone.
TEST(LineSegmentsTest, NewInstanceDoesNotWaitForALineOfAnEarlierOne) {
  expect_child("unmaps", [] {
    const MemoryFolder folder;
    LineRig rig(folder.path());
    RigThread one(rig), two(rig);
    rig.word_of(rig.words()).store(line::locked_by(two.context_number(), 0));
    one.begin({});
    one.store(rig.words(), std::uint64_t{7});
    EXPECT_EQ(one.commit(), Status::kAborted);
    EXPECT_EQ(one.cause(), AbortCause::kConflictSelf);
    rig.memory().remove_segment(0);
    one.begin({});
    EXPECT_EQ(one.commit(), Status::kCommitted);
  });
}

// The same of an instance that is tried again, after an action that has unmapped it.
TEST(LineSegmentsTest, NextAttemptDoesNotWaitForALineThatIsGone) {
  expect_child("unmaps", [] {
    const MemoryFolder folder;
    LineRig rig(folder.path());
    RigThread one(rig), two(rig);
    rig.word_of(rig.words()).store(line::locked_by(two.context_number(), 0));
    Begin options;
    one.begin(options);
    one.store(rig.words(), std::uint64_t{7});
    EXPECT_EQ(one.commit(), Status::kAborted);
    rig.memory().remove_segment(0);
    ++options.attempt;
    one.begin(options);
    EXPECT_EQ(one.commit(), Status::kCommitted);
  });
}

// What an instance that has written may load the short way is not there for the next one.
TEST(LineSegmentsTest, WhereASegmentWasIsPlainMemoryBehindAnUpdateOfIt) {
  expect_child("unmaps", [] {
    const MemoryFolder folder;
    LineRig rig(folder.path());
    RigThread thread(rig);
    thread.update([&] { thread.store(rig.words(), thread.load(rig.words()) + 7); });
    rig.memory().remove_segment(0);
    thread.begin({});
    EXPECT_EQ(thread.load(rig.words()), 7U);
    thread.store(rig.words(), std::uint64_t{8});
    EXPECT_EQ(*rig.words(), 8U);
    EXPECT_EQ(thread.commit(), Status::kCommitted);
  });
}

// Lets go of the line that the suspect holds.
class Undertaker : public line::NoReleaser {
 public:
  explicit Undertaker(line::LineWord &word) noexcept : word_(word) {}
  void suspect(std::uint32_t, std::uint64_t) noexcept override { word_.store(0); }

 private:
  line::LineWord &word_;
};

TEST(LineWaitTest, WhoHadNoProcessorMeanwhileLooksForTheDeadBeforeGivingUp) {
  expect_child("waits", [] {
    const MemoryFolder folder;
    LineRig rig(folder.path());
    Undertaker undertaker(rig.word_of(rig.words()));
    RigThread dead(rig), one(rig, undertaker);
    rig.word_of(rig.words()).store(line::locked_by(dead.context_number(), 0));
    struct sigaction away {};
    away.sa_handler = [](int) {
      const timespec longer_than_anybody_waits{0, 30'000'000};
      nanosleep(&longer_than_anybody_waits, nullptr);
    };
    ASSERT_EQ(sigaction(SIGALRM, &away, nullptr), 0);
    int attempts = 0;
    one.query([&] {
      ++attempts;
      const itimerval while_it_waits{{0, 0}, {0, 200}};  // before it would look
      ASSERT_EQ(setitimer(ITIMER_REAL, &while_it_waits, nullptr), 0);
      EXPECT_EQ(one.load(rig.words()), 0U);
    });
    EXPECT_EQ(attempts, 1);
  });
}

// Loads of a line that the instance has written, or with the same bit as one, take the long way.
TEST_F(LineSoftwareTest, LineThatChangesBetweenTwoLooksIsNotOfTheSnapshot) {
  for (const std::uint64_t written : {65UL, 1UL}) {
    one_.begin({});
    one_.store(&word(written), std::uint64_t{1});
    const std::uint64_t before = one_.load(&word(2));
    const AtStep gap(observe::Step::kGapLineLooked, [this] {
      two_.update([this] {
        for (const std::uint64_t line : {1UL, 2UL})
          two_.store(&word(line), two_.load(&word(line)) + 5);
      });
    });
    EXPECT_THROW(static_cast<void>(one_.load(&word(1, 1))), detail::LineAbort) << written;
    EXPECT_EQ(before, written == 65 ? 0U : 5U);
    one_.abandon();
  }
}

// A line that was read last may be written next, and one that was written is not taken for one that
// was read.
TEST_F(LineSoftwareTest, LoadsBetweenStoresSeeThemAndWhatLiesBesideThem) {
  two_.update([this] {
    for (std::uint64_t line = 0; line < 130; ++line) two_.store(&word(line, 1), line);
  });
  one_.begin({});
  one_.store(&word(0), std::uint64_t{1});
  // Of 64 neighbours each has its own bit of the filter.
  for (std::uint64_t line = 1; line < 130; ++line) {
    EXPECT_EQ(one_.load(&word(line)), 0U);
    EXPECT_EQ(one_.load(&word(line, 1)), line);
    one_.store(&word(line), line + 1);
    EXPECT_EQ(one_.load(&word(line)), line + 1);
    EXPECT_EQ(one_.load(&word(line, 1)), line);
    EXPECT_EQ(one_.load(&word(line - 1)), line);
  }
  EXPECT_EQ(one_.commit(), Status::kCommitted);
  two_.update([this] { EXPECT_EQ(two_.load(&word(129)), 130U); });
}

// The line read last is that line only.
TEST_F(LineSoftwareTest, NeighbourOfALineReadAfterAStoreIsLookedAt) {
  for (const std::uint64_t neighbour : {4UL, 6UL}) {
    one_.begin({});
    one_.store(&word(1), std::uint64_t{1});
    const std::uint64_t before = one_.load(&word(2));
    EXPECT_EQ(one_.load(&word(5)), 0U);
    two_.update([&] {
      two_.store(&word(2), before + 1);
      two_.store(&word(neighbour), before + 1);
    });
    EXPECT_THROW(static_cast<void>(one_.load(&word(neighbour))), detail::LineAbort) << neighbour;
    one_.abandon();
  }
}

// What is only read beside the stores must be unchanged at the commit.
TEST_F(LineSoftwareTest, LineReadAfterAStoreIsValidated) {
  one_.begin({});
  EXPECT_EQ(one_.load(&word(7)), 0U);
  EXPECT_EQ(one_.load(&word(8)), 0U);
  one_.abandon();
  one_.begin({});
  one_.store(&word(1), std::uint64_t{1});
  EXPECT_EQ(one_.load(&word(2)), 0U);
  EXPECT_EQ(one_.load(&word(2, 1)), 0U);  // the line read last
  two_.update([this] { two_.store(&word(2), std::uint64_t{5}); });
  EXPECT_EQ(one_.commit(), Status::kAborted);
  EXPECT_EQ(one_.cause(), AbortCause::kValidation);
}

TEST_F(LineSoftwareTest, WhatChangesWhileTheSnapshotIsExtendedIsFound) {
  one_.begin({});
  EXPECT_EQ(one_.load(&word(2)), 0U);
  two_.update([this] { two_.store(&word(3), std::uint64_t{5}); });
  const AtStep gap(observe::Step::kGapLineExtend,
                   [this] { two_.update([this] { two_.store(&word(2), std::uint64_t{5}); }); });
  EXPECT_THROW(static_cast<void>(one_.load(&word(3))), detail::LineAbort);
  one_.abandon();
}

// Whoever finds the lock of a dead one needs it.
TEST_F(LineSoftwareTest, WordBeforeIsNotedBeforeTheLineIsLocked) {
  two_.update([this] { two_.store(&word(1), std::uint64_t{5}); });
  one_.begin({});
  one_.store(&word(1), std::uint64_t{6});
  const AtStep gap(observe::Step::kGapLineBefore, [this] {
    const line::LineContextV1 &context = rig_.memory().context(one_.context_number());
    EXPECT_EQ(context.writes[0].before.load(), two_.stamp());
    EXPECT_EQ(rig_.word_of(&word(1)).load(), two_.stamp());
  });
  EXPECT_EQ(one_.commit(), Status::kCommitted);
}

// Has the second page, and gives it when it is asked by somebody who holds no line.
class Lender : public line::NoReleaser {
 public:
  explicit Lender(LineRig &rig) noexcept : rig_(rig) {}
  line::ReleaseAnswer ask(storage::PageId page, line::Insists insists) noexcept override {
    insisted = insists;
    EXPECT_EQ(page, storage::page_id(0, storage::PageIndex{1}));
    EXPECT_FALSE(line::is_locked(rig_.word_of(rig_.words()).load()));
    lent().store(rig_.memory().state().clock.fetch_add(1) + 1);
    ++asked;
    return line::ReleaseAnswer::kGranted;
  }
  line::LineWord &lent() noexcept { return rig_.word_of(rig_.view() + kPageBytes); }
  int asked = 0;
  line::Insists insisted{};

 private:
  LineRig &rig_;
};

// The level above has taken it since the store.
TEST_F(LineSoftwareTest, CommitAsksForAPageHoldingNoLine) {
  Lender lender(rig_);
  RigThread borrower(rig_, lender);
  borrower.begin({});
  borrower.store(rig_.words(), std::uint64_t{1});
  borrower.store(rig_.words() + kPageBytes / 8, std::uint64_t{2});
  lender.lent().store(line::kUpper | lender.lent().load());
  EXPECT_EQ(borrower.commit(), Status::kCommitted);
  EXPECT_EQ(lender.asked, 1);
  EXPECT_EQ(lender.lent().load(), borrower.stamp());
  EXPECT_EQ(rig_.words()[kPageBytes / 8], 2U);
}

// The holder of priority keeps all others waiting.
TEST_F(LineSoftwareTest, WhoHasTheTurnWaitsBrieflyForPages) {
  Lender lender(rig_);
  RigThread borrower(rig_, lender);
  for (const bool takes_priority : {false, true}) {
    Begin options;
    options.insists = line::Insists::kLong;
    options.takes_priority = takes_priority;
    lender.lent().store(line::kUpper | lender.lent().load());
    borrower.begin(options);
    EXPECT_EQ(borrower.load(rig_.words() + kPageBytes / 8), 0U);
    EXPECT_EQ(lender.insisted, takes_priority ? line::Insists::kBriefly : line::Insists::kLong);
    EXPECT_EQ(borrower.commit(), Status::kCommitted);
    lender.lent().store(line::kUpper | lender.lent().load());
    borrower.begin(options);
    borrower.store(rig_.words() + kPageBytes / 8, std::uint64_t{0});
    lender.lent().store(line::kUpper | lender.lent().load());
    lender.insisted = line::Insists::kNo;
    EXPECT_EQ(borrower.commit(), Status::kCommitted);
    EXPECT_EQ(lender.insisted, takes_priority ? line::Insists::kBriefly : line::Insists::kLong);
  }
}

// An instance that has failed so often that it has priority commits alone.
TEST_F(LineSoftwareTest, CommitsWaitForWhoHasTheTurn) {
  Begin options;
  options.attempt = line::kPriorityAttempts;
  one_.begin(options);
  const std::uint64_t begin_ns = platform::monotonic_ns();
  two_.update([&] { two_.store(&word(1), std::uint64_t{5}); });
  EXPECT_GE(platform::monotonic_ns() - begin_ns, 50'000'000U) << "it waits for 100 ms at most";
  EXPECT_EQ(one_.commit(), Status::kCommitted);
  EXPECT_EQ(rig_.memory().state().priority.load(), 0U);
}

// As one that has been stopped: else each commit of the others would wait as long.
TEST_F(LineSoftwareTest, WhoKeepsTheTurnTooLongLosesIt) {
  Begin options;
  options.takes_priority = true;
  one_.begin(options);
  EXPECT_EQ(rig_.memory().state().priority.load(), one_.context_number() + 1U);
  two_.update([&] { two_.store(&word(1), std::uint64_t{5}); });
  EXPECT_EQ(rig_.memory().state().priority.load(), 0U);
  two_.begin(options);
  EXPECT_EQ(rig_.memory().state().priority.load(), two_.context_number() + 1U);
  one_.store(&word(2), std::uint64_t{6});
  EXPECT_EQ(one_.commit(), Status::kCommitted) << "nothing that it did depends on its priority";
  EXPECT_EQ(rig_.memory().state().priority.load(), two_.context_number() + 1U)
      << "it is another's by now";
  two_.store(&word(2), std::uint64_t{7});
  EXPECT_EQ(two_.commit(), Status::kCommitted);
  EXPECT_EQ(rig_.memory().state().priority.load(), 0U);
}

TEST_F(LineSoftwareTest, AnInstanceKeepsItsAgeWhenThePolicySaysSo) {
  for (const bool keeps : {true, false}) {
    Begin options;
    options.policy.keep_age = keeps;
    one_.begin(options);
    const std::uint64_t age = one_.age();
    one_.abandon();
    two_.update([&] { two_.store(&word(1), std::uint64_t{5}); });
    ++options.attempt;
    one_.begin(options);
    EXPECT_EQ(one_.age() == age, keeps);
    one_.abandon();
  }
}

TEST_F(LineSoftwareTest, AThreadThatGoesEndsItsInstance) {
  {
    RigThread gone(rig_);
    gone.begin({});
    gone.store(&word(1), std::uint64_t{7});
  }
  EXPECT_EQ(detail::line_access, nullptr);
  EXPECT_EQ(word(1), 0U);
}

TEST_F(LineSoftwareTest, SnapshotIsExtendedOverForeignCommits) {
  one_.begin({});
  EXPECT_EQ(one_.load(&word(1)), 0U);
  two_.update([&] { two_.store(&word(2), std::uint64_t{5}); });
  // Newer than the snapshot; what was read before has not changed.
  EXPECT_EQ(one_.load(&word(2)), 5U);
  one_.store(&word(3), std::uint64_t{1});
  EXPECT_EQ(one_.commit(), Status::kCommitted);
}

TEST_F(LineSoftwareTest, InconsistentLoadAbortsAndThrowsEverAfter) {
  one_.begin({});
  EXPECT_EQ(one_.load(&word(1)), 0U);
  two_.update([&] {
    two_.store(&word(1), std::uint64_t{5});
    two_.store(&word(2), std::uint64_t{5});
  });
  EXPECT_THROW(static_cast<void>(one_.load(&word(2))), detail::LineAbort);
  EXPECT_THROW(static_cast<void>(one_.load(&word(1))), detail::LineAbort);
  EXPECT_THROW(one_.store(&word(1), std::uint64_t{1}), detail::LineAbort);
  EXPECT_EQ(one_.commit(), Status::kAborted);
  EXPECT_EQ(one_.cause(), AbortCause::kValidation);
  EXPECT_TRUE(line::has(one_.status(), line::kStatusConflict));
}

TEST_F(LineSoftwareTest, BlindStoresDoNotConflict) {
  one_.begin({});
  one_.store(&word(1), std::uint64_t{1});
  two_.update([&] { two_.store(&word(1), std::uint64_t{2}); });
  EXPECT_EQ(one_.commit(), Status::kCommitted);
  EXPECT_EQ(word(1), 1U);
}

TEST_F(LineSoftwareTest, QueryThatStoresAborts) {
  Begin query;
  query.is_query = true;
  one_.begin(query);
  EXPECT_THROW(one_.store(&word(1), std::uint64_t{1}), detail::LineAbort);
  one_.abandon();
  EXPECT_EQ(one_.cause(), AbortCause::kQueryWrote);
}

TEST_F(LineSoftwareTest, LogGrowsBeyondItsFirstSize) {
  one_.begin({});
  std::uint64_t sum = 0;
  for (std::uint64_t line = 0; line < 4000; ++line) sum += one_.load(&word(line));
  EXPECT_EQ(sum, 0U);
  EXPECT_EQ(one_.reads().size(), 4000U);
  one_.store(&word(0), std::uint64_t{1});
  EXPECT_EQ(one_.commit(), Status::kCommitted);
}

TEST_F(LineSoftwareTest, RedoLogGrowsBeyondItsFirstSize) {
  one_.update([&] {
    for (std::uint64_t line = 0; line < 3000; ++line) one_.store(&word(line), line);
  });
  for (std::uint64_t line = 0; line < 3000; ++line) ASSERT_EQ(word(line), line);
}

TEST_F(LineSoftwareTest, FieldGoesThroughTheInstance) {
  auto *counter = reinterpret_cast<field<std::int32_t> *>(rig_.view() + 4096);
  one_.update([&] {
    *counter = 5;
    *counter += 2;
    ++*counter;
    (*counter)--;
    EXPECT_EQ(*counter, 7);
    EXPECT_EQ(*reinterpret_cast<std::int32_t *>(rig_.view() + 4096), 0);
  });
  EXPECT_EQ(*counter, 7);  // no instance: plain
  EXPECT_EQ(*reinterpret_cast<std::int32_t *>(rig_.view() + 4096), 7);
}

TEST_F(LineSoftwareTest, MemoryOutsideSegmentsIsPlain) {
  field<std::uint64_t> local{1};
  one_.begin({});
  local = 2;
  EXPECT_EQ(local, 2U);
  one_.abandon();
  EXPECT_EQ(local, 2U);
}

}  // namespace
}  // namespace tmh::test
