// observe/probes.h -- points at which the engine says what it does: USDT probes of the provider
// `tmh`, for bpftrace, perf, gdb, SystemTap; and the events of `tmh trace`.
// Shape:     one function per probe; its parameters are the probe's arguments, in order, which
//            docs/man/tmh-probes.7 documents. A probe that no tool watches is one no-op
//            instruction, besides having its arguments at hand; with TMH_HAVE_SDT=0
//            (cmake/dependencies.cmake) it is nothing. trace.h records the same call: one branch
//            when that is off.
// Contexts:  everywhere: in signal handlers, between XBEGIN and XEND, under locks.
// Source:    systemtap-sdt-dev; the notes are listed by `readelf -n`, and by tests/house/probes.py.
#pragma once

#include <cstdint>

#include "observe/trace.h"
#include "platform/assert.h"

#ifndef TMH_HAVE_SDT
#error "TMH_HAVE_SDT is not defined: CMake decides, link the target with tmh_usdt"
#endif
#if TMH_HAVE_SDT
#include <sys/sdt.h>
#define TMH_PROBE2(name, a, b) STAP_PROBE2(tmh, name, a, b)
#define TMH_PROBE3(name, a, b, c) STAP_PROBE3(tmh, name, a, b, c)
#define TMH_PROBE4(name, a, b, c, d) STAP_PROBE4(tmh, name, a, b, c, d)
#else
#define TMH_PROBE2(name, a, b) (static_cast<void>(a), static_cast<void>(b))
#define TMH_PROBE3(name, a, b, c) (static_cast<void>(a), static_cast<void>(b), static_cast<void>(c))
#define TMH_PROBE4(name, a, b, c, d) (TMH_PROBE3(name, a, b, c), static_cast<void>(d))
#endif

namespace tmh::observe::probe {

// As a level's number in docs/design.md 1 and README.md; kLocks: of no level.
enum Level : std::uint32_t { kLocks = 0, kLines = 1, kPages = 2 };

enum Begins : std::uint32_t { kUpdate = 0, kQuery = 1, kUpdateInRtm = 2 };
// An attempt begins. instance: its number in this process (level 2) or thread (level 1); RTM: 0.
inline void begin(Level level, std::uint64_t instance, Begins what) noexcept {
  TMH_PROBE3(begin, level, instance, what);
  record(TraceKind::kBegin, level, instance, what);
}
[[nodiscard]] constexpr Begins begins(bool is_query) noexcept {
  return is_query ? kQuery : kUpdate;
}
// Level 2 puts a page on the list of what this instance may have read (is_write 0) or stored to
// (1).
inline void first_touch(std::uint64_t page, std::uint32_t is_write) noexcept {
  TMH_PROBE2(first_touch, page, is_write);
  record(TraceKind::kFirstTouch, kPages, page, is_write);
}
// Another instance is, or was, at the same block. at: the page (level 2), or the address of the
// line's word (level 1).
inline void conflict(Level level, std::uint64_t at) noexcept {
  TMH_PROBE2(conflict, level, at);
  record(TraceKind::kConflict, level, at, 0);
}
// stamp: the commit's, or the snapshot of an instance that wrote nothing; blocks: pages or lines
// written. RTM: both 0, they are not known.
inline void commit(Level level, std::uint64_t stamp, std::uint64_t blocks) noexcept {
  TMH_PROBE3(commit, level, stamp, blocks);
  record(TraceKind::kCommit, level, stamp, blocks);
}
// cause: an AbortCause.
inline void abort(Level level, std::uint32_t cause) noexcept {
  TMH_PROBE2(abort, level, cause);
  record(TraceKind::kAbort, level, cause, 0);
}
// The same of an attempt in RTM. status: the word that XBEGIN left; code: of an XABORT in it, else
// 0.
inline void hardware_abort(std::uint32_t status, std::uint32_t code) noexcept {
  TMH_PROBE2(hardware_abort, status, code);
  record(TraceKind::kHardwareAbort, kLines, status, code);
}
// An instance of a site goes on at level 2 after so many attempts at level 1. reason: 0 too many or
// too long, 1 capacity, 2 needs pages. need: with reason 2 a Need; else 0. A trace has it in the
// upper half of the event's first word.
inline void escalate(const char *site, std::uint32_t reason, std::uint32_t attempts,
                     std::uint32_t need) noexcept {
  TMH_ASSERT(site != nullptr && reason <= 2 && (reason == 2 || need == 0));
  TMH_PROBE4(escalate, site, reason, attempts, need);
  record(TraceKind::kEscalate, kLines, reason | std::uint64_t{need} << 32, attempts);
}
// Level 2 takes a page from level 1; total: of this process, with this one.
inline void recall(std::uint64_t page, std::uint64_t total) noexcept {
  TMH_PROBE2(recall, page, total);
  record(TraceKind::kRecall, kPages, page, total);
}
// This process's views go from one level's mappings to the other's (hardware lines).
inline void mode_switch(Level from, Level to) noexcept {
  TMH_ASSERT(from != to);
  TMH_PROBE2(mode_switch, from, to);
  record(TraceKind::kModeSwitch, kLines, from, to);
}
// The process waits for a disk: from fsync to fsync_done, which an error leaves out. bytes: of a
// durable write; 0: everything written before.
inline void fsync(const char *path, std::uint64_t bytes) noexcept {
  TMH_ASSERT(path != nullptr);
  TMH_PROBE2(fsync, path, bytes);
  record(TraceKind::kFsync, kPages, bytes, 0);
}
inline void fsync_done(const char *path, std::uint64_t bytes) noexcept {
  TMH_PROBE2(fsync_done, path, bytes);
  record(TraceKind::kFsyncDone, kPages, bytes, 0);
}
// A locker waits for a lock, from lock_wait to lock_wait_done. space, id: the object's. error: 0,
// it has the lock; else the number of the Errc that its caller gets.
inline void lock_wait(std::uint64_t space, std::uint64_t id, std::uint32_t mode) noexcept {
  TMH_PROBE3(lock_wait, space, id, mode);
  record(TraceKind::kLockWait, kLocks, space, id, mode);
}
inline void lock_wait_done(std::uint64_t space, std::uint64_t id, std::uint32_t error,
                           std::uint64_t waited_ns) noexcept {
  TMH_PROBE4(lock_wait_done, space, id, error, waited_ns);
  record(TraceKind::kLockWaitDone, kLocks, space, id, error);
}
// This process has found a cycle of so many lockers; the victim's wait ends. victim: its name.
inline void deadlock(std::uint64_t victim, std::uint64_t lockers) noexcept {
  TMH_PROBE2(deadlock, victim, lockers);
  record(TraceKind::kDeadlock, kLocks, victim, lockers);
}
// So many records of a transaction are undone. by: 0 its owner, 1 an heir.
inline void rollback(std::uint64_t transaction, std::uint64_t records, std::uint32_t by) noexcept {
  TMH_PROBE3(rollback, transaction, records, by);
  record(TraceKind::kRollback, kLocks, transaction, records, by);
}

}  // namespace tmh::observe::probe
