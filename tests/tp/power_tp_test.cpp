// tests/tp/power_tp_test.cpp -- the power is cut at random moments of a run of transactions of
// tp.h in several processes, and of the recoveries after it.
// Shape:      each account has a page: its value, and its version: how many transactions' changes
//             are in it. Changes are made by every kind of step, and undone by every kind of
//             record. Each worker has pages of marks, where a transaction leaves its identifier.
//             So a state tells which transactions are in it.
// Invariants: (1) a transaction has its mark exactly if all of its changes are there; what has no
//             mark has been undone, once. (2) Those that were told that they are durable have
//             theirs; those that were rolled back have not. (3) Who has a mark has what it built
//             on: versions of an account are 1 to its last one. (4) No lock is left. (5) All of it
//             when the recovery, or the life after it, is cut again.
// Size:       TMH_POWER_CUTS cuts (default 360; 2,000 with TMH_LONG), shared by the scenarios;
//             within half of the recoveries two more each. TMH_SEED repeats the choices.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <tp.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "observe/planted.h"
#include "tests/power/campaign.h"
#include "tests/power/run.h"
#include "tests/power/world.h"
#include "tests/support/seed.h"

namespace tmh::test {
namespace {

using observe::Planted;
using power::Entry;
using power::Journal;
using power::Note;

constexpr std::uint64_t kShared = 24, kOwn = 8, kAccounts = kShared + kOwn;
constexpr std::uint64_t kWordsPerPage = 512, kMarksOfWorker = 2 * kWordsPerPage;
constexpr std::uint32_t kWorkersEver = 490;
constexpr std::uint32_t kFirstJudge = 480;  // worker numbers of judges, one for each depth
constexpr std::uint32_t kMoved = 1;
constexpr int kLongOneIn = 20, kAbortOneIn = 8;

struct Moved {  // record
  std::uint64_t *account;
  std::uint64_t amount;
};
struct Change {
  std::uint64_t account, version, amount;
};

void check(int error, const char *call) {
  if (error != TP_OK) throw std::runtime_error(std::string(call) + ": " + tp_last_error());
}
int call(tp_step_t *step, void *argument) {
  return (*static_cast<const std::function<int(tp_step_t *)> *>(argument))(step);
}

class Accounts {
 public:
  // is_late: the type of its records is known only after the domain was opened.
  Accounts(const std::string &folder, int durability, bool is_late) {
    const tp_type type{kMoved, "moved", take_back, nullptr, TP_FIELDS, nullptr};
    tp_options options{};
    options.durability = durability;
    options.types = &type;
    options.type_count = is_late ? 0 : 1;
    options.first_look_us = 200;
    check(tp_open(folder.c_str(), &options, &env_), "tp_open");
    accounts_ = map("accounts", kAccounts);
    marks_ = map("marks", kWorkersEver * kMarksOfWorker / kWordsPerPage);
    check(tp_buf_open(env_, "accounts", O_RDWR, 0, &fid_), "tp_buf_open");
    if (is_late) check(tp_record_type(env_, &type), "tp_record_type");
  }
  ~Accounts() { EXPECT_EQ(tp_close(env_), TP_OK) << tp_last_error(); }
  Accounts(const Accounts &) = delete;
  Accounts &operator=(const Accounts &) = delete;

  [[nodiscard]] tp_env *env() const { return env_; }
  [[nodiscard]] tp_object lock_of(std::uint64_t account) const {
    return {static_cast<std::uint64_t>(fid_), account};
  }
  static int step(tp_txn *txn, unsigned flags, const std::function<int(tp_step_t *)> &body) {
    return tp_step(txn, flags, call, const_cast<std::function<int(tp_step_t *)> *>(&body));
  }

  // By one of the ways that there are. *version: what it made. REQUIRES: the account is locked.
  int move(tp_txn *txn, std::uint64_t account, std::uint64_t amount, std::uint64_t way,
           std::uint64_t *version) const {
    const bool by_bytes = way % 2 == 0;
    if (way < 2) return move_pinned(txn, account, amount, by_bytes, version);
    return step(txn, way < 4 ? TP_PAGES : TP_FIELDS, [&](tp_step_t *running) {
      std::uint64_t *const at = page_of(account);
      if (const int error = log(running, at, amount, by_bytes); error != TP_OK) return error;
      add(running, at, amount, 1);
      tp_load(running, at + 1, version, sizeof *version);
      return 0;
    });
  }
  static constexpr std::uint64_t kWays = 6;

  int mark(tp_step_t *running, std::uint64_t id, bool is_undoable) const {
    std::uint64_t *const at = mark_of(id);
    if (is_undoable)
      if (const int error = tp_log_bytes(running, at, sizeof *at, nullptr); error != TP_OK)
        return error;
    const std::uint64_t value = id + 1;
    tp_store(running, at, &value, sizeof value);
    return 0;
  }

  struct State {
    struct Account {
      std::uint64_t value = 0, version = 0;
    };
    std::vector<Account> accounts{kAccounts};
    std::set<std::uint64_t> marks;
    std::string wrong;
  };
  // REQUIRES: no other process has the domain.
  [[nodiscard]] State read() const {
    State state;
    tp_txn *txn = nullptr;
    check(tp_begin(env_, &txn), "tp_begin");
    for (std::uint64_t a = 0; a < kAccounts; ++a)
      if (tp_lock(txn, lock_of(a), TP_EXCLUSIVE, TP_TRY) != TP_OK)
        state.wrong = "a lock of account " + std::to_string(a) + " is left";
    check(step(txn, TP_PAGES,
               [&](tp_step_t *) {
                 for (std::uint64_t a = 0; a < kAccounts; ++a)
                   state.accounts[a] = {page_of(a)[0], page_of(a)[1]};
                 state.marks.clear();
                 for (std::uint64_t at = 0; at < kWorkersEver * kMarksOfWorker; ++at) {
                   if (marks_[at] == 0) continue;
                   if (mark_of(marks_[at] - 1) != marks_ + at) state.wrong = "a foreign mark";
                   state.marks.insert(marks_[at] - 1);
                 }
                 return 0;
               }),
          "tp_step");
    check(tp_commit(txn), "tp_commit");
    return state;
  }

 private:
  std::uint64_t *map(const char *file, std::uint64_t pages) const {
    void *address = nullptr;
    check(tp_map(env_, file, pages * 4096, &address), "tp_map");
    return static_cast<std::uint64_t *>(address);
  }
  [[nodiscard]] std::uint64_t *page_of(std::uint64_t account) const {
    return accounts_ + account * kWordsPerPage;
  }
  [[nodiscard]] std::uint64_t *mark_of(std::uint64_t id) const {
    return marks_ + (id >> 32) * kMarksOfWorker + (id & 0xffff'ffff) % kMarksOfWorker;
  }
  static void add(tp_step_t *running, std::uint64_t *at, std::uint64_t amount, std::uint64_t one) {
    std::uint64_t now[2];
    tp_load(running, at, now, sizeof now);
    now[0] += amount;
    now[1] += one;
    tp_store(running, at, now, sizeof now);
  }
  static int log(tp_step_t *running, std::uint64_t *at, std::uint64_t amount, bool by_bytes) {
    const Moved moved{at, amount};
    return by_bytes ? tp_log_bytes(running, at, 2 * sizeof *at, nullptr)
                    : tp_log(running, kMoved, &moved, sizeof moved, nullptr);
  }
  int move_pinned(tp_txn *txn, std::uint64_t account, std::uint64_t amount, bool by_bytes,
                  std::uint64_t *version) const {
    void *page = nullptr;
    if (const int error = tp_buf_pin(txn, fid_, account, nullptr, &page); error != TP_OK)
      return error;
    auto *const at = static_cast<std::uint64_t *>(page);
    const int error = log(tp_running_step(txn), at, amount, by_bytes);
    if (error == TP_OK) {
      at[0] += amount;
      *version = ++at[1];
    }
    const int end = tp_buf_unpin(txn, page);
    return error != TP_OK ? error : end;
  }
  static int take_back(tp_step_t *running, const tp_record *record, void *) {
    Moved moved{};
    std::memcpy(&moved, record->data, sizeof moved);
    add(running, moved.account, -moved.amount, ~std::uint64_t{0});
    return 0;
  }

  tp_env *env_ = nullptr;
  std::uint64_t *accounts_ = nullptr, *marks_ = nullptr;
  int fid_ = -1;
};

// Random transactions, with notes: kIntent (identifier, changes) before the commit, kStrictAck and
// kAborted (identifier) behind it.
class Teller {
 public:
  Teller(const Accounts &accounts, Journal *journal, std::uint32_t number, std::uint64_t first,
         std::uint64_t seed, int durability)
      : accounts_(accounts),
        journal_(journal),
        id_(std::uint64_t{number} << 32 | first),
        last_(std::uint64_t{number} << 32 | (first + kMarksOfWorker - 1)),
        random_(seed),
        durability_(durability) {}

  // False: it has no mark left.
  bool transact() {
    if (id_ == last_) return false;
    tp_txn *txn = nullptr;
    check(tp_begin(accounts_.env(), &txn), "tp_begin");
    std::vector<Change> changes;
    const int error = work(txn, &changes);
    if (error != TP_OK && error != TP_EDEADLOCK) check(error, "a change");
    const bool has_mark = random(2) == 0;
    if (error == TP_OK && has_mark)
      check(Accounts::step(txn, TP_FIELDS,
                           [&](tp_step_t *running) { return accounts_.mark(running, id_, true); }),
            "a mark");
    if (error != TP_OK || random(kAbortOneIn) == 0) {
      check(tp_abort(txn), "tp_abort");
      journal_->note(Note::kAborted, id_++);
      return true;
    }
    journal_->note(Note::kIntent, id_, changes.data(), changes.size() * sizeof(Change));
    const std::function<int(tp_step_t *)> last = [&](tp_step_t *running) {
      return accounts_.mark(running, id_, false);
    };
    check(has_mark ? tp_commit(txn)
                   : tp_commit_step(txn, TP_FIELDS, call,
                                    const_cast<std::function<int(tp_step_t *)> *>(&last)),
          "tp_commit");
    told_.push_back(id_++);
    if (durability_ != 1 && random(4) != 0) return true;
    if (durability_ != 1) check(tp_log_flush(accounts_.env()), "tp_log_flush");
    for (const std::uint64_t id : std::exchange(told_, {})) journal_->note(Note::kStrictAck, id);
    return true;
  }
  // Begins one and leaves it.
  void leave_one() {
    tp_txn *txn = nullptr;
    check(tp_begin(accounts_.env(), &txn), "tp_begin");
    std::vector<Change> changes;
    static_cast<void>(work(txn, &changes));
  }

 private:
  int work(tp_txn *txn, std::vector<Change> *changes) {
    const bool is_long = random(kLongOneIn) == 0;
    const std::uint64_t count = is_long ? 100 : 1 + random(5);
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t account = is_long ? kShared + (id_ >> 32) % kOwn : random(kShared);
      if (const int error = tp_lock(txn, accounts_.lock_of(account), TP_EXCLUSIVE, TP_FOREVER);
          error != TP_OK)
        return error;
      tp_savepoint point{};
      const bool is_rolled_back = random(8) == 0;
      if (is_rolled_back) check(tp_save(txn, &point), "tp_save");
      for (std::uint64_t times = is_rolled_back ? 1 + random(3) : 1; times > 0; --times) {
        Change change{account, 0, random_()};
        if (const int error = accounts_.move(txn, account, change.amount, random(Accounts::kWays),
                                             &change.version);
            error != TP_OK)
          return error;
        if (!is_rolled_back) changes->push_back(change);
      }
      if (is_rolled_back) check(tp_roll_back(txn, &point), "tp_roll_back");
    }
    return TP_OK;
  }
  std::uint64_t random(std::uint64_t below) { return random_() % below; }

  const Accounts &accounts_;
  Journal *const journal_;
  std::uint64_t id_;
  const std::uint64_t last_;
  std::mt19937_64 random_;
  const int durability_;
  std::vector<std::uint64_t> told_;  // and not durable, as far as it knows
};

class TpTrial final : public power::Trial {
 public:
  explicit TpTrial(int durability) : durability_(durability) {}
  [[nodiscard]] std::unique_ptr<Trial> clone() const override {
    return std::make_unique<TpTrial>(*this);
  }

  void apply(const Entry &entry) override {
    if (!entry.is_note()) return;
    const std::uint64_t id = entry.offset;
    if (entry.note() == Note::kIntent) {
      std::vector<Change> &changes = intents_[id];
      changes.resize(entry.data.size() / sizeof(Change));
      if (!changes.empty()) std::memcpy(changes.data(), entry.data.data(), entry.data.size());
    } else if (entry.note() == Note::kStrictAck) {
      required_.insert(id);
    } else if (entry.note() == Note::kAborted) {
      intents_.erase(id);
    } else if (entry.note() == Note::kRecovered) {
      const std::vector<std::uint64_t> ids = power::ids_of(entry);
      required_ = {ids.begin(), ids.end()};
      std::erase_if(intents_,
                    [&](const auto &intent) { return !required_.contains(intent.first); });
    }
  }

  // Empty: it is right.
  [[nodiscard]] std::string examine(const Accounts::State &state) const {
    if (!state.wrong.empty()) return state.wrong;
    std::vector<std::vector<std::uint64_t>> versions(kAccounts);
    std::vector<std::uint64_t> sums(kAccounts);
    for (const std::uint64_t id : state.marks) {
      const auto intent = intents_.find(id);
      if (intent == intents_.end()) return name_of(id) + " is there, and did not commit";
      for (const Change &change : intent->second) {
        sums[change.account] += change.amount;
        versions[change.account].push_back(change.version);
      }
    }
    for (const std::uint64_t id : required_)
      if (!state.marks.contains(id)) return name_of(id) + " was told that it is durable";
    for (std::uint64_t a = 0; a < kAccounts; ++a) {
      const std::string account = "account " + std::to_string(a);
      std::sort(versions[a].begin(), versions[a].end());
      for (std::uint64_t i = 0; i < versions[a].size(); ++i)
        if (versions[a][i] != i + 1)
          return account + ": change " + std::to_string(i + 1) + " is missing, or there twice";
      if (state.accounts[a].version != versions[a].size())
        return account + ": version " + std::to_string(state.accounts[a].version) + " of " +
               std::to_string(versions[a].size());
      if (state.accounts[a].value != sums[a]) return account + ": a wrong value";
    }
    return "";
  }

  // Opens the domain, notes what is there, and says what is wrong with it.
  [[nodiscard]] std::string examine(const Accounts &accounts, Journal *journal) const {
    const Accounts::State state = accounts.read();
    const std::vector<std::uint64_t> ids(state.marks.begin(), state.marks.end());
    std::string why = examine(state);
    journal->note(Note::kRecovered, ids.size(), ids.data(), ids.size() * sizeof ids[0]);
    return why;
  }

  [[nodiscard]] std::string live(const std::string &folder, const power::JudgePlan &plan,
                                 std::uint64_t seed, Journal *journal,
                                 power::Report *) const override {
    // Not closed: some leave a transaction.
    auto *const accounts = new Accounts(folder, -1, seed % 3 == 0);
    if (const std::string why = examine(*accounts, journal); !why.empty())
      return "after recovery: " + why;
    Teller teller(*accounts, journal, kFirstJudge + plan.depth, seed % kMarksOfWorker, seed,
                  durability_);
    for (std::uint64_t i = 0; i < plan.further_commits; ++i) static_cast<void>(teller.transact());
    TpTrial later = *this;
    for (const Entry &entry : journal->read()) later.apply(entry);
    if (const std::string why = later.examine(accounts->read()); !why.empty())
      return "after further transactions: " + why;
    if (seed % 2 == 0) delete accounts;
    if (seed % 2 != 0) teller.leave_one();
    return "";
  }

 private:
  [[nodiscard]] static std::string name_of(std::uint64_t id) {
    return "transaction " + std::to_string(id & 0xffff'ffff) + " of worker " +
           std::to_string(id >> 32);
  }

  int durability_;
  std::map<std::uint64_t, std::vector<Change>> intents_;
  std::set<std::uint64_t> required_;
};

// One of four workers takes checkpoints instead, in a domain of small log files.
power::RunPlan tp_plan(int durability) {
  power::RunPlan plan;
  plan.options = power::power_options();
  plan.options.durability = durability == 1 ? Durability::kStrict : Durability::kBuffered;
  plan.options.levels = Levels::kHybrid;
  plan.work = [options = plan.options, durability](const power::Job &job,
                                                   const std::atomic<bool> &stop) {
    if (job.worker.worker % 4 == 1) {
      const Domain domain = Domain::open(job.folder, options);
      // Not for ever: the others may have died for good.
      for (int i = 0; i < 2000 && !stop.load() && job.journal->has_room(); ++i) domain.checkpoint();
      return;
    }
    const Accounts accounts(job.folder, durability, false);
    Teller teller(accounts, job.journal, job.worker.worker, 0, job.worker.seed, durability);
    while (!stop.load() && job.journal->has_room() && teller.transact()) {
    }
  };
  plan.audit = [durability](const power::Job &job) {
    TpTrial trial(durability);
    for (const Entry &entry : job.journal->read()) trial.apply(entry);
    const Accounts accounts(job.folder, -1, false);
    EXPECT_EQ(trial.examine(accounts, job.journal), "");
  };
  return plan;
}

struct Scenario {
  const char *name;
  int durability;
  std::uint32_t die_one_in;
};
constexpr Scenario kScenarios[] = {
    {"Strict", 1, 0}, {"Buffered", 2, 0}, {"DeathsInOperations", 1, 100}};
void PrintTo(const Scenario &scenario, std::ostream *out) { *out << scenario.name; }

power::CampaignResult cut(const power::RunPlan &run, int durability, power::CampaignPlan plan,
                          std::uint64_t seed) {
  const power::Recording recording = power::record_run(run, seed);
  if (testing::Test::HasFailure()) return {};
  const auto start = std::chrono::steady_clock::now();
  const power::CampaignResult result =
      power::cut_everywhere(recording, TpTrial(durability), plan, seed);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf("TMH_SEED=%llu, %zu entries in the journal. ", static_cast<unsigned long long>(seed),
              recording.entries.size());
  print("Cuts", result, seconds.count());
  EXPECT_EQ(result.strays, "") << "files were written past platform::DiskFile";
  return result;
}

class PowerTpTest : public testing::TestWithParam<Scenario> {};

TEST_P(PowerTpTest, EveryImageHasItsTransactionsWholeOrNotAtAll) {
  power::RunPlan run = tp_plan(GetParam().durability);
  run.pace.die_one_in = GetParam().die_one_in;
  if (run.pace.die_one_in != 0) run.entries = 15'000;  // most do not survive their opening
  const std::uint64_t usual = environment_number("TMH_LONG", 0) != 0 ? 2000 : 360;
  std::uint64_t left = environment_number("TMH_POWER_CUTS", usual) / std::size(kScenarios) + 1;
  for (std::uint64_t i = 0; left > 0 && !HasFailure(); ++i) {
    power::CampaignPlan plan;
    plan.cuts = std::min<std::uint64_t>(left, 250);
    plan.nested_one_in = 2;
    plan.depth = 1;
    left -= plan.cuts;
    EXPECT_EQ(cut(run, GetParam().durability, plan, seed() + i).tally.first_finding, "");
  }
}

std::string scenario_name(const testing::TestParamInfo<Scenario> &info) { return info.param.name; }
INSTANTIATE_TEST_SUITE_P(Scenarios, PowerTpTest, testing::ValuesIn(kScenarios), scenario_name);

#ifdef TMH_PLANTED_FAULTS
// What is wrong at a cut alone.
TEST(PlantedPowerTpTest, AnUndoThatIsLeftOutIsFound) {
  power::RunPlan run = tp_plan(1);
  run.entries = 10'000;
  run.kill_every_ms = run.massacres = 0;
  power::CampaignPlan plan;
  plan.cuts = 200;
  plan.nested_one_in = 0;
  plan.judge.planted = Planted::kUndoLeftOut;
  EXPECT_GT(cut(run, 1, plan, seed()).tally.findings, 0U);
}

TEST(PlantedPowerTpTest, AnAcknowledgementBeforeTheLogIsFound) {
  power::RunPlan run = tp_plan(1);
  run.entries = 10'000;
  run.kill_every_ms = run.massacres = 0;
  run.planted = Planted::kToldTooSoon;
  power::CampaignPlan plan;
  plan.cuts = 400;
  plan.nested_one_in = 0;
  EXPECT_GT(cut(run, 1, plan, seed()).tally.findings, 0U);
}
#endif

}  // namespace
}  // namespace tmh::test
