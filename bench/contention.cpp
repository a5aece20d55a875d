// bench/contention.cpp -- conflict policies and backoff on a bank of few pages, so that most
// transactions overlap.
// Shape:   a transaction moves money between two random accounts; every 64th operation of a process
//          is an audit, a query that sums all accounts. All four policies x three backoffs
//          (exponential with two bounds) x lazy, eager and locking detection, and lazy detection
//          under snapshot isolation, 1, 2 and 4 processes; and transactions of tp.h, with locks of
//          the bank and its accounts and a step for each account. Baselines: the same with one
//          process (no conflicts), and one process-shared mutex around the same work on plain
//          memory. A round runs every configuration once, each in a fresh domain.
// Checked: every audit and the final sum see the money that was put in; the engine's abort counters
//          equal the aborts that the processes saw.
// Limits:  a configuration that makes no progress (livelock) is cut off after --seconds-max and
//          marked with '!'.
// Source:  thesis, section 3.3 (policies; the thesis did not compare
//          them, section 6.1 item 5).
#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <tmh/transaction.hpp>

#include "bench/support/clock.h"
#include "bench/support/contention_tp.h"
#include "bench/support/modes.h"
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
  std::uint32_t pages = 4;
  // Of all processes together. Eager instances take a signal per page, some ten times as long as
  // lazy ones on hot pages; both should outlast a few time slices.
  std::uint64_t transactions_lazy = 100'000, transactions_eager = 10'000;
  double seconds_max = 10;
  bool fresh_age = false;
  std::vector<unsigned> processes = {1, 2, 4};
};

constexpr std::uint32_t kAccountsPerPage = kPageBytes / kLineBytes;  // one per line
static_assert(kAccountsPerPage == 64, "--help says so");
constexpr std::int64_t kInitialBalance = 1'000;
constexpr std::uint64_t kAuditEvery = 64;
constexpr std::array<const char *, 4> kPolicies = {"self-abort", "oldest-wins", "selfish-abort",
                                                   "youngest-wins"};
constexpr std::array<const char *, 4> kBackoffs = {"none", "exponential",
                                                   "exponential,backoff-us-max=50", "adaptive"};
// AbortCause's numbers are its index.
constexpr std::array<const char *, kAbortCauseCount> kCauses = {
    "none", "validation", "conflict_self", "conflict_other", "user",     "query_wrote",
    "died", "no_space",   "capacity",      "cross_level",    "spurious", "needs_pages"};
static_assert(kCauses.back() != nullptr);

// What the processes of one run found out, in memory that they share with the parent.
struct Outcome {
  std::uint64_t commits[kTeamMembersMax], attempts[kTeamMembersMax], attempts_max[kTeamMembersMax];
  std::uint64_t audits[kTeamMembersMax];
  bool cut_off[kTeamMembersMax];
  Counters before, after;
  static_assert(std::atomic<unsigned>::is_always_lock_free);
  std::atomic<unsigned> finished;  // members that have left their loop
  pthread_mutex_t mutex;           // of the mutex baseline
};

struct Result {
  std::vector<double> commits_per_s, aborts_per_commit;
  std::array<std::uint64_t, kAbortCauseCount> aborts{};
  std::uint64_t commits = 0, attempts_max = 0;
  bool cut_off = false;
};

std::int64_t &account(std::byte *data, std::uint64_t index) {
  return *reinterpret_cast<std::int64_t *>(data + index * kLineBytes);
}

// One process's part: `transact` makes a transfer until it commits and returns the attempts,
// `audit` runs a body as a query.
class Teller {
 public:
  Teller(const Options &options, std::byte *data, unsigned index)
      : accounts_(std::uint64_t{options.pages} * kAccountsPerPage),
        data_(data),
        random_(options.common.seed + index * 977) {
    TMH_ASSERT(data != nullptr && accounts_ > 1);
  }

  template <class Transact, class Audit>
  void work(std::uint64_t transaction_count, std::int64_t deadline_ns, Outcome *outcome,
            unsigned index, const Transact &transact, const Audit &audit) {
    TMH_ASSERT(outcome != nullptr && index < kTeamMembersMax);
    for (std::uint64_t i = 0; i < transaction_count; ++i) {
      if (i % kAuditEvery == kAuditEvery - 1) {
        audit([this] { check_sum(); });
        ++outcome->audits[index];
      }
      const std::uint64_t from = random_.below(accounts_);
      const std::uint64_t to = (from + 1 + random_.below(accounts_ - 1)) % accounts_;
      const auto amount = static_cast<std::int64_t>(1 + random_.below(10));
      const std::uint64_t attempts = transact(BankTransfer{from, to, amount});
      outcome->attempts[index] += attempts;
      outcome->attempts_max[index] = std::max(outcome->attempts_max[index], attempts);
      ++outcome->commits[index];
      if (now_ns() > deadline_ns) {
        outcome->cut_off[index] = true;
        return;
      }
    }
  }

  void move(const BankTransfer &transfer) {
    account(data_, transfer.from) -= transfer.amount;
    account(data_, transfer.to) += transfer.amount;
  }
  void put_in() {
    for (std::uint64_t i = 0; i < accounts_; ++i) account(data_, i) = kInitialBalance;
  }
  void check_sum() const {
    std::int64_t sum = 0;
    for (std::uint64_t i = 0; i < accounts_; ++i) sum += account(data_, i);
    if (sum != total())
      throw std::runtime_error("money was lost or made: " + std::to_string(sum - total()));
  }
  [[nodiscard]] std::int64_t total() const {
    return static_cast<std::int64_t>(accounts_) * kInitialBalance;
  }

 private:
  std::uint64_t accounts_;
  std::byte *data_;
  Random random_;
};

struct Configuration {
  std::string mode, policy, backoff;  // policy and backoff are empty for the mutex and tp
  unsigned processes = 1;
  friend auto operator<=>(const Configuration &, const Configuration &) = default;
};

class Contention {
 public:
  explicit Contention(Options options)
      : options_(std::move(options)), scratch_(options_.common.folder) {
    if (!options_.common.tiny) return;
    options_.rounds = 1;
    options_.transactions_lazy = options_.transactions_eager = 128;
    options_.processes = {1, 2};
  }

  int run() {
    choose_modes();
    if (modes_.empty()) return skipped("no tracking mode is available");
    Report report("contention", environment(scratch_.path()), parameters());
    report.print_head();
    const std::vector<Configuration> all = configurations();
    for (std::size_t round = 0; round < options_.rounds; ++round) {
      for (std::size_t i = 0; i < all.size(); ++i) measure(all[(i + round * 7) % all.size()]);
    }
    print(&report);
    std::printf("\nresult hash %s, money conserved in every audit and at every end\n",
                hex(hash_.value()).c_str());
    report.note("result_hash", hex(hash_.value()));
    report.write(options_.common.csv, options_.common.json);
    return 0;
  }

 private:
  // The best way that this machine has of each detection.
  void choose_modes() {
    for (const Mode &mode : available_modes(scratch_.path())) {
      const bool have = std::any_of(modes_.begin(), modes_.end(),
                                    [&](const Mode &m) { return m.detection == mode.detection; });
      if (have) continue;
      modes_.push_back(mode);
      if (mode.detection != Detection::kLazy) continue;
      modes_.push_back(mode);
      modes_.back().name += ", snapshot";
      modes_.back().isolation = Isolation::kSnapshot;
    }
  }

  [[nodiscard]] Json parameters() const {
    Json all;
    all["tiny"] = options_.common.tiny;
    all["seed"] = options_.common.seed;
    all["rounds"] = options_.rounds;
    all["pages"] = options_.pages;
    all["accounts"] = options_.pages * kAccountsPerPage;
    all["transactions_lazy"] = options_.transactions_lazy;
    all["transactions_eager"] = options_.transactions_eager;
    all["audit_every"] = kAuditEvery;
    all["age"] = options_.fresh_age ? "fresh-age" : "keep-age";
    return all;
  }

  [[nodiscard]] std::vector<Configuration> configurations() const {
    std::vector<Configuration> all;
    for (const unsigned processes : options_.processes) {
      all.push_back({"mutex", "", "", processes});
      all.push_back({"tp", "", "", processes});
    }
    for (const Mode &mode : modes_) {
      for (const char *policy : kPolicies) {
        // Where the policy decides nothing, a domain takes the default alone.
        if (mode.detection != Detection::kEager && mode.levels != Levels::kHybrid &&
            policy != std::string_view("oldest-wins"))
          continue;
        for (const char *backoff : kBackoffs) {
          if (options_.common.tiny && backoff != kBackoffs.back()) continue;
          for (const unsigned processes : options_.processes)
            all.push_back({mode.name, policy, backoff, processes});
        }
      }
    }
    return all;
  }

  void measure(const Configuration &configuration) {
    TMH_ASSERT(configuration.processes >= 1 && configuration.processes < kTeamMembersMax);
    const Shared<Outcome> outcome;
    const bool is_counted = !configuration.policy.empty();
    const double total_ns = configuration.mode == "mutex" ? run_mutex(configuration, &*outcome)
                            : configuration.mode == "tp"  ? run_tp(configuration, &*outcome)
                                                          : run_engine(configuration, &*outcome);
    Result &result = results_[configuration];
    std::uint64_t commits = 0, attempts = 0, audits = 0;
    for (unsigned i = 0; i < configuration.processes; ++i) {
      commits += outcome->commits[i];
      attempts += outcome->attempts[i];
      audits += outcome->audits[i];
      result.attempts_max = std::max(result.attempts_max, outcome->attempts_max[i]);
      result.cut_off = result.cut_off || outcome->cut_off[i];
    }
    TMH_ASSERT(attempts >= commits);
    std::uint64_t counted = 0;
    for (std::size_t cause = 0; cause < kAbortCauseCount; ++cause) {
      const std::uint64_t aborts = outcome->after.aborts[cause] - outcome->before.aborts[cause];
      result.aborts[cause] += aborts;
      counted += aborts;
    }
    if (is_counted && counted != attempts - commits) {
      throw std::runtime_error("abort counters say " + std::to_string(counted) +
                               ", processes saw " + std::to_string(attempts - commits));
    }
    result.commits += commits;
    result.commits_per_s.push_back(static_cast<double>(commits) * 1e9 / total_ns);
    result.aborts_per_commit.push_back(static_cast<double>(attempts - commits) /
                                       static_cast<double>(commits));
    if (!result.cut_off) {
      hash_.add(commits);
      hash_.add(audits);
    }
  }

  [[nodiscard]] std::uint64_t transactions(Detection detection) const {
    return detection == Detection::kLazy ? options_.transactions_lazy : options_.transactions_eager;
  }
  [[nodiscard]] std::int64_t deadline_ns() const {
    return now_ns() + static_cast<std::int64_t>(options_.seconds_max * 1e9);
  }

  Segment map(const Domain &domain) const {
    SegmentOptions options;
    options.size_bytes = options_.pages * kPageBytes;
    options.layout = Layout::kRaw;
    return domain.map("bank", options);
  }

  double run_engine(const Configuration &configuration, Outcome *outcome) {
    const auto found = std::find_if(modes_.begin(), modes_.end(),
                                    [&](const Mode &m) { return m.name == configuration.mode; });
    TMH_ASSERT(found != modes_.end() && outcome != nullptr);
    const Mode &mode = *found;
    const std::string folder = scratch_.subfolder("domain-" + std::to_string(measured_++));
    const std::string policy = configuration.policy + ",backoff=" + configuration.backoff +
                               (options_.fresh_age ? ",fresh-age" : ",keep-age");
    run_alone([&] {
      Domain domain = open_domain(mode, folder, policy);
      const Segment segment = map(domain);
      atomically(domain, [&] { Teller(options_, segment.data(), 0).put_in(); });
    });
    return run_team_ns(configuration.processes + 1, [&](unsigned index, const TeamClock &clock) {
      Domain domain = open_domain(mode, folder, policy);
      const Segment segment = map(domain);
      Teller teller(options_, segment.data(), index);
      query(domain, [&] { teller.check_sum(); });  // warm-up
      if (index == configuration.processes) {
        keep_accounts(domain, teller, clock, configuration.processes, outcome);
        return;
      }
      clock.start();
      teller.work(
          transactions(mode.detection) / configuration.processes, deadline_ns(), outcome, index,
          [&](const BankTransfer &transfer) {
            for (std::uint64_t attempts = 1;; ++attempts) {
              domain.begin();
              teller.move(transfer);
              if (domain.end() == Status::kCommitted) return attempts;
              domain.backoff();
            }
          },
          [&](const std::function<void()> &body) { query(domain, body); });
      clock.finish();
      outcome->finished.fetch_add(1, std::memory_order_release);  // pairs with keep_accounts
    });
  }

  // One idle participant stays in the domain throughout: totals are kept as long as somebody is
  // there.
  static void keep_accounts(const Domain &domain, const Teller &teller, const TeamClock &clock,
                            unsigned processes, Outcome *outcome) {
    TMH_ASSERT(outcome != nullptr && processes > 0);
    outcome->before = domain.counters();
    clock.start();
    clock.finish();
    // Acquire: pairs with the fetch_add above.
    while (outcome->finished.load(std::memory_order_acquire) < processes) {
      const timespec pause{0, 1'000'000};
      (void)::nanosleep(&pause, nullptr);
    }
    query(domain, [&] { teller.check_sum(); });
    outcome->after = domain.counters();
  }

  double run_mutex(const Configuration &configuration, Outcome *outcome) {
    TMH_ASSERT(outcome != nullptr);
    const SharedMemory memory(options_.pages * kPageBytes);
    auto *data = static_cast<std::byte *>(memory.data());
    Teller(options_, data, 0).put_in();
    pthread_mutexattr_t attributes;
    (void)pthread_mutexattr_init(&attributes);
    (void)pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    (void)pthread_mutex_init(&outcome->mutex, &attributes);
    (void)pthread_mutexattr_destroy(&attributes);
    const double total_ns = run_team_ns(configuration.processes, [&](unsigned index,
                                                                     const TeamClock &clock) {
      Teller teller(options_, data, index);
      const auto locked = [&](const std::function<void()> &body) {
        (void)pthread_mutex_lock(&outcome->mutex);
        body();
        (void)pthread_mutex_unlock(&outcome->mutex);
      };
      clock.start();
      teller.work(
          transactions(Detection::kLazy) / configuration.processes, deadline_ns(), outcome, index,
          [&](const BankTransfer &transfer) {
            locked([&] { teller.move(transfer); });
            return std::uint64_t{1};
          },
          locked);
      clock.finish();
    });
    Teller(options_, data, 0).check_sum();
    return total_ns;
  }

  double run_tp(const Configuration &configuration, Outcome *outcome) {
    TMH_ASSERT(outcome != nullptr);
    const std::string folder = scratch_.subfolder("domain-" + std::to_string(measured_++));
    const std::size_t bytes = std::size_t{options_.pages} * kPageBytes;
    run_alone([&] {
      const TpTeller tp(folder, bytes);
      Teller teller(options_, tp.data(), 0);
      tp.audit([&] { teller.put_in(); });
    });
    return run_team_ns(configuration.processes, [&](unsigned index, const TeamClock &clock) {
      const TpTeller tp(folder, bytes);
      Teller teller(options_, tp.data(), index);
      const auto audit = [&](const std::function<void()> &body) { tp.audit(body); };
      audit([&] { teller.check_sum(); });  // warm-up
      clock.start();
      teller.work(
          transactions(Detection::kLazy) / configuration.processes, deadline_ns(), outcome, index,
          [&](const BankTransfer &transfer) { return tp.transfer(transfer); }, audit);
      clock.finish();
      clock.meet();
      audit([&] { teller.check_sum(); });
    });
  }

  void print(Report *report) const {
    TMH_ASSERT(report != nullptr);
    for (const unsigned processes : options_.processes) {
      Table table({"detection by", "policy", "backoff", "commits/s", "of 1 process",
                   "aborts/commit", "validation", "self", "other", "attempts max"});
      for (const auto &entry : results_) {
        const Configuration &configuration = entry.first;
        const Result &result = entry.second;
        if (configuration.processes != processes) continue;
        const auto alone =
            results_.find({configuration.mode, configuration.policy, configuration.backoff, 1});
        const Summary rate = summarize(result.commits_per_s);
        const Summary aborts = summarize(result.aborts_per_commit);
        const Summary scale =
            alone == results_.end()
                ? Summary{}
                : summarize_ratio(result.commits_per_s, alone->second.commits_per_s);
        const auto per_commit = [&](AbortCause cause) {
          const auto count = static_cast<double>(result.aborts[static_cast<std::size_t>(cause)]);
          return number(count / static_cast<double>(result.commits));
        };
        table.add({configuration.mode + (result.cut_off ? " !" : ""), configuration.policy,
                   configuration.backoff, with_mad(rate), number(scale.median),
                   number(aborts.median), per_commit(AbortCause::kValidation),
                   per_commit(AbortCause::kConflictSelf), per_commit(AbortCause::kConflictOther),
                   std::to_string(result.attempts_max)});
        add_row(report, configuration, result, rate, aborts);
      }
      std::printf(
          "\n%u process%s on %u pages, median ±MAD %% of %zu rounds; aborts by cause per commit\n",
          processes, processes == 1 ? "" : "es", options_.pages, options_.rounds);
      table.print();
    }
  }

  static void add_row(Report *report, const Configuration &configuration, const Result &result,
                      const Summary &rate, const Summary &aborts) {
    Json row;
    row["mode"] = configuration.mode;
    row["policy"] = configuration.policy;
    row["backoff"] = configuration.backoff;
    row["processes"] = configuration.processes;
    put(row, "commits_per_s", rate);
    put(row, "aborts_per_commit", aborts);
    for (std::size_t cause = 1; cause < kAbortCauseCount; ++cause) {
      row[std::string("aborts_") + kCauses[cause]] = result.aborts[cause];
    }
    row["commits"] = result.commits;
    row["attempts_max"] = result.attempts_max;
    row["cut_off"] = result.cut_off;
    report->add("bank", std::move(row));
  }

  Options options_;
  ScratchFolder scratch_;
  std::vector<Mode> modes_;
  std::map<Configuration, Result> results_;
  ResultHash hash_;
  std::uint64_t measured_ = 0;
};

}  // namespace
}  // namespace tmh::bench

int main(int argc, char **argv) {
  tmh::bench::Options options;
  tmh::bench::CommandLine app("Conflict policies and backoff on a bank of few pages", "contention");
  tmh::bench::add_common_options(app, &options.common);
  app.add_option("--rounds", options.rounds, "how often everything is measured")
      .capture_default_str();
  app.add_option("--pages", options.pages, "pages of the bank, 64 accounts each")
      .capture_default_str()
      .check_range(1, 1u << 20);
  app.add_option("--transactions", options.transactions_lazy,
                 "transfers of all processes together, lazy detection")
      .capture_default_str();
  app.add_option("--transactions-eager", options.transactions_eager,
                 "the same, eager or locking detection")
      .capture_default_str();
  app.add_option("--seconds-max", options.seconds_max, "when a configuration is cut off")
      .capture_default_str();
  app.add_flag("--fresh-age", options.fresh_age,
               "a retry gets a new age, as in the thesis's prototype");
  app.add_option("--processes", options.processes, "numbers of processes; 1 must be among them")
      .capture_default_str()
      .delimiter(',')
      .check_range(1, tmh::bench::kTeamMembersMax - 1);
  return tmh::bench::run_bench(app, argc, argv,
                               [&] { return tmh::bench::Contention(options).run(); });
}
