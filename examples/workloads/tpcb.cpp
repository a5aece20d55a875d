// examples/workloads/tpcb.cpp -- the transaction of TPC-B: an account, its teller's and its
// branch's balance change, and a row of history tells.
// Shape:     size branches, 10 tellers and 100,000 accounts of each, in rows of 128 bytes (100 are
//            asked for); per worker a ring of its last 1,024 rows of history, 64 bytes each (50 are
//            asked for). The tally counts all rows.
// As TPC-B:  the account is of the teller's branch for 85 of 100, of any other one for the others;
//            amounts of -999,999 to 999,999.
// Invariant: branches, tellers, accounts and history have the same sum; a branch has the sum of its
//            tellers; each worker's rows are its last ones, numbered without a gap.
// Source:    TPC Benchmark B, revision 2.0, clauses 1.2, 1.3 and 2.2.
#include <algorithm>

#include "examples/workloads/workload.hpp"

namespace workloads {

namespace {

constexpr std::uint64_t kTellers = 10, kAccounts = 100'000;  // per branch
constexpr std::uint64_t kHistoryRows = 1024;                 // kept, per worker
constexpr std::int64_t kAmountMax = 999'999;

struct alignas(128) Row {
  tmh::field<std::int64_t> balance;
};
struct alignas(64) HistoryRow {
  tmh::field<std::uint64_t> number;  // from 1 on
  tmh::field<std::uint64_t> teller, account;
  tmh::field<std::int64_t> amount;
};

class TpcB final : public Workload {
 public:
  TpcB(const tmh::Domain &domain, const Plan &plan)
      : Workload(domain, plan,
                 (plan.size + tellers(plan) + accounts(plan)) * sizeof(Row) +
                     kWorkersMax * kHistoryRows * sizeof(HistoryRow)) {}
  [[nodiscard]] std::unique_ptr<Worker> make_worker(unsigned index) override {
    return std::make_unique<Terminal>(*this, index);
  }

 private:
  class Terminal final : public Worker {
   public:
    Terminal(TpcB &bank, unsigned index)
        : Worker(bank.tally(index), bank.seed_of(index)),
          bank_(bank),
          history_(bank.history(index)) {}
    void step() override {
      const std::uint64_t teller = random_.below(tellers(bank_.plan_)), branch = teller / kTellers;
      const std::uint64_t home = branch * kAccounts, all = accounts(bank_.plan_);
      std::uint64_t account = home + random_.below(kAccounts);
      if (all > kAccounts && random_.below(100) >= 85)
        account = (home + kAccounts + random_.below(all - kAccounts)) % all;
      const auto amount = static_cast<std::int64_t>(random_.below(2 * kAmountMax + 1)) - kAmountMax;
      update(bank_.site_, [&] {
        bank_.account(account).balance += amount;
        bank_.teller(teller).balance += amount;
        bank_.branch(branch).balance += amount;
        const std::uint64_t number = tally_.updates + 1;
        HistoryRow &row = history_[number % kHistoryRows];
        row.number = number;
        row.teller = teller;
        row.account = account;
        row.amount = amount;
        return Change{0, amount};
      });
    }

   private:
    TpcB &bank_;
    HistoryRow *const history_;
  };

  [[nodiscard]] static std::uint64_t tellers(const Plan &plan) { return plan.size * kTellers; }
  [[nodiscard]] static std::uint64_t accounts(const Plan &plan) { return plan.size * kAccounts; }
  [[nodiscard]] Row &branch(std::uint64_t index) const {
    return reinterpret_cast<Row *>(content())[index];
  }
  [[nodiscard]] Row &teller(std::uint64_t index) const { return branch(plan_.size + index); }
  [[nodiscard]] Row &account(std::uint64_t index) const { return teller(tellers(plan_) + index); }
  [[nodiscard]] HistoryRow *history(unsigned worker) const {
    return reinterpret_cast<HistoryRow *>(&account(accounts(plan_))) + worker * kHistoryRows;
  }
  [[nodiscard]] std::uint64_t portions() const override { return 0; }  // balances are 0 at first
  void fill(std::uint64_t) override {}

  void check(Verdict *verdict) override {
    std::int64_t in_branches = 0, in_tellers = 0, in_accounts = 0;
    std::uint64_t unequal = 0;
    for (std::uint64_t i = 0; i < plan_.size; ++i) {
      std::int64_t of_branch = 0;
      for (std::uint64_t j = 0; j < kTellers; ++j) of_branch += teller(i * kTellers + j).balance;
      if (of_branch != branch(i).balance) ++unequal;
      in_tellers += of_branch;
      in_branches += branch(i).balance;
    }
    for (std::uint64_t i = 0; i < accounts(plan_); ++i) in_accounts += account(i).balance;
    const Sums changed = sums();
    const std::string count = std::to_string(changed.updates);
    verdict->text = "branches, tellers, accounts and the " + count +
                    " rows of history all sum up to " + std::to_string(in_branches);
    const auto expect_sum = [&](const char *what, std::int64_t sum) {
      verdict->expect(sum == changed.sum, std::string(what) + " sum up to " + std::to_string(sum) +
                                              " instead of " + std::to_string(changed.sum));
    };
    expect_sum("branches", in_branches);
    expect_sum("tellers", in_tellers);
    expect_sum("accounts", in_accounts);
    verdict->expect(unequal == 0, std::to_string(unequal) + " branches differ from their tellers");
    for (unsigned worker = 0; worker < kWorkersMax; ++worker) check_history(worker, verdict);
  }
  void check_history(unsigned worker, Verdict *verdict) const {
    const std::uint64_t count = tally(worker).updates;
    std::int64_t sum = 0;
    for (std::uint64_t number = count; number > 0 && number + kHistoryRows > count; --number) {
      const HistoryRow &row = history(worker)[number % kHistoryRows];
      if (row.number != number || row.teller >= tellers(plan_) || row.account >= accounts(plan_))
        return verdict->expect(false, "a row of history is missing");
      sum += row.amount;
    }
    if (count <= kHistoryRows)
      verdict->expect(sum == tally(worker).sum, "the rows of history have another sum");
  }
};

}  // namespace

std::unique_ptr<Workload> make_tpcb(const tmh::Domain &domain, const Plan &plan) {
  return std::make_unique<TpcB>(domain, plan);
}

}  // namespace workloads
