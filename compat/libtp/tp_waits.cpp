// compat/libtp/tp_waits.cpp -- the C interface of the process manager.
// Contexts:  NOT async-signal-safe.
// Source:    LIBTP 3.2.4.
#include <tp.h>

#include "compat/libtp/calls.h"
#include "compat/libtp/waits.h"

using namespace tmh::tp;  // NOLINT(google-build-using-namespace): it defines C functions alone
using tmh::Errc;
using tmh::lock::LockCount;
using tmh::lock::LockTable;
using tmh::lock::WaitCause;

extern "C" {

int tp_event(tp_env *env, uint64_t event, uint32_t *now) {
  if (now == nullptr) return refused("a number that is nowhere");
  return guarded_locks(env, [&](LockTable &table) {
    *now = Waits(table.file()).now(event);
    return Errc::kOk;
  });
}

int tp_sleep_on(tp_env *env, uint64_t event, uint32_t seen, uint64_t wait_us) {
  return guarded_locks(env, [&](LockTable &table) {
    if (is_step_here()) throw tmh::Error(Errc::kInstanceRunning, "a step never waits");
    if (Waits(table.file()).sleep(event, seen, patience_of(wait_us))) return Errc::kOk;
    throw tmh::Error(Errc::kLockTimeout, "the event has not happened in time");
  });
}

int tp_wake(tp_env *env, uint64_t event) {
  return guarded_locks(env, [&](LockTable &table) {
    Waits(table.file()).wake(event);
    return Errc::kOk;
  });
}

int tp_waits(tp_env *env, tp_wait_counts *counts) {
  if (counts == nullptr) return refused("counts that are nowhere");
  return guarded_locks(env, [&](LockTable &table) {
    const auto totals = table.totals();
    const Waits waits(table.file());
    *counts = {totals[LockCount::kWaits],      totals.waited_ns,
               waits.waits(WaitCause::kLog),   waits.waited_ns(WaitCause::kLog),
               waits.waits(WaitCause::kEvent), waits.waited_ns(WaitCause::kEvent)};
    return Errc::kOk;
  });
}

}  // extern "C"
