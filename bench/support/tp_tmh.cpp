// bench/support/tp_tmh.cpp -- the bank of bench/tp in words of a segment, or of plain memory.
#include "bench/support/tp_tmh.h"

#include <tp.h>

#include <stdexcept>
#include <vector>

#include "bench/support/tp_layout.h"
#include "platform/assert.h"

namespace tmh::bench {

namespace {

class PlainBank final : public BankSession {
 public:
  PlainBank(const BankScale &scale, unsigned process)
      : memory_(BankLayout::bytes(scale) / sizeof(Record)),
        layout_(scale, memory_.data()),
        process_(process) {}
  void transact(const Transfer &transfer) override {
    *layout_.balance(layout_.account(transfer.account)) += transfer.amount;
    *layout_.balance(layout_.teller(transfer.teller)) += transfer.amount;
    *layout_.balance(transfer.branch) += transfer.amount;
    *layout_.history(layout_.row(process_, transfer.number)) = {transfer.number, transfer.teller,
                                                                transfer.account, transfer.amount};
  }
  std::int64_t look(const Transfer &transfer) override {
    return *layout_.balance(layout_.account(transfer.account)) +
           *layout_.balance(layout_.teller(transfer.teller)) + *layout_.balance(transfer.branch);
  }
  BankSums sums() override { return layout_.sums(); }
  HistoryRow row(unsigned process, std::uint64_t number) override {
    return *layout_.history(layout_.row(process, number));
  }
  std::uint64_t retries() const override { return 0; }

 private:
  std::vector<Record> memory_;
  BankLayout layout_;
  unsigned process_;
};

void check(int error, const char *what) {
  TMH_ASSERT(what != nullptr);
  if (error != TP_OK) throw std::runtime_error(std::string(what) + ": " + tp_last_error());
}

class TpBank final : public BankSession {
 public:
  TpBank(const std::string &folder, const BankScale &scale, unsigned process, int durability,
         const TransactionParts &parts)
      : env_(open(folder, durability)),
        layout_(scale, map(env_, BankLayout::bytes(scale))),
        process_(process),
        parts_(parts) {
    TMH_ASSERT(process < kTellingProcesses);
  }
  ~TpBank() override { (void)tp_close(env_); }
  TpBank(const TpBank &) = delete;
  TpBank &operator=(const TpBank &) = delete;

  void transact(const Transfer &transfer) override {
    const std::uint64_t account = layout_.account(transfer.account),
                        teller = layout_.teller(transfer.teller), branch = transfer.branch,
                        row = layout_.row(process_, transfer.number);
    tp_txn *txn = nullptr;
    check(tp_begin(env_, &txn), "tp_begin");
    if (parts_.has_locks)
      for (const std::uint64_t record : {account, teller, branch, row})
        check(tp_lock(txn, {1, record}, TP_EXCLUSIVE, TP_FOREVER), "tp_lock");
    Update updates[] = {{this, &transfer, layout_.balance(account)},
                        {this, &transfer, layout_.balance(teller)},
                        {this, &transfer, layout_.balance(branch)}};
    Telling telling{this, &transfer, layout_.history(row)};
    if (parts_.end == TransactionEnd::kCommitStep) {
      All all{updates, &telling};
      return check(tp_commit_step(txn, TP_FIELDS, do_all, &all), "tp_commit_step");
    }
    if (parts_.has_steps) {
      for (Update &update : updates) check(tp_step(txn, TP_FIELDS, add, &update), "tp_step");
      check(tp_step(txn, TP_FIELDS, tell, &telling), "tp_step");
    }
    if (parts_.end == TransactionEnd::kAbort)
      check(tp_abort(txn), "tp_abort");
    else
      check(tp_commit(txn), "tp_commit");
  }

  std::int64_t look(const Transfer &transfer) override {
    const std::uint64_t records[] = {layout_.account(transfer.account),
                                     layout_.teller(transfer.teller), transfer.branch};
    Looking looking{{}, 0};
    tp_txn *txn = nullptr;
    check(tp_begin(env_, &txn), "tp_begin");
    for (int i = 0; i < 3; ++i) {
      check(tp_lock(txn, {1, records[i]}, TP_SHARED, TP_FOREVER), "tp_lock");
      looking.balances[i] = layout_.balance(records[i]);
    }
    check(tp_commit_step(txn, TP_FIELDS, add_up, &looking), "tp_commit_step");
    return looking.sum;
  }

  BankSums sums() override {
    BankSums sums;
    read([&] { sums = layout_.sums(); });
    return sums;
  }
  HistoryRow row(unsigned process, std::uint64_t number) override {
    HistoryRow row{};
    read([&] { row = *layout_.history(layout_.row(process, number)); });
    return row;
  }
  // Locks are taken in one order by all, and nobody waits in vain.
  std::uint64_t retries() const override { return 0; }

 private:
  struct Update {
    const TpBank *bank;
    const Transfer *transfer;
    std::int64_t *balance;
  };
  struct Telling {
    const TpBank *bank;
    const Transfer *transfer;
    HistoryRow *row;
  };
  struct Looking {
    const std::int64_t *balances[3];
    std::int64_t sum;
  };
  struct All {
    Update *updates;  // three
    Telling *telling;
  };

  static tp_env *open(const std::string &folder, int durability) {
    tp_options options{};
    options.durability = durability;
    tp_env *env = nullptr;
    check(tp_open(folder.c_str(), &options, &env), "tp_open");
    return env;
  }
  static void *map(tp_env *env, std::size_t bytes) {
    void *address = nullptr;
    check(tp_map(env, "bank", bytes, &address), "tp_map");
    return address;
  }

  static int add(tp_step_t *step, void *argument) {
    const auto &[bank, transfer, balance] = *static_cast<const Update *>(argument);
    if (bank->parts_.has_records)
      if (const int error = tp_log_bytes(step, balance, sizeof *balance, nullptr)) return error;
    if (!bank->parts_.has_stores) return 0;
    std::int64_t amount = 0;
    tp_load(step, balance, &amount, sizeof amount);
    amount += transfer->amount;
    tp_store(step, balance, &amount, sizeof amount);
    return 0;
  }
  static int tell(tp_step_t *step, void *argument) {
    const auto &[bank, transfer, row] = *static_cast<const Telling *>(argument);
    if (bank->parts_.has_records)
      if (const int error = tp_log_bytes(step, row, sizeof *row, nullptr)) return error;
    if (!bank->parts_.has_stores) return 0;
    const HistoryRow told{transfer->number, transfer->teller, transfer->account, transfer->amount};
    tp_store(step, row, &told, sizeof told);
    return 0;
  }
  static int add_up(tp_step_t *step, void *argument) {
    Looking &looking = *static_cast<Looking *>(argument);
    looking.sum = 0;
    for (const std::int64_t *const balance : looking.balances) {
      std::int64_t amount = 0;
      tp_load(step, balance, &amount, sizeof amount);
      looking.sum += amount;
    }
    return 0;
  }
  static int do_all(tp_step_t *step, void *argument) {
    const auto &[updates, telling] = *static_cast<const All *>(argument);
    for (int i = 0; i < 3; ++i)
      if (const int error = add(step, &updates[i])) return error;
    return tell(step, telling);
  }

  template <class Read>
  void read(const Read &body) {
    tp_txn *txn = nullptr;
    check(tp_begin(env_, &txn), "tp_begin");
    const auto call = [](tp_step_t *, void *argument) {
      (*static_cast<const Read *>(argument))();
      return 0;
    };
    check(tp_step(txn, TP_PAGES, call, const_cast<Read *>(&body)), "tp_step");
    check(tp_commit(txn), "tp_commit");
  }

  tp_env *env_;
  BankLayout layout_;
  unsigned process_;
  TransactionParts parts_;
};

}  // namespace

std::unique_ptr<BankSession> open_tp_bank(const std::string &folder, const BankScale &scale,
                                          unsigned process, int durability,
                                          const TransactionParts &parts) {
  return std::make_unique<TpBank>(folder, scale, process, durability, parts);
}

std::unique_ptr<BankSession> open_plain_bank(const BankScale &scale, unsigned process) {
  return std::make_unique<PlainBank>(scale, process);
}

}  // namespace tmh::bench
