// bench/latches.cpp -- what a latch costs that is a system call: semop(2), a futex that always
// calls the kernel, one that calls it when it is contended, and spinning.
// Shape:   latches of tp.h cannot be exchanged, so this is a model of what LIBTP's calls do.
//            calls      one process; the transaction of TPC-B by get and put of a private B-tree in
//                       memory. Each call takes --per-call latches, one after the other, as LIBTP's
//                       lock, buffer and log managers have one each. full: three records are
//                       changed and one is put; synced: the same, and a record of log is synced;
//                       read-only: three records are read.
//            contended  --processes; four words of shared memory change under one latch
// Checked: sums of what was changed.
// Source:  LIBTP, 4.3, figure 5.
#include <endian.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/ipc.h>
#include <sys/sem.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include <tp/db.h>

#include "bench/support/clock.h"
#include "bench/support/options.h"
#include "bench/support/report.h"
#include "bench/support/stats.h"
#include "bench/support/team.h"
#include "platform/assert.h"

namespace tmh::bench {
namespace {

struct Options {
  CommonOptions common;
  std::size_t rounds = 5;
  std::uint64_t transactions = 20'000, synced = 300, contended = 100'000;
  unsigned per_call = 3;
  std::vector<unsigned> processes = {1, 2, 4};
};

enum class Latch : std::uint8_t { kSemop, kFutexAlways, kFutexContended, kSpinning };
constexpr std::array<const char *, 4> kLatches = {"semop", "futex, always", "futex, when contended",
                                                  "spinning"};
constexpr std::size_t kSpinning = 3;
enum class Mode : std::uint8_t { kSynced, kFull, kReadOnly };
constexpr std::array<const char *, 3> kModes = {"synced", "full", "read-only"};

[[noreturn]] void fail(const char *what) {
  throw std::system_error(errno, std::generic_category(), what);
}

// A semaphore of System V, removed by its maker.
class Semaphore {
 public:
  Semaphore() : id_(::semget(IPC_PRIVATE, 1, 0600)) {
    if (id_ < 0) fail("semget");
    change(1);
  }
  ~Semaphore() { (void)::semctl(id_, 0, IPC_RMID); }
  Semaphore(const Semaphore &) = delete;
  Semaphore &operator=(const Semaphore &) = delete;
  void change(short by) const {
    sembuf operation{0, by, 0};
    while (::semop(id_, &operation, 1) != 0)
      if (errno != EINTR) fail("semop");
  }

 private:
  int id_;
};

// In shared memory: 0 is free, 1 is held, 2 is held and perhaps awaited.
struct Word {
  std::atomic<std::uint32_t> state{0};
  static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
};

void futex(Word *word, int operation, std::uint32_t value) {
  // A wait that is woken, interrupted or too late looks again.
  (void)::syscall(SYS_futex, &word->state, operation, value, nullptr, nullptr, 0);
}

void lock_futex(Word *word, bool always) {
  // acquire: pairs with the release in unlock_futex()
  std::uint32_t seen = 0;
  // The kernel is asked and answers at once: nobody waits for a state that is not there.
  if (always) futex(word, FUTEX_WAIT, 3);
  if (word->state.compare_exchange_strong(seen, 1, std::memory_order_acquire)) return;
  while (word->state.exchange(2, std::memory_order_acquire) != 0) futex(word, FUTEX_WAIT, 2);
}
void unlock_futex(Word *word, bool always) {
  if (word->state.exchange(0, std::memory_order_release) == 2 || always) futex(word, FUTEX_WAKE, 1);
}
void lock_spinning(Word *word) {
  constexpr unsigned kSpins = 1'000;  // then the holder may need this processor
  for (unsigned spins = 1;; ++spins) {
    if (word->state.load(std::memory_order_relaxed) == 0 &&
        word->state.exchange(1, std::memory_order_acquire) == 0)
      return;
    if (spins % kSpins == 0)
      (void)::sched_yield();
    else
      __builtin_ia32_pause();
  }
}

class AnyLatch {
 public:
  AnyLatch(Latch kind, Word *word, const Semaphore &semaphore)
      : kind_(kind), word_(word), semaphore_(semaphore) {
    TMH_ASSERT(word != nullptr);
  }
  void lock() const {
    if (kind_ == Latch::kSemop) return semaphore_.change(-1);
    if (kind_ == Latch::kSpinning) return lock_spinning(word_);
    lock_futex(word_, kind_ == Latch::kFutexAlways);
  }
  void unlock() const {
    if (kind_ == Latch::kSemop) return semaphore_.change(1);
    if (kind_ == Latch::kSpinning) return word_->state.store(0, std::memory_order_release);
    unlock_futex(word_, kind_ == Latch::kFutexAlways);
  }

 private:
  Latch kind_;
  Word *word_;
  const Semaphore &semaphore_;
};

// The bank in one B-tree in memory: branches, tellers, accounts, a row of history.
class LatchedBank {
 public:
  static constexpr std::uint64_t kBranches = 10, kTellers = 100, kAccounts = 1'000;

  LatchedBank(const AnyLatch &latch, unsigned per_call, const std::string &log)
      : latch_(latch),
        per_call_(per_call),
        tree_(::dbopen(nullptr, O_RDWR, 0, DB_BTREE, nullptr)),
        log_(::open(log.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    if (tree_ == nullptr || log_ < 0) fail("the bank");
    for (std::uint64_t key = 0; key <= kRow; ++key) put(key, 0);
  }
  ~LatchedBank() {
    (void)tree_->close(tree_);
    (void)::close(log_);
  }
  LatchedBank(const LatchedBank &) = delete;
  LatchedBank &operator=(const LatchedBank &) = delete;

  void transact(Mode mode, Random *random) {
    TMH_ASSERT(random != nullptr);
    const std::uint64_t teller = random->below(kTellers);
    const std::array<std::uint64_t, 3> keys = {kBranches + kTellers + random->below(kAccounts),
                                               kBranches + teller, teller / 10};
    const auto amount = static_cast<std::int64_t>(random->below(1'000));
    for (const std::uint64_t key : keys) {
      const std::int64_t balance = get(key);
      if (mode != Mode::kReadOnly) put(key, balance + amount);
    }
    if (mode == Mode::kReadOnly) return;
    put(kRow, amount);
    sum_ += amount;
    if (mode == Mode::kFull) return;
    constexpr int kLogBytes = 256;  // of a transaction
    const std::array<char, std::size_t{kLogBytes}> record{};
    if (::pwrite(log_, record.data(), record.size(), end_) != kLogBytes) fail("the log");
    end_ += kLogBytes;
    if (::fdatasync(log_) != 0) fail("the log");
  }
  void check() {
    std::int64_t branches = 0, accounts = 0;
    for (std::uint64_t key = 0; key < kBranches; ++key) branches += get(key);
    for (std::uint64_t key = kBranches + kTellers; key < kRow; ++key) accounts += get(key);
    if (branches != sum_ || accounts != sum_) throw std::runtime_error("the sums differ");
  }

 private:
  static constexpr std::uint64_t kRow = kBranches + kTellers + kAccounts;

  void pass_latches() const {
    for (unsigned i = 0; i < per_call_; ++i) {
      latch_.lock();
      latch_.unlock();
    }
  }
  [[nodiscard]] std::int64_t get(std::uint64_t number) const {
    pass_latches();
    std::uint64_t key = htobe64(number);
    const DBT k{&key, sizeof key};
    DBT data{};
    if (tree_->get(tree_, &k, &data, 0) != RET_SUCCESS) fail("get");
    std::int64_t balance = 0;
    std::memcpy(&balance, data.data, sizeof balance);
    return balance;
  }
  void put(std::uint64_t number, std::int64_t balance) const {
    pass_latches();
    std::uint64_t key = htobe64(number);
    DBT k{&key, sizeof key};
    const DBT data{&balance, sizeof balance};
    if (tree_->put(tree_, &k, &data, 0) != RET_SUCCESS) fail("put");
  }

  const AnyLatch &latch_;
  unsigned per_call_;
  DB *tree_;
  int log_;
  off_t end_ = 0;
  std::int64_t sum_ = 0;
};

class Latches {
 public:
  explicit Latches(const Options &options) : options_(options), scratch_(options.common.folder) {
    if (!options_.common.tiny) return;
    options_.rounds = 1;
    options_.transactions = options_.contended = 200;
    options_.synced = 3;
    options_.processes = {1, 2};
  }

  int run() {
    Json parameters;
    parameters["tiny"] = options_.common.tiny;
    parameters["seed"] = options_.common.seed;
    parameters["rounds"] = options_.rounds;
    parameters["per_call"] = options_.per_call;
    Report report("latches", environment(scratch_.path()), parameters);
    report.print_head();
    for (std::size_t round = 0; round < options_.rounds; ++round)
      for (std::size_t i = 0; i < kLatches.size(); ++i) {
        const std::size_t latch = (i + round) % kLatches.size();
        for (std::size_t mode = 0; mode < kModes.size(); ++mode)
          calls_[mode][latch].push_back(measure_calls(latch, static_cast<Mode>(mode)));
        for (const unsigned processes : options_.processes)
          contended_[processes][latch].push_back(measure_contended(latch, processes));
      }
    print(&report);
    report.write(options_.common.csv, options_.common.json);
    return 0;
  }

 private:
  using ByLatch = std::array<std::vector<double>, kLatches.size()>;  // per second

  double measure_calls(std::size_t latch, Mode mode) const {
    const std::uint64_t count = mode == Mode::kSynced ? options_.synced : options_.transactions;
    const Semaphore semaphore;
    const Shared<Word> word;
    const AnyLatch any(static_cast<Latch>(latch), &*word, semaphore);
    const double ns = run_team_ns(1, [&](unsigned, const TeamClock &clock) {
      LatchedBank bank(any, options_.per_call, scratch_.path() + "/log");
      Random random(options_.common.seed);
      for (std::uint64_t i = 0; i < count / 10 + 1; ++i) bank.transact(mode, &random);
      clock.start();
      for (std::uint64_t i = 0; i < count; ++i) bank.transact(mode, &random);
      clock.finish();
      bank.check();
    });
    return static_cast<double>(count) / ns * 1e9;
  }

  double measure_contended(std::size_t latch, unsigned processes) const {
    struct alignas(64) Shares {
      Word word;
      alignas(64) std::uint64_t words[4];
    };
    const Semaphore semaphore;
    const Shared<Shares> shared;
    const AnyLatch any(static_cast<Latch>(latch), &shared->word, semaphore);
    const double ns = run_team_ns(processes, [&](unsigned, const TeamClock &clock) {
      clock.start();
      for (std::uint64_t i = 0; i < options_.contended; ++i) {
        any.lock();
        for (std::uint64_t &each : shared->words) ++each;
        any.unlock();
      }
      clock.finish();
    });
    for (const std::uint64_t each : shared->words)
      if (each != processes * options_.contended) throw std::runtime_error("a change is lost");
    return static_cast<double>(processes * options_.contended) / ns * 1e9;
  }

  static void add(Report *report, Table *table, const char *section, const std::string &what,
                  const ByLatch &per_second) {
    TMH_ASSERT(report != nullptr && table != nullptr);
    for (std::size_t latch = 0; latch < kLatches.size(); ++latch) {
      const Summary rate = summarize(per_second[latch]);
      const Summary part = summarize_ratio(per_second[latch], per_second[kSpinning]);
      Json line;
      line["what"] = what;
      line["latch"] = kLatches[latch];
      put(line, "per_second", rate);
      put(line, "of_spinning", part);
      table->add({what, kLatches[latch], with_mad(rate), number(100 * part.median)});
      report->add(section, std::move(line));
    }
  }

  void print(Report *report) const {
    Table calls({"calls", "latch", "transactions/s", "% of spinning"});
    for (std::size_t mode = 0; mode < kModes.size(); ++mode)
      add(report, &calls, "calls", kModes[mode], calls_[mode]);
    std::printf("\nTPC-B in one process, %u latches a call\n", options_.per_call);
    calls.print();
    Table contended({"contended", "latch", "times taken/s", "% of spinning"});
    for (const auto &[processes, rates] : contended_)
      add(report, &contended, "contended", std::to_string(processes), rates);
    std::printf("\nOne latch, by processes\n");
    contended.print();
  }

  Options options_;
  ScratchFolder scratch_;
  std::array<ByLatch, kModes.size()> calls_;
  std::map<unsigned, ByLatch> contended_;
};

}  // namespace
}  // namespace tmh::bench

int main(int argc, char **argv) {
  tmh::bench::Options options;
  tmh::bench::CommandLine app("Latches that call the kernel, and those that do not", "latches");
  tmh::bench::add_common_options(app, &options.common);
  app.add_option("--rounds", options.rounds, "how often everything is measured")
      .capture_default_str()
      .check_positive();
  app.add_option("--per-call", options.per_call, "latches that a call takes")
      .capture_default_str()
      .check_positive();
  app.add_option("--transactions", options.transactions, "of one process, timed")
      .capture_default_str()
      .check_positive();
  app.add_option("--synced", options.synced, "the same, where each is synced")
      .capture_default_str()
      .check_positive();
  app.add_option("--contended", options.contended, "times that each process takes the one latch")
      .capture_default_str()
      .check_positive();
  app.add_option("--processes", options.processes, "of the contended latch")
      .capture_default_str()
      .delimiter(',')
      .check_range(1, 16);
  return tmh::bench::run_bench(app, argc, argv, [&] { return tmh::bench::Latches(options).run(); });
}
