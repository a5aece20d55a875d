// tests/heap/multi_allocator_test.cpp -- one heap segment and several processes, in every mode.
// Invariants: (1) containers that one process made are read and changed by others that opened the
//             domain themselves.
//             (2) allocation alone makes (almost) no conflicts: instances that overlap for certain,
//                 turn by turn, commit; only the taking of chunks may abort some. The same play on
//                 one shared container does conflict (the method can fail).
//             (3) a block freed by another process is free, once; blocks of killed processes'
//                 instances never existed.
//             (4) a segment that one process grows is used by all.
#include <algorithm>
#include <array>
#include <cerrno>
#include <list>
#include <numeric>
#include <string>
#include <unordered_map>
#include <vector>

#include "platform/process.h"
#include "storage/heap/heap.h"
#include "storage/heap/heap_check.h"
#include "tests/support/containers.h"
#include "tests/support/preempted.h"
#include "tests/support/stage.h"

namespace tmh::test {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

// What one process holds of the domain.
struct Worker {
  Worker(const std::string &folder, const DomainOptions &options)
      : domain(Domain::open(folder, options)) {
    SegmentOptions heap;
    heap.size_bytes = 4 * kMiB;
    heap.max_bytes = 256 * kMiB;
    segment = domain.map("heap", heap);
  }
  storage::HeapCensus census() const {
    storage::HeapCensus counted;
    const Errc error = query(domain, [&] {
      return storage::heap_check(segment.data(), segment.size_bytes(), &counted);
    });
    EXPECT_EQ(error, Errc::kOk) << message(error);
    return counted;
  }
  Domain domain;
  Segment segment;
};

class MultiAllocatorTest : public ModeTest {
 protected:
  [[nodiscard]] Worker worker(const std::string &policy = "") const {
    return {folder_.path(), options(policy)};
  }

  // `play` in processes of their own, number 0 to count - 1.
  void run(std::uint32_t count, const std::string &policy,
           const std::function<void(Worker &, std::uint32_t, Turn &)> &play) const {
    const Shared<Turn> turn;
    Children children;
    for (std::uint32_t number = 0; number < count; ++number) {
      children.spawn("worker " + std::to_string(number), [&, number] {
        try {
          Worker self = worker(policy);
          play(self, number, *turn);
          self.domain.close();
        } catch (...) {
          turn->give_up();
          throw;
        }
      });
    }
    children.expect_success();
  }
};

INSTANTIATE_TEST_SUITE_P(Modes, MultiAllocatorTest, testing::ValuesIn(kModes), mode_name);
INSTANTIATE_TEST_SUITE_P(SnapshotModes, MultiAllocatorTest, testing::ValuesIn(kSnapshotModes),
                         mode_name);

TEST_P(MultiAllocatorTest, ContainersPassFromProcessToProcess) {
  constexpr std::uint32_t kStepsEach = 80;
  for (std::uint32_t number = 0; number < 4; ++number) {
    expect_child("heir " + std::to_string(number), [&] {
      Worker self = worker();
      auto *library = self.segment.root<SharedLibrary>();
      EXPECT_EQ(query(self.domain, [&] { return content(*library); }),
                expected_content(number * kStepsEach));
      for (std::uint32_t step = number * kStepsEach; step < (number + 1) * kStepsEach; ++step) {
        atomically(self.domain, [&] { change(*library, step); });
      }
      self.census();
      self.domain.close();
    });
  }
}

// All at once on the same containers: every step happens exactly once, in some order.
TEST_P(MultiAllocatorTest, ContainersAreChangedByAllAtOnce) {
  constexpr std::uint32_t kWorkers = 3, kStepsEach = 60;
  run(kWorkers, "", [&](Worker &self, std::uint32_t number, Turn &) {
    using Allocator = std::scoped_allocator_adaptor<
        allocator<std::pair<const std::uint64_t, SharedLibrary::Vector<std::uint32_t>>>>;
    using Map = std::unordered_map<std::uint64_t, SharedLibrary::Vector<std::uint32_t>,
                                   std::hash<std::uint64_t>, std::equal_to<>, Allocator>;
    auto *map = self.segment.root<Map>("map");
    auto *log = self.segment.root<std::list<std::uint32_t, allocator<std::uint32_t>>>("log");
    for (std::uint32_t step = 0; step < kStepsEach; ++step) {
      atomically(self.domain, [&] {
        (*map)[step % 7].push_back(number * 1000 + step);
        log->push_back(number * 1000 + step);
      });
    }
  });
  Worker self = worker();
  const auto *log = self.segment.root<std::list<std::uint32_t, allocator<std::uint32_t>>>("log");
  query(self.domain, [&] {
    std::vector<std::uint32_t> next(kWorkers, 0);
    for (const std::uint32_t entry : *log) {
      ASSERT_LT(entry / 1000, kWorkers);
      ASSERT_EQ(entry % 1000, next[entry / 1000]++) << "each worker's steps in its order";
    }
    EXPECT_EQ(next, std::vector<std::uint32_t>(kWorkers, kStepsEach));
  });
  self.census();
}

// In every round all workers begin, then all work, then all end: all instances of a round overlap.
// Returns how many of kRounds x workers aborted.
constexpr std::uint32_t kRounds = 150;
struct Tally {
  std::atomic<std::uint32_t> aborts{0};
};

template <class Work>
void play_rounds(const Worker &self, std::uint32_t number, std::uint32_t workers, Turn &turn,
                 Tally &tally, const Work &work) {
  const auto my_turn = [&](std::uint32_t round, std::uint32_t phase, const auto &act) {
    const std::uint32_t now = (round * 2 + phase) * workers + number;
    turn.await(now);
    act();
    turn.reach(now + 1);
  };
  for (std::uint32_t round = 0; round < kRounds; ++round) {
    my_turn(round, 0, [&] {
      self.domain.begin();
      work(round);
    });
    my_turn(round, 1, [&] {
      // relaxed: read after the workers have ended
      if (self.domain.end() == Status::kAborted)
        tally.aborts.fetch_add(1, std::memory_order_relaxed);
    });
  }
}

TEST_P(MultiAllocatorTest, AllocationAloneCausesAlmostNoAborts) {
  constexpr std::uint32_t kWorkers = 3;
  const Shared<Tally> tally;
  run(kWorkers, "", [&](Worker &self, std::uint32_t number, Turn &turn) {
    std::vector<std::pair<std::byte *, std::size_t>> blocks;
    play_rounds(self, number, kWorkers, turn, *tally, [&](std::uint32_t round) {
      // In an instance that aborts these pointers were never allocated: nothing of them is used
      // later.
      for (std::uint32_t i = 0; i < 12; ++i) {
        const std::size_t bytes = 16 + (round * 12 + i) % 50 * 16;
        auto *block = static_cast<std::byte *>(self.segment.allocate(bytes));
        std::fill_n(block, bytes, std::byte{1});
        if (i % 3 == 0) self.segment.deallocate(block, bytes);
      }
    });
  });
  // Each worker takes about five chunks; when several do in one round, all but one of them abort,
  // and try in the next.
  EXPECT_LE(tally->aborts.load(), kRounds * kWorkers / 20)
      << "of " << kRounds * kWorkers << " instances";
  Worker self = worker();
  EXPECT_GT(self.census().small_blocks, kRounds * kWorkers * 8 * 9 / 10);
}

TEST_P(MultiAllocatorTest, SharingAContainerDoesCauseAborts) {
  constexpr std::uint32_t kWorkers = 3;
  const Shared<Tally> tally;
  run(kWorkers, "fresh-age", [&](Worker &self, std::uint32_t number, Turn &turn) {
    auto *list = self.segment.root<std::list<std::uint32_t, allocator<std::uint32_t>>>();
    play_rounds(self, number, kWorkers, turn, *tally,
                [&](std::uint32_t round) { list->push_back(round); });
  });
  EXPECT_EQ(tally->aborts.load(), kRounds * (kWorkers - 1))
      << "of instances that write one page, one per round commits";
  Worker self = worker();
  const auto *list = self.segment.root<std::list<std::uint32_t, allocator<std::uint32_t>>>();
  EXPECT_EQ(query(self.domain, [&] { return list->size(); }), kRounds);
}

constexpr std::uint32_t kStepsFree = 300, kWorkersMax = 4;

// A step of a worker that plays freely, begun and ended outside the instance.
struct Step {
  std::uint64_t begin_ns, end_ns;
  std::uint32_t aborts;
  bool is_stalled;  // the processor was taken away meanwhile
};
using Steps = std::array<std::array<Step, kStepsFree>, kWorkersMax>;

template <class Work>
Step play_step(const Worker &self, const Work &work) {
  // What only a hypervisor can have taken away: a step takes some 50 us, and one that is long
  // because it aborts has many aborts.
  constexpr std::uint64_t kLongNs = 20'000'000;
  const std::uint64_t preempted = times_preempted();
  Step step{.begin_ns = platform::monotonic_ns(), .end_ns = 0, .aborts = 0, .is_stalled = false};
  std::uint32_t attempts = 0;
  atomically(self.domain, [&] {
    ++attempts;
    work();
  });
  step.end_ns = platform::monotonic_ns();
  step.aborts = attempts - 1;
  const bool is_long = step.end_ns - step.begin_ns > kLongNs && step.aborts <= 1;
  step.is_stalled = times_preempted() != preempted || is_long;
  return step;
}

// Beside another worker's stalled instance one may abort again and again, however fast this machine
// is: then only the first time counts.
std::uint32_t aborts_that_count(const Steps &steps, std::uint32_t workers) {
  std::uint32_t count = 0;
  for (std::uint32_t worker = 0; worker < workers; ++worker) {
    for (const Step &step : steps[worker]) {
      bool is_excused = false;
      for (std::uint32_t other = 0; other < workers && step.aborts > 1; ++other) {
        const auto stalls_it = [&](const Step &theirs) {
          return theirs.is_stalled && theirs.begin_ns < step.end_ns &&
                 step.begin_ns < theirs.end_ns;
        };
        is_excused |= other != worker && std::ranges::any_of(steps[other], stalls_it);
      }
      count += is_excused ? 1 : step.aborts;
    }
  }
  return count;
}

// Freely, as programs do: each worker builds and tears down lists of its own.
TEST_P(MultiAllocatorTest, IndependentWorkersSeldomAbort) {
  for (const std::uint32_t workers : {2U, kWorkersMax}) {
    const Shared<Steps> steps;
    run(workers, "", [&](Worker &self, std::uint32_t number, Turn &turn) {
      // Lists of its own run: those of the run before lie beside blocks that another process's
      // arena has inherited.
      const std::string name = std::to_string(workers) + " lists, " + std::to_string(number);
      auto *list = self.segment.root<std::list<std::uint64_t, allocator<std::uint64_t>>>(name);
      turn.await(number);
      turn.reach(number + 1);
      turn.await(workers);  // all are there
      for (std::uint32_t round = 0; round < kStepsFree; ++round) {
        (*steps)[number][round] = play_step(self, [&] {
          for (std::uint32_t i = 0; i < 5; ++i) list->push_back(round);
          if (round % 50 == 49) list->clear();
        });
      }
    });
    EXPECT_LE(aborts_that_count(*steps, workers), workers * kStepsFree / 20)
        << "of " << workers * kStepsFree << " instances";
  }
}

// A process that forks while it has the segment mapped: the child's containers must not find the
// parent's segment.
TEST_P(MultiAllocatorTest, ForkedChildOfAParticipantUsesItsOwnSegment) {
  using Numbers = std::vector<std::uint64_t, allocator<std::uint64_t>>;
  Worker parent = worker();
  auto *numbers = parent.segment.root<Numbers>("numbers");
  atomically(parent.domain, [&] { numbers->assign(1000, 1); });
  expect_child("child", [&] {
    Worker self = worker();
    ASSERT_EQ(self.segment.data(), parent.segment.data());
    EXPECT_EQ(self.segment.root<Numbers>("numbers"), numbers);
    atomically(self.domain, [&] { numbers->resize(5000, 2); });
    self.domain.close();
  });
  atomically(parent.domain, [&] { numbers->push_back(3); });
  query(parent.domain, [&] {
    ASSERT_EQ(numbers->size(), 5001U);
    EXPECT_EQ(std::accumulate(numbers->begin(), numbers->end(), std::uint64_t{0}),
              1000U + 2 * 4000U + 3U);
  });
  parent.census();
}

TEST_P(MultiAllocatorTest, BlocksOfOneProcessAreFreedByAnother) {
  using Queue = std::vector<std::byte *, allocator<std::byte *>>;
  run(2, "", [&](Worker &self, std::uint32_t number, Turn &turn) {
    auto *queue = self.segment.root<Queue>("queue");
    for (std::uint32_t round = 0; round < 20; ++round) {
      turn.await(round * 2 + number);
      if (number == 0) {
        atomically(self.domain, [&] {
          for (std::size_t i = 0; i < 200; ++i)
            queue->push_back(static_cast<std::byte *>(self.segment.allocate(100)));
        });
      } else {
        atomically(self.domain, [&] {
          for (std::byte *block : *queue) self.segment.deallocate(block, 100);
          expect_error(Errc::kBadFree, [&] { self.segment.deallocate(queue->back(), 100); });
          queue->clear();
        });
      }
      turn.reach(round * 2 + number + 1);
    }
  });
  Worker self = worker();
  const auto census = self.census();
  EXPECT_EQ(census.small_blocks + census.medium_blocks, 2U) << "the queue and its storage";
}

TEST_P(MultiAllocatorTest, KilledInTheMiddleAllocatedNothing) {
  { Worker self = worker(); }
  const Shared<Turn> turn;
  Children children;
  for (std::uint32_t number = 0; number < 4; ++number) {
    const std::size_t victim = children.spawn("victim", [&] {
      Worker self = worker();
      self.domain.begin();
      for (std::size_t bytes = 16; bytes < 100'000; bytes *= 2) {
        std::fill_n(static_cast<std::byte *>(self.segment.allocate(bytes)), bytes, std::byte{1});
      }
      turn->reach(number + 1);
      turn->await(1000);  // until it is killed
    });
    turn->await(number + 1);
    children.bury(victim);
    Worker self = worker();
    const auto census = self.census();
    EXPECT_EQ(census.small_blocks + census.medium_blocks + census.large_runs, number);
    atomically(self.domain, [&] { static_cast<void>(self.segment.allocate(64)); });
  }
}

TEST_P(MultiAllocatorTest, GrowthByOneProcessServesAll) {
  constexpr std::uint32_t kWorkers = 3;
  run(kWorkers, "", [&](Worker &self, std::uint32_t number, Turn &turn) {
    using Numbers = std::vector<std::uint64_t, allocator<std::uint64_t>>;
    auto *numbers = self.segment.root<Numbers>("numbers " + std::to_string(number));
    turn.await(number);
    turn.reach(number + 1);
    turn.await(kWorkers);
    // Doubling vectors: each of the larger ones needs a new run, and the segment has to grow
    // several times.
    for (std::uint64_t count = 0; count < 400'000; count += 20'000) {
      atomically(self.domain, [&] { numbers->resize(count + 20'000, number + count); });
    }
  });
  Worker self = worker();
  EXPECT_GT(self.segment.size_bytes(), 8 * kMiB);
  for (std::uint32_t number = 0; number < kWorkers; ++number) {
    const auto *numbers = self.segment.root<std::vector<std::uint64_t, allocator<std::uint64_t>>>(
        "numbers " + std::to_string(number));
    query(self.domain, [&] {
      ASSERT_EQ(numbers->size(), 400'000U);
      for (std::uint64_t i = 0; i < numbers->size(); ++i)
        ASSERT_EQ((*numbers)[i], number + i / 20'000 * 20'000);
    });
  }
  self.census();
}

// Structures of offset pointers in a segment that lies elsewhere in each process.
TEST_P(MultiAllocatorTest, OffsetPointersWorkAtAnyAddress) {
  struct Node {
    offset_ptr<Node> next;
    std::uint64_t number;
  };
  struct Chain {
    offset_ptr<Node> first;
  };
  SegmentOptions heap;
  heap.size_bytes = 2 * kMiB;
  heap.max_bytes = 16 * kMiB;
  heap.relocatable = true;
  const Shared<std::atomic<std::byte *>> first_address;
  const auto extend = [&](bool elsewhere, std::uint64_t from) {
    Domain domain = Domain::open(folder_.path(), options());
    // Takes the place where the first process had it, unless something lies there already.
    if (elsewhere) {
      const bool is_taken =
          mmap(first_address->load(), kPageBytes, PROT_NONE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != MAP_FAILED;
      ASSERT_TRUE(is_taken || errno == EEXIST);
    }
    const Segment segment = domain.map("moving", heap);
    if (elsewhere) {
      EXPECT_NE(segment.data(), first_address->load());
    }
    first_address->store(segment.data());
    auto *chain = segment.root<Chain>();
    atomically(domain, [&] {
      for (std::uint64_t number = from; number < from + 50; ++number) {
        auto *node = ::new (segment.allocate(sizeof(Node))) Node{chain->first, number};
        chain->first = node;
      }
    });
    query(domain, [&] {
      std::uint64_t expected = from + 50;
      for (const Node *node = chain->first.get(); node != nullptr; node = node->next.get())
        ASSERT_EQ(node->number, --expected);
      EXPECT_EQ(expected, 0U);
    });
    domain.close();
  };
  expect_child("first", [&] { extend(false, 0); });
  expect_child("second", [&] { extend(true, 50); });
}

}  // namespace
}  // namespace tmh::test
