// bench/support/contention_tp.cpp -- transfers and audits of tp.h.
#include "bench/support/contention_tp.h"

#include <tp.h>

#include <stdexcept>
#include <utility>

#include "platform/assert.h"

namespace tmh::bench {

namespace {

constexpr tp_object kBank{1, 0};
constexpr std::size_t kAccountBytes = 64;

void check(int error, const char *what) {
  TMH_ASSERT(what != nullptr);
  if (error != TP_OK) throw std::runtime_error(std::string(what) + ": " + tp_last_error());
}

struct Change {
  std::byte *account;
  std::int64_t amount;
};
int change(tp_step_t *step, void *argument) {
  const Change &wanted = *static_cast<const Change *>(argument);
  std::int64_t balance = 0;
  if (const int error = tp_log_bytes(step, wanted.account, sizeof balance, nullptr); error != TP_OK)
    return error;
  tp_load(step, wanted.account, &balance, sizeof balance);
  balance += wanted.amount;
  tp_store(step, wanted.account, &balance, sizeof balance);
  return 0;
}
int run(tp_step_t *, void *argument) {
  (*static_cast<const std::function<void()> *>(argument))();
  return 0;
}

}  // namespace

TpTeller::TpTeller(const std::string &folder, std::size_t bytes) {
  TMH_ASSERT(bytes % 4096 == 0);
  const tp_options options{};
  check(tp_open(folder.c_str(), &options, &env_), "tp_open");
  void *address = nullptr;
  check(tp_map(env_, "bank", bytes, &address), "tp_map");
  data_ = static_cast<std::byte *>(address);
}

TpTeller::~TpTeller() { (void)tp_close(env_); }

std::uint64_t TpTeller::transfer(const BankTransfer &transfer) const {
  for (std::uint64_t attempts = 1;; ++attempts) {
    tp_txn *txn = nullptr;
    check(tp_begin(env_, &txn), "tp_begin");
    int error = tp_lock(txn, kBank, TP_INTEND_EXCLUSIVE, TP_FOREVER);
    for (const auto &[account, amount] :
         {std::pair(transfer.from, -transfer.amount), std::pair(transfer.to, transfer.amount)}) {
      if (error == TP_OK) error = tp_lock(txn, {2, account}, TP_EXCLUSIVE, TP_FOREVER);
      Change wanted{data_ + account * kAccountBytes, amount};
      if (error == TP_OK) error = tp_step(txn, TP_FIELDS, change, &wanted);
    }
    if (error == TP_OK) {
      check(tp_commit(txn), "tp_commit");
      return attempts;
    }
    if (error != TP_EDEADLOCK) check(error, "a transfer");
    check(tp_abort(txn), "tp_abort");
  }
}

void TpTeller::audit(const std::function<void()> &body) const {
  tp_txn *txn = nullptr;
  for (int error = TP_EDEADLOCK; error == TP_EDEADLOCK;) {
    check(tp_begin(env_, &txn), "tp_begin");
    error = tp_lock(txn, kBank, TP_SHARED, TP_FOREVER);
    if (error == TP_EDEADLOCK) check(tp_abort(txn), "tp_abort");
    if (error != TP_OK && error != TP_EDEADLOCK) check(error, "an audit");
  }
  check(tp_step(txn, TP_PAGES, run, const_cast<std::function<void()> *>(&body)), "tp_step");
  check(tp_commit(txn), "tp_commit");
}

}  // namespace tmh::bench
