// tests/rtm/multi_rtm_emulation_test.cpp -- threads and processes under the RTM emulator, and
// native code beside them.
// Invariants: (1) increments with a lock fallback add up exactly; (2) native code never sees a part
// of a commit, also when the committer is killed in it; (3) without stopping the others (1) does
// not hold: the test can fail.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <latch>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <tmh/rtm_emulation.h>

#include "tests/rtm/elision.h"
#include "tests/support/children.h"
#include "tests/support/seed.h"
#include "tests/support/shared.h"

namespace {

using tmh::test::attempt;
using tmh::test::ElidedLock;
using tmh::test::kRtmCommitted;

constexpr long kIncrements = 100'000;

// Two words on lines of their own; a commit makes them equal.
struct Memory {
  ElidedLock lock;
  alignas(64) std::atomic<long> first{0};
  alignas(64) std::atomic<long> second{0};
  alignas(64) std::atomic<int> stop{0};
  alignas(64) std::atomic<long> elided{0};
};

void set_knobs(void (*change)(tmh_rtm_emulation_knobs *)) {
  tmh_rtm_emulation_knobs knobs;
  tmh_rtm_emulation_get_knobs(&knobs);
  change(&knobs);
  ASSERT_EQ(tmh_rtm_emulation_set_knobs(&knobs), 0);
}

void add_to_both(Memory *memory) {
  memory->first.store(memory->first.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  memory->second.store(memory->second.load(std::memory_order_relaxed) + 1,
                       std::memory_order_relaxed);
}

void increment(Memory *memory, long times) {
  long elided = 0;
  for (long i = 0; i < times; ++i)
    elided += tmh::test::run_elided(&memory->lock, 8, [memory] { add_to_both(memory); }) ? 1 : 0;
  memory->elided += elided;
}

void increment_natively(Memory *memory, long times) {
  for (long i = 0; i < times; ++i) {
    tmh::test::lock_natively(&memory->lock);
    add_to_both(memory);
    tmh::test::unlock_natively(&memory->lock);
    ::sched_yield();
  }
}

// A child's stack is shared with its parent until it is written; transactions alone never would
// (first touch: status 0).
__attribute__((noinline)) void touch_stack() {
  volatile char room[16 * 1024];
  for (std::size_t i = 0; i < sizeof room; i += 1024) room[i] = 0;
}

class MultiRtmEmulation : public testing::Test {
 protected:
  static void SetUpTestSuite() { ASSERT_GT(tmh_rtm_emulation_start(1), 0); }
  void SetUp() override {
    tmh_rtm_emulation_get_knobs(&knobs_);
    void *room =
        ::mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(room, MAP_FAILED);
    memory_ = new (room) Memory;
  }
  void TearDown() override {
    EXPECT_EQ(tmh_rtm_emulation_set_knobs(&knobs_), 0);
    ::munmap(memory_, sizeof(Memory));
  }
  void expect_sum(long sum) const {
    EXPECT_EQ(memory_->first, sum);
    EXPECT_EQ(memory_->second, sum);
  }
  Memory *memory_ = nullptr;

 private:
  tmh_rtm_emulation_knobs knobs_{};
};

TEST_F(MultiRtmEmulation, TwoThreadsAddUp) {
  std::thread other(increment, memory_, kIncrements);
  increment(memory_, kIncrements);
  other.join();
  expect_sum(2 * kIncrements);
  EXPECT_GT(memory_->elided, kIncrements / 2) << "most ran under the lock";
}

TEST_F(MultiRtmEmulation, TwoProcessesAddUp) {
  tmh::test::Children children;
  for (int i = 0; i < 2; ++i)
    children.spawn("process", [this] { increment(memory_, kIncrements); });
  children.expect_success();
  expect_sum(2 * kIncrements);
  EXPECT_GT(memory_->elided, kIncrements / 2);
}

TEST_F(MultiRtmEmulation, RequesterWinsAddsUpToo) {
  set_knobs([](tmh_rtm_emulation_knobs *knobs) { knobs->requester_wins = 1; });
  std::thread other(increment, memory_, 10'000);
  increment(memory_, 10'000);
  other.join();
  expect_sum(20'000);
}

TEST_F(MultiRtmEmulation, InjectedAbortsAndYieldsAddUpToo) {
  set_knobs([](tmh_rtm_emulation_knobs *knobs) {
    knobs->conflict_ppm = knobs->spurious_ppm = 50'000;
    knobs->yield_every = 3;
  });
  std::thread other(increment, memory_, 5'000);
  increment(memory_, 5'000);
  other.join();
  expect_sum(10'000);
}

// One thread elides, one takes the lock all the while. Returns how many updates were lost.
long lost_updates(Memory *memory, long times) {
  long natively = 0;
  std::thread native([&] {
    for (; memory->stop == 0; ++natively) increment_natively(memory, 1);
  });
  increment(memory, times);
  memory->stop = 1;
  native.join();
  return times + natively - memory->first;
}

TEST_F(MultiRtmEmulation, StretchedCommitsLoseNothing) {
  set_knobs([](tmh_rtm_emulation_knobs *knobs) { knobs->commit_delay_us = 100; });
  EXPECT_EQ(lost_updates(memory_, 1'000), 0);
  EXPECT_EQ(memory_->first, memory_->second);
}

TEST_F(MultiRtmEmulation, WithoutStoppingTheOthersStretchedCommitsLoseUpdates) {
  set_knobs([](tmh_rtm_emulation_knobs *knobs) {
    knobs->commit_delay_us = 100;
    knobs->stop_others = 0;
  });
  long lost = 0;  // a thousand commits may all find the other thread without a processor
  for (const auto deadline = std::chrono::steady_clock::now() + tmh::test::hang_deadline();
       lost == 0 && std::chrono::steady_clock::now() < deadline;) {
    memory_->first = memory_->second = memory_->stop = 0;
    lost = lost_updates(memory_, 1'000);
  }
  EXPECT_GT(lost, 0) << "the test above cannot fail";
}

TEST_F(MultiRtmEmulation, NativeReadersSeeNoPartOfACommit) {
  set_knobs([](tmh_rtm_emulation_knobs *knobs) { knobs->commit_delay_us = 20; });
  std::atomic<long> reads{0}, partial{0};
  std::thread reader([&] {
    while (memory_->stop == 0) {
      const long first = memory_->first.load(std::memory_order_acquire);
      partial += memory_->second.load(std::memory_order_acquire) < first ? 1 : 0;
      ++reads;
    }
  });
  // No fallback: its two stores are two. On a loaded machine the reader may have no processor for a
  // while.
  const auto deadline = std::chrono::steady_clock::now() + tmh::test::hang_deadline();
  for (int committed = 0;
       committed < 500 || (reads <= 1'000 && std::chrono::steady_clock::now() < deadline);)
    committed += attempt([this] { add_to_both(memory_); }) == kRtmCommitted ? 1 : 0;
  memory_->stop = 1;
  reader.join();
  EXPECT_GT(reads, 1'000);
  EXPECT_EQ(partial, 0);
}

TEST_F(MultiRtmEmulation, AThreadThatBlocksAllSignalsIsStoppedToo) {
  set_knobs([](tmh_rtm_emulation_knobs *knobs) { knobs->commit_delay_us = 50; });
  std::thread native([this] {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
    increment_natively(memory_, 1'000);
    increment(memory_, 100);  // XBEGIN raises SIGILL, which blocked would kill
  });
  increment(memory_, 1'000);
  native.join();
  expect_sum(2'100);
}

TEST_F(MultiRtmEmulation, SleepsLastTheirTime) {
  std::thread other([this] {
    while (memory_->stop == 0) increment(memory_, 1);
  });
  timespec begin{}, end{};
  ::clock_gettime(CLOCK_MONOTONIC, &begin);
  EXPECT_EQ(::usleep(200'000), 0);
  ::clock_gettime(CLOCK_MONOTONIC, &end);
  memory_->stop = 1;
  other.join();
  EXPECT_GE((end.tv_sec - begin.tv_sec) * 1'000'000'000 + end.tv_nsec - begin.tv_nsec, 199'000'000);
}

// Level 1 in RTM keeps out of pages by not having them in its page table. One that is taken away
// while a transaction has a line of it does not come back with the next line. The transaction sees
// that it has gone by lines that it has not read before: of those nothing is known to be stale.
TEST_F(MultiRtmEmulation, APageThatIsTakenAwayStaysAway) {
  constexpr int kTimes = 20, kRoundsMax = 5'000, kSpins = 200;
  constexpr std::size_t kLooks = 4'000;
  struct alignas(64) Look {
    std::atomic<int> round;
  };
  const auto looks = std::make_unique<Look[]>(kLooks);
  tmh::test::prefault(looks.get(), kLooks * sizeof(Look));
  // volatile: this thread alone stores and loads there, for what the loads do to the page.
  auto *const page = static_cast<volatile char *>(
      ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(page, MAP_FAILED);
  const int pagemap = ::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  const auto is_there = [&] {
    std::uint64_t entry = 0;
    const auto at =
        static_cast<off_t>(reinterpret_cast<std::uintptr_t>(page) / 4096 * sizeof entry);
    EXPECT_EQ(::pread(pagemap, &entry, sizeof entry, at), sizeof entry);
    return entry >> 63 != 0;
  };
  std::atomic<int> begun{0}, taken{0};
  std::thread taker([&] {
    for (int round = 1; memory_->stop == 0; ++round) {
      while (begun < round && memory_->stop == 0) sched_yield();
      EXPECT_EQ(::madvise(const_cast<char *>(page), 4096, MADV_DONTNEED), 0);
      for (std::size_t i = 0; i < kLooks; ++i) looks[i].round = round;
      taken = round;
    }
  });
  int times = 0, brought_back = 0;
  for (int round = 1; times < kTimes && round <= kRoundsMax; ++round) {
    page[0] = 1;
    begun = round;
    const std::uint32_t status = attempt([&] {
      (void)page[0];
      std::size_t look = 0;
      while (look < kLooks && looks[look].round.load(std::memory_order_relaxed) < round) {
        ++look;
        // The taker may have to wait for a processor, and no transaction can give up its own.
        for (int spin = 0; spin < kSpins; ++spin) asm("");
      }
      if (look == kLooks) tmh::test::rtm_abort<1>();
      (void)page[64];
      tmh::test::rtm_abort<2>();
    });
    while (taken < round) sched_yield();
    if (status >> 24 == 1) continue;
    ++times;
    brought_back += is_there() ? 1 : 0;
  }
  memory_->stop = 1;
  taker.join();
  EXPECT_EQ(times, kTimes);
  EXPECT_EQ(brought_back, 0);
  ::close(pagemap);
  ::munmap(const_cast<char *>(page), 4096);
}

// A server with a thread for each request would run out of areas of memory; what it then starts
// would be stopped by no commit.
TEST_F(MultiRtmEmulation, ThreadsThatHaveEndedLeaveTheirMemoryToLaterOnes) {
  constexpr int kThreads = 300;
  const auto areas = [] {
    std::ifstream maps("/proc/self/maps");
    return std::count(std::istreambuf_iterator<char>(maps), {}, '\n');
  };
  const auto run_some = [this] {
    for (int i = 0; i < kThreads; ++i) std::thread(increment, memory_, 3).join();
  };
  run_some();
  const auto before = areas();
  run_some();
  EXPECT_LT(areas(), before + kThreads / 10);
  expect_sum(2 * 3 * kThreads);
  EXPECT_GT(memory_->elided, kThreads) << "most ran under the lock";
}

// Commits do not stop what is not known to them.
TEST_F(MultiRtmEmulation, MoreThreadsThanThereIsRoomForAreToldOnce) {
  testing::internal::CaptureStderr();
  std::vector<std::thread> threads;
  std::latch all(1030);
  for (int i = 0; i < 1030; ++i) threads.emplace_back([&] { all.arrive_and_wait(); });
  for (std::thread &one : threads) one.join();
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_NE(told.find("1024 threads"), std::string::npos) << told;
  EXPECT_EQ(std::count(told.begin(), told.end(), '\n'), 1) << told;
}

TEST_F(MultiRtmEmulation, ForkWhileCommittingCopiesWholeCommits) {
  set_knobs([](tmh_rtm_emulation_knobs *knobs) { knobs->commit_delay_us = 100; });
  auto own = std::make_unique<Memory>();  // private: a child has the copy of one moment
  tmh::test::prefault(own.get(), sizeof *own);
  std::thread committer([&] {
    while (memory_->stop == 0) increment(own.get(), 1);
  });
  for (int i = 0; i < 50; ++i) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      if (own->first != own->second) ::_exit(1);
      long sink = own->first;
      sink += 1;
      for (int tries = 0; tries < 1'000; ++tries) {
        own->elided.store(sink);
        if (attempt([&] { own->elided.store(0, std::memory_order_relaxed); }) == kRtmCommitted)
          ::_exit(own->elided == 0 ? 0 : 2);
      }
      ::_exit(3);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << "1 << 8: half a commit was copied";
  }
  memory_->stop = 1;
  committer.join();
}

TEST_F(MultiRtmEmulation, AProgramThatAChildBecomesIsLeftAlone) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    increment(memory_, 10);  // it is known to the domain
    ::execlp("sleep", "sleep", "0.3", nullptr);
    ::_exit(1);
  }
  int status = -1;
  while (::waitpid(child, &status, WNOHANG) == 0) increment(memory_, 10);
  EXPECT_EQ(status, 0) << "a stop signal killed a program that does not know it";
}

TEST_F(MultiRtmEmulation, AKilledCommitterLeavesAllOrNothing) {
  set_knobs([](tmh_rtm_emulation_knobs *knobs) { knobs->commit_delay_us = 200; });
  std::mt19937_64 random(tmh::test::seed());
  tmh_rtm_emulation_counters counters{};
  for (int round = 0; round < 100; ++round) {
    tmh::test::Children children;
    const std::size_t child = children.spawn("committer", [this] {
      for (;;) {
        touch_stack();
        (void)memory_->first.load();  // a shared page is mapped in a child when it is touched
        (void)attempt([this] { add_to_both(memory_); });
      }
    });
    const long before = memory_->first;
    ASSERT_TRUE(tmh::test::poll_until([&] { return memory_->first > before + 2; }));
    // Killed by somebody outside of the domain: we ourselves are stopped while it commits.
    const std::string killer = fmt::format("sleep 0.00{:03}; kill -9 {}", random() % 1'000,
                                           static_cast<int>(children.pid(child)));
    ASSERT_EQ(std::system(killer.c_str()), 0);
    children.bury(child);
    std::uint32_t status = 0;
    for (int tries = 0; tries < 1'000 && status != kRtmCommitted; ++tries)
      status = attempt([this] { add_to_both(memory_); });
    ASSERT_EQ(status, kRtmCommitted) << "round " << round;
    ASSERT_EQ(memory_->first, memory_->second) << "round " << round;
  }
  tmh_rtm_emulation_get_counters(&counters);
  EXPECT_GT(counters.recovered, 0u) << "no death struck a commit";
}

}  // namespace
