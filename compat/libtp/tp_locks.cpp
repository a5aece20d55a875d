// compat/libtp/tp_locks.cpp -- the lock manager in C: lockers that are no transaction.
// Contexts:  NOT async-signal-safe.
// Source:    LIBTP 3.2.3.
#include <tp.h>

#include <atomic>
#include <vector>

#include "compat/libtp/calls.h"
#include "platform/failure.h"

using namespace tmh::tp;  // NOLINT(google-build-using-namespace): it defines C functions alone
using tmh::Errc;
using tmh::lock::CellIndex;
using tmh::lock::CellKind;
using tmh::lock::LockCount;
using tmh::lock::LockerId;
using tmh::lock::LockId;
using tmh::lock::LockTable;
using tmh::lock::Order;
using tmh::lock::Succession;

namespace {

// A step never waits.
tmh::lock::Patience patience_here(std::uint64_t wait_us) noexcept {
  return is_step_here() ? tmh::lock::Patience::none() : patience_of(wait_us);
}

// The lockers of transactions are used by their calls alone.
template <class Call>
int guarded_locker(tp_env *env, tp_locker locker, const Call &call) {
  return guarded_locks(env, [&](LockTable &table) {
    const tmh::lock::LockFile &file = table.file();
    const CellIndex cell{locker};
    if (file.kind(cell) == CellKind::kLocker &&
        file.locker(cell).succession.load(std::memory_order_relaxed) == Succession::kHeir)
      return tmh::platform::fail(Errc::kBadArgument, "a locker of a transaction");
    return call(table);
  });
}

}  // namespace

extern "C" {

int tp_locker_begin(tp_env *env, uint64_t name, tp_locker *locker) {
  if (locker == nullptr) return refused("a locker that is nowhere");
  LockerId made{};
  const int error = guarded_locks(env, [&](LockTable &table) { return table.begin(name, &made); });
  *locker = static_cast<tp_locker>(made);
  return error;
}

int tp_locker_end(tp_env *env, tp_locker locker) {
  return guarded_locker(env, locker, [&](LockTable &table) {
    // It says whether the locker is the caller's.
    const Errc error = table.unlock_all(LockerId{locker});
    if (error == Errc::kOk) table.end(LockerId{locker});
    return error;
  });
}

int tp_locker_set_priority(tp_env *env, tp_locker locker, int priority) {
  return guarded_locker(env, locker, [&](LockTable &table) {
    return table.set_priority(LockerId{locker}, priority);
  });
}

int tp_locker_lock(tp_env *env, tp_locker locker, tp_object object, unsigned mode, uint64_t wait_us,
                   tp_lock_id *lock) {
  LockId taken{};
  const int error = guarded_locker(env, locker, [&](LockTable &table) {
    return table.lock(LockerId{locker}, object_of(object), mode_of(mode), patience_here(wait_us),
                      &taken);
  });
  if (lock != nullptr && error == TP_OK) *lock = static_cast<tp_lock_id>(taken);
  return error;
}

int tp_upgrade(tp_env *env, tp_locker locker, tp_lock_id lock, unsigned mode, uint64_t wait_us,
               tp_lock_id *now) {
  LockId traded{};
  const int error = guarded_locker(env, locker, [&](LockTable &table) {
    return table.upgrade(LockerId{locker}, LockId{lock}, mode_of(mode), patience_here(wait_us),
                         &traded);
  });
  if (now != nullptr && error == TP_OK) *now = static_cast<tp_lock_id>(traded);
  return error;
}

int tp_downgrade(tp_env *env, tp_locker locker, tp_lock_id lock, unsigned mode, tp_lock_id *now) {
  LockId traded{};
  const int error = guarded_locker(env, locker, [&](LockTable &table) {
    return table.downgrade(LockerId{locker}, LockId{lock}, mode_of(mode), &traded);
  });
  if (now != nullptr && error == TP_OK) *now = static_cast<tp_lock_id>(traded);
  return error;
}

int tp_locker_unlock(tp_env *env, tp_locker locker, tp_lock_id lock) {
  return guarded_locker(
      env, locker, [&](LockTable &table) { return table.unlock(LockerId{locker}, LockId{lock}); });
}

int tp_locker_unlock_object(tp_env *env, tp_locker locker, tp_object object, unsigned mode) {
  return guarded_locker(env, locker, [&](LockTable &table) {
    return table.unlock(LockerId{locker}, object_of(object), mode_of(mode));
  });
}

int tp_locker_unlock_all(tp_env *env, tp_locker locker) {
  return guarded_locker(env, locker,
                        [&](LockTable &table) { return table.unlock_all(LockerId{locker}); });
}

int tp_lock_vector(tp_env *env, tp_locker locker, tp_request *requests, size_t count,
                   uint64_t wait_us, size_t *failed_one, uint64_t *holder) {
  if (requests == nullptr && count != 0) return refused("no requests");
  std::vector<Order> orders(count);
  std::size_t number = 0;
  std::uint64_t name = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const tp_request &request = requests[i];
    if (request.what != TP_LOCK && request.what != TP_UNLOCK)
      return refused("a request is to lock or to unlock");
    orders[i] = {request.what == TP_LOCK ? Order::What::kLock : Order::What::kUnlock,
                 object_of(request.object), mode_of(request.mode)};
  }
  const int error = guarded_locker(env, locker, [&](LockTable &table) {
    return table.lock_vector(LockerId{locker}, orders, patience_here(wait_us), &number, &name);
  });
  if (failed_one != nullptr) *failed_one = number;
  if (holder != nullptr) *holder = name;
  for (std::size_t i = 0; i < count && error == TP_OK; ++i)
    if (requests[i].what == TP_LOCK) requests[i].lock = static_cast<tp_lock_id>(orders[i].lock);
  return error;
}

int tp_inherit(tp_env *env, tp_locker locker, tp_object from, tp_object to) {
  return guarded_locker(env, locker, [&](LockTable &table) {
    return table.inherit(LockerId{locker}, object_of(from), object_of(to));
  });
}

int tp_look_for_deadlocks(tp_env *env, unsigned *victims) {
  if (victims == nullptr) return refused("a count that is nowhere");
  return guarded_locks(env, [&](LockTable &table) {
    *victims = table.look();
    return Errc::kOk;
  });
}

int tp_lock_totals(tp_env *env, tp_lock_counts *counts) {
  if (counts == nullptr) return refused("counts that are nowhere");
  return guarded_locks(env, [&](LockTable &table) {
    const auto totals = table.totals();
    *counts = {totals[LockCount::kLocks],     totals[LockCount::kWaits],    totals.waited_ns,
               totals[LockCount::kDeadlocks], totals[LockCount::kTimeouts], totals.looks};
    return Errc::kOk;
  });
}

}  // extern "C"
