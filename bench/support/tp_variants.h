// bench/support/tp_variants.h -- the contestants of bench/tp, what each can be asked for, and how
// many times as fast one is to be as another.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>

#include "bench/support/tp_db.h"
#include "bench/support/tp_pages.h"
#include "bench/support/tp_tmh.h"

namespace tmh::bench {

enum class Store : std::uint8_t {
  kTp,
  kDb,
  kPrivate,
  kPlain,
  kBerkeley,
  kFlock,
  kFsync,
  kBsd,
  kSqlite,
  kLazy,
  kEager,
  kLocking,
  kSnapshot,
  kLines,
  kServer,
  kRequest,
  kTcl,
  kQueried,
  kRecordLocks,
  kBlink
};
enum class Scope : std::uint8_t { kAlways, kParts, kPaper };

inline constexpr int kVolatile = 0, kSynced = 1, kNotSynced = 2;
inline constexpr std::array<int, 3> kDurabilities = {kVolatile, kNotSynced, kSynced};
constexpr const char *name_of(int durability) noexcept {
  return durability == kVolatile ? "volatile" : durability == kSynced ? "synced" : "not synced";
}

struct Variant {
  const char *name;
  Store store;
  TransactionParts parts;
  bool is_for_one = false;  // process; not synced or volatile
  bool changes = true;      // the bank
  Scope scope = Scope::kAlways;
};
inline constexpr TransactionEnd kCommit = TransactionEnd::kCommit, kAbort = TransactionEnd::kAbort;
inline constexpr std::array<Variant, 28> kVariants = {
    {{"steps", Store::kTp, {}},
     {"one step", Store::kTp, {.end = TransactionEnd::kCommitStep}},
     {"Berkeley DB", Store::kBerkeley, {}},
     {"aborts", Store::kTp, {.end = kAbort}, true, false},
     {"Berkeley DB, aborts", Store::kBerkeley, {.end = kAbort}, true, false},
     {"none", Store::kPlain, {}, true},
     {"records", Store::kDb, {}},
     {"private files", Store::kPrivate, {}, true},
     {"begin, commit", Store::kTp, {kCommit, false, false}, true, false, Scope::kParts},
     {"locks", Store::kTp, {kCommit, true, false}, true, false, Scope::kParts},
     {"locks, empty steps",
      Store::kTp,
      {kCommit, true, true, false, false},
      true,
      false,
      Scope::kParts},
     {"locks, stores", Store::kTp, {kCommit, true, true, false, true}, true, true, Scope::kParts},
     {"locks, records", Store::kTp, {kCommit, true, true, true, false}, true, false, Scope::kParts},
     {"flock", Store::kFlock, {}, true, true, Scope::kPaper},
     {"fsync", Store::kFsync, {}, false, true, Scope::kPaper},
     {"4.4BSD", Store::kBsd, {}, true, true, Scope::kPaper},
     {"SQLite", Store::kSqlite, {}, false, true, Scope::kPaper},
     {"pages, lazy", Store::kLazy, {}, false, true, Scope::kPaper},
     {"pages, eager", Store::kEager, {}, false, true, Scope::kPaper},
     {"pages, locking", Store::kLocking, {}, false, true, Scope::kPaper},
     {"pages, snapshot", Store::kSnapshot, {}, false, true, Scope::kPaper},
     {"lines", Store::kLines, {}, false, true, Scope::kPaper},
     {"server", Store::kServer, {}, false, true, Scope::kPaper},
     {"server, one request", Store::kRequest, {}, false, true, Scope::kPaper},
     {"tcl", Store::kTcl, {}, false, true, Scope::kPaper},
     {"queried records", Store::kQueried, {}, false, true, Scope::kPaper},
     {"record locks", Store::kRecordLocks, {}, false, true, Scope::kPaper},
     {"blink", Store::kBlink, {}, false, true, Scope::kPaper}}};
inline constexpr std::size_t kSteps = 0, kOneStep = 1, kBerkeley = 2, kAborts = 3, kNone = 5;
inline constexpr std::size_t kRecords = 6, kPrivate = 7;
inline constexpr std::size_t kFsynced = 14, kOfBsd = 15;
inline constexpr std::size_t kQueriedRecords = 25, kLockedRecords = 26, kBlinkRecords = 27;
static_assert(kVariants[kQueriedRecords].store == Store::kQueried);
static_assert(kVariants[kBlinkRecords].store == Store::kBlink);
static_assert(kVariants[kFsynced].store == Store::kFsync);
static_assert(kVariants[kOfBsd].store == Store::kBsd);

constexpr bool has_berkeley() noexcept {
#ifdef TMH_BENCH_BERKELEY_DB
  return true;
#else
  return false;
#endif
}

constexpr bool has_sqlite() noexcept {
#ifdef TMH_BENCH_SQLITE
  return true;
#else
  return false;
#endif
}

constexpr bool is_served(Store store) noexcept {
  return store == Store::kServer || store == Store::kRequest;
}
// Banks of DB_SHARED | DB_TP.
constexpr bool is_of_records(Store store) noexcept {
  return store == Store::kDb || is_served(store) || store == Store::kTcl ||
         store == Store::kQueried || store == Store::kRecordLocks || store == Store::kBlink;
}
constexpr DbFiles files_of(Store store) noexcept {
  return store == Store::kFlock   ? DbFiles::kFlock
         : store == Store::kFsync ? DbFiles::kFsync
         : store == Store::kBsd   ? DbFiles::kBsd
         : is_of_records(store)   ? DbFiles::kTransactions
                                  : DbFiles::kPrivate;
}
constexpr bool is_of_files(Store store) noexcept {
  return store == Store::kPrivate || files_of(store) != DbFiles::kPrivate;
}
constexpr bool has_transactions(Store store) noexcept {
  return store != Store::kPlain && (!is_of_files(store) || is_of_records(store));
}
constexpr Instances instances_of(Store store) noexcept {
  return store == Store::kEager      ? Instances::kEager
         : store == Store::kLocking  ? Instances::kLocking
         : store == Store::kSnapshot ? Instances::kSnapshot
         : store == Store::kLines    ? Instances::kLines
                                     : Instances::kLazy;
}
// What a store can be asked for.
constexpr bool can_be(Store store, int durability, unsigned processes) noexcept {
  if (store == Store::kSqlite) return durability != kVolatile;
  if (store == Store::kTcl && processes != 1) return false;
  if (has_transactions(store)) return true;
  return processes == 1 && durability == (store == Store::kFsync ? kSynced : kVolatile);
}

struct Case {
  std::size_t variant;
  int durability;
  unsigned processes;
  [[nodiscard]] auto operator<=>(const Case &) const = default;
};

struct Wish {
  const char *text;
  Case fast, slow;
  double wanted;
};
// Times as many transactions per second.
inline constexpr std::array<Wish, 22> kWishes = {
    {{"records beside queries, not synced, 2 processes, x records",
      {kQueriedRecords, kNotSynced, 2},
      {kRecords, kNotSynced, 2},
      0.77},
     {"record locks, not synced, 4 processes, x records",
      {kLockedRecords, kNotSynced, 4},
      {kRecords, kNotSynced, 4},
      1.5},
     {"records, not synced, 4 processes, x blink",
      {kRecords, kNotSynced, 4},
      {kBlinkRecords, kNotSynced, 4},
      1},
     {"steps, not synced, 1 process, x Berkeley DB",
      {kSteps, kNotSynced, 1},
      {kBerkeley, kNotSynced, 1},
      1.5},
     {"steps, not synced, 2 processes, x Berkeley DB",
      {kSteps, kNotSynced, 2},
      {kBerkeley, kNotSynced, 2},
      2.5},
     {"one step, not synced, 1 process, x Berkeley DB",
      {kOneStep, kNotSynced, 1},
      {kBerkeley, kNotSynced, 1},
      1.5},
     {"one step, not synced, 2 processes, x Berkeley DB",
      {kOneStep, kNotSynced, 2},
      {kBerkeley, kNotSynced, 2},
      2.5},
     {"steps, synced, 1 process, x Berkeley DB", {kSteps, kSynced, 1}, {kBerkeley, kSynced, 1}, 1},
     {"steps, synced, 4 processes, x Berkeley DB",
      {kSteps, kSynced, 4},
      {kBerkeley, kSynced, 4},
      3},
     {"steps, volatile, x none", {kSteps, kVolatile, 1}, {kNone, kVolatile, 1}, 0.7},
     {"one step, volatile, x none", {kOneStep, kVolatile, 1}, {kNone, kVolatile, 1}, 0.7},
     {"aborts, volatile, x steps", {kAborts, kVolatile, 1}, {kSteps, kVolatile, 1}, 0.5},
     {"aborts, not synced, x steps", {kAborts, kNotSynced, 1}, {kSteps, kNotSynced, 1}, 0.5},
     {"records, not synced, 1 process, x Berkeley DB",
      {kRecords, kNotSynced, 1},
      {kBerkeley, kNotSynced, 1},
      1.5},
     {"records, not synced, 2 processes, x Berkeley DB",
      {kRecords, kNotSynced, 2},
      {kBerkeley, kNotSynced, 2},
      2},
     {"records, synced, 1 process, x Berkeley DB",
      {kRecords, kSynced, 1},
      {kBerkeley, kSynced, 1},
      1},
     {"records, synced, 4 processes, x Berkeley DB",
      {kRecords, kSynced, 4},
      {kBerkeley, kSynced, 4},
      3},
     {"records, volatile, x private files",
      {kRecords, kVolatile, 1},
      {kPrivate, kVolatile, 1},
      0.6},
     {"records, synced, x private files", {kRecords, kSynced, 1}, {kPrivate, kVolatile, 1}, 0.83},
     {"records, not synced, x private files",
      {kRecords, kNotSynced, 1},
      {kPrivate, kVolatile, 1},
      0.83},
     {"records, synced, x fsync", {kRecords, kSynced, 1}, {kFsynced, kSynced, 1}, 1.7},
     {"private files, x 4.4BSD", {kPrivate, kVolatile, 1}, {kOfBsd, kVolatile, 1}, 0.8}}};

}  // namespace tmh::bench
