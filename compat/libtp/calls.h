// compat/libtp/calls.h -- what the C functions share: their objects, errors as numbers, and the
// texts of tp_last_error().
// Contexts:  NOT async-signal-safe.
#pragma once

#include <tp.h>

#include <cstdint>
#include <memory>
#include <new>
#include <string>

#include "compat/libtp/environment.h"
#include "compat/libtp/transaction.h"
#include "platform/assert.h"

struct tp_env {
  tmh::tp::Environment environment;
};
struct tp_txn {
  tmh::tp::Environment *env;
  std::unique_ptr<tmh::tp::Transaction> transaction;
};

namespace tmh::tp {

// Of this thread's last call that failed.
[[nodiscard]] const char *last_error() noexcept;
// The number, and its text is kept. why: empty: that of the number.
int failed(Errc error, const std::string &why) noexcept;
// TP_EARGUMENT
int refused(const char *what) noexcept;

// What a call returns, for what it throws.
template <class Call>
int guarded(const Call &call) {
  try {
    call();
    return TP_OK;
  } catch (const Error &error) {
    return failed(error.errc(), error.what());
  } catch (const Refused &refused) {
    return failed(static_cast<Errc>(refused.why), "a step, or an undo, has refused");
  } catch (const std::bad_alloc &) {
    return failed(Errc::kOutOfMemory, "");
  }
}

// The same, of a process that may use the environment.
template <class Call>
int guarded_env(tp_env *env, const Call &call) {
  if (env == nullptr) return refused("no environment");
  return guarded([&] {
    env->environment.check_usable();
    call(env->environment);
  });
}

// The same of a function of the lock table.
template <class Call>
int guarded_locks(tp_env *env, const Call &call) {
  return guarded_env(env, [&](Environment &environment) {
    throw_unless_ok(call(environment.managers().locks()));
  });
}

// The transaction remembers.
template <class Call>
int guarded_in(tp_txn *txn, const Call &call) {
  if (txn == nullptr || txn->transaction == nullptr) return refused("no transaction");
  const int error = guarded([&] {
    txn->env->check_usable();
    call(*txn->transaction);
  });
  if (error != TP_OK) txn->transaction->note_error(error);
  return error;
}

// *is_gone: the handle is, whatever the call returns.
inline int close_environment(tp_env *env, bool *is_gone) {
  TMH_ASSERT(env != nullptr && is_gone != nullptr);
  const int error = guarded([&] { env->environment.close(); });
  *is_gone = env->environment.is_closed();
  if (*is_gone) delete env;
  return error;
}

static_assert(TP_EXCLUSIVE == static_cast<int>(lock::Mode::kExclusive) &&
              TP_SHARED == static_cast<int>(lock::Mode::kShared));
static_assert(TP_LOWEST_PRIORITY == static_cast<int>(lock::Victim::kLowestPriority));
static_assert(TP_EARGUMENT == static_cast<int>(Errc::kBadArgument) &&
              TP_ENOSTEP == static_cast<int>(Errc::kEndWithoutBegin) &&
              TP_ERUNNING == static_cast<int>(Errc::kInstanceRunning));
static_assert(TP_EDEADLOCK == static_cast<int>(Errc::kDeadlock) &&
              TP_ENOTLOCKED == static_cast<int>(Errc::kNotLocked));

[[nodiscard]] inline lock::Mode mode_of(unsigned mode) noexcept { return lock::Mode{mode}; }
[[nodiscard]] inline lock::ObjectId object_of(const tp_object &object) noexcept {
  return {object.space, object.id};
}
[[nodiscard]] inline lock::Patience patience_of(std::uint64_t wait_us) noexcept {
  return wait_us > ~0ull / 1000 ? lock::Patience::endless() : lock::Patience{wait_us * 1000};
}
}  // namespace tmh::tp
