// tests/lock/kill_lock_test.cpp -- a process dies at each numbered step of the lock table.
// Invariants: (1) who waits for what the dead one held gets it, and so does who waited with it;
//             (2) no lock, no waiter and no cell is lost; (3) every step is passed.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "levels/lock/lock.h"
#include "observe/steps.h"
#include "tests/support/children.h"
#include "tests/support/lock_rig.h"
#include "tests/support/shared.h"

namespace tmh::test {
namespace {

using lock::LockerId;
using lock::LockId;
using lock::Mode;
using lock::ObjectId;
using lock::Patience;
using lock::Succession;
using observe::Step;

constexpr Step kFirst = Step::kLockCellTaken, kLast = Step::kLockInheriting;
constexpr ObjectId kRead{1, 1}, kWritten{1, 2}, kSplit{1, 3}, kBusy{1, 4}, kCorpse{1, 5};
constexpr std::uint64_t kMore = 200;  // enough to take cells, and to give them back

void expect_ok(Errc error) { EXPECT_EQ(error, Errc::kOk); }

class KillLockTest : public testing::TestWithParam<std::pair<Step, std::uint32_t>> {};

// Whatever can be done with locks.
void use_locks(lock::LockTable &table) {
  LockerId self{};
  LockId lock{}, read{};
  expect_ok(table.begin(1, &self));
  expect_ok(table.lock(self, kRead, Mode::kShared, Patience::none(), &read));
  expect_ok(table.lock(self, kWritten, Mode::kExclusive, Patience::none(), &lock));
  EXPECT_EQ(table.lock(self, kBusy, Mode::kShared, {2'000'000}, &lock), Errc::kLockTimeout);
  expect_ok(table.inherit(self, kRead, kSplit));
  for (std::uint64_t i = 0; i < kMore; ++i)
    expect_ok(table.lock(self, {2, i}, Mode::kExclusive, Patience::none(), &lock));
  expect_ok(table.lock(self, kCorpse, Mode::kExclusive, Patience::endless(), &lock));
  expect_ok(table.unlock(self, kWritten, Mode::kExclusive));
  expect_ok(table.unlock_all(self));
  table.end(self);
}

TEST_P(KillLockTest, OthersGoOn) {
  const auto [step, count] = GetParam();
  LockRig rig;
  const auto table = rig.join();
  LockerId busy{}, reader{};
  LockId lock{};
  expect_ok(table->begin(2, &busy));
  expect_ok(table->lock(busy, kBusy, Mode::kExclusive, Patience::none(), &lock));
  // Another locker whose lock the victim passes on with its own.
  expect_ok(table->begin(3, &reader));
  expect_ok(table->lock(reader, kRead, Mode::kShared, Patience::none(), &lock));
  const ChildEnd corpse = run_in_child("corpse", [&] {
    const auto own = rig.join();
    LockerId self{};
    expect_ok(own->begin(4, &self));
    expect_ok(own->lock(self, kCorpse, Mode::kExclusive, Patience::none(), &lock));
    die_unless_failed();
  });
  EXPECT_EQ(corpse.signal, SIGKILL);
  Children children;
  Shared<Turn> dead;
  children.spawn("victim", [&rig, step = step, count = count] {
    const auto own = rig.join();
    observe::crash_at(static_cast<std::uint32_t>(step), count);
    use_locks(*own);
    observe::crash_at(observe::kStepCount, 0);
  });
  const ChildEnd end = children.wait(0);
  if (count == 1) {
    EXPECT_EQ(end.signal, SIGKILL) << "the step was not passed";
  }

  LockerId heir{};
  expect_ok(table->begin(5, &heir));
  expect_ok(table->unlock_all(reader));
  for (const ObjectId object : {kWritten, kRead, kSplit, kCorpse})
    expect_ok(table->lock(heir, object, Mode::kExclusive, Patience::endless(), &lock));
  for (std::uint64_t i = 0; i < kMore; ++i)
    expect_ok(table->lock(heir, {2, i}, Mode::kExclusive, Patience::endless(), &lock));
  for (const LockerId locker : {busy, reader, heir}) table->end(locker);
  table->settle();
  LockRig::expect_empty(*table);
}

class KeepingHeir final : public lock::Heir {
 public:
  bool take(LockerId locker, std::uint64_t name) noexcept override {
    kept_.emplace_back(locker, name);
    return false;
  }
  std::vector<std::pair<LockerId, std::uint64_t>> kept_;
};

// It dies while it waits for kBusy, and holds kWritten.
void die_waiting(LockRig &rig, lock::LockTable &table, Succession succession) {
  Children children;
  children.spawn("waits", [&rig, succession] {
    const auto own = rig.join();
    LockerId self{};
    LockId lock{};
    expect_ok(own->begin(77, &self, succession));
    expect_ok(own->lock(self, kWritten, Mode::kExclusive, Patience::none(), &lock));
    expect_ok(own->lock(self, kBusy, Mode::kExclusive, Patience::endless(), &lock));
  });
  ASSERT_TRUE(poll_until([&] { return table.totals()[lock::LockCount::kWaits] > 0; }));
  children.bury(0);
}

TEST(DeadLockerTest, WhoDoesNotWaitGetsWhatACorpseHeld) {
  LockRig rig;
  const auto table = rig.join();
  LockerId busy{}, other{};
  LockId lock{};
  expect_ok(table->begin(2, &busy));
  expect_ok(table->begin(3, &other));
  expect_ok(table->lock(busy, kBusy, Mode::kExclusive, Patience::none(), &lock));
  die_waiting(rig, *table, Succession::kRelease);
  expect_ok(table->lock(other, kWritten, Mode::kExclusive, Patience::none(), &lock));
  table->end(busy);
  expect_ok(table->lock(other, kBusy, Mode::kExclusive, Patience::none(), &lock));
  table->end(other);
  LockRig::expect_empty(*table);
}

TEST(DeadLockerTest, WhatHasAnHeirStaysWhereThereIsNone) {
  LockRig rig;
  const auto table = rig.join();
  LockerId busy{}, other{};
  LockId lock{};
  expect_ok(table->begin(2, &busy));
  expect_ok(table->begin(3, &other));
  expect_ok(table->lock(busy, kBusy, Mode::kExclusive, Patience::none(), &lock));
  die_waiting(rig, *table, Succession::kHeir);
  table->settle();
  EXPECT_EQ(table->lock(other, kWritten, Mode::kExclusive, {5'000'000}, &lock), Errc::kLockTimeout);
  KeepingHeir heir;
  const auto heirs_table = rig.join(&heir);
  EXPECT_EQ(heirs_table->begin_life([&] { return Errc::kOk; }), Errc::kOk);
  // Its life has begun without such lockers.
  EXPECT_TRUE(heir.kept_.empty());
  expect_ok(table->lock(other, kWritten, Mode::kExclusive, Patience::none(), &lock));
  table->end(busy);
  table->end(other);
  LockRig::expect_empty(*table);
}

TEST(DeadLockerTest, ALifeBeginsOnceAndAnewWhenItsParticipantDies) {
  LockRig rig;
  const auto table = rig.join();
  const auto begin = [](lock::LockTable &by) {
    LockerId made{};
    LockId lock{};
    expect_ok(by.begin(7, &made, Succession::kHeir));
    expect_ok(by.lock(made, kWritten, Mode::kExclusive, Patience::none(), &lock));
    return by.detach(made);
  };
  const ChildEnd end = run_in_child("begins", [&] {
    const auto own = rig.join();
    (void)own->begin_life([&] {
      expect_ok(begin(*own));
      die_unless_failed();
      return Errc::kOk;
    });
  });
  EXPECT_EQ(end.signal, SIGKILL);
  int calls = 0;
  for (int i = 0; i < 2; ++i)
    expect_ok(table->begin_life([&] {
      ++calls;
      return begin(*table);
    }));
  EXPECT_EQ(calls, 1);
  LockerId other{};
  LockId lock{};
  expect_ok(table->begin(3, &other));
  EXPECT_EQ(table->lock(other, kWritten, Mode::kShared, Patience::none(), &lock), Errc::kLockBusy);
}

TEST(DeadLockerTest, AnHeirMayKeepWhatItHeldAndNotWhatItWaitedFor) {
  LockRig rig;
  KeepingHeir heir;
  const auto table = rig.join(&heir);
  LockerId busy{}, other{};
  LockId lock{};
  expect_ok(table->begin(2, &busy));
  expect_ok(table->begin(3, &other));
  expect_ok(table->lock(busy, kBusy, Mode::kExclusive, Patience::none(), &lock));
  die_waiting(rig, *table, Succession::kHeir);
  table->settle();
  table->settle();
  ASSERT_EQ(heir.kept_.size(), 1u);
  EXPECT_EQ(heir.kept_[0].second, 77u);
  EXPECT_EQ(table->lock(other, kWritten, Mode::kShared, Patience::none(), &lock), Errc::kLockBusy);
  expect_ok(table->unlock_all(busy));
  expect_ok(table->lock(other, kBusy, Mode::kExclusive, Patience::none(), &lock));
  table->end(heir.kept_[0].first);
  expect_ok(table->lock(other, kWritten, Mode::kShared, Patience::none(), &lock));
  table->end(busy);
  table->end(other);
  LockRig::expect_empty(*table);
}

std::vector<std::pair<Step, std::uint32_t>> deaths() {
  std::vector<std::pair<Step, std::uint32_t>> all;
  for (auto step = static_cast<std::uint32_t>(kFirst); step <= static_cast<std::uint32_t>(kLast);
       ++step)
    for (const std::uint32_t count : {1u, 2u, 3u, 7u, 40u, 150u})
      all.emplace_back(static_cast<Step>(step), count);
  return all;
}

INSTANTIATE_TEST_SUITE_P(EveryStep, KillLockTest, testing::ValuesIn(deaths()), [](const auto &one) {
  std::string name = observe::step_name(one.param.first);
  for (char &letter : name)
    if (letter == '-') letter = '_';
  return name + "_" + std::to_string(one.param.second);
});

}  // namespace
}  // namespace tmh::test
