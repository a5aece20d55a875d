// tests/lock/multi_lock_test.cpp -- storms: processes lock, upgrade, order vectors and wait in
// cycles at random; some are killed.
// Invariants: (1) two living lockers never hold an object in modes that exclude each other.
//             (2) every wait ends; who fails gives back what it has, and goes on.
//             (3) behind the storm no lock, no waiter and no cell is left.
// Planted:    an upgrade past another holder is found.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "levels/lock/lock.h"
#include "observe/planted.h"
#include "tests/support/children.h"
#include "tests/support/lock_rig.h"
#include "tests/support/seed.h"
#include "tests/support/shared.h"

namespace tmh::test {
namespace {

using lock::LockCount;
using lock::LockerId;
using lock::LockId;
using lock::Mode;
using lock::ModeSet;
using lock::ObjectId;
using lock::Order;
using lock::Patience;

constexpr std::size_t kWorkers = 4, kObjects = 6;
constexpr std::uint32_t kModes = 5;

// What each worker holds, as it says itself: noted behind the lock, erased before it goes.
struct Notes {
  // Counts of (object, mode), and the life of the worker that they are of.
  struct Worker {
    std::atomic<bool> lives;
    std::atomic<std::uint32_t> held[kObjects][kModes];
  };
  Worker workers[kWorkers];
  std::atomic<std::uint64_t> violations;
  std::atomic<std::uint64_t> transactions;
  std::atomic<std::uint64_t> deadlocks;
  std::atomic<bool> stop;
};

class Worker {
 public:
  Worker(LockRig &rig, Notes &notes, std::size_t number, std::uint64_t seed)
      : table_(rig.join()),
        notes_(notes),
        mine_(notes.workers[number]),
        number_(number),
        random_(seed) {
    table_->use({.first_look_ns = 100'000});
  }

  void run() {
    while (!notes_.stop.load()) {
      EXPECT_EQ(table_->begin(number_ + 1, &locker_), Errc::kOk);
      const std::size_t steps = 1 + random_() % 6;
      for (std::size_t i = 0; i < steps && step(); ++i) {
      }
      for (std::size_t object = 0; object < kObjects; ++object)
        for (std::uint32_t mode = 0; mode < kModes; ++mode) mine_.held[object][mode].store(0);
      held_.clear();
      table_->end(locker_);
      notes_.transactions.fetch_add(1);
    }
  }

 private:
  struct Held {
    LockId lock;
    std::size_t object;
    Mode mode;
  };

  [[nodiscard]] Patience patience() {
    switch (random_() % 8) {
      case 0:
        return Patience::none();
      case 1:
        return {random_() % 3'000'000};
      default:
        return Patience::endless();
    }
  }

  // False: it has failed, and gives all back.
  bool step() {
    const std::size_t object = random_() % kObjects;
    const Mode mode{static_cast<std::uint32_t>(random_() % kModes)};
    const std::uint64_t what = random_() % 10;
    LockId lock{};
    if (what < 6 || held_.empty()) {
      const Errc error = table_->lock(locker_, {9, object}, mode, patience(), &lock);
      if (error == Errc::kOk) note({lock, object, mode});
      return go_on(error);
    }
    const std::size_t which = random_() % held_.size();
    const Held old = held_[which];
    if (what < 8) {
      // What it holds may change at any moment of the trade.
      mine_.held[old.object][static_cast<std::uint32_t>(old.mode)].fetch_sub(1);
      held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(which));
      const Errc error = table_->upgrade(locker_, old.lock, mode, patience(), &lock);
      note(error == Errc::kOk ? Held{lock, old.object, mode} : old);
      return go_on(error);
    }
    if (what == 8) {
      mine_.held[old.object][static_cast<std::uint32_t>(old.mode)].fetch_sub(1);
      held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(which));
      EXPECT_EQ(table_->unlock(locker_, old.lock), Errc::kOk);
      return true;
    }
    std::vector<Order> orders(2);
    for (std::size_t i = 0; i < orders.size(); ++i)
      orders[i] = {Order::What::kLock, {9, (object + i) % kObjects}, mode, LockId::kNone};
    std::size_t failed = 0;
    std::uint64_t holder = 0;
    const Errc error = table_->lock_vector(locker_, orders, patience(), &failed, &holder);
    if (error == Errc::kOk)
      for (const Order &order : orders)
        note({order.lock, static_cast<std::size_t>(order.object.id), mode});
    return go_on(error);
  }

  bool go_on(Errc error) {
    EXPECT_TRUE(error == Errc::kOk || error == Errc::kLockBusy || error == Errc::kLockTimeout ||
                error == Errc::kDeadlock)
        << static_cast<int>(error);
    if (error == Errc::kDeadlock) notes_.deadlocks.fetch_add(1);
    return error != Errc::kDeadlock;
  }

  void note(const Held &held) {
    held_.push_back(held);
    mine_.held[held.object][static_cast<std::uint32_t>(held.mode)].fetch_add(1);
    const ModeSet &modes = table_->file().modes();
    for (std::size_t other = 0; other < kWorkers; ++other) {
      if (other == number_) continue;
      for (std::uint32_t mode = 0; mode < kModes; ++mode) {
        const auto excludes = [&](Mode one, Mode two) {
          return (modes.conflicts[static_cast<std::uint32_t>(one)] & ModeSet::bit(two)) != 0;
        };
        if (excludes(Mode{mode}, held.mode) && notes_.workers[other].lives.load() &&
            notes_.workers[other].held[held.object][mode].load() != 0 &&
            notes_.workers[other].lives.load())
          notes_.violations.fetch_add(1);
      }
    }
  }

  std::unique_ptr<lock::LockTable> table_;
  Notes &notes_;
  Notes::Worker &mine_;
  const std::size_t number_;
  std::mt19937_64 random_;
  LockerId locker_{};
  std::vector<Held> held_;
};

class Storm {
 public:
  Storm() {
    for (std::size_t i = 0; i < kWorkers; ++i) start(i);
  }

  // Until so many transactions have ended in all.
  void await(std::uint64_t transactions) {
    EXPECT_TRUE(poll_until([&] { return notes_->transactions.load() >= transactions; }))
        << notes_->transactions.load() << " transactions";
  }
  // So long, and all the time.
  void go_on_for(std::chrono::seconds time) {
    const auto end = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < end && !testing::Test::HasFailure())
      await(notes_->transactions.load() + 100);
  }
  void kill(std::size_t number) {
    Notes::Worker &worker = notes_->workers[number];
    // Its locks pass on as soon as it is dead; nobody compares with its notes from here on.
    worker.lives.store(false);
    children_.bury(indices_[number]);
    for (auto &of_object : worker.held)
      for (std::atomic<std::uint32_t> &held : of_object) held.store(0);
    start(number);
  }
  void end() {
    notes_->stop.store(true);
    children_.expect_success();
    const auto table = rig_.join();
    table->settle();
    LockRig::expect_empty(*table);
    const auto totals = table->totals();
    printf("%lu transactions, %lu waits, %lu deadlocks, %lu looks\n", notes_->transactions.load(),
           totals[LockCount::kWaits], notes_->deadlocks.load(), totals.looks);
  }
  [[nodiscard]] const Notes &notes() const { return *notes_; }

 private:
  void start(std::size_t number) {
    notes_->workers[number].lives.store(true);
    indices_[number] = children_.spawn(
        "worker " + std::to_string(number),
        [this, number, life = ++lives_] { Worker(rig_, *notes_, number, seed() + life).run(); });
  }

  LockRig rig_;
  Shared<Notes> notes_;
  Children children_;
  std::array<std::size_t, kWorkers> indices_{};
  std::uint64_t lives_ = 0;
};

TEST(MultiLockTest, AStorm) {
  Storm storm;
  if (std::getenv("TMH_LONG") != nullptr) storm.go_on_for(std::chrono::seconds(60));
  storm.await(20'000);
  storm.end();
  EXPECT_EQ(storm.notes().violations.load(), 0u);
  EXPECT_GT(storm.notes().deadlocks.load(), 0u);
}

TEST(MultiLockTest, AStormWithDeaths) {
  Storm storm;
  std::mt19937_64 random(seed());
  const std::uint64_t kills = std::getenv("TMH_LONG") != nullptr ? 1000 : 60;
  for (std::uint64_t i = 1; i <= kills; ++i) {
    storm.await(i * 100);
    storm.kill(random() % kWorkers);
  }
  storm.end();
  EXPECT_EQ(storm.notes().violations.load(), 0u);
}

#ifdef TMH_PLANTED_FAULTS
TEST(MultiLockTest, AnUpgradePastAnotherHolderIsFound) {
  observe::plant(observe::Planted::kUpgradePasses);  // forked processes, too
  Storm storm;
  EXPECT_TRUE(poll_until([&] { return storm.notes().violations.load() > 0; }));
  storm.end();
  observe::plant(observe::Planted{});
}
#endif

}  // namespace
}  // namespace tmh::test
