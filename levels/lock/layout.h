// levels/lock/layout.h -- what lies in the shared lock table, tmh.locks.
// Shape:     header of 4096 bytes, a histogram of the same, then kBuckets buckets, then cells of 64
//            bytes. A cell is an object, a request, or free; a locker takes two. Cells are named by
//            their index, and 0 names none. tmh.locks is rebuildable: a life of the domain begins
//            without locks.
// Invariant: a cell's own fields are the truth: its kind, and of a request its state, locker and
//            object. Lists only say it once more, and are made anew from the cells when the
//            process that changed them has died (HeldBucket, Cells). So each change of a lock takes
//            effect by one store: that of a request's state, or of its mode or count.
// Sharing:   what lies in a bucket, its objects and their requests: under the bucket's lock. A
//            locker's own lists: its owner's alone. The lists of free cells: under cells_lock.
// Ordering:  words that are looked at without their lock are atomic; see there.
// Source:    LIBTP 3.2.3: locks are found by a hash table, and chained by object and by
//            transaction.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "levels/lock/modes.h"
#include "platform/shared_lock.h"
#include "storage/latency.h"

namespace tmh::lock {

inline constexpr std::uint64_t kLockMagic = 0x3230'4b43'4c48'4d54ull;  // "TMHLCK02" in the file
inline constexpr std::uint32_t kBuckets = 1u << 15;
// Address space: 16 GiB. Memory follows the most locks that were there at a time.
inline constexpr std::uint32_t kCellsMax = 1u << 28;

enum class CellIndex : std::uint32_t { kNone = 0 };

enum class LockerId : std::uint32_t {};

// What is locked: the caller's words. LIBTP's are a file and a page.
struct ObjectId {
  std::uint64_t space = 0;
  std::uint64_t id = 0;
  [[nodiscard]] bool operator==(const ObjectId &) const = default;
};

// Whose a locker is: slot + 1 in the lower 17 bits, the participant's incarnation above. kNobody:
// it was detached.
enum class Owner : std::uint64_t { kNobody = 0 };
[[nodiscard]] constexpr Owner owner_of(std::uint32_t slot, std::uint64_t incarnation) noexcept {
  return Owner{incarnation << 17 | (slot + 1)};
}

enum class CellKind : std::uint32_t {
  kFree = 0,  // a cell that was never used is one
  kObject,
  kRequest,
  kFreeLocker,
  kLocker,
  kLockerRest,  // the second half of either
};

// Cells of all kinds have the words that are read without a lock at the same places: a locker that
// looks at a cell which is another kind by now meets no other word there.
struct alignas(64) FreeCell {
  std::atomic<CellKind> kind;
  std::uint32_t of_requests[3];
  CellIndex next;
  std::uint32_t unused[9];
  // The locker that took it, also while it is used: a dead locker's heir finds its cells by this.
  // kNone: free for all.
  std::atomic<CellIndex> keeper;
};

struct alignas(64) ObjectCell {
  std::atomic<CellKind> kind;
  std::uint32_t of_requests[2];
  // Stored before kind: others ask which cells are theirs.
  std::atomic<std::uint32_t> bucket;
  ObjectId object;
  CellIndex first_holder;
  CellIndex first_waiter;
  CellIndex last_waiter;
  // Of the holders: how many there are, and their modes, a bit each.
  std::uint32_t holders;
  std::uint32_t held_modes;
  CellIndex next_in_bucket;
  std::atomic<CellIndex> keeper;
};

enum class RequestState : std::uint32_t {
  kNone = 0,
  kWaiting,
  kHeld,
  // Taken out of the queue to end a deadlock; its locker does not know yet.
  kVictim,
};

struct alignas(64) RequestCell {
  std::atomic<CellKind> kind;
  // Stored under the bucket's lock; its locker looks at it without.
  std::atomic<RequestState> state;
  // Both stored before state.
  std::atomic<CellIndex> locker;
  std::atomic<std::uint32_t> bucket;
  CellIndex object;
  // How often it was locked so: its locker's.
  std::uint32_t count;
  Mode mode;
  // Of a waiter: its locker holds the object in another mode, and goes before those that do not.
  std::uint32_t holds_object;
  // Places in the queue, among equals.
  std::uint64_t ticket;
  // Of the holders, or the waiters.
  CellIndex next_on_object;
  CellIndex previous_on_object;
  CellIndex next_of_locker;
  CellIndex previous_of_locker;
  std::atomic<CellIndex> keeper;
  // How many requests the cell has been: it stays when the cell is anything else.
  std::atomic<std::uint32_t> generation;
};

// What becomes of the locks of a locker whose owner has died: see LockTable::settle().
enum class Succession : std::uint32_t {
  // The participant that finds it gives them back.
  kRelease = 0,
  // They stay until a participant comes that has an Heir: what they guard is not as it should be.
  kHeir,
};

// Waits other than for locks, which the table's users count here.
enum class WaitCause : std::uint32_t { kLog, kEvent, kEnd };
inline constexpr std::size_t kWaitCauses = static_cast<std::size_t>(WaitCause::kEnd);
// Words to wait on that stand for events of the table's users.
inline constexpr std::size_t kEventWords = 64;

// Totals of a locker's owner; of all that have ended in the header. kCommits: see outcomes.h.
enum class LockCount : std::uint32_t { kLocks, kCommits, kWaits, kDeadlocks, kTimeouts, kEnd };
inline constexpr std::size_t kLockCounts = static_cast<std::size_t>(LockCount::kEnd);
// The participant that rolls a transaction back: its owner, or an heir of a dead one.
enum class UndoneBy : std::uint32_t { kOwner, kHeir, kEnd };
inline constexpr std::size_t kUndoneBy = static_cast<std::size_t>(UndoneBy::kEnd);

struct alignas(64) LockerCell {
  std::atomic<CellKind> kind;
  // Changes whenever its request is granted, or ends a deadlock. A futex.
  std::atomic<std::uint32_t> wake;
  std::atomic<Owner> owner;
  // The order of their begins, for victims.
  std::atomic<std::uint64_t> age;
  // The caller's name of it.
  std::atomic<std::uint64_t> name;
  CellIndex first_request;
  CellIndex free_cells;
  std::uint32_t free_count;
  // What it waits for, and how many waits it has begun.
  std::atomic<CellIndex> waits_for;
  std::atomic<std::uint32_t> waits_begun;
  // Locks that others gave it (inherit()), not yet in its list.
  std::atomic<CellIndex> inherited;
  // Stored before kind.
  std::atomic<Succession> succession;
  // The caller's.
  std::atomic<std::uint32_t> note;
  // Second cell, of kind kLockerRest.
  alignas(64) std::atomic<CellKind> rest_kind;
  std::atomic<std::int32_t> priority;
  // For victim policies: read by others while they change.
  std::atomic<std::uint32_t> held;
  std::atomic<std::uint32_t> held_writes;
  // A death has left its list wrong, or may have: its cells tell what is in it.
  std::atomic<std::uint32_t> must_scan;
  CellIndex next_free_locker;
  std::atomic<std::uint64_t> counts[kLockCounts];
};
static_assert(sizeof(FreeCell) == 64 && sizeof(ObjectCell) == 64 && sizeof(RequestCell) == 64);
static_assert(sizeof(RequestCell) == offsetof(RequestCell, generation) + 4);
static_assert(offsetof(FreeCell, keeper) == 56 && offsetof(ObjectCell, keeper) == 56 &&
              offsetof(RequestCell, keeper) == 56);
static_assert(offsetof(RequestCell, state) == 4 && offsetof(RequestCell, locker) == 8 &&
              offsetof(RequestCell, bucket) == 12 && offsetof(ObjectCell, bucket) == 12 &&
              offsetof(FreeCell, next) == 16 && offsetof(ObjectCell, object) == 16);
static_assert(sizeof(LockerCell) == 128 && offsetof(LockerCell, rest_kind) == 64);
// A cell's kind is its first word, whatever it is.
static_assert(offsetof(FreeCell, kind) == 0 && offsetof(ObjectCell, kind) == 0 &&
              offsetof(RequestCell, kind) == 0 && offsetof(LockerCell, kind) == 0);

struct alignas(32) Bucket {
  platform::SharedLock lock;
  CellIndex first_object;
  std::uint64_t next_ticket;
  // Locks are being given to lockers that hold, or get, something here (inherit()).
  std::uint32_t is_inheriting;
};
static_assert(sizeof(Bucket) == 32);

struct LockHeader {
  // Stored last: the rest is there.
  std::atomic<std::uint64_t> magic;
  std::uint64_t life;
  ModeSet modes;
  // What is about cells.
  alignas(64) platform::SharedLock cells_lock;
  CellIndex free_cells;
  CellIndex free_lockers;
  // Cells [1, capacity) are there. release; acquire by a reader of a cell's index.
  std::atomic<std::uint32_t> capacity;
  // Cells that have disk blocks.
  std::uint32_t backed;
  // One look for deadlocks at a time.
  alignas(64) platform::SharedLock look_lock;
  alignas(64) std::atomic<std::uint64_t> next_age;
  // The callers': see LockFile::next_number().
  alignas(64) std::atomic<std::uint64_t> next_number;
  // One participant begins the table's life for all (LockTable::begin_life()).
  alignas(64) platform::SharedLock life_lock;
  std::atomic<std::uint32_t> has_begun;
  alignas(64) std::atomic<std::uint64_t> waits[kWaitCauses];
  std::atomic<std::uint64_t> waited_ns[kWaitCauses];
  alignas(64) std::atomic<std::uint32_t> events[kEventWords];
  alignas(64) std::atomic<std::uint64_t> counts[kLockCounts];
  std::atomic<std::uint64_t> looks;
  std::atomic<std::uint64_t> rollbacks[kUndoneBy];
};
inline constexpr std::size_t kHeaderBytes = 4096;
static_assert(sizeof(LockHeader) <= kHeaderBytes && std::is_standard_layout_v<LockHeader>);

// How long waits for locks took, whatever came of them.
inline constexpr std::uint64_t kWaitTimesAt = kHeaderBytes;
inline constexpr std::uint64_t kBucketsAt = kWaitTimesAt + sizeof(storage::HistogramV1);
static_assert(kWaitTimesAt % alignof(storage::HistogramV1) == 0);
inline constexpr std::uint64_t kCellsAt = kBucketsAt + std::uint64_t{kBuckets} * sizeof(Bucket);
// A new table's; more as it grows.
inline constexpr std::uint64_t kLockFileBytesMin = kCellsAt + sizeof(RequestCell);
inline constexpr std::uint64_t kLockFileBytesMax =
    kCellsAt + std::uint64_t{kCellsMax} * sizeof(RequestCell);

}  // namespace tmh::lock
