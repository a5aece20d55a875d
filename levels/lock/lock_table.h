// levels/lock/lock_table.h -- locks that wait, between lockers of all processes.
// Shape:     a locker has locks on objects, each in a mode, and each counted: what was locked n
//            times is given back n times. Several modes of one object are several locks, which
//            never exclude each other. Waiters of an object are served in turn; only a locker that
//            holds the object already goes before those that do not.
// Invariant: strict: its locker alone, or its heir, gives a lock back. A locker's owner may die at
//            any instruction; a locker that meets its locks becomes its heir (settle()).
// Sharing:   a locker: one thread at a time, of its owner. Different lockers: any threads of any
//            processes. Nothing here takes the domain lock; callers of what does not wait may
//            hold it.
// Contexts:  lock(), unlock_all(), begin() and renew(): the fault handler, too, where they touch no
//            heap unless they fail. The rest is NOT async-signal-safe.
// Errors:    kLockBusy: it would have to wait, and was asked not to. kLockTimeout, kDeadlock: it
//            has waited in vain; it does not have the lock, and has all others. kNotLocked: no such
//            lock of this locker. kBadArgument: no such mode, or no such locker of this
//            participant. kDiskFull, kIo, kOutOfMemory: the table cannot grow.
// Source:    LIBTP 3.2.3 (lock, unlock, unlock_all, upgrade, downgrade) and 4.1; the rest follows
//            what LIBTP became, Berkeley DB's lock manager (docs/sources.md).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include <tmh/error.hpp>

#include "levels/lock/cells.h"
#include "levels/lock/held_bucket.h"
#include "levels/lock/layout.h"
#include "levels/lock/lock_file.h"
#include "levels/lock/modes.h"
#include "levels/lock/requests.h"
#include "levels/lock/waits_for.h"

namespace tmh::lock {

// A lock that was given back keeps its number; another one never gets it.
enum class LockId : std::uint64_t { kNone = 0 };

struct Patience {
  std::uint64_t longest_ns;
  // Not null: another thread sets it to end the wait, which then is late, within 100 ms.
  const std::atomic<bool> *is_over = nullptr;
  [[nodiscard]] static constexpr Patience none() noexcept { return {0}; }
  [[nodiscard]] static constexpr Patience endless() noexcept { return {~0ull}; }
};

// When a waiter looks for deadlocks and for dead holders, and who then gets kDeadlock.
struct LookPolicy {
  // First after so long; then after twice that, and so on, up to 100 ms.
  std::uint64_t first_look_ns = 1'000'000;
  Victim victim = Victim::kYoungest;
};

// One of a vector: a lock to take, or to give back.
struct Order {
  enum class What : std::uint8_t { kLock, kUnlock } what = What::kLock;
  ObjectId object;
  Mode mode{};
  LockId lock = LockId::kNone;  // of kLock, out
};

// What becomes of a locker of Succession::kHeir whose owner has died.
class Heir {
 public:
  // The locker is the caller's by now, with all its locks. False: it keeps them, and is not asked
  // again. True: it has nothing more to do, and ends. In the thread that has met the dead, which
  // may wait for a lock.
  [[nodiscard]] virtual bool take(LockerId locker, std::uint64_t name) noexcept = 0;

 protected:
  ~Heir() = default;
};

class LockTable {
 public:
  // See LockFile::open().
  [[nodiscard]] Errc open(const platform::FolderLock::Held &lock, const std::string &path,
                          std::uint64_t life, const ModeSet &modes, const Self &self) noexcept;
  void close() noexcept { file_.close(); }
  // Of lockers of Succession::kHeir, whose locks stay where there is none. It outlives its use.
  // False: there is one.
  [[nodiscard]] bool begin_heir(Heir *heir) noexcept {
    Heir *none = nullptr;
    // release: pairs with settle()
    return heir_.compare_exchange_strong(none, heir, std::memory_order_release);
  }
  void end_heir() noexcept { heir_.store(nullptr, std::memory_order_release); }
  void use(const LookPolicy &policy) noexcept { policy_ = policy; }

  // Runs `begin` once in this life of the domain, before it returns to any participant: it makes
  // lockers of Succession::kHeir for what an earlier life has left. When `begin` fails, or its
  // participant dies in it, the next caller runs it anew, and no such locker is there.
  [[nodiscard]] Errc begin_life(const std::function<Errc()> &begin);
  // name, note: the caller's, for tools and heirs. It is younger than all others.
  [[nodiscard]] Errc begin(std::uint64_t name, LockerId *out,
                           Succession succession = Succession::kRelease,
                           std::uint32_t note = 0) noexcept;
  // As end() and begin(), at once. REQUIRES: its owner's, and it has no locks.
  void renew(LockerId locker, std::uint64_t name) noexcept;
  // Gives all back. REQUIRES: its owner's.
  void end(LockerId locker) noexcept;
  // It has no owner, who could die, until a participant attaches it and goes on with it.
  [[nodiscard]] Errc detach(LockerId locker) noexcept;
  [[nodiscard]] Errc attach(LockerId locker, std::uint64_t name) noexcept;
  // Of Victim::kLowestPriority; 0 at first.
  [[nodiscard]] Errc set_priority(LockerId locker, std::int32_t priority) noexcept;

  [[nodiscard]] Errc lock(LockerId locker, const ObjectId &object, Mode mode, Patience patience,
                          LockId *out) noexcept;
  // Trades one count of the lock for one in the other mode, in one step: no other locker gets the
  // object in between. On an error the lock is as it was.
  [[nodiscard]] Errc upgrade(LockerId locker, LockId lock, Mode mode, Patience patience,
                             LockId *out) noexcept;
  // The same, to a mode that excludes no mode that the lock's does not: it never waits.
  [[nodiscard]] Errc downgrade(LockerId locker, LockId lock, Mode mode, LockId *out) noexcept;
  // The lock that the locker has in that mode; kNotLocked.
  [[nodiscard]] Errc find(LockerId locker, const ObjectId &object, Mode mode, LockId *out) noexcept;
  // One count.
  [[nodiscard]] Errc unlock(LockerId locker, LockId lock) noexcept;
  [[nodiscard]] Errc unlock(LockerId locker, const ObjectId &object, Mode mode) noexcept;
  [[nodiscard]] Errc unlock_all(LockerId locker) noexcept;
  // All of them or none: locks in order, then what is given back. On an error *failed is the number
  // of the one that failed, and *holder the name of a locker that it would have waited for; 0: of
  // none.
  [[nodiscard]] Errc lock_vector(LockerId locker, std::span<Order> orders, Patience patience,
                                 std::size_t *failed, std::uint64_t *holder) noexcept;
  // Each locker that holds `from` holds `to`, too, in the same modes: a page was split. kLockBusy:
  // one that holds `to` already would exclude it; nothing has changed then.
  [[nodiscard]] Errc inherit(LockerId locker, const ObjectId &from, const ObjectId &to) noexcept;

  // Ends all deadlocks that there are; how many lockers have failed.
  std::uint32_t look() noexcept { return waits_for_.look_everywhere(policy_.victim); }
  // Becomes the heir of all lockers whose owners have died.
  void settle() noexcept;

  struct Totals {
    std::uint64_t of[kLockCounts] = {};
    std::uint64_t waited_ns = 0;
    std::uint64_t looks = 0;
    [[nodiscard]] std::uint64_t operator[](LockCount count) const noexcept {
      return of[static_cast<std::size_t>(count)];
    }
  };
  // Of all lockers that there are and were.
  [[nodiscard]] Totals totals() const noexcept;
  [[nodiscard]] LockFile &file() noexcept { return file_; }

 private:
  using Place = HeldBucket::Place;

  [[nodiscard]] static CellIndex cell(LockerId locker) noexcept {
    return CellIndex{static_cast<std::uint32_t>(locker)};
  }
  [[nodiscard]] static CellIndex cell(LockId lock) noexcept {
    return CellIndex{static_cast<std::uint32_t>(lock)};
  }
  [[nodiscard]] LockId id(CellIndex request) const noexcept {
    const std::uint64_t generation =
        file_.request(request).generation.load(std::memory_order_relaxed);
    return LockId{generation << 32 | static_cast<std::uint32_t>(request)};
  }
  [[nodiscard]] bool is_own(LockerId locker) const noexcept {
    return file_.kind(cell(locker)) == CellKind::kLocker &&
           file_.locker(cell(locker)).owner.load(std::memory_order_relaxed) == file_.self();
  }
  // What a locker holds is changed by its owner alone, so that no lock is needed to look.
  [[nodiscard]] bool is_own(LockerId locker, LockId lock) const noexcept {
    if (file_.kind(cell(lock)) != CellKind::kRequest) return false;
    const RequestCell &request = file_.request(cell(lock));
    return request.state.load(std::memory_order_acquire) == RequestState::kHeld &&
           request.locker.load(std::memory_order_relaxed) == cell(locker) && id(cell(lock)) == lock;
  }
  // Before each call's work: is the locker the caller's? Then its list is right afterwards.
  [[nodiscard]] Errc enter(LockerId locker) noexcept {
    const LockerCell &self = file_.locker(cell(locker));
    if (is_own(locker) && self.must_scan.load(std::memory_order_relaxed) == 0 &&
        self.inherited.load(std::memory_order_relaxed) == CellIndex::kNone) [[likely]]
      return Errc::kOk;
    return enter_slowly(locker);
  }
  [[nodiscard]] Errc enter_slowly(LockerId locker) noexcept;
  [[nodiscard]] Errc check(LockerId locker, LockId lock) noexcept;
  [[nodiscard]] Errc lock_as(LockerId locker, const ObjectId &object, Mode mode, Patience patience,
                             bool is_weaker, LockId *out) noexcept;
  // object: the request's.
  [[nodiscard]] Errc await(CellIndex locker, CellIndex request, const ObjectId &object,
                           Patience patience) noexcept;
  [[nodiscard]] bool withdraw(CellIndex locker, CellIndex request) noexcept;
  // is_weaker: it is granted whoever else holds the object.
  [[nodiscard]] Errc trade(LockerId locker, LockId lock, Mode mode, Patience patience,
                           bool is_weaker, LockId *out) noexcept;
  void begin_wait(const HeldBucket &bucket, CellIndex locker, CellIndex request) noexcept;
  void settle_blockers(CellIndex request) noexcept;
  // True: it was, and what it had is given back.
  bool settle(CellIndex locker) noexcept;
  // The locker of `from`, who is no more, is the caller's, with what it holds. False: another one
  // was quicker.
  [[nodiscard]] bool take_over(CellIndex locker, Owner from) noexcept;
  void end_heirless() noexcept;
  [[nodiscard]] bool has_counts(LockerId locker, std::span<const Order> orders) noexcept;
  [[nodiscard]] std::uint64_t name_of_blocker(const ObjectId &object, CellIndex locker,
                                              Mode mode) noexcept;

  LockFile file_;
  Cells cells_{file_};
  Requests requests_{file_, cells_};
  WaitsFor waits_for_{file_, cells_};
  LookPolicy policy_;
  std::atomic<Heir *> heir_{nullptr};
};

}  // namespace tmh::lock
