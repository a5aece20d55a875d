// tests/death/kill_heap_test.cpp -- heap, pools and roots of one segment, used by processes that
// are killed at any time, against a reference model.
// Model:      memory outside the domain, which deaths leave alone (support/killed_workers.h).
// Invariants: (1) an instance happened wholly or not at all: blocks, pools, roots and the worker's
//             own words agree with its model.
//             (2) a block keeps its words, whoever allocated it and whoever has it now; in every
//                 snapshot, also while others free and reuse.
//             (3) no two live or free blocks overlap, the heap is sound and holds what the models
//                 hold: nothing leaks.
//             (4) what is no live block is refused (kBadFree), and so is a root of another size;
//                 neither changes anything.
// Size:       TMH_HEAP_KILLS deaths in all (default 120), shared by the modes; some of them are of
//             all workers at once.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include <tmh/tmh.hpp>

#include "storage/heap/heap.h"
#include "storage/heap/heap_check.h"
#include "tests/support/children.h"
#include "tests/support/killed_workers.h"
#include "tests/support/pool_blocks.h"
#include "tests/support/seed.h"
#include "tests/support/shared.h"
#include "tests/support/stage.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

constexpr std::uint32_t kWorkers = 3;
constexpr std::size_t kSlots = 20, kCells = 8, kNames = 8, kActionsMax = 4;
constexpr std::uint64_t kSegmentBytes = 1u << 20, kSegmentBytesMax = 3u << 20;
constexpr long kAimNs = 2'000'000;  // a kill falls somewhere in this time: a few instances
constexpr const char *kNameOf[kNames] = {
    "a", "b",    "root", "another root", "a name as long as a name of a root may be, here",
    " ", "\xff", "tmh"};

// What somebody has: a live block of the heap or of the pools, or nothing (0 bytes).
struct Entry {
  std::uint64_t bytes = 0, seed = 0;
  bool from_pools = false;
  friend bool operator==(const Entry &, const Entry &) = default;
};
struct alignas(64) Slot {
  field<void *> address;
  field<std::uint64_t> bytes, seed, from_pools;
  [[nodiscard]] Entry entry() const { return {bytes, seed, from_pools != 0}; }
  [[nodiscard]] bool keeps_its_words() const {
    return bytes == 0 || is_intact({address, bytes, seed});
  }
  void set(void *at, const Entry &made) {
    address = at;
    bytes = made.bytes;
    seed = made.seed;
    from_pools = made.from_pools ? 1 : 0;
  }
};
struct Table {  // of one worker
  alignas(64) field<std::uint64_t> done;
  Slot slots[kSlots];
};
struct Market {  // where blocks change hands
  Slot cells[kCells];
};
template <std::size_t kBytes>
struct Counted {
  field<std::uint64_t> by[kWorkers];
  char rest[kBytes];
};
struct RefusesToBeMade {
  RefusesToBeMade() { throw std::domain_error("not now"); }
  char bytes[700];
};

enum class What : std::uint8_t { kMake, kFree, kTrade, kRoot, kMisuse };
struct Action {
  What what = What::kMake;
  std::uint32_t slot = 0, cell = 0, name = 0;
  Entry made;
};
enum class Way : std::uint8_t { kPlain, kNested, kPages, kLines };
struct Plan {
  std::array<Action, kActionsMax> actions;
  std::uint32_t count = 0;
  Way way = Way::kPlain;
  bool throws = false;
};
struct Model {
  std::array<Entry, kSlots> slots;
  std::array<std::uint64_t, kNames> roots;  // how often this worker has counted there
  // Made less freed, and the sum of their seeds; what was traded counts where it was made.
  std::uint64_t live_blocks = 0, live_sum = 0;
};
struct Ledger {
  Reference<Model, Plan> of[kWorkers];
  std::atomic<std::uint64_t> commits, undone, full;
  std::atomic<bool> stop;
};

Model after(const Model &before, const Plan &plan, const std::array<Entry, kSlots> &now) {
  Model model = before;
  for (std::uint32_t i = 0; i < plan.count; ++i) {
    const Action &action = plan.actions[i];
    Entry &mine = model.slots[action.slot];
    switch (action.what) {
      case What::kMake:
        mine = action.made;
        ++model.live_blocks;
        model.live_sum += mine.seed;
        break;
      case What::kFree:
        --model.live_blocks;
        model.live_sum -= mine.seed;
        mine = {};
        break;
      case What::kTrade:
        mine = now[action.slot];  // whatever lay there
        break;
      case What::kRoot:
        ++model.roots[action.name];
        break;
      case What::kMisuse:
        break;
    }
  }
  return model;
}

struct Place {
  Place(const std::string &folder, const DomainOptions &options)
      : domain(Domain::open(folder, options)) {
    SegmentOptions heap;
    heap.size_bytes = kSegmentBytes;
    heap.max_bytes = kSegmentBytesMax;
    segment = domain.map("heap", heap);
    own = segment.root<pools>("tmh.pools");
    market = segment.root<Market>("market");
    for (std::uint32_t i = 0; i < kWorkers; ++i)
      tables[i] = segment.root<Table>("table " + std::to_string(i));
  }
  // The counters of a name; each name's have a size of their own.
  [[nodiscard]] field<std::uint64_t> *counters(std::uint32_t name) const {
    switch (name % 4) {
      case 0:
        return segment.root<Counted<8>>(kNameOf[name])->by;
      case 1:
        return segment.root<Counted<200>>(kNameOf[name])->by;
      case 2:
        return segment.root<Counted<5000>>(kNameOf[name])->by;
      default:
        return segment.root<Counted<70000>>(kNameOf[name])->by;
    }
  }

  Domain domain;
  Segment segment;
  pools *own = nullptr;
  Market *market = nullptr;
  Table *tables[kWorkers] = {};
};

// REQUIRES: worker `number` does not run. What its last life left: did the instance that was under
// way happen?
void settle(const Place &place, std::uint32_t number, Reference<Model, Plan> *reference) {
  std::array<Entry, kSlots> now;
  const Table &table = *place.tables[number];
  const std::uint64_t done = query(place.domain, [&] {
    for (std::size_t i = 0; i < kSlots; ++i) now[i] = table.slots[i].entry();
    return static_cast<std::uint64_t>(table.done);
  });
  reference->settle(
      done, [&](const Model &before, const Plan &plan) { return after(before, plan, now); });
}

struct Undone {};  // by a body, which then never was

class Worker {
 public:
  Worker(const Place &place, std::uint32_t number, Ledger *ledger, std::uint64_t random_seed)
      : place_(place),
        ledger_(*ledger),
        reference_(ledger->of[number]),
        table_(*place.tables[number]),
        number_(number),
        random_(random_seed),
        lines_(place.domain, "lines", "on-capacity"),
        pages_(place.domain, "pages", "always") {}

  void step() {
    if (random(8) == 0) return look();
    const Model &before = reference_.model();
    reference_.plan = make_plan(before);
    const std::uint64_t number = reference_.begin();
    std::array<Entry, kSlots> now;
    try {
      run(reference_.plan.way, [&] { now = perform(reference_.plan, before, number); });
    } catch (const Undone &) {
      EXPECT_TRUE(reference_.plan.throws);
      ++ledger_.undone;
      return;
    } catch (const Error &error) {
      EXPECT_EQ(error.errc(), Errc::kSegmentFull) << error.what();
      is_full_ = true;
      ++ledger_.full;
      return;
    }
    EXPECT_FALSE(reference_.plan.throws);
    is_full_ = false;
    reference_.commit(after(before, reference_.plan, now));
    ++ledger_.commits;
  }

 private:
  std::uint64_t random(std::uint64_t below) { return random_() % below; }

  [[nodiscard]] Entry make_entry() {
    static constexpr std::uint64_t kBytesMax[] = {64,   64,   600,    600,    4032,
                                                  4096, 6000, 40'000, 400'000};
    Entry made;
    made.from_pools = random(2) == 0;
    made.bytes = 1 + random(kBytesMax[random(std::size(kBytesMax) - (made.from_pools ? 2 : 0))]);
    made.seed = random_();
    return made;
  }
  [[nodiscard]] Plan make_plan(const Model &model) {
    Plan plan;
    std::array<bool, kSlots> is_used{};
    const std::uint64_t actions = 1 + random(kActionsMax);
    while (plan.count < actions) {
      Action action;
      action.slot = static_cast<std::uint32_t>(random(kSlots));
      action.cell = static_cast<std::uint32_t>(random(kCells));
      action.name = static_cast<std::uint32_t>(random(kNames));
      if (is_used[action.slot]) continue;
      const std::uint64_t dice = random(12);
      const bool is_empty = model.slots[action.slot].bytes == 0;
      if (dice == 0)
        action.what = What::kMisuse;
      else if (dice == 1 && !is_full_)
        action.what = What::kRoot;
      else if (dice < 4 || (is_full_ && is_empty))
        action.what = What::kTrade;
      else
        action.what = is_empty ? What::kMake : What::kFree;
      if (action.what == What::kMake) action.made = make_entry();
      is_used[action.slot] = true;
      plan.actions[plan.count++] = action;
    }
    plan.way = static_cast<Way>(random(4));
    plan.throws = random(8) == 0;
    return plan;
  }

  template <class Body>
  void run(Way way, const Body &body) {
    switch (way) {
      case Way::kPlain:
        return atomically(place_.domain, body);
      case Way::kNested:
        return atomically(lines_, [&](Fields) { atomically(place_.domain, body); });
      case Way::kPages:
        return atomically(pages_, [&](Fields) { return body(); });
      case Way::kLines:
        return atomically(lines_, [&](Fields) { return body(); });
    }
  }
  // May run several times: changes nothing of the worker's. What lies in its slots then.
  [[nodiscard]] std::array<Entry, kSlots> perform(const Plan &plan, const Model &before,
                                                  std::uint64_t number) const {
    for (std::uint32_t i = 0; i < plan.count; ++i) {
      const Action &action = plan.actions[i];
      Slot &slot = table_.slots[action.slot];
      EXPECT_EQ(slot.entry(), before.slots[action.slot])
          << "worker " << number_ << ", slot " << action.slot;
      EXPECT_TRUE(slot.keeps_its_words()) << "worker " << number_ << ", slot " << action.slot;
      perform(action, &slot);
      if (plan.throws && i == plan.count / 2) throw Undone{};
    }
    std::array<Entry, kSlots> now;
    for (std::uint32_t i = 0; i < plan.count; ++i)
      now[plan.actions[i].slot] = table_.slots[plan.actions[i].slot].entry();
    table_.done = number;
    return now;
  }
  void perform(const Action &action, Slot *slot) const {
    switch (action.what) {
      case What::kMake:
        return make(action.made, slot);
      case What::kFree:
        return give_back(slot);
      case What::kTrade:
        return trade(&place_.market->cells[action.cell], slot);
      case What::kRoot:
        ++place_.counters(action.name)[number_];
        return;
      case What::kMisuse:
        return misuse(*slot, kNameOf[action.name]);
    }
  }
  void make(const Entry &made, Slot *slot) const {
    const std::size_t alignment = std::size_t{8} << made.seed % 10;
    void *const address = made.from_pools ? place_.own->allocate(made.bytes)
                                          : place_.segment.allocate(made.bytes, alignment);
    if (!made.from_pools) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(address) % alignment, 0U);
    }
    fill({address, made.bytes, made.seed});
    slot->set(address, made);
  }
  void give_back(Slot *slot) const {
    void *const address = slot->address;
    const Entry entry = slot->entry();
    if (entry.from_pools) {
      place_.own->deallocate(address, entry.bytes);
    } else {
      place_.segment.deallocate(address, entry.bytes);
      expect_refused(Errc::kBadFree, [&] { place_.segment.deallocate(address, entry.bytes); });
    }
    slot->set(nullptr, {});
  }
  static void trade(Slot *cell, Slot *slot) {
    EXPECT_TRUE(cell->keeps_its_words());
    void *const address = cell->address;
    const Entry entry = cell->entry();
    cell->set(slot->address, slot->entry());
    slot->set(address, entry);
  }
  void misuse(const Slot &slot, const char *name) const {
    std::uint64_t local = 0;
    expect_refused(Errc::kBadFree, [&] { place_.segment.deallocate(&local); });
    if (slot.bytes > 8 && slot.from_pools == 0)
      expect_refused(Errc::kBadFree, [&] {
        place_.segment.deallocate(static_cast<std::byte *>(slot.address.load()) + 8);
      });
    if (*place_.segment.root_cell(name) != nullptr)
      expect_refused(Errc::kRootMismatch,
                     [&] { static_cast<void>(place_.segment.root_cell(name, 12345)); });
    EXPECT_THROW(static_cast<void>(place_.segment.root<RefusesToBeMade>("refuses")),
                 std::domain_error);
  }
  template <class Call>
  static void expect_refused(Errc why, const Call &call) {
    try {
      call();
      ADD_FAILURE() << "not refused: " << static_cast<int>(why);
    } catch (const Error &error) {
      EXPECT_EQ(error.errc(), why) << error.what();
    }
  }

  // Everything that anybody has, in one snapshot: some of it is freed, and its memory used again,
  // meanwhile.
  void look() {
    const auto body = [&] {
      for (const Table *table : place_.tables)
        for (const Slot &slot : table->slots)
          EXPECT_TRUE(slot.keeps_its_words()) << "seen by worker " << number_;
      for (const Slot &cell : place_.market->cells)
        EXPECT_TRUE(cell.keeps_its_words()) << "seen by worker " << number_;
    };
    random(2) == 0 ? query(place_.domain, body) : query(lines_, [&](Fields) { return body(); });
  }

  const Place &place_;
  Ledger &ledger_;
  Reference<Model, Plan> &reference_;
  Table &table_;
  const std::uint32_t number_;
  std::mt19937_64 random_;
  Site lines_, pages_;
  bool is_full_ = false;
};

void work(const std::string &folder, const DomainOptions &options, std::uint32_t number,
          Ledger *ledger, std::uint64_t random_seed) {
  Place place(folder, options);
  Reference<Model, Plan> &reference = ledger->of[number];
  settle(place, number, &reference);
  {
    Worker worker(place, number, ledger, random_seed);
    while (!ledger->stop && !testing::Test::HasFailure()) {
      reference.life.die_where_asked();
      worker.step();
      ++reference.life.steps;
    }
  }
  place.domain.close();
}

// REQUIRES: no worker runs.
class Judge {
 public:
  Judge(const Place &place, Ledger *ledger) : place_(place), ledger_(*ledger) {}

  void judge() {
    for (std::uint32_t i = 0; i < kWorkers; ++i) settle(place_, i, &ledger_.of[i]);
    place_.domain.begin();  // and is undone
    for (std::uint32_t i = 0; i < kWorkers; ++i) judge_worker(i);
    for (const Slot &cell : place_.market->cells) look_at(cell);
    EXPECT_EQ(blocks_.size(), live_blocks_);
    EXPECT_EQ(sum_, live_sum_);
    judge_roots();
    judge_heap();
    const std::vector<PoolBlock> free = take_all_free(place_.own);
    blocks_.insert(blocks_.end(), free.begin(), free.end());
    expect_no_overlap(blocks_);
    place_.domain.abort();
  }

 private:
  void judge_worker(std::uint32_t number) {
    const Model &model = ledger_.of[number].model();
    const Table &table = *place_.tables[number];
    for (std::size_t i = 0; i < kSlots; ++i) {
      EXPECT_EQ(table.slots[i].entry(), model.slots[i]) << "worker " << number << ", slot " << i;
      look_at(table.slots[i]);
    }
    live_blocks_ += model.live_blocks;
    live_sum_ += model.live_sum;
  }
  void look_at(const Slot &slot) {
    if (slot.bytes == 0) return;
    EXPECT_TRUE(slot.keeps_its_words());
    blocks_.push_back({slot.address, slot.bytes, slot.seed});
    sum_ += slot.seed;
    const bool is_heaps = slot.from_pools == 0 || slot.bytes > pools::kBlockBytesMax;
    heap_blocks_ += is_heaps ? 1 : 0;
  }
  void judge_roots() {
    for (std::uint32_t name = 0; name < kNames; ++name) {
      std::uint64_t counted[kWorkers] = {}, all = 0;
      for (std::uint32_t i = 0; i < kWorkers; ++i)
        all += counted[i] = ledger_.of[i].model().roots[name];
      ASSERT_EQ(*place_.segment.root_cell(kNameOf[name]) != nullptr, all != 0) << kNameOf[name];
      if (all == 0) continue;
      ++named_roots_;
      const field<std::uint64_t> *const counters = place_.counters(name);
      for (std::uint32_t i = 0; i < kWorkers; ++i)
        EXPECT_EQ(counters[i], counted[i]) << kNameOf[name];
    }
    EXPECT_EQ(*place_.segment.root_cell("refuses"), nullptr);
  }
  void judge_heap() const {
    storage::HeapCensus census;
    ASSERT_EQ(storage::heap_check(place_.segment.data(), place_.segment.size_bytes(), &census),
              Errc::kOk);
    const std::uint64_t objects = 2 + kWorkers + named_roots_;  // of roots: pools, market, tables
    EXPECT_EQ(census.small_blocks + census.medium_blocks + census.large_runs,
              heap_blocks_ + objects + place_.own->chunks());
  }

  const Place &place_;
  Ledger &ledger_;
  std::vector<PoolBlock> blocks_;
  std::uint64_t heap_blocks_ = 0, sum_ = 0, live_blocks_ = 0, live_sum_ = 0, named_roots_ = 0;
};

class KillHeapTest : public ModeTest {
 protected:
  void judge() {
    expect_child("judge", [&] {
      Place place(folder_.path(), options());
      Judge(place, &*ledger_).judge();
      place.domain.close();
    });
  }

  Shared<Ledger> ledger_;
};
INSTANTIATE_TEST_SUITE_P(Modes, KillHeapTest, testing::ValuesIn(kModes), mode_name);
INSTANTIATE_TEST_SUITE_P(DurableModes, KillHeapTest, testing::ValuesIn(kDurableHybridModes),
                         mode_name);

TEST_P(KillHeapTest, WhatIsThereIsWhatTheModelsSay) {
  const std::uint64_t kills = environment_number("TMH_HEAP_KILLS", 120) /
                              (std::size(kModes) + std::size(kDurableHybridModes));
  KilledWorkers workers({&ledger_->of[0].life, &ledger_->of[1].life, &ledger_->of[2].life},
                        [this](std::uint32_t number, std::uint64_t random_seed) {
                          work(folder_.path(), options(), number, &*ledger_, random_seed);
                        });
  workers.kill({.count = kills, .steps_between = 12, .aim_ns = kAimNs, .all_one_in = 4},
               [this] { judge(); });
  ledger_->stop = true;
  workers.expect_success();
  judge();
  std::printf("%llu instances committed, %llu undone by their bodies, %llu by a full segment\n",
              static_cast<unsigned long long>(ledger_->commits),
              static_cast<unsigned long long>(ledger_->undone),
              static_cast<unsigned long long>(ledger_->full));
}

}  // namespace
}  // namespace tmh::test
