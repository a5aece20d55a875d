// tests/death/kill_regressions_test.cpp -- defects that a review found in what happens after a
// death, a reclaim, a fork or a refusal.
// Invariants: (1) a writer that died before its commit point leaves nothing in a segment that its
//             inheritor had not mapped, (2) eager: rebuilding the access table keeps accesses to
//             segments that the inheritor has not mapped, (3) an opener without descriptors gets an
//             error; the files that others use stay, and they stay participants, (4) a page that
//             was read and then reclaimed by the kernel still conflicts, also after the fault ring
//             overflowed, (5) mapping a heap and growing inside instances, in two threads, do not
//             lock each other out,
//             (6) a child forked while a thread grows a segment does not keep the folder locked,
//             (7) a begin that waits while another thread closes is refused, no crash,
//             (8) a retry that sleeps, and a look at the counters, while another thread closes are
//                 refused, no crash,
//             (9) a version that a dead process had sent home but not freed, and that a repair
//                 links again, hides no later commit,
//             (10) a death in the growing of the commit log's ring, under the domain lock, keeps
//                  nobody from growing it.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>

#include "observe/steps.h"
#include "tests/support/process_state.h"
#include "tests/support/sanitizers.h"
#include "tests/support/stage.h"

namespace tmh::test {
namespace {

std::uint64_t &word(const Segment &segment, std::uint64_t page) {
  return *reinterpret_cast<std::uint64_t *>(segment.data() + page * kPageBytes);
}

void die_at(observe::Step step) { observe::crash_at(static_cast<std::uint32_t>(step), 1); }

class RegressionsModeTest : public ModeTest {};

INSTANTIATE_TEST_SUITE_P(Modes, RegressionsModeTest, testing::ValuesIn(kModes), mode_name);

TEST_P(RegressionsModeTest, AnUnpublishedCommitLeavesNothingInASegmentUnknownToItsInheritor) {
  const std::string folder = folder_.path();
  const Shared<Turn> turn;
  Children children;
  children.spawn("inheritor", role(*turn, [&] {
                   const Domain domain = Domain::open(folder, options());
                   const Segment known = domain.map("known.raw", raw_segment());
                   domain.begin();
                   store(word(known, 0), std::uint64_t{1});
                   turn->reach(1);
                   turn->await(2);
                   // Eager: the handler inherits; lazy: end() does.
                   store(word(known, 1), std::uint64_t{2});
                   static_cast<void>(domain.end());
                   EXPECT_GE(domain.counters().lock_recoveries, 1U);
                   const Segment unknown = domain.map("unknown.raw", raw_segment());
                   const auto expect_nothing = [&] {
                     query(domain, [&] {
                       EXPECT_EQ(load(word(unknown, 0)), 0U);
                       EXPECT_EQ(load(word(unknown, 1)), 0U);
                     });
                   };
                   expect_nothing();
                   // The dead one's version slots are used again.
                   for (std::uint64_t i = 0; i < 3; ++i) {
                     atomically(domain, [&] {
                       store(word(known, 5), std::uint64_t{5});
                       store(word(known, 6), i);
                     });
                   }
                   expect_nothing();
                 }));
  turn->await(1);
  const ChildEnd end = run_in_child("victim", [&] {
    const Domain domain = Domain::open(folder, options());
    const Segment known = domain.map("known.raw", raw_segment());
    const Segment unknown = domain.map("unknown.raw", raw_segment());
    domain.begin();
    store(word(unknown, 0), std::uint64_t{0xdead});
    store(word(unknown, 1), std::uint64_t{0xdead});
    die_at(observe::Step::kCommitLinked);
    static_cast<void>(domain.end());
  });
  EXPECT_EQ(end.signal, SIGKILL);
  turn->reach(2);
  children.expect_success();
}

// Turns: 1 to 3 all are there, 4 victim is dead, 5 reader and 6 stuck reader have seen its commit,
//        7 writer has committed on top of it,
// 8 reader has seen that.
TEST_P(RegressionsModeTest, AVersionLinkedAgainByARepairHidesNoLaterCommit) {
  const std::string folder = folder_.path();
  const Shared<Turn> turn;
  Children children;
  const auto spawn = [&](const char *name, std::uint32_t place, const auto &body) {
    children.spawn(name, role(*turn, [&, place, body] {
                     turn->await(place - 1);
                     const Domain domain = Domain::open(folder, options());
                     const Segment segment = domain.map("a.raw", raw_segment());
                     turn->reach(place);
                     body(domain, segment);
                   }));
  };
  spawn("reader", 1, [&](const Domain &domain, const Segment &segment) {
    turn->await(4);
    // Page 0 is not touched, and home has it.
    query(domain, [&] { static_cast<void>(load(word(segment, 9))); });
    turn->reach(5);
    turn->await(7);
    query(domain, [&] { EXPECT_EQ(load(word(segment, 0)), 2U); });
    turn->reach(8);
  });
  spawn("stuck reader", 2, [&](const Domain &domain, const Segment &segment) {
    turn->await(5);
    query(domain, [&] {  // keeps the writer's commit from going home
      turn->reach(6);
      turn->await(8);
      EXPECT_EQ(load(word(segment, 0)), 1U);
    });
  });
  spawn("writer", 3, [&](const Domain &domain, const Segment &segment) {
    turn->await(6);
    // The first to take the lock.
    atomically(domain, [&] { store(word(segment, 0), load(word(segment, 0)) + 1); });
    EXPECT_GE(domain.counters().lock_recoveries, 1U);
    turn->reach(7);
    turn->await(8);
  });
  turn->await(3);
  const ChildEnd end = run_in_child("victim", [&] {
    const Domain domain = Domain::open(folder, options());
    const Segment segment = domain.map("a.raw", raw_segment());
    domain.begin();
    store(word(segment, 0), std::uint64_t{1});
    die_at(observe::Step::kGcUnlinked);
    static_cast<void>(domain.end());
  });
  EXPECT_EQ(end.signal, SIGKILL);
  turn->reach(4);
  children.expect_success();
}

// Turns: 1 inheritor runs, 2 reader has read, 3 victim is dead, 4 table is rebuilt, 5 writer has
//        ended, 6 reader has ended.
TEST(RegressionsTest, EagerAccessesToASegmentUnknownToTheInheritorSurviveTheRebuild) {
  const MemoryFolder folder;
  DomainOptions options;
  options.policies.detection = Detection::kEager;
  const Shared<Turn> turn;
  const Shared<std::atomic<bool>> reader_committed, writer_committed;
  Children children;
  children.spawn("inheritor", role(*turn, [&] {
                   const Domain domain = Domain::open(folder.path(), options);
                   const Segment known = domain.map("known.raw", raw_segment());
                   domain.begin();
                   static_cast<void>(load(word(known, 0)));
                   turn->reach(1);
                   turn->await(3);
                   static_cast<void>(load(word(known, 1)));  // the handler inherits
                   static_cast<void>(domain.end());
                   EXPECT_GE(domain.counters().lock_recoveries, 1U);
                   turn->reach(4);
                   turn->await(6);
                 }));
  turn->await(1);
  children.spawn("reader", role(*turn, [&] {
                   const Domain domain = Domain::open(folder.path(), options);
                   const Segment unknown = domain.map("unknown.raw", raw_segment());
                   domain.begin();
                   const std::uint64_t seen = load(word(unknown, 0));
                   turn->reach(2);
                   turn->await(5);
                   static_cast<void>(load(word(unknown, 1)));
                   EXPECT_EQ(load(word(unknown, 0)), seen);
                   store(word(unknown, 0), seen + 1);
                   reader_committed->store(domain.end() == Status::kCommitted);
                   turn->reach(6);
                 }));
  turn->await(2);
  const ChildEnd end = run_in_child("victim", [&] {
    const Domain domain = Domain::open(folder.path(), options);
    const Segment known = domain.map("known.raw", raw_segment());
    domain.begin();
    die_at(observe::Step::kTouchLocked);
    store(word(known, 9), std::uint64_t{1});
  });
  EXPECT_EQ(end.signal, SIGKILL);
  turn->reach(3);
  turn->await(4);
  expect_child("writer", [&] {
    const Domain domain = Domain::open(folder.path(), options);
    const Segment unknown = domain.map("unknown.raw", raw_segment());
    domain.begin();
    store(word(unknown, 0), std::uint64_t{5});
    writer_committed->store(domain.end() == Status::kCommitted);
  });
  turn->reach(5);
  children.expect_success();
  EXPECT_NE(reader_committed->load(), writer_committed->load())
      << "one of the two must fail, and only one";
  expect_child("auditor", [&] {
    const Domain domain = Domain::open(folder.path(), options);
    const Segment unknown = domain.map("unknown.raw", raw_segment());
    query(domain, [&] { EXPECT_EQ(load(word(unknown, 0)), writer_committed->load() ? 5U : 1U); });
  });
}

ino_t inode(const std::string &path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 ? info.st_ino : 0;
}

void limit_descriptors(rlim_t count) {
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = count;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

TEST(RegressionsTest, AnOpenerWithoutDescriptorsGetsAnErrorAndTheFilesInUseStay) {
  if (const std::string why = why_descriptors_must_stay(); !why.empty()) GTEST_SKIP() << why;
  const MemoryFolder folder;
  const Shared<Turn> turn;
  const Shared<std::atomic<pid_t>> holder_pid;
  Children children;
  children.spawn("holder", role(*turn, [&] {
                   const Domain domain = Domain::open(folder.path());
                   const Segment segment = domain.map("a.raw", raw_segment());
                   atomically(domain, [&] { store(word(segment, 0), std::uint64_t{1}); });
                   holder_pid->store(getpid());
                   turn->reach(1);
                   turn->await(2);
                   query(domain, [&] {
                     EXPECT_EQ(load(word(segment, 0)), 2U) << "two domains in one folder";
                   });
                 }));
  turn->await(1);
  const ino_t state = inode(folder / "tmh.state");
  ASSERT_NE(state, 0U);
  expect_child("opener", [&] {
    const int first_free = dup(STDOUT_FILENO);
    ASSERT_GE(first_free, 0);
    close(first_free);
    // One descriptor more each time: the opener runs out of them at every place where it opens a
    // file.
    int refusals = 0;
    Domain domain;
    for (int limit = first_free; !domain && refusals < 100; ++limit) {
      limit_descriptors(static_cast<rlim_t>(limit));
      std::error_code error;
      domain = Domain::open(folder.path(), {}, error);
      EXPECT_EQ(static_cast<bool>(error), !domain) << error.message();
      if (!domain) ++refusals;
      EXPECT_EQ(inode(folder / "tmh.state"), state) << "with descriptors below " << limit;
    }
    EXPECT_GE(refusals, 2);
    limit_descriptors(static_cast<rlim_t>(first_free) + 100);
    ASSERT_TRUE(domain);
    const auto participants = domain.participants();
    EXPECT_TRUE(
        std::any_of(participants.begin(), participants.end(),
                    [&](const ParticipantInfo &other) { return other.pid == holder_pid->load(); }))
        << "the holder was taken for dead";
    const Segment segment = domain.map("a.raw", raw_segment());
    atomically(domain, [&] { store(word(segment, 0), load(word(segment, 0)) + 1); });
  });
  turn->reach(2);
  children.expect_success();
}

// Bit 63 of a page's entry: present in this process's page table. Readable without privileges.
bool is_present(const void *address) {
  // No stream: it wants whole entries.
  const int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  std::uint64_t entry = 0;
  const auto offset =
      static_cast<off_t>(reinterpret_cast<std::uintptr_t>(address) / kPageBytes * sizeof entry);
  const ssize_t got = pread(pagemap, &entry, sizeof entry, offset);
  close(pagemap);
  if (got != sizeof entry) throw std::runtime_error("cannot read pagemap");
  return entry >> 63 != 0;
}

TEST(RegressionsTest, AReclaimedPageStillConflictsAfterTheFaultRingOverflowed) {
  constexpr std::uint64_t kFieldPages = 65'536, kTouched = 45'000;  // the ring holds 32,768 records
  constexpr std::uint64_t kRead = 3, kWritten = 65'000;
  const Mode mode{"LazyKernelHot", Detection::kLazy, Tracking::kKernelHot};
  if (const std::string why = why_unavailable(mode); !why.empty()) GTEST_SKIP() << why;
  const MemoryFolder folder;
  const DomainOptions options = options_for(mode);
  const Shared<Turn> turn;
  const Shared<std::atomic<bool>> reclaimed;
  Children children;
  children.spawn("reader", role(*turn, [&] {
                   const Domain domain = Domain::open(folder.path(), options);
                   const Segment field =
                       domain.map("field.raw", raw_segment(kFieldPages * kPageBytes));
                   domain.begin();
                   std::uint64_t sum = load(word(field, kRead));
                   for (std::uint64_t page = 10; page < kTouched; ++page)
                     sum += load(word(field, page));
                   reclaimed->store(madvise(field.data(), 8 * kPageBytes, MADV_PAGEOUT) == 0 &&
                                    !is_present(&word(field, kRead)));
                   turn->reach(1);
                   turn->await(2);
                   store(word(field, kWritten), sum + 1);
                   EXPECT_EQ(domain.end(), Status::kAborted);
                 }));
  children.spawn("writer", role(*turn, [&] {
                   turn->await(1);
                   const Domain domain = Domain::open(folder.path(), options);
                   const Segment field =
                       domain.map("field.raw", raw_segment(kFieldPages * kPageBytes));
                   atomically(domain, [&] { store(word(field, kRead), std::uint64_t{99}); });
                   turn->reach(2);
                 }));
  children.expect_success();
  if (!reclaimed->load())
    GTEST_SKIP() << "the kernel did not take the page back, so nothing was put to the test";
}

TEST(RegressionsTest, MappingAHeapAndGrowingInsideInstancesBothFinish) {
  constexpr std::uint64_t kGrowths = 2000;
  constexpr int kMaps = 100, kHeaps = 25;
  const MemoryFolder folder;
  expect_child("both threads", [&] {
    const Domain domain = Domain::open(folder.path());
    SegmentOptions growing = raw_segment(kPageBytes);
    growing.max_bytes = std::uint64_t{1} << 32;
    const Segment segment = domain.map("growing.raw", growing);
    std::atomic<bool> grows{false};
    std::thread grower([&] {
      for (std::uint64_t i = 0; i < kGrowths; ++i) {
        domain.begin();
        segment.grow((2 + i) * kPageBytes);
        static_cast<void>(domain.end());
        grows = true;
      }
    });
    while (!grows) std::this_thread::yield();
    SegmentOptions heap;
    heap.size_bytes = std::uint64_t{1} << 20;
    heap.max_bytes = std::uint64_t{1} << 21;
    for (int i = 0; i < kMaps; ++i)
      domain.unmap(domain.map("heap" + std::to_string(i % kHeaps), heap));
    grower.join();
    EXPECT_EQ(segment.size_bytes(), (1 + kGrowths) * kPageBytes);
  });
}

TEST(RegressionsTest, AChildForkedDuringAGrowthDoesNotKeepTheFolderLocked) {
  constexpr int kForks = 20;
  const MemoryFolder folder;
  expect_child("grower", [&] {
    const Domain domain = Domain::open(folder.path());
    SegmentOptions growing = raw_segment(kPageBytes);
    growing.max_bytes = std::uint64_t{1} << 36;
    const Segment segment = domain.map("growing.raw", growing);
    const Shared<Turn> turn;
    std::atomic<std::uint64_t> growths{0};
    std::atomic<bool> stop{false};
    std::thread grower([&] {
      while (!stop) segment.grow((2 + growths++) * kPageBytes);
    });
    Children children;  // they live on, with copies of all descriptors, until growing has gone on
    for (int i = 0; i < kForks; ++i) {
      // Another growth after each fork: had the child kept the lock, it would never come.
      const std::uint64_t before = growths;
      children.spawn("bystander", [&] { turn->await(1); });
      EXPECT_TRUE(poll_until([&] { return growths >= before + 2; }, hang_deadline() / 2))
          << "fork " << i;
      if (HasFailure()) break;
    }
    stop = true;
    turn->reach(1);
    children.expect_success();
    grower.join();
  });
}

TEST(RegressionsTest, ABeginThatWaitsWhileAnotherThreadClosesIsRefused) {
  const MemoryFolder folder;
  expect_child("three threads", [&] {
    const Domain domain = Domain::open(folder.path());
    std::atomic<pid_t> closer_id{0}, beginner_id{0};
    domain.begin();
    std::thread closer([&] {
      Domain same = domain;
      closer_id = gettid();
      same.close();
    });
    await_sleep(closer_id);  // first in the queue, so it is first when the instance ends
    std::thread beginner([&] {
      beginner_id = gettid();
      expect_error(Errc::kNotInitialized, [&] { domain.begin(); });
    });
    await_sleep(beginner_id);
    EXPECT_EQ(domain.end(), Status::kCommitted);
    closer.join();
    beginner.join();
  });
}

TEST(RegressionsTest, ARetryThatSleepsWhileAnotherThreadClosesIsRefused) {
  for (const char *escalation : {"never", "always"}) {
    SCOPED_TRACE(escalation);
    const MemoryFolder folder;
    expect_child("two threads", [&] {
      DomainOptions options;
      options.levels = Levels::kHybrid;
      Domain domain = Domain::open(folder.path(), options);
      const Segment segment = domain.map("a.raw", raw_segment());
      std::atomic<pid_t> sleeper_id{0};
      std::thread sleeper([&, handle = domain] {
        const Site site(handle, "waits", escalation);
        expect_error(Errc::kNotInitialized, [&] {
          atomically(site, [&](Fields) {
            sleeper_id = gettid();
            if (reinterpret_cast<field<std::uint64_t> *>(segment.data())->load() == 0) retry();
          });
        });
      });
      await_sleep(sleeper_id);
      domain.close();
      sleeper.join();
    });
  }
}

TEST(RegressionsTest, ALookAtTheCountersWhileAnotherThreadClosesIsRefused) {
  const MemoryFolder folder;
  expect_child("two threads", [&] {
    for (int i = 0; i < 50; ++i) {
      Domain domain = Domain::open(folder.path());
      std::atomic<bool> looks{false};
      std::thread looker([&, handle = domain] {
        expect_error(Errc::kNotInitialized, [&] {
          for (;;) {
            (void)handle.counters();
            (void)handle.participants();
            looks = true;
          }
        });
      });
      while (!looks) std::this_thread::yield();
      domain.close();
      looker.join();
    }
  });
}

// A limit on sizes of files kills it in the system call that makes the ring's file longer.
TEST_P(RegressionsModeTest, TheRingGrowsAfterADeathInItsGrowing) {
  constexpr std::uint64_t kCommits = 3000;  // the file has room for 1,024 at first
  const Actor survivor = actor();
  survivor.commit(0, 1);
  Children children;
  const std::size_t victim = children.spawn("victim", [&] {
    const Actor own = actor();
    own.commit(0, 2);
    struct stat ring {};
    ASSERT_EQ(stat((folder_ / "tmh.commits").c_str(), &ring), 0);
    const rlimit no_core{0, 0},
        no_longer{static_cast<rlim_t>(ring.st_size), static_cast<rlim_t>(ring.st_size)};
    ASSERT_NE(signal(SIGXFSZ, SIG_DFL), SIG_ERR);  // whoever started us may ignore it
    ASSERT_EQ(setrlimit(RLIMIT_CORE, &no_core), 0);
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &no_longer), 0);
    for (std::uint64_t i = 0; i < kCommits; ++i) own.commit(0, 3 + i);
  });
  EXPECT_EQ(children.wait(victim).signal, SIGXFSZ);
  for (std::uint64_t i = 0; i < kCommits; ++i) survivor.commit(0, 4 + i);
  EXPECT_EQ(survivor.committed(0), 3 + kCommits);
  EXPECT_GE(survivor.domain.counters().lock_recoveries, 1U);
}

}  // namespace
}  // namespace tmh::test
