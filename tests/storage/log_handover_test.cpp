// tests/storage/log_handover_test.cpp -- who of those that wait for the redo log writes it.
// Invariants: (1) the one on the slower processor gives, the one on the quicker takes; never the
//             other way round, (2) whoever does not answer, because it is dead or has no processor,
//             keeps nobody waiting for long, (3) one write says little about the next: an estimate
//             moves slowly,
//             (4) a death at each step of the hand-over loses no acknowledged commit, and the
//                 survivor goes on.
#include "storage/log/log_handover.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <tmh/tmh.hpp>

#include "observe/steps.h"
#include "tests/support/children.h"
#include "tests/support/durable_folder.h"
#include "tests/support/shared.h"
#include "tests/support/slowdown.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

using observe::Step;
using storage::LogHandover;
using storage::LogState;

// Two processors that this process may use; fewer where there are none.
std::vector<int> two_cpus() {
  cpu_set_t allowed;
  std::vector<int> found;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return found;
  for (int cpu = 0; cpu < CPU_SETSIZE && found.size() < 2; ++cpu)
    if (CPU_ISSET(static_cast<unsigned>(cpu), &allowed)) found.push_back(cpu);
  return found;
}

void stay_on(int cpu) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<unsigned>(cpu), &one);
  if (sched_setaffinity(0, sizeof one, &one) != 0)
    throw std::system_error(errno, std::generic_category(), "sched_setaffinity");
}

std::uint32_t index_of(int cpu) { return static_cast<std::uint32_t>(cpu) % storage::kLogCpus; }

// Writes are quick from cpus[0] and slow from cpus[1].
void make_unequal(LogState *state, const std::vector<int> &cpus) {
  state->write_ns_on[index_of(cpus[0])].store(1'000);
  state->write_ns_on[index_of(cpus[1])].store(1'000'000'000);
}

class LogHandoverTest : public testing::Test {
 protected:
  void SetUp() override {
    if (cpus_.size() < 2) GTEST_SKIP() << "a hand-over needs two processors";
  }
  std::vector<int> cpus_ = two_cpus();
  std::unique_ptr<LogState> state_ = std::make_unique<LogState>();
};

// A thread on `from` offers until it is claimed and gives, another on `to` claims. Is it taken
// before the other has looked so often? On a loaded machine the two seldom have their processors at
// once, so who expects it lets them go on.
constexpr std::uint64_t kManyLooks = 20'000;
bool is_taken(LogState *state, int from, int to, std::uint64_t looks_max = ~0ull,
              bool yields = false) {
  std::atomic<bool> over{false}, taken{false};
  std::atomic<std::uint64_t> looks{0};
  std::thread giver([&] {
    stay_on(from);
    LogHandover handover(state, 0);
    const auto deadline = std::chrono::steady_clock::now() + hang_deadline();
    while (!taken && looks < looks_max && std::chrono::steady_clock::now() < deadline) {
      handover.offer();
      for (int spins = 0; spins < 100'000 && !handover.is_claimed(); ++spins) {
      }
      if (handover.withdraw()) continue;
      handover.give();
      handover.await_taken(yields);
    }
    over = true;
  });
  std::thread taker([&] {
    stay_on(to);
    LogHandover handover(state, 1);
    for (; !over && !taken; ++looks)
      if (handover.claim(yields)) {
        handover.taken();
        taken = true;
      }
  });
  giver.join();
  taker.join();
  EXPECT_EQ(state->handovers.load(), taken ? 1u : 0u);
  return taken;
}

TEST_F(LogHandoverTest, TheQuickerTakesFromTheSlower) {
  make_unequal(state_.get(), cpus_);
  EXPECT_TRUE(is_taken(state_.get(), cpus_[1], cpus_[0]));
}

TEST_F(LogHandoverTest, InACrowdToo) {
  make_unequal(state_.get(), cpus_);
  std::atomic<bool> over{false};
  std::vector<std::thread> others;  // that want the same two processors
  for (const int cpu : cpus_) {
    others.emplace_back([&over, cpu] {
      stay_on(cpu);
      while (!over) sched_yield();
    });
  }
  EXPECT_TRUE(is_taken(state_.get(), cpus_[1], cpus_[0], ~0ull, true));
  over = true;
  for (std::thread &other : others) other.join();
}

TEST_F(LogHandoverTest, TheSlowerTakesNothing) {
  make_unequal(state_.get(), cpus_);
  EXPECT_FALSE(is_taken(state_.get(), cpus_[0], cpus_[1], kManyLooks));
}

TEST_F(LogHandoverTest, WhereNothingIsKnownNothingIsTaken) {
  EXPECT_FALSE(is_taken(state_.get(), cpus_[1], cpus_[0], kManyLooks));
  state_->write_ns_on[index_of(cpus_[0])].store(100'000);  // as quick as the other, or nearly
  state_->write_ns_on[index_of(cpus_[1])].store(110'000);
  EXPECT_FALSE(is_taken(state_.get(), cpus_[1], cpus_[0], kManyLooks));
}

TEST_F(LogHandoverTest, NobodyWaitsForOneWhoDoesNotAnswer) {
  make_unequal(state_.get(), cpus_);
  std::thread([&] {
    LogHandover giver(state_.get(), 0), taker(state_.get(), 1);
    stay_on(cpus_[1]);
    giver.offer();
    stay_on(cpus_[0]);
    EXPECT_FALSE(taker.claim(false)) << "nobody gave it";
    EXPECT_TRUE(giver.withdraw()) << "the claim was taken back";
  }).join();
}

TEST_F(LogHandoverTest, AnEstimateMovesSlowly) {
  std::thread([&] {
    stay_on(cpus_[0]);
    LogHandover handover(state_.get(), 0);
    const std::uint32_t cpu = LogHandover::this_cpu();
    handover.note_write(cpu, 128'000);
    EXPECT_EQ(handover.expected_ns(cpu), 128'000u) << "the first one is all that is known";
    handover.note_write(cpu, 50'000'000);
    EXPECT_EQ(handover.expected_ns(cpu), 130'000u);
    handover.note_write(cpu, 1);
    EXPECT_EQ(handover.expected_ns(cpu), 121'875u);
    handover.note_write((cpu + 1) % storage::kLogCpus, 1);
    EXPECT_EQ(handover.expected_ns((cpu + 1) % storage::kLogCpus), 0u)
        << "it was moved during the write";
  }).join();
}

// The log's state of an open domain.
class MappedLogState {
 public:
  explicit MappedLogState(const std::string &domain) {
    const int fd = ::open((domain + "/tmh.log.state").c_str(), O_RDWR | O_CLOEXEC);
    address_ = fd < 0 ? MAP_FAILED
                      : mmap(nullptr, sizeof(LogState), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0) ::close(fd);
    if (address_ == MAP_FAILED)
      throw std::system_error(errno, std::generic_category(), "tmh.log.state");
  }
  ~MappedLogState() { munmap(address_, sizeof(LogState)); }
  MappedLogState(const MappedLogState &) = delete;
  MappedLogState &operator=(const MappedLogState &) = delete;
  LogState *operator->() const noexcept { return get(); }
  [[nodiscard]] LogState *get() const noexcept { return static_cast<LogState *>(address_); }

 private:
  void *address_ = nullptr;
};

// Two processes that commit without end, one on each processor; commits of each that were
// acknowledged.
class TwoCommittersTest : public LogHandoverTest {
 protected:
  struct Acknowledged {
    std::atomic<std::uint64_t> of[2];
    std::atomic<bool> stop;
  };

  std::size_t start(std::size_t which, std::uint32_t crash_step = observe::kStepCount) {
    return children_.spawn("committer " + std::to_string(which), [this, which, crash_step] {
      stay_on(cpus_[which]);
      Domain domain = Domain::open(folder_ / "d", durable_options());
      const Segment segment = domain.map("a.db", raw_pages(2));
      observe::crash_at(crash_step, 1);
      for (std::uint64_t i = 1; !acknowledged_->stop; ++i) {
        atomically(domain, [&] { word_of(segment, which) = i; });
        acknowledged_->of[which] = i;
      }
      domain.close();
    });
  }
  bool commits_more(std::size_t which, std::uint64_t count) {
    const std::uint64_t wanted = acknowledged_->of[which] + count;
    return poll_until([&] { return acknowledged_->of[which] >= wanted; });
  }
  void expect_acknowledged_commits() {
    const Domain domain = Domain::open(folder_ / "d", durable_options());
    const Segment segment = domain.map("a.db", raw_pages(2));
    query(domain, [&] {
      for (std::uint64_t which = 0; which < 2; ++which) {
        EXPECT_GE(word_of(segment, which), acknowledged_->of[which]);
        EXPECT_LE(word_of(segment, which), acknowledged_->of[which] + 1)
            << "one may be durable and not acknowledged";
      }
    });
  }

  MemoryFolder folder_;
  Shared<Acknowledged> acknowledged_;
  Children children_;
};

TEST_F(TwoCommittersTest, TheWritingGoesToTheQuickerProcessor) {
  start(0);
  ASSERT_TRUE(commits_more(0, 1));
  const MappedLogState state(folder_ / "d");
  start(1);
  EXPECT_TRUE(poll_until([&] {
    make_unequal(state.get(), cpus_);
    return state->handovers.load() >= 3;
  }));
  acknowledged_->stop = true;
  children_.expect_success();
  expect_acknowledged_commits();
}

class DeathInHandoverTest : public TwoCommittersTest, public testing::WithParamInterface<Step> {};

TEST_P(DeathInHandoverTest, TheOtherGoesOn) {
  const bool dies_taking = GetParam() == Step::kLogClaimed || GetParam() == Step::kLogTaken;
  const std::size_t victim = dies_taking ? 0 : 1, survivor = 1 - victim;
  const std::size_t going_on = start(survivor);
  ASSERT_TRUE(commits_more(survivor, 1));
  const MappedLogState state(folder_ / "d");
  const std::size_t dying = start(victim, static_cast<std::uint32_t>(GetParam()));
  ASSERT_TRUE(poll_until([&] {
    make_unequal(state.get(), cpus_);
    return !children_.running(dying);
  })) << "nothing was ever handed over";
  EXPECT_EQ(children_.wait(dying).signal, SIGKILL);
  EXPECT_TRUE(commits_more(survivor, 100));
  acknowledged_->stop = true;
  EXPECT_TRUE(children_.wait(going_on).succeeded());
  expect_acknowledged_commits();
}

INSTANTIATE_TEST_SUITE_P(Steps, DeathInHandoverTest,
                         testing::Values(Step::kLogOffered, Step::kLogClaimed, Step::kLogGiven,
                                         Step::kLogTaken),
                         [](const testing::TestParamInfo<Step> &one) {
                           std::string name = observe::step_name(one.param);
                           for (char &c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace tmh::test
