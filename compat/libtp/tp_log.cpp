// compat/libtp/tp_log.cpp -- the C interface of the log manager.
// Contexts:  NOT async-signal-safe.
// Source:    LIBTP 3.2.1.
#include <tp.h>

#include "compat/libtp/calls.h"
#include "compat/libtp/kept_log.h"

using namespace tmh::tp;  // NOLINT(google-build-using-namespace): it defines C functions alone
using tmh::Errc;

namespace {

int show(std::uint64_t transaction, const Record &record, tp_visit_fn visit, void *argument) {
  const tp_record told{record.type, record.lsn, transaction, record.data.data(),
                       record.data.size()};
  return visit(&told, argument);
}

}  // namespace

extern "C" {

int tp_log_flush(tp_env *env) {
  return guarded_env(env, [&](Environment &) {
    if (is_step_here()) throw tmh::Error(Errc::kInstanceRunning, "a step never waits");
    env->environment.managers().await_log();
  });
}

int tp_log_read(tp_env *env, tp_txn *txn, tp_lsn lsn, tp_visit_fn visit, void *argument) {
  if (env == nullptr || visit == nullptr) return refused("no environment, or nobody to tell");
  std::optional<Record> found;
  tp_id transaction = 0;
  const int error = guarded_env(env, [&](Environment &) {
    if (is_step_here()) throw tmh::Error(Errc::kInstanceRunning, "the log is read in a step");
    if (txn != nullptr) {
      found = txn->transaction->find(lsn);
      transaction = txn->transaction->id();
    }
    if (!found.has_value()) found = KeptLog(env->environment.managers()).find(lsn, &transaction);
    if (!found.has_value())
      throw tmh::Error(Errc::kNotHeld, "no record " + std::to_string(lsn) + " is kept");
  });
  return error != TP_OK ? error : show(transaction, *found, visit, argument);
}

int tp_log_roll(tp_env *env, tp_lsn from, tp_visit_fn visit, void *argument) {
  if (env == nullptr || visit == nullptr) return refused("no environment, or nobody to tell");
  int why = 0;
  const int error = guarded_env(env, [&](Environment &) {
    if (is_step_here()) throw tmh::Error(Errc::kInstanceRunning, "the log is read in a step");
    why = KeptLog(env->environment.managers())
              .roll(from, [&](std::uint64_t transaction, const Record &record) {
                return show(transaction, record, visit, argument);
              });
  });
  return error != TP_OK ? error : why;
}

int tp_log_unroll(tp_txn *txn) {
  return guarded_in(txn, [](Transaction &transaction) { transaction.roll_back(0); });
}

int tp_log_forget(tp_env *env, tp_lsn before) {
  return guarded_env(env, [&](Environment &) {
    if (is_step_here()) throw tmh::Error(Errc::kInstanceRunning, "the log is cut in a step");
    KeptLog(env->environment.managers()).forget(before);
  });
}

}  // extern "C"
