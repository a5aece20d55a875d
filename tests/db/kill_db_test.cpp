// tests/db/kill_db_test.cpp -- a process dies at each step of what it does with files of dbopen();
// others go on, or the next that opens the environment does; and all processes die, at steps and
// anywhere.
// Invariants: (1) a transaction of the dead is there whole or not at all; one that it was told of
//             is there. (2) Files are whole, no lock is left. (3) What a program alone can open has
//             what the environment has. (4) Each step is passed.
// Size:       TMH_DB_KILLS deaths of all workers (default 12; 300 with TMH_LONG). TMH_SEED repeats
//             the choices.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "observe/steps.h"
#include "tests/db/group_worker.h"
#include "tests/db/private_look.h"
#include "tests/support/children.h"
#include "tests/support/seed.h"
#include "tests/support/shared.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

using groups::Files;
using groups::GroupWorker;
using groups::Ledger;
using groups::PrivateLook;
using groups::State;
using observe::Step;

constexpr Step kFirst = Step::kDbChanged, kLast = Step::kDbDropped;

Ledger ledger_of(const power::Journal &journal) {
  Ledger ledger;
  for (const power::Entry &entry : journal.read()) groups::apply(entry, &ledger);
  return ledger;
}

GroupWorker::Plan plan_of(std::uint32_t number, std::uint32_t closes_one_in) {
  return {.number = number,
          .seed = seed() * 1000 + number,
          .commits_are_durable = true,
          .calls_are_durable = true,
          .closes_one_in = closes_one_in};
}

// A file that is made by a program alone, used, and made anew.
class SideFile {
 public:
  explicit SideFile(const std::string &folder) : path_(folder + "/side") {}

  void use() {
    for (int round = 0; round < 2; ++round) {
      put(0, O_RDWR | O_CREAT | O_TRUNC, 40);
      put(DB_SHARED | DB_TP, O_RDWR, 80);
    }
  }
  // Records are there from the first on.
  void expect_whole() {
    DB *const db = open(DB_SHARED | DB_TP, O_RDWR | O_CREAT);
    ASSERT_NE(db, nullptr) << std::strerror(errno) << " " << tp_last_error();
    int found = 0;
    DBT key{}, data{};
    for (unsigned how = R_FIRST; db->seq(db, &key, &data, how) == 0; how = R_NEXT) ++found;
    for (int i = 0; i < found; ++i) {
      const std::string text = std::to_string(i);
      const DBT wanted = groups::dbt(text);
      EXPECT_EQ(db->get(db, &wanted, &data, 0), 0) << i << " of " << found;
    }
    EXPECT_EQ(db->close(db), 0);
    tp_db_info info{};
    EXPECT_EQ(tp_db_check(path_.c_str(), &info), 0) << std::strerror(errno);
    EXPECT_EQ(info.wrong, nullptr);
  }

 private:
  DB *open(int dbflags, int flags) {
    BTREEINFO info{};
    info.psize = 512;
    return tp_dbopen(path_.c_str(), flags, 0600, DB_BTREE, dbflags, &info);
  }
  void put(int dbflags, int flags, int end) {
    DB *const db = open(dbflags, flags);
    ASSERT_NE(db, nullptr) << std::strerror(errno) << " " << tp_last_error();
    for (int i = 0; i < end; ++i) {
      const std::string text = std::to_string(i);
      DBT key = groups::dbt(text);
      ASSERT_NE(db->put(db, &key, &key, R_NOOVERWRITE), -1) << std::strerror(errno);
    }
    EXPECT_EQ(db->close(db), 0);
  }

  std::string path_;
};

class KillDbTest : public testing::TestWithParam<Step> {
 protected:
  // It dies at that step, or does not pass it so often.
  [[nodiscard]] bool dies(std::uint32_t number, std::uint32_t count) {
    const ChildEnd end = run_in_child("victim", [&] {
      observe::crash_at(static_cast<std::uint32_t>(GetParam()), count);
      Files files(folder_.path(), 1);
      SideFile(folder_.path()).use();
      GroupWorker worker(&files, &journal_, plan_of(number, 2));
      for (int i = 0; i < 25; ++i) worker.transact();
    });
    EXPECT_TRUE(end.signal == SIGKILL || end.succeeded());
    return end.signal == SIGKILL;
  }
  // In a process of its own.
  void expect_right(std::uint32_t number) {
    {
      Files files(folder_.path(), 1);
      go_on(&files, number);
    }
    expect_right_alone();
  }
  void go_on(Files *files, std::uint32_t number) {
    State state;
    EXPECT_EQ(groups::examine(files, ledger_of(journal_), &state, &journal_), "");
    SideFile(folder_.path()).expect_whole();
    GroupWorker worker(files, &journal_, plan_of(number, 4));
    for (int i = 0; i < 5; ++i) worker.transact();
    EXPECT_EQ(groups::examine(files, ledger_of(journal_), &state, &journal_), "");
  }
  // All have closed.
  void expect_right_alone() {
    PrivateLook alone(folder_.path());
    EXPECT_EQ(alone.wrong(), "");
    Files files(folder_.path(), 1);
    State state = files.read();
    EXPECT_EQ(alone.compare(state), "");
  }

  MemoryFolder folder_;
  power::Journal journal_{1u << 16, 1u << 26};
};

TEST_P(KillDbTest, TheNextLifeFindsItRight) {
  std::uint32_t number = 1;
  for (const std::uint32_t count : {1u, 2u, 5u, 13u}) {
    const bool has_died = dies(number++, count);
    if (count == 1) {
      EXPECT_TRUE(has_died) << "the step is never passed";
    }
    expect_child("next", [&, now = number++] { expect_right(now); });
  }
}

TEST_P(KillDbTest, OthersGoOn) {
  std::uint32_t number = 1;
  for (const std::uint32_t count : {1u, 3u}) {
    Shared<Turn> turn;
    Children others;
    others.spawn("other", role(*turn, [&, now = number] {
                   Files files(folder_.path(), 1);
                   GroupWorker worker(&files, &journal_, plan_of(now, 1000));
                   for (int i = 0; i < 5; ++i) worker.transact();
                   turn->reach(1);
                   turn->await(2);
                   go_on(&files, now + 1);
                 }));
    turn->await(1);
    (void)dies(number + 2, count);
    turn->reach(2);
    others.expect_success();
    number += 3;
    expect_child("alone", [&] { expect_right_alone(); });
  }
}

std::vector<Step> steps() {
  std::vector<Step> all;
  for (auto step = static_cast<std::uint32_t>(kFirst); step <= static_cast<std::uint32_t>(kLast);
       ++step)
    all.push_back(static_cast<Step>(step));
  return all;
}
std::string name_of_step(const testing::TestParamInfo<Step> &info) {
  std::string name = observe::step_name(info.param);
  for (char &letter : name)
    if (letter == '-') letter = '_';
  return name;
}
INSTANTIATE_TEST_SUITE_P(EveryStep, KillDbTest, testing::ValuesIn(steps()), name_of_step);

TEST(KillAllDbTest, TheNextLifeFindsItRight) {
  constexpr std::uint32_t kWorkers = 3;
  const std::uint64_t usual = environment_number("TMH_LONG", 0) != 0 ? 300 : 12;
  const std::uint64_t deaths = environment_number("TMH_DB_KILLS", usual);
  auto folder = std::make_unique<MemoryFolder>();
  auto journal = std::make_unique<power::Journal>(1u << 18, 1u << 28);
  std::mt19937_64 random(seed());
  std::uint32_t number = 1;
  for (std::uint64_t death = 0; death < deaths && !HasFailure(); ++death) {
    {
      const std::uint64_t begun = journal->count(), wanted = begun + random() % 120;
      Children children;
      for (std::uint32_t i = 0; i < kWorkers; ++i) {
        const std::uint64_t step = random() % observe::kStepCount;
        const auto count = static_cast<std::uint32_t>(1 + random() % 40);
        children.spawn("worker", [&, now = number++] {
          if (step % 2 == 0) observe::crash_at(static_cast<std::uint32_t>(step), count);
          Files files(folder->path(), 1);
          GroupWorker worker(&files, journal.get(), plan_of(now, 3));
          for (;;) worker.transact();
        });
      }
      EXPECT_TRUE(poll_until([&] {
        bool is_over = journal->count() >= wanted;
        if (!is_over) {
          is_over = true;
          for (std::uint32_t i = 0; i < kWorkers; ++i) is_over = is_over && !children.running(i);
        }
        return is_over;
      }));
      for (std::uint32_t i = 0; i < kWorkers; ++i)
        if (children.running(i)) children.kill(i, SIGKILL);
      for (std::uint32_t i = 0; i < kWorkers; ++i) children.bury(i);
    }
    expect_child("next", [&] {
      Files files(folder->path(), 1);
      State state;
      EXPECT_EQ(groups::examine(&files, ledger_of(*journal), &state, journal.get()), "") << death;
    });
    if (journal->has_room()) continue;
    folder = std::make_unique<MemoryFolder>();
    journal = std::make_unique<power::Journal>(1u << 18, 1u << 28);
  }
}

}  // namespace
}  // namespace tmh::test
