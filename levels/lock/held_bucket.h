// levels/lock/held_bucket.h -- the proof that the calling thread holds a bucket's lock, and what
// may be done to the objects and requests in it.
// Why:       a lock is held or not by what its cell says; lists of holders and waiters are there to
//            find it. So death costs a list, which the next holder of the bucket makes anew.
// Shape:     an object's holders in any order; its waiters in the order in which they are granted:
//            first those whose locker holds the object in another mode, then by ticket.
// Invariant: no waiter is granted before one that stands before it, whatever their modes.
// Sharing:   between processes. Owner death: the constructor of the next holder repairs.
//            Lock order: one bucket, or two by rising number; cells_lock inside. Nothing waits
//            under it, and no lock of other rooms is taken.
// Contexts:  async-signal-safe.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include <tmh/error.hpp>

#include "levels/lock/cells.h"
#include "levels/lock/layout.h"
#include "levels/lock/lock_file.h"
#include "observe/steps.h"
#include "platform/assert.h"

namespace tmh::lock {

[[nodiscard]] inline std::uint32_t bucket_of(const ObjectId &object) noexcept {
  std::uint64_t hash = (object.space + 0x9e37'79b9'7f4a'7c15ull) * 0xff51'afd7'ed55'8ccdull;
  hash = (hash ^ object.id ^ hash >> 32) * 0xc4ce'b9fe'1a85'ec53ull;
  static_assert(kBuckets == 1u << 15);
  return static_cast<std::uint32_t>(hash >> 49);
}

class HeldBucket {
 public:
  // Takes the lock. `self`: the locker that keeps what is freed.
  HeldBucket(LockFile &file, Cells &cells, CellIndex self, std::uint32_t number) noexcept;
  HeldBucket(const HeldBucket &) = delete;
  HeldBucket &operator=(const HeldBucket &) = delete;
  // Gives it back, then wakes whose requests have been granted.
  ~HeldBucket();

  // kNone: no locker has it, or waits for it.
  [[nodiscard]] CellIndex find(const ObjectId &object) const noexcept;
  // REQUIRES: find() is kNone; a prepared cell. A request for it follows.
  [[nodiscard]] CellIndex make(const ObjectId &object) noexcept;

  // A locker's hold in that mode; kNone: it has none.
  [[nodiscard]] CellIndex hold_of(CellIndex object, CellIndex locker, Mode mode) const noexcept;
  // Of the locker that has the bucket, along the shorter list.
  [[nodiscard]] CellIndex own_hold(CellIndex object, Mode mode) const noexcept;
  // Does the locker hold it in any mode?
  [[nodiscard]] bool is_holder(CellIndex object, CellIndex locker) const noexcept;
  // Is there a holder other than `locker` whose mode excludes `mode`?
  [[nodiscard]] bool is_excluded(CellIndex object, CellIndex locker, Mode mode) const noexcept;
  [[nodiscard]] bool has_waiters(CellIndex object) const noexcept {
    return file_.object(object).first_waiter != CellIndex::kNone;
  }
  // A locker for whom `locker` would have to wait; kNone: it would not.
  [[nodiscard]] CellIndex blocker_of(CellIndex object, CellIndex locker, Mode mode) const noexcept;

  enum class Place : std::uint8_t {
    kHolder,
    kWaiter,
    // Before those that do not hold the object.
    kFirstWaiter,
  };
  // REQUIRES: a prepared cell.
  [[nodiscard]] CellIndex add(CellIndex object, CellIndex locker, Mode mode, Place place) noexcept;
  // Of a holder. Waiters that can go now go.
  void set_mode(CellIndex request, Mode mode) noexcept;
  // A holder or waiter: its cell is in no list of the object's afterwards, with that state.
  // Waiters that can go now go; an object without locks and waiters is freed.
  void remove(CellIndex request, RequestState state) noexcept;
  // Takes a waiter out of its queue, to end a deadlock, and wakes it.
  void fail(CellIndex request) noexcept;

  // Each locker that holds `from`, an object of `source`, gets the same locks of `to`, one of this
  // bucket. kOutOfMemory: *cells are to be prepared, and nothing has changed; kLockBusy: nor here.
  [[nodiscard]] Errc copy_holders(HeldBucket &source, CellIndex from, const ObjectId &to,
                                  std::uint32_t *cells) noexcept;

  // visit(locker) of all for whom a waiter waits: holders that exclude it, and the waiter before
  // it, which waits for those before.
  template <class Visit>
  void for_each_blocker(CellIndex request, const Visit &visit) const;

 private:
  // Links in damaged memory may go round.
  class Walk;

  [[nodiscard]] CellIndex locker_of(CellIndex request) const noexcept {
    return file_.request(request).locker.load(std::memory_order_relaxed);
  }
  [[nodiscard]] CellIndex excluder_of(CellIndex object, CellIndex locker, Mode mode) const noexcept;
  void link(CellIndex object, CellIndex request, Place place) noexcept;
  void unlink(CellIndex request, RequestState was) noexcept;
  void grant(CellIndex object) noexcept;
  void advance_holders(CellIndex object) noexcept;
  void note_modes(CellIndex object) noexcept;
  void free_object(CellIndex object) noexcept;
  void wake(CellIndex locker) noexcept;
  void wake_granted() noexcept;
  void repair() noexcept;
  [[nodiscard]] bool is_before(CellIndex waiter, const RequestCell &other) const noexcept;

  LockFile &file_;
  Cells &cells_;
  const CellIndex self_;
  const std::uint32_t number_;
  Bucket &bucket_;
  // Woken behind the lock.
  std::array<CellIndex, 8> granted_{};
  std::uint32_t granted_count_ = 0;
};

class HeldBucket::Walk {
 public:
  // So many cells the file has, whatever its header says.
  explicit Walk(const LockFile &file) noexcept : left_(file.capacity()) {}
  [[nodiscard]] bool goes_on(CellIndex at) noexcept {
    return at != CellIndex::kNone && left_-- > 0;
  }

 private:
  std::uint32_t left_;
};

inline HeldBucket::HeldBucket(LockFile &file, Cells &cells, CellIndex self,
                              std::uint32_t number) noexcept
    : file_(file), cells_(cells), self_(self), number_(number), bucket_(file.bucket(number)) {
  const platform::Locked how = bucket_.lock.lock(file.tag(), LockFile::holder_alive, &file);
  observe::step(observe::Step::kLockBucket);
  if (how == platform::Locked::kInherited) repair();
}

inline HeldBucket::~HeldBucket() {
  bucket_.lock.unlock();
  observe::step(observe::Step::kLockGranted);
  if (granted_count_ != 0) [[unlikely]]
    wake_granted();
}

inline CellIndex HeldBucket::find(const ObjectId &object) const noexcept {
  TMH_ASSERT(bucket_of(object) == number_);
  Walk walk(file_);
  for (CellIndex at = bucket_.first_object; walk.goes_on(at); at = file_.object(at).next_in_bucket)
    if (file_.object(at).object == object) return at;
  return CellIndex::kNone;
}

template <class Visit>
void HeldBucket::for_each_blocker(CellIndex request, const Visit &visit) const {
  const RequestCell &waiter = file_.request(request);
  const ObjectCell &object = file_.object(waiter.object);
  const std::uint32_t excluders = file_.excluders(waiter.mode);
  const CellIndex locker = locker_of(request);
  Walk walk(file_);
  for (CellIndex at = object.first_holder; walk.goes_on(at);
       at = file_.request(at).next_on_object) {
    const RequestCell &holder = file_.request(at);
    if (locker_of(at) != locker && (excluders & ModeSet::bit(holder.mode)) != 0)
      visit(locker_of(at));
  }
  if (waiter.previous_on_object != CellIndex::kNone) visit(locker_of(waiter.previous_on_object));
}

}  // namespace tmh::lock
