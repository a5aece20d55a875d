// tests/page/estate_test.cpp -- the list of estates that a reaper walks, with estates of the test.
// Invariants: (1) a reaper tells every estate of each death once, in the order of the list, and
//                 what the dead one left goes back once; also when a reaper has died before, at the
//                 begin, in the middle or at the end of that.
//             (2) the heir of a dead holder of the domain lock repairs every estate once, in the
//                 same order, before it has the lock; in the fault handler, too.
//             (3) an engine's list: the consistency tree with its version slots, the access table,
//                 what the level below holds; estates of others behind them.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "levels/page/engine.h"
#include "levels/page/shared/estate.h"
#include "observe/steps.h"
#include "tests/support/children.h"
#include "tests/support/joined.h"
#include "tests/support/shared.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

using page::DomainLock;
using page::Estate;

constexpr std::uint32_t kSlots = 16;
constexpr std::uint32_t kRepair = ~0u;

// In shared memory, of one kind of estate.
struct Left {
  std::atomic<std::uint32_t> of[kSlots];  // what the participant in the slot would leave
  std::atomic<std::uint32_t> given_back;
};

// (estate, slot or kRepair), as this process was told.
using Told = std::vector<std::pair<int, std::uint32_t>>;

class PlantedEstate final : public Estate {
 public:
  PlantedEstate(int name, Left &left, Told &told) : name_(name), left_(left), told_(told) {}

  // In the middle of a settlement: all of it is back, and the rest of the list knows nothing.
  void die_in_settlement() { dies_ = true; }

  void settle(const DomainLock::Held &held, std::uint32_t slot) noexcept override {
    EXPECT_TRUE(held.is_valid());
    told_.emplace_back(name_, slot);
    left_.given_back += left_.of[slot].exchange(0);
    if (dies_) die_unless_failed();
  }
  void repair(const DomainLock::Held &held) noexcept override {
    EXPECT_TRUE(held.is_valid());
    told_.emplace_back(name_, kRepair);
  }

 private:
  const int name_;
  Left &left_;
  Told &told_;
  bool dies_ = false;
};

// A participant with three estates.
struct Planted : Heir {
  Told told;
  std::vector<PlantedEstate> estates;

  Planted(const std::string &folder, Left *left) : Heir(folder) {
    for (int i = 0; i < 3; ++i) estates.emplace_back(i, left[i], told);
    for (PlantedEstate &estate : estates) reaper.add(estate);
    for (int i = 0; i < 3; ++i) left[i].of[slot] = 1;
  }
  [[nodiscard]] Told tell(std::vector<std::uint32_t> what) const {
    Told all;
    for (const std::uint32_t each : what)
      for (int i = 0; i < 3; ++i) all.emplace_back(i, each);
    return all;
  }
};

class EstateTest : public testing::Test {
 protected:
  // Returns the slot in which it died.
  std::uint32_t die_in_slot(const std::function<void(Planted &)> &last_act) {
    const ChildEnd end = run_in_child("dying", [&] {
      Planted dying(folder_.path(), left_->kinds);
      *slot_ = dying.slot;
      last_act(dying);
    });
    EXPECT_EQ(end.signal, SIGKILL);
    return *slot_;
  }
  std::uint32_t die_in_slot() {
    return die_in_slot([](Planted &) { die_unless_failed(); });
  }
  void expect_given_back(std::uint32_t deaths) const {
    for (const Left &each : left_->kinds) EXPECT_EQ(each.given_back, deaths);
  }

  struct Kinds {
    Left kinds[3];
  };
  const MemoryFolder folder_;
  const Shared<Kinds> left_;
  const Shared<std::uint32_t> slot_;
};

TEST_F(EstateTest, EachDeathIsSettledOnceInTheOrderOfTheList) {
  Planted heir(folder_.path(), left_->kinds);
  const std::uint32_t first = die_in_slot(), second = die_in_slot();
  ASSERT_NE(first, second);
  heir.reaper.reap_dead(heir.lock.take());
  EXPECT_EQ(heir.told, heir.tell({first, second}));
  expect_given_back(2);
  heir.reaper.reap_dead(heir.lock.take());
  EXPECT_EQ(heir.told, heir.tell({first, second})) << "again";
  EXPECT_EQ(heir.memory.state().reaped, 2U);
  EXPECT_EQ(left_->kinds[0].of[heir.slot], 1U) << "of the living one";
}

class DeadReaperTest : public EstateTest, public testing::WithParamInterface<observe::Step> {};

TEST_P(DeadReaperTest, EachDeathIsSettledOnceByTheNextReaper) {
  Planted heir(folder_.path(), left_->kinds);
  const std::uint32_t first = die_in_slot();
  const std::uint32_t second = die_in_slot([](Planted &reaper) {
    observe::crash_at(static_cast<std::uint32_t>(GetParam()), 1);
    reaper.reaper.reap_dead(reaper.lock.take());
  });
  ASSERT_NE(first, second);
  heir.reaper.reap_dead(heir.lock.take());
  const bool is_first_done = GetParam() == observe::Step::kReapDone;
  EXPECT_EQ(heir.told,
            is_first_done ? heir.tell({kRepair, second}) : heir.tell({kRepair, first, second}));
  expect_given_back(2);
  EXPECT_EQ(heir.memory.state().reaped, 2U);
}

INSTANTIATE_TEST_SUITE_P(Steps, DeadReaperTest,
                         testing::Values(observe::Step::kReapStart, observe::Step::kReapCounted,
                                         observe::Step::kReapDone),
                         [](const auto &step) {
                           std::string name = observe::step_name(step.param);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST_F(EstateTest, ReaperThatDiesInsideOneEstateIsFollowedByOneThatSettlesAll) {
  Planted heir(folder_.path(), left_->kinds);
  const std::uint32_t first = die_in_slot();
  const std::uint32_t second = die_in_slot([&](Planted &reaper) {
    reaper.estates[1].die_in_settlement();
    reaper.reaper.reap_dead(reaper.lock.take());
  });
  EXPECT_EQ(left_->kinds[1].given_back, 1U);
  EXPECT_EQ(left_->kinds[2].given_back, 0U) << "behind the one in which it died";
  heir.reaper.reap_dead(heir.lock.take());
  EXPECT_EQ(heir.told, heir.tell({kRepair, first, second}));
  expect_given_back(2);
  EXPECT_EQ(heir.memory.state().reaped, 2U);
}

class DeadHolderTest : public EstateTest,
                       public testing::WithParamInterface<DomainLock::Context> {};

TEST_P(DeadHolderTest, EveryEstateIsRepairedOnceBeforeTheHeirHasTheLock) {
  Planted heir(folder_.path(), left_->kinds);
  const std::uint32_t holder = die_in_slot([](Planted &dying) {
    const DomainLock::Held held = dying.lock.take();
    die_unless_failed();
  });
  {
    const DomainLock::Held held = heir.lock.take(GetParam());
    EXPECT_EQ(heir.told, heir.tell({kRepair}));
    heir.reaper.reap_dead(held);
  }
  EXPECT_EQ(heir.told, heir.tell({kRepair, holder}));
  (void)heir.lock.take(GetParam());
  EXPECT_EQ(heir.told, heir.tell({kRepair, holder})) << "from a living one";
  EXPECT_EQ(heir.self().count(storage::Count::kLockRecoveries), 1U);
}

INSTANTIATE_TEST_SUITE_P(Contexts, DeadHolderTest,
                         testing::Values(DomainLock::Context::kNormal,
                                         DomainLock::Context::kHandler),
                         [](const auto &context) {
                           return context.param == DomainLock::Context::kNormal ? "Normal"
                                                                                : "Handler";
                         });

TEST_F(EstateTest, AnEnginesListIsTreeThenAccessesThenTheLevelBelowThenOthers) {
  Joined joined(folder_.path());
  page::Engine engine(joined.memory, joined.slot, Detection::kLazy);
  const auto list = [&] {
    const page::Estates &estates = engine.ours().reaper.estates();
    return std::vector<const Estate *>(estates.begin(), estates.end());
  };
  ASSERT_EQ(list().size(), 2U);
  EXPECT_EQ(list()[0], &engine.ours().tree);
  EXPECT_NE(dynamic_cast<const page::AccessTable *>(list()[1]), nullptr);
  engine.use_recaller(&page::NothingToRecall::here());
  Told told;
  PlantedEstate other(0, left_->kinds[0], told);
  engine.ours().reaper.add(other);
  ASSERT_EQ(list().size(), 4U);
  EXPECT_EQ(list()[0], &engine.ours().tree);
  EXPECT_EQ(list()[2], &page::NothingToRecall::here());
  EXPECT_EQ(list()[3], &other);
}

// What the estates of level 2 give back, by way of the list.
TEST_F(EstateTest, DeadParticipantsReservedSlotsAreFreeAndItsMomentIsLeft) {
  Joined joined(folder_.path());
  page::Engine engine(joined.memory, joined.slot, Detection::kLazy);
  const std::uint32_t dead = die_in_slot([](Planted &dying) {
    page::ConsistencyTree tree(dying.memory, dying.slot, page::ConsistencyTree::Role::kKeepsSlots);
    expect_ok(tree.slots().reserve(dying.lock.take(), 3));
    dying.self().past.store(1);
    die_unless_failed();
  });
  const auto reserved = [&] {
    std::uint32_t count = 0;
    for (page::Slot slot = 1; slot < joined.memory.state().version_capacity; ++slot) {
      const page::VersionHead &head = joined.memory.version(slot);
      if (head.stamp == page::kReservedStamp && head.owner == dead) ++count;
    }
    return count;
  };
  EXPECT_EQ(reserved(), 3U);
  engine.ours().reaper.reap_dead(engine.lock_domain());
  EXPECT_EQ(reserved(), 0U);
  EXPECT_EQ(joined.memory.participant(dead).past, 0U);
  EXPECT_EQ(joined.memory.participant(dead).state, 0U);
}

}  // namespace
}  // namespace tmh::test
