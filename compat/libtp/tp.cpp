// compat/libtp/tp.cpp -- the C interface, tp.h, on Environment and Transaction.
// Invariant: no exception leaves a function of tp.h, but those that a body written in C++ throws
//            through tp_step() and tp_commit_step(): the step is undone.
// Contexts:  NOT async-signal-safe.
#include <tp.h>

#include <memory>
#include <string>

#include "compat/libtp/calls.h"
#include "compat/libtp/words.h"
#include "platform/assert.h"

namespace {

using namespace tmh::tp;  // NOLINT(google-build-using-namespace): it defines C functions alone
using tmh::Errc;

Transaction &of(tp_step_t *step) noexcept {
  TMH_ASSERT(step != nullptr);
  return *static_cast<Transaction *>(step);
}

int run_step(tp_txn *txn, unsigned flags, tp_body_fn body, void *argument, bool commits) {
  if (body == nullptr) return refused("a step without a body");
  return guarded_in(txn, [&](Transaction &transaction) {
    transaction.step(flags, nullptr, {body, argument},
                     commits ? Transaction::Commits::kYes : Transaction::Commits::kNo);
  });
}

// Its handle is gone then, whatever the call returns.
void forget_if_ended(tp_txn *txn) noexcept {
  if (txn == nullptr || txn->transaction == nullptr || txn->transaction->state() != TP_IDLE) return;
  TMH_ASSERT(txn->env != nullptr);
  txn->env->recycle(*txn->transaction);
  delete txn;
}

}  // namespace

extern "C" {

int tp_open(const char *home, const tp_options *options, tp_env **env) {
  if (home == nullptr || env == nullptr) return refused("tp_open() of nothing");
  *env = nullptr;
  return guarded([&] {
    tp_options all{};
    all.durability = -1;
    if (options != nullptr) all = *options;
    *env = new tp_env{{home, all}};
  });
}

int tp_close(tp_env *env) {
  if (env == nullptr) return refused("no environment");
  bool is_gone = false;
  return close_environment(env, &is_gone);
}

const char *tp_home(const tp_env *env) {
  return env == nullptr ? nullptr : env->environment.home().c_str();
}

int tp_record_type(tp_env *env, const tp_type *type) {
  if (type == nullptr) return refused("a record type of nothing");
  return guarded_env(env, [&](Environment &environment) {
    if (is_step_here()) throw tmh::Error(Errc::kInstanceRunning, "a type is told in a step");
    environment.managers().types().add(*type);
    environment.settle();
  });
}

int tp_map(tp_env *env, const char *file, size_t size, void **address) {
  if (file == nullptr || address == nullptr) return refused("a map of nothing");
  return guarded_env(env, [&](Environment &environment) {
    tmh::SegmentOptions options;
    options.size_bytes = size;
    options.layout = tmh::Layout::kRaw;
    *address = environment.map(file, options).data();
  });
}

const char *tp_message(int error) { return tmh::message(static_cast<Errc>(error)); }
const char *tp_last_error(void) { return last_error(); }

int tp_begin(tp_env *env, tp_txn **txn) {
  if (txn == nullptr) return refused("a transaction that is nowhere");
  *txn = nullptr;
  return guarded_env(env, [&](Environment &environment) {
    auto made = std::unique_ptr<tp_txn>(new tp_txn{&environment, nullptr});
    made->transaction = environment.begin();
    *txn = made.release();
  });
}

int tp_commit(tp_txn *txn) {
  const int error = guarded_in(txn, [](Transaction &transaction) { transaction.commit(); });
  forget_if_ended(txn);
  return error;
}

int tp_abort(tp_txn *txn) {
  const int error = guarded_in(txn, [](Transaction &transaction) { transaction.abort(); });
  forget_if_ended(txn);
  return error;
}

tp_id tp_txn_id(const tp_txn *txn) { return txn == nullptr ? 0 : txn->transaction->id(); }
enum tp_state tp_txn_state(const tp_txn *txn) {
  return txn == nullptr ? TP_IDLE : txn->transaction->state();
}
int tp_txn_error(const tp_txn *txn) { return txn == nullptr ? 0 : txn->transaction->error(); }
tp_lsn tp_txn_last_lsn(const tp_txn *txn) {
  return txn == nullptr ? 0 : txn->transaction->last_lsn();
}

int tp_detach(tp_txn *txn, tp_id *id) {
  const int error = guarded_in(txn, [&](Transaction &transaction) {
    if (id != nullptr) *id = transaction.id();
    txn->env->detach(transaction);
  });
  if (error == TP_OK) delete txn;
  return error;
}

int tp_attach(tp_env *env, tp_id id, tp_txn **txn) {
  if (txn == nullptr) return refused("a transaction that is nowhere");
  *txn = nullptr;
  return guarded_env(env, [&](Environment &environment) {
    auto made = std::unique_ptr<tp_txn>(new tp_txn{&environment, nullptr});
    made->transaction = environment.attach(id);
    *txn = made.release();
  });
}

int tp_save(tp_txn *txn, tp_savepoint *point) {
  if (point == nullptr) return refused("a savepoint that is nowhere");
  return guarded_in(txn, [&](Transaction &transaction) {
    store_waiting(&transaction);
    *point = {transaction.id(), transaction.last_lsn()};
  });
}

int tp_roll_back(tp_txn *txn, const tp_savepoint *point) {
  if (point == nullptr) return refused("no savepoint");
  return guarded_in(txn, [&](Transaction &transaction) {
    if (point->at != transaction.id())
      throw tmh::Error(Errc::kBadArgument, "a savepoint of another transaction");
    transaction.roll_back(point->lsn);
  });
}

int tp_step(tp_txn *txn, unsigned flags, tp_body_fn body, void *argument) {
  return run_step(txn, flags, body, argument, false);
}

int tp_commit_step(tp_txn *txn, unsigned flags, tp_body_fn body, void *argument) {
  const int error = run_step(txn, flags, body, argument, true);
  forget_if_ended(txn);
  return error;
}

int tp_let_wait(tp_txn *txn, tp_waiting_fn store, void *context) {
  if (store == nullptr) return refused("nobody stores what waits");
  return guarded_in(txn, [&](Transaction &transaction) {
    if (transaction.state() != TP_RUNNING)
      throw tmh::Error(Errc::kBadArgument, "the transaction does not run");
    transaction.waiting().add(store, context);
  });
}

int tp_store_waiting(tp_txn *txn) {
  return guarded_in(txn, [](Transaction &transaction) { store_waiting(&transaction); });
}

tp_step_t *tp_running_step(tp_txn *txn) {
  if (txn == nullptr || txn->transaction == nullptr || !txn->transaction->is_in_step())
    return nullptr;
  return txn->transaction.get();
}

int tp_log(tp_step_t *step, uint32_t type, const void *data, size_t bytes, tp_lsn *lsn) {
  if (step == nullptr || (data == nullptr && bytes != 0)) return refused("a record of nothing");
  return guarded([&] {
    const std::uint64_t drawn = of(step).log(type, {static_cast<const std::byte *>(data), bytes});
    if (lsn != nullptr) *lsn = drawn;
  });
}

int tp_log_bytes(tp_step_t *step, const void *address, size_t bytes, tp_lsn *lsn) {
  if (step == nullptr || address == nullptr) return refused("a record of nothing");
  return guarded([&] {
    const std::uint64_t drawn = of(step).log_bytes(address, bytes);
    if (lsn != nullptr) *lsn = drawn;
  });
}

void tp_load(tp_step_t *, const void *from, void *to, size_t bytes) {
  load_bytes(static_cast<const std::byte *>(from), static_cast<std::byte *>(to), bytes);
}
void tp_store(tp_step_t *, void *to, const void *from, size_t bytes) {
  store_bytes(static_cast<std::byte *>(to), static_cast<const std::byte *>(from), bytes);
}

int tp_lock(tp_txn *txn, tp_object object, unsigned mode, uint64_t wait_us) {
  return guarded_in(txn, [&](Transaction &transaction) {
    throw_unless_ok(transaction.lock(object_of(object), mode_of(mode), patience_of(wait_us)));
  });
}

int tp_lock_trade(tp_txn *txn, tp_object object, unsigned from, unsigned to, uint64_t wait_us) {
  return guarded_in(txn, [&](Transaction &transaction) {
    throw_unless_ok(
        transaction.trade(object_of(object), mode_of(from), mode_of(to), patience_of(wait_us)));
  });
}

int tp_unlock(tp_txn *txn, tp_object object, unsigned mode) {
  return guarded_in(txn, [&](Transaction &transaction) {
    throw_unless_ok(transaction.unlock(object_of(object), mode_of(mode)));
  });
}

int tp_unlock_all(tp_txn *txn) {
  return guarded_in(txn, [&](Transaction &transaction) {
    throw_unless_ok(txn->env->managers().locks().unlock_all(transaction.slot().locker));
  });
}

int tp_set_priority(tp_txn *txn, int priority) {
  return guarded_in(txn, [&](Transaction &transaction) {
    throw_unless_ok(txn->env->managers().locks().set_priority(transaction.slot().locker, priority));
  });
}

int tp_settle(tp_env *env) {
  return guarded_env(env, [](Environment &environment) { environment.settle(); });
}

}  // extern "C"
