// tests/api/multi_pools_test.cpp -- random histories of tmh::pools by threads of several processes,
// at mixed levels, in every mode.
// Model:     each worker knows its live blocks; every word of one says whose it is.
// Invariants: (1) a live block keeps its owner's words, whatever others allocate, free and roll
//             back; so none is handed out twice.
//             (2) what is passed on in an instance, and freed by another worker, belongs to one of
//                 the two in every snapshot.
//             (3) at the end no two of all live and all free blocks overlap, and the heap is sound.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <tmh/tmh.hpp>

#include "storage/heap/heap.h"
#include "storage/heap/heap_check.h"
#include "tests/support/pool_blocks.h"
#include "tests/support/seed.h"
#include "tests/support/stage.h"
#include "tests/support/thread_table.h"

namespace tmh::test {
namespace {

constexpr std::uint32_t kProcesses = 2, kThreads = 2, kWorkers = kProcesses * kThreads;
constexpr std::uint64_t kSteps = 500, kLiveMax = 60;

// A block on its way to a worker.
struct Parcel {
  field<void *> address;
  field<std::uint64_t> bytes, seed;
  char rest_of_line[40];
};
struct Parcels {
  alignas(64) Parcel to[kWorkers];
};

// What a worker leaves to the judge.
struct Legacy {
  std::array<PoolBlock, kLiveMax> live;
  std::uint64_t count;
};
struct Will {
  std::array<Legacy, kWorkers> of;
  std::atomic<std::uint64_t> line_commits, page_commits, aborts;
  std::atomic<std::uint32_t> ready;  // workers; they begin together
};

struct Place {
  Place(const std::string &folder, const DomainOptions &options)
      : domain(Domain::open(folder, options)) {
    segment = domain.map("heap");
    own = segment.root<pools>("tmh.pools");
    parcels = segment.root<Parcels>("parcels");
  }
  Domain domain;
  Segment segment;
  pools *own = nullptr;
  Parcels *parcels = nullptr;
};

class Worker {
 public:
  Worker(const Place &place, std::uint32_t number)
      : place_(place),
        number_(number),
        random_(seed() * 31 + number),
        lines_(place.domain, "lines", "on-capacity"),
        pages_(place.domain, "pages", "always") {}

  void step() {
    const Plan plan = make_plan();
    Outcome outcome;
    const auto body = [&] { outcome = perform(plan); };
    try {
      switch (random(4)) {
        case 0:
          atomically(place_.domain, body);
          break;
        case 1:
          atomically(pages_, [&](Fields) { return body(); });
          break;
        default:
          atomically(lines_, [&](Fields) { return body(); });
      }
    } catch (const std::runtime_error &) {
      EXPECT_TRUE(plan.aborts);
      return;
    }
    EXPECT_FALSE(plan.aborts);
    EXPECT_TRUE(outcome.was_intact) << "worker " << number_;
    if (outcome.sent != nullptr) forget(outcome.sent);
    for (const PoolBlock &block : plan.freed) forget(block.address);
    live_.insert(live_.end(), outcome.gained.begin(), outcome.gained.end());
  }
  void check_all() const {
    query(place_.domain, [&] {
      for (const PoolBlock &block : live_) EXPECT_TRUE(is_intact(block)) << "worker " << number_;
    });
  }
  void bequeath(Will *will) const {
    Legacy &legacy = will->of[number_];
    legacy.count = live_.size();
    std::copy(live_.begin(), live_.end(), legacy.live.begin());
    will->line_commits += lines_.report().line_commits;
    will->page_commits += lines_.report().page_commits + pages_.report().page_commits;
    will->aborts +=
        lines_.report().line_aborts + lines_.report().page_aborts + pages_.report().page_aborts;
  }

 private:
  struct Plan {
    std::vector<PoolBlock> freed, allocated;
    PoolBlock sent;
    std::uint32_t to = 0;
    bool receives = false, aborts = false;
  };
  struct Outcome {
    std::vector<PoolBlock> gained;
    void *sent = nullptr;
    bool was_intact = true;
  };

  std::uint64_t random(std::uint64_t below) {
    random_ = random_ * 6364136223846793005ULL + 1442695040888963407ULL;
    return (random_ >> 33) % below;
  }
  Plan make_plan() {
    static constexpr std::uint64_t kSizes[] = {8,   64,   64,   64,   120,  256, 500,
                                               512, 1000, 2048, 4032, 4096, 5000};
    Plan plan;
    std::vector<PoolBlock> left = live_;
    const auto take = [&] {
      const std::size_t at = random(left.size());
      const PoolBlock block = left[at];
      left.erase(left.begin() + static_cast<std::ptrdiff_t>(at));
      return block;
    };
    while (!left.empty() && (random(3) == 0 || left.size() + 4 > kLiveMax))
      plan.freed.push_back(take());
    for (std::uint64_t i = random(4); i > 0; --i)
      plan.allocated.push_back(
          {nullptr, kSizes[random(std::size(kSizes))], ++seeds_ * kWorkers + number_});
    if (!left.empty() && random(3) == 0) {
      plan.sent = take();
      plan.to = static_cast<std::uint32_t>(random(kWorkers));
    }
    plan.receives = random(2) == 0;
    plan.aborts = random(6) == 0;
    return plan;
  }
  // May run several times: changes nothing of the worker's.
  [[nodiscard]] Outcome perform(const Plan &plan) const {
    Outcome outcome;
    for (const PoolBlock &block : plan.freed) {
      outcome.was_intact &= is_intact(block);
      place_.own->deallocate(block.address, block.bytes);
    }
    for (PoolBlock block : plan.allocated) {
      block.address = place_.own->allocate(block.bytes);
      fill(block);
      outcome.gained.push_back(block);
    }
    if (Parcel &parcel = place_.parcels->to[number_]; plan.receives && parcel.address != nullptr) {
      const PoolBlock block{parcel.address, parcel.bytes, parcel.seed};
      outcome.was_intact &= is_intact(block);
      outcome.gained.push_back(block);
      parcel.address = nullptr;
    }
    if (Parcel &parcel = place_.parcels->to[plan.to];
        plan.sent.address != nullptr && parcel.address == nullptr) {
      parcel.address = plan.sent.address;
      parcel.bytes = plan.sent.bytes;
      parcel.seed = plan.sent.seed;
      outcome.sent = plan.sent.address;
    }
    if (plan.aborts) throw std::runtime_error("undone");
    return outcome;
  }
  void forget(const void *address) {
    std::erase_if(live_, [&](const PoolBlock &block) { return block.address == address; });
  }

  const Place &place_;
  const std::uint32_t number_;
  std::uint64_t random_, seeds_ = 0;
  Site lines_, pages_;
  std::vector<PoolBlock> live_;
};

class MultiPoolsTest : public ModeTest {};
INSTANTIATE_TEST_SUITE_P(Modes, MultiPoolsTest, testing::ValuesIn(kModes), mode_name);
INSTANTIATE_TEST_SUITE_P(DurableModes, MultiPoolsTest, testing::ValuesIn(kDurableHybridModes),
                         mode_name);

TEST_P(MultiPoolsTest, NoBlockIsHandedOutTwice) {
  const MemoryFolder folder;
  const Shared<Will> will;
  static_cast<void>(seed());  // chosen and printed here, inherited by the children
  Children children;
  for (std::uint32_t process = 0; process < kProcesses; ++process) {
    children.spawn("process " + std::to_string(process), [&, process] {
      Place place(folder.path(), options());
      {
        std::vector<std::unique_ptr<Thread>> threads;
        for (std::uint32_t thread = 0; thread < kThreads; ++thread) {
          threads.push_back(std::make_unique<Thread>([&, thread] {
            Worker worker(place, process * kThreads + thread);
            will->ready.fetch_add(1);
            EXPECT_TRUE(poll_until([&] { return will->ready.load() == kWorkers; }));
            for (std::uint64_t step = 1; step <= kSteps; ++step) {
              worker.step();
              if (step % 50 == 0) worker.check_all();
            }
            worker.bequeath(&*will);
          }));
        }
      }
      place.domain.close();
    });
  }
  children.expect_success();
  if (GetParam().levels == Levels::kHybrid) {
    EXPECT_GT(will->line_commits.load(), 0U);
  }
  EXPECT_GT(will->page_commits.load(), 0U);
  std::printf(
      "%llu instances committed at sites, %llu attempts aborted\n",
      static_cast<unsigned long long>(will->line_commits.load() + will->page_commits.load()),
      static_cast<unsigned long long>(will->aborts.load()));

  const Place place(folder.path(), options());
  atomically(place.domain, [&] {
    EXPECT_EQ(storage::heap_check(place.segment.data(), place.segment.size_bytes()), Errc::kOk);
    std::vector<PoolBlock> live;
    for (const Legacy &legacy : will->of)
      live.insert(live.end(), legacy.live.begin(),
                  legacy.live.begin() + static_cast<std::ptrdiff_t>(legacy.count));
    for (const Parcel &parcel : place.parcels->to)
      if (parcel.address != nullptr) live.push_back({parcel.address, parcel.bytes, parcel.seed});
    const std::vector<PoolBlock> free = take_all_free(place.own);
    EXPECT_FALSE(free.empty());
    for (const PoolBlock &block : free) fill(block);
    for (const PoolBlock &block : live) EXPECT_TRUE(is_intact(block));
    std::vector<PoolBlock> all = live;
    all.insert(all.end(), free.begin(), free.end());
    expect_no_overlap(all);
    for (const PoolBlock &block : all) place.own->deallocate(block.address, block.bytes);
  });
}

}  // namespace
}  // namespace tmh::test
