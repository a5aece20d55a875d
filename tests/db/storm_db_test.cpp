// tests/db/storm_db_test.cpp -- four processes insert, erase and scan in files of dbopen() while
// workers are killed; and histories of such transactions, judged with phantoms.
// Invariants: (1) no record is lost, no transaction is there in part; a scan meets no key twice,
//             and goes up; files are whole. (2) Histories are strictly serializable: a key that a
//             scan or a get does not find counts as a read of what its last eraser has written.
// Method:     an erased key cannot say who has erased it: its eraser notes that in a second file,
//             where those read it that do not find the key.
// Planted:    an undo that is left out is found by the judge.
// Size:       TMH_DB_STORM_S seconds (default 4; 60 with TMH_LONG), with five kills in each;
//             histories have 8 deaths, or 300.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "observe/planted.h"
#include "tests/db/group_worker.h"
#include "tests/histories/checker.h"
#include "tests/support/children.h"
#include "tests/support/recorder.h"
#include "tests/support/seed.h"
#include "tests/support/shared.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {
namespace {

using groups::Deadlock;
using groups::File;
using groups::Files;
using groups::GroupWorker;
using history::Outcome;

constexpr std::size_t kWorkers = 4;

[[nodiscard]] std::uint64_t longer(const char *name, std::uint64_t usual, std::uint64_t in_long) {
  return environment_number(name, environment_number("TMH_LONG", 0) != 0 ? in_long : usual);
}

// ---- No key is lost ----------------------------------------------------------------------------

// All files in one transaction; no key twice.
void scan(Files *files) {
  if (tp_paper_begin() == 0) throw std::runtime_error(tp_last_error());
  for (const File file : {File::kTree, File::kDuplicates, File::kTable}) {
    DB *const db = files->of(file);
    std::set<std::string> seen;
    std::string last;
    DBT key{}, data{};
    int result = 0;
    for (unsigned how = R_FIRST; (result = db->seq(db, &key, &data, how)) == 0; how = R_NEXT) {
      const std::string now = groups::text(key);
      if (file == File::kDuplicates) {
        EXPECT_LE(last, now);
      } else {
        EXPECT_TRUE(seen.insert(now).second) << now << " twice";
        if (file == File::kTree) {
          EXPECT_LT(last, now);
        }
      }
      last = now;
    }
    if (result == 1) continue;
    EXPECT_EQ(errno, EDEADLK) << Files::failed("scan of ", file);
    break;
  }
  if (tp_paper_abort() != TP_OK) throw std::runtime_error(tp_last_error());
}

TEST(StormDbTest, NoKeyIsLostAndNoneIsThereTwice) {
  const std::uint64_t seconds = longer("TMH_DB_STORM_S", 4, 60);
  const MemoryFolder folder;
  const auto journal = std::make_unique<power::Journal>(1u << 22, 4ull << 30);
  const Shared<std::atomic<bool>> stop;
  const Shared<std::atomic<std::uint64_t>> transactions, scans;
  std::mt19937_64 random(seed());
  std::uint32_t number = 0;
  Children children;
  std::array<std::size_t, kWorkers> indices{};
  const auto start = [&](std::size_t place) {
    indices[place] = children.spawn("worker " + std::to_string(place), [&, now = ++number] {
      Files files(folder.path(), 2);
      GroupWorker worker(&files, journal.get(),
                         {.number = now,
                          .seed = seed() * 1000 + now,
                          .commits_are_durable = true,
                          .calls_are_durable = true,
                          .closes_one_in = 40});
      for (std::uint64_t i = 1; !stop->load() && journal->has_room(); ++i) {
        worker.transact();
        transactions->fetch_add(1);
        if (i % 10 != 0) continue;
        scan(&files);
        scans->fetch_add(1);
      }
    });
  };
  for (std::size_t i = 0; i < kWorkers; ++i) start(i);
  std::uint64_t kills = 0;
  const std::uint64_t begun = monotonic_ns();
  for (; kills < 5 * seconds && !HasFailure(); ++kills) {
    const std::uint64_t until = begun + (kills + 1) * 200'000'000;
    // Each has done something, too.
    const std::uint64_t wanted = transactions->load() + 1;
    EXPECT_TRUE(
        poll_until([&] { return monotonic_ns() >= until && transactions->load() >= wanted; }));
    const std::size_t victim = random() % kWorkers;
    EXPECT_TRUE(children.running(indices[victim])) << "it has ended by itself";
    children.bury(indices[victim]);
    start(victim);
  }
  stop->store(true);
  for (const std::size_t index : indices) EXPECT_TRUE(children.wait(index).succeeded());
  std::printf("%llu transactions, %llu scans, %llu kills\n",
              static_cast<unsigned long long>(transactions->load()),
              static_cast<unsigned long long>(scans->load()),
              static_cast<unsigned long long>(kills));
  expect_child("audit", [&] {
    groups::Ledger ledger;
    for (const power::Entry &entry : journal->read()) groups::apply(entry, &ledger);
    Files files(folder.path(), -1);
    groups::State state;
    EXPECT_EQ(groups::examine(&files, ledger, &state, nullptr), "");
  });
}

// Commits, aborts, savepoints, closes and opens of one process, for all types.
TEST(StormDbTest, OneWorkerDoesWhatTheLedgerSays) {
  const MemoryFolder folder;
  power::Journal journal(1u << 18, 1u << 28);
  expect_child("worker", [&] {
    Files files(folder.path(), 2);
    GroupWorker worker(&files, &journal,
                       {.number = 1,
                        .seed = seed(),
                        .commits_are_durable = true,
                        .calls_are_durable = true,
                        .closes_one_in = 12});
    for (std::uint64_t i = 0; i < longer("TMH_DB_PROGRAM", 60, 3000); ++i) {
      for (int j = 0; j < 5; ++j) worker.transact();
      groups::Ledger ledger;
      for (const power::Entry &entry : journal.read()) groups::apply(entry, &ledger);
      groups::State state;
      ASSERT_EQ(groups::examine(&files, ledger, &state, nullptr), "") << i;
    }
  });
}

// ---- Histories ---------------------------------------------------------------------------------

constexpr std::size_t kCells = 14;
constexpr std::uint64_t kEntriesPerTransaction = 80;

// Cells are keys of a tree of few records a page.
class Cells {
 public:
  explicit Cells(const std::string &folder) {
    tp_options options{};
    options.durability = 2;
    options.first_look_us = 200;
    if (tp_paper_open((folder + "/home").c_str(), &options) != TP_OK)
      throw std::runtime_error(tp_last_error());
    BTREEINFO tree{};
    tree.psize = 512;
    HASHINFO table{};
    table.bsize = 512;
    const auto opened = [](DB *db) {
      if (db == nullptr) throw std::runtime_error(std::strerror(errno));
      return db;
    };
    tree_ = opened(tp_dbopen((folder + "/tree").c_str(), O_RDWR | O_CREAT, 0600, DB_BTREE,
                             DB_SHARED | DB_TP, &tree));
    erased_ = opened(tp_dbopen((folder + "/erased").c_str(), O_RDWR | O_CREAT, 0600, DB_HASH,
                               DB_SHARED | DB_TP, &table));
  }
  ~Cells() {
    for (DB *db : {tree_, erased_}) EXPECT_EQ(db->close(db), 0) << std::strerror(errno);
    EXPECT_EQ(tp_paper_close(), TP_OK) << tp_last_error();
  }
  Cells(const Cells &) = delete;
  Cells &operator=(const Cells &) = delete;

  // 0: it was never there.
  [[nodiscard]] history::Value read(std::size_t cell) {
    if (const std::optional<history::Value> found = get(tree_, cell)) return *found;
    return get(erased_, cell).value_or(0);
  }
  void put(std::size_t cell, history::Value value) { put(tree_, cell, value); }
  // REQUIRES: it has been read.
  void erase(std::size_t cell, history::Value value) {
    put(erased_, cell, value);
    const std::string key = name(cell);
    const DBT k = groups::dbt(key);
    (void)checked(tree_->del(tree_, &k, 0));
  }
  // From a cell on, so many cells: what is there.
  [[nodiscard]] std::map<std::size_t, history::Value> scan(std::size_t begin, std::size_t end) {
    std::map<std::size_t, history::Value> found;
    const std::string first = name(begin);
    DBT key = groups::dbt(first), data{};
    for (unsigned how = R_CURSOR; checked(tree_->seq(tree_, &key, &data, how)) == 0; how = R_NEXT) {
      const std::size_t cell = std::stoul(groups::text(key));
      if (cell >= end) break;
      EXPECT_TRUE(found.emplace(cell, value_of(data)).second) << cell << " twice";
    }
    return found;
  }
  [[nodiscard]] history::Value erased(std::size_t cell) { return get(erased_, cell).value_or(0); }

 private:
  static std::string name(std::size_t cell) {
    std::string made = std::to_string(cell);
    return std::string(4 - made.size(), '0') + made;
  }
  static history::Value value_of(const DBT &data) {
    history::Value value = 0;
    std::memcpy(&value, data.data, sizeof value);
    return value;
  }
  static int checked(int result) {
    if (result != -1) return result;
    if (errno == EDEADLK) throw Deadlock{};
    throw std::runtime_error(std::string(std::strerror(errno)) + " " + tp_last_error());
  }
  static std::optional<history::Value> get(DB *db, std::size_t cell) {
    const std::string key = name(cell);
    const DBT k = groups::dbt(key);
    DBT data{};
    if (checked(db->get(db, &k, &data, 0)) != 0) return std::nullopt;
    return value_of(data);
  }
  static void put(DB *db, std::size_t cell, history::Value value) {
    const std::string key = name(cell);
    std::string bytes(sizeof value + 60 + value % 200, 'd');
    std::memcpy(bytes.data(), &value, sizeof value);
    DBT k = groups::dbt(key);
    const DBT d = groups::dbt(bytes);
    (void)checked(db->put(db, &k, &d, 0));
  }

  DB *tree_ = nullptr, *erased_ = nullptr;
};

class Player {
 public:
  Player(Cells *cells, const Lane &lane, std::uint64_t seed)
      : cells_(*cells), lane_(lane), random_(seed) {}

  void play(std::uint64_t transactions) {
    for (std::uint64_t i = 0; i < transactions && lane_.has_room(kEntriesPerTransaction); ++i)
      transact([&] {
        for (std::uint64_t calls = 1 + random_() % 4; calls > 0; --calls) act();
      });
  }
  // One that reads all.
  void look() {
    transact([&] {
      for (std::size_t cell = 0; cell < kCells; ++cell) lane_.read(cell, cells_.read(cell));
    });
  }

 private:
  template <class Body>
  void transact(const Body &body) {
    lane_.begin(history::Kind::kUpdate);
    EXPECT_NE(tp_paper_begin(), 0U) << tp_last_error();
    bool is_victim = false;
    try {
      body();
    } catch (const Deadlock &) {
      is_victim = true;
    }
    if (!is_victim) lane_.ending();
    if (is_victim || random_() % 8 == 0) {
      EXPECT_EQ(tp_paper_abort(), TP_OK) << tp_last_error();
      return lane_.end(Outcome::kAborted);
    }
    EXPECT_EQ(tp_paper_commit(), TP_OK) << tp_last_error();
    lane_.end(Outcome::kCommitted, true);
  }
  void act() {
    const std::size_t cell = random_() % kCells;
    switch (random_() % 5) {
      case 0:
        return scan(cell, std::min<std::size_t>(kCells, cell + 1 + random_() % 6));
      case 1:
        return lane_.read(cell, cells_.read(cell));
      case 2:
        return change_and_go_back(cell);
      default:
        return change(cell);
    }
  }
  void scan(std::size_t begin, std::size_t end) {
    const std::map<std::size_t, history::Value> found = cells_.scan(begin, end);
    for (std::size_t cell = begin; cell < end; ++cell) {
      const auto there = found.find(cell);
      lane_.read(cell, there != found.end() ? there->second : cells_.erased(cell));
    }
  }
  void change(std::size_t cell) {
    lane_.read(cell, cells_.read(cell));
    const history::Value value = lane_.fresh_value();
    lane_.write(cell, value);
    if (random_() % 2 == 0)
      cells_.put(cell, value);
    else
      cells_.erase(cell, value);
  }
  // What is rolled back is seen by no transaction, nor by this one.
  void change_and_go_back(std::size_t cell) {
    tp_savepoint point{};
    EXPECT_EQ(tp_save(tp_paper_txn(), &point), TP_OK) << tp_last_error();
    const history::Value before = cells_.read(cell);
    lane_.read(cell, before);
    if (random_() % 2 == 0)
      cells_.put(cell, ~std::uint64_t{0});
    else
      cells_.erase(cell, ~std::uint64_t{0});
    EXPECT_EQ(tp_roll_back(tp_paper_txn(), &point), TP_OK) << tp_last_error();
    lane_.read(cell, cells_.read(cell));
  }

  Cells &cells_;
  Lane lane_;
  std::mt19937_64 random_;
};

struct HistoryPlan {
  std::uint64_t transactions = 250;  // of each life
  std::uint64_t deaths = 0;
  bool all_die = false;  // at once
};

[[nodiscard]] history::Verdict judged(const HistoryPlan &plan) {
  const MemoryFolder folder;
  const auto lives = static_cast<std::uint32_t>(kWorkers * (plan.deaths + 1) + 1);
  Recorder recorder(lives, (plan.transactions + 2) * kEntriesPerTransaction);
  std::mt19937_64 random(seed());
  Children children;
  std::array<std::size_t, kWorkers> indices{};
  std::uint64_t life = 0;
  const auto start = [&](std::size_t worker) {
    indices[worker] = children.spawn("worker " + std::to_string(worker), [&, number = ++life] {
      Cells cells(folder.path());
      Player(&cells, recorder.open_lane(), seed() * 1000 + number).play(plan.transactions);
    });
  };
  for (std::size_t i = 0; i < kWorkers; ++i) start(i);
  for (std::uint64_t i = 0; i < plan.deaths; ++i) {
    const std::uint64_t until = monotonic_ns() + 5'000'000 + random() % 60'000'000;
    EXPECT_TRUE(poll_until([&] { return monotonic_ns() >= until; }));
    const std::size_t victim = random() % kWorkers;
    for (std::size_t worker = 0; worker < kWorkers; ++worker)
      if ((plan.all_die || worker == victim) && children.running(indices[worker]))
        children.kill(indices[worker], SIGKILL);
    for (std::size_t worker = 0; worker < kWorkers; ++worker) {
      if (!plan.all_die && worker != victim) continue;
      children.bury(indices[worker]);
      start(worker);
    }
  }
  for (const std::size_t index : indices) EXPECT_TRUE(children.wait(index).succeeded());
  expect_child("look", [&] {
    Cells cells(folder.path());
    Player(&cells, recorder.open_lane(), 1).look();
  });
  for (const char *file : {"/tree", "/erased"}) {
    tp_db_info info{};
    EXPECT_EQ(tp_db_check((folder.path() + file).c_str(), &info), 0) << std::strerror(errno);
    EXPECT_EQ(info.wrong, nullptr);
  }
  const history::Verdict verdict = history::check(recorder.read());
  std::printf("%s\n", verdict.report().c_str());
  return verdict;
}

TEST(DbHistoryTest, IsStrictlySerializable) {
  const history::Verdict verdict = judged({});
  EXPECT_TRUE(verdict.ok());
  EXPECT_GT(verdict.committed, 100u);
}
TEST(DbHistoryTest, DeathsAreSeenByNone) {
  EXPECT_TRUE(judged({.deaths = longer("TMH_DB_HISTORY_KILLS", 8, 300)}).ok());
}
TEST(DbHistoryTest, TheDeathOfAllIsSeenByNone) {
  EXPECT_TRUE(judged({.deaths = longer("TMH_DB_HISTORY_KILLS", 4, 60), .all_die = true}).ok());
}

#ifdef TMH_PLANTED_FAULTS
TEST(PlantedDbHistoryTest, AnUndoThatIsLeftOutIsFound) {
  observe::plant(observe::Planted::kUndoLeftOut);  // forked processes, too
  bool is_right = true;
  for (int i = 0; i < 20 && is_right; ++i)
    is_right = judged({.transactions = 100, .deaths = 2, .all_die = true}).ok();
  observe::plant(observe::Planted{});
  EXPECT_FALSE(is_right);
}
#endif

}  // namespace
}  // namespace tmh::test
