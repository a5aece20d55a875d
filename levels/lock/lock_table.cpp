// levels/lock/lock_table.cpp -- taking locks and giving them back; and what the dead leave.
#include "levels/lock/lock_table.h"

#include <algorithm>
#include <memory_resource>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "observe/planted.h"
#include "observe/probes.h"
#include "observe/steps.h"
#include "platform/failure.h"
#include "platform/futex.h"
#include "platform/mapped_memory.h"
#include "platform/process.h"
#include "platform/try.h"

namespace tmh::lock {

using observe::Step;
using platform::fail;

Errc LockTable::open(const platform::FolderLock::Held &lock, const std::string &path,
                     std::uint64_t life, const ModeSet &modes, const Self &self) noexcept {
  return file_.open(lock, path, life, modes, self);
}

Errc LockTable::begin(std::uint64_t name, LockerId *out, Succession succession,
                      std::uint32_t note) noexcept {
  TMH_ASSERT(out != nullptr);
  CellIndex made{};
  const std::uint64_t age = file_.header().next_age.fetch_add(1, std::memory_order_relaxed);
  TMH_TRY(cells_.make_locker({name, age, succession, note}, &made));
  *out = LockerId{static_cast<std::uint32_t>(made)};
  return Errc::kOk;
}

void LockTable::renew(LockerId locker, std::uint64_t name) noexcept {
  TMH_ASSERT(is_own(locker));
  LockerCell &renewed = file_.locker(cell(locker));
  TMH_ASSERT(renewed.first_request == CellIndex::kNone);
  renewed.name.store(name, std::memory_order_relaxed);
  renewed.age.store(file_.header().next_age.fetch_add(1, std::memory_order_relaxed),
                    std::memory_order_relaxed);
  renewed.priority.store(0, std::memory_order_relaxed);
}

Errc LockTable::begin_life(const std::function<Errc()> &begin) {
  LockHeader &header = file_.header();
  // acquire: pairs with the release below
  if (header.has_begun.load(std::memory_order_acquire) != 0) return Errc::kOk;
  // A holder that died with the lock has not said that it has begun.
  (void)header.life_lock.lock(file_.tag(), LockFile::holder_alive, &file_);
  Errc error = Errc::kOk;
  if (header.has_begun.load(std::memory_order_relaxed) == 0) {
    end_heirless();
    error = begin();
    if (error == Errc::kOk) header.has_begun.store(1, std::memory_order_release);
  }
  header.life_lock.unlock();
  return error;
}

// Before the life has begun: lockers of a participant that began it and died.
void LockTable::end_heirless() noexcept {
  const std::uint32_t capacity = file_.capacity();
  for (std::uint32_t i = 1; i < capacity; ++i) {
    const CellIndex index{i};
    if (file_.kind(index) != CellKind::kLocker ||
        file_.locker(index).succession.load(std::memory_order_relaxed) == Succession::kRelease)
      continue;
    const Owner owner = file_.locker(index).owner.load(std::memory_order_acquire);
    const bool is_own = owner == file_.self();
    if (is_own || ((owner == Owner::kNobody || !file_.is_alive(owner)) && take_over(index, owner)))
      end(LockerId{i});
  }
}

void LockTable::end(LockerId locker) noexcept {
  TMH_ASSERT(is_own(locker));
  requests_.release_all(cell(locker));
  cells_.free_locker(cell(locker));
}

Errc LockTable::detach(LockerId locker) noexcept {
  if (!is_own(locker)) return fail(Errc::kBadArgument, "a locker of another participant");
  // release: pairs with attach()
  file_.locker(cell(locker)).owner.store(Owner::kNobody, std::memory_order_release);
  return Errc::kOk;
}

Errc LockTable::attach(LockerId locker, std::uint64_t name) noexcept {
  Owner nobody = Owner::kNobody;
  LockerCell &taken = file_.locker(cell(locker));
  const auto is_it = [&] {
    return file_.kind(cell(locker)) == CellKind::kLocker &&
           taken.name.load(std::memory_order_relaxed) == name;
  };
  if (is_it() &&
      taken.owner.compare_exchange_strong(nobody, file_.self(), std::memory_order_acq_rel)) {
    // An owner in between may have renewed and detached it.
    if (is_it()) return Errc::kOk;
    taken.owner.store(Owner::kNobody, std::memory_order_release);
  }
  return fail(Errc::kBadArgument, "a locker that is not detached");
}

Errc LockTable::set_priority(LockerId locker, std::int32_t priority) noexcept {
  if (!is_own(locker)) return fail(Errc::kBadArgument, "a locker of another participant");
  file_.locker(cell(locker)).priority.store(priority, std::memory_order_relaxed);
  return Errc::kOk;
}

// Not its caller's, or with a list that a death has left wrong, or that lacks a gift.
Errc LockTable::enter_slowly(LockerId locker) noexcept {
  if (!is_own(locker)) return fail(Errc::kBadArgument, "a locker of another participant");
  if (file_.locker(cell(locker)).must_scan.load(std::memory_order_relaxed) != 0)
    requests_.make_list(cell(locker));
  requests_.list_inherited(cell(locker));
  return Errc::kOk;
}

Errc LockTable::check(LockerId locker, LockId lock) noexcept {
  TMH_TRY(enter(locker));
  if (!is_own(locker, lock)) return fail(Errc::kNotLocked, "a lock that the locker does not hold");
  return Errc::kOk;
}

namespace {

void count(LockerCell &locker, LockCount which) noexcept {
  auto &total = locker.counts[static_cast<std::size_t>(which)];
  // Single writer.
  total.store(total.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

}  // namespace

Errc LockTable::lock(LockerId locker, const ObjectId &object, Mode mode, Patience patience,
                     LockId *out) noexcept {
  return lock_as(locker, object, mode, patience, false, out);
}

Errc LockTable::lock_as(LockerId locker, const ObjectId &object, Mode mode, Patience patience,
                        bool is_weaker, LockId *out) noexcept {
  TMH_ASSERT(out != nullptr);
  if (!file_.modes().has(mode)) return fail(Errc::kBadArgument, "no such lock mode");
  TMH_TRY(enter(locker));
  const CellIndex mine = cell(locker);
  TMH_TRY(cells_.prepare(mine, 2));
  LockerCell &self = file_.locker(mine);
  Place place = Place::kHolder;
  CellIndex request{}, blocker{};
  {
    HeldBucket bucket(file_, cells_, mine, bucket_of(object));
    CellIndex found = bucket.find(object);
    if (found != CellIndex::kNone) {
      request = bucket.own_hold(found, mode);
      if (request != CellIndex::kNone) {
        ++file_.request(request).count;
        count(self, LockCount::kLocks);
        *out = id(request);
        return Errc::kOk;
      }
      const bool is_excluded = !is_weaker && bucket.is_excluded(found, mine, mode);
      if (is_excluded || bucket.has_waiters(found)) {
        const bool holds = bucket.is_holder(found, mine);
        if (is_excluded || !holds) place = holds ? Place::kFirstWaiter : Place::kWaiter;
        if (holds && observe::is_planted(observe::Planted::kUpgradePasses)) place = Place::kHolder;
      }
    }
    if (place != Place::kHolder && patience.longest_ns == 0) {
      blocker = bucket.blocker_of(found, mine, mode);
    } else {
      if (found == CellIndex::kNone) found = bucket.make(object);
      request = bucket.add(found, mine, mode, place);
      if (place != Place::kHolder) begin_wait(bucket, mine, request);
    }
  }
  if (request == CellIndex::kNone)
    // It does not wait, so it looks at once.
    return settle(blocker) ? lock_as(locker, object, mode, patience, is_weaker, out)
                           : Errc::kLockBusy;
  observe::step(Step::kLockUnlisted);
  requests_.list(mine, request);
  if (place != Place::kHolder) TMH_TRY(await(mine, request, object, patience));
  count(self, LockCount::kLocks);
  *out = id(request);
  return Errc::kOk;
}

// Under the bucket's lock, so that a locker that sees the request sees these, too.
void LockTable::begin_wait(const HeldBucket &, CellIndex locker, CellIndex request) noexcept {
  TMH_ASSERT(file_.kind(request) == CellKind::kRequest);
  LockerCell &self = file_.locker(locker);
  self.waits_begun.fetch_add(1, std::memory_order_release);
  self.waits_for.store(request, std::memory_order_release);
}

namespace {
constexpr std::uint64_t kLongestLookNs = 100'000'000;
}  // namespace

Errc LockTable::await(CellIndex locker, CellIndex index, const ObjectId &object,
                      Patience patience) noexcept {
  LockerCell &self = file_.locker(locker);
  const RequestCell &request = file_.request(index);
  observe::probe::lock_wait(object.space, object.id, static_cast<std::uint32_t>(request.mode));
  const std::uint64_t begin = platform::monotonic_ns();
  const std::uint64_t deadline =
      patience.longest_ns > ~0ull - begin ? ~0ull : begin + patience.longest_ns;
  std::uint64_t between_looks = std::max<std::uint64_t>(policy_.first_look_ns, 1000);
  std::uint64_t next_look = begin + between_looks;
  count(self, LockCount::kWaits);
  bool is_late = false, has_settled = false;
  for (;;) {
    // acquire: pairs with HeldBucket::wake(). Before the look: a grant behind it changes the word.
    const std::uint32_t seen = self.wake.load(std::memory_order_acquire);
    if (request.state.load(std::memory_order_acquire) != RequestState::kWaiting) break;
    const bool is_over =
        patience.is_over != nullptr && patience.is_over->load(std::memory_order_relaxed);
    const std::uint64_t now = is_over ? deadline : platform::monotonic_ns();
    if (now >= deadline && !std::exchange(has_settled, true)) {
      settle_blockers(index);
    } else if (now >= deadline) {
      is_late = withdraw(locker, index);
      if (is_late) break;
    } else if (now >= next_look) {
      settle_blockers(index);
      waits_for_.look_from(locker, policy_.victim);
      between_looks = std::min(2 * between_looks, kLongestLookNs);
      next_look = platform::monotonic_ns() + between_looks;
    } else {
      observe::step(Step::kLockSleeps);
      (void)platform::futex_wait(self.wake, seen,
                                 static_cast<long>(std::min(deadline, next_look) - now));
    }
  }
  self.waits_for.store(CellIndex::kNone, std::memory_order_release);
  const std::uint64_t waited_ns = platform::monotonic_ns() - begin;
  file_.wait_times().add(waited_ns, 1);
  const bool is_held = request.state.load(std::memory_order_acquire) == RequestState::kHeld;
  const Errc error = is_held ? Errc::kOk : is_late ? Errc::kLockTimeout : Errc::kDeadlock;
  observe::probe::lock_wait_done(object.space, object.id, static_cast<std::uint32_t>(error),
                                 waited_ns);
  if (is_held) return error;
  requests_.release(locker, index);
  count(self, is_late ? LockCount::kTimeouts : LockCount::kDeadlocks);
  return error;
}

// False: it has been granted, or failed, meanwhile.
bool LockTable::withdraw(CellIndex locker, CellIndex index) noexcept {
  TMH_ASSERT(locker != CellIndex::kNone && index != CellIndex::kNone);
  const RequestCell &request = file_.request(index);
  HeldBucket bucket(file_, cells_, locker, request.bucket.load(std::memory_order_relaxed));
  if (request.state.load(std::memory_order_relaxed) != RequestState::kWaiting) return false;
  bucket.remove(index, RequestState::kNone);
  return true;
}

Errc LockTable::upgrade(LockerId locker, LockId lock, Mode mode, Patience patience,
                        LockId *out) noexcept {
  TMH_ASSERT(out != nullptr);
  TMH_TRY(check(locker, lock));
  return trade(locker, lock, mode, patience, false, out);
}

Errc LockTable::downgrade(LockerId locker, LockId lock, Mode mode, LockId *out) noexcept {
  TMH_ASSERT(out != nullptr);
  TMH_TRY(check(locker, lock));
  if (!file_.modes().has(mode)) return fail(Errc::kBadArgument, "no such lock mode");
  const Mode held = file_.request(cell(lock)).mode;
  const ModeSet &modes = file_.modes();
  const bool is_weaker = (modes.conflicts[static_cast<std::uint32_t>(mode)] &
                          ~modes.conflicts[static_cast<std::uint32_t>(held)]) == 0 &&
                         (file_.excluders(mode) & ~file_.excluders(held)) == 0;
  if (!is_weaker) return fail(Errc::kBadArgument, "a mode that excludes more than the lock's");
  return trade(locker, lock, mode, Patience::none(), true, out);
}

Errc LockTable::trade(LockerId locker, LockId lock, Mode mode, Patience patience, bool is_weaker,
                      LockId *out) noexcept {
  const CellIndex index = cell(lock);
  const CellIndex mine = cell(locker);
  RequestCell &request = file_.request(index);
  *out = lock;
  if (mode == request.mode) return Errc::kOk;
  if (file_.modes().has(mode) && request.count == 1) {
    // Where no other holder excludes it, one store does it.
    HeldBucket bucket(file_, cells_, mine, request.bucket.load(std::memory_order_relaxed));
    if ((is_weaker || !bucket.is_excluded(request.object, mine, mode)) &&
        bucket.own_hold(request.object, mode) == CellIndex::kNone) {
      LockerCell &self = file_.locker(mine);
      const ModeSet &modes = file_.modes();
      const std::uint32_t writes = self.held_writes.load(std::memory_order_relaxed) +
                                   (modes.is_write(mode) ? 1u : 0u) -
                                   (modes.is_write(request.mode) ? 1u : 0u);
      self.held_writes.store(writes, std::memory_order_relaxed);
      bucket.set_mode(index, mode);
      return Errc::kOk;
    }
  }
  const ObjectId object = file_.object(request.object).object;
  TMH_TRY(lock_as(locker, object, mode, patience, is_weaker, out));
  return unlock(locker, lock);
}

Errc LockTable::unlock(LockerId locker, LockId lock) noexcept {
  TMH_TRY(check(locker, lock));
  RequestCell &request = file_.request(cell(lock));
  if (request.count > 1) {
    // Only its locker's business.
    --request.count;
    return Errc::kOk;
  }
  requests_.release(cell(locker), cell(lock));
  return Errc::kOk;
}

Errc LockTable::unlock(LockerId locker, const ObjectId &object, Mode mode) noexcept {
  LockId held{};
  TMH_TRY(find(locker, object, mode, &held));
  return unlock(locker, held);
}

Errc LockTable::find(LockerId locker, const ObjectId &object, Mode mode, LockId *out) noexcept {
  TMH_ASSERT(out != nullptr);
  if (!file_.modes().has(mode)) return fail(Errc::kBadArgument, "no such lock mode");
  TMH_TRY(enter(locker));
  CellIndex request{};
  {
    const HeldBucket bucket(file_, cells_, cell(locker), bucket_of(object));
    const CellIndex found = bucket.find(object);
    if (found != CellIndex::kNone) request = bucket.own_hold(found, mode);
  }
  if (request == CellIndex::kNone)
    return fail(Errc::kNotLocked, "an object that the locker does not hold so");
  requests_.list_inherited(cell(locker));
  *out = id(request);
  return Errc::kOk;
}

Errc LockTable::unlock_all(LockerId locker) noexcept {
  TMH_TRY(enter(locker));
  requests_.release_all(cell(locker));
  return Errc::kOk;
}

Errc LockTable::lock_vector(LockerId locker, std::span<Order> orders, Patience patience,
                            std::size_t *failed, std::uint64_t *holder) noexcept {
  TMH_ASSERT(failed != nullptr && holder != nullptr);
  *holder = 0;
  const std::uint64_t begin = platform::monotonic_ns();
  const auto give_back = [&](std::size_t count) {
    while (count-- > 0)
      if (orders[count].what == Order::What::kLock)
        (void)unlock(locker, std::exchange(orders[count].lock, LockId::kNone));
  };
  const auto refuse = [&](std::size_t number, Errc error) {
    *failed = number;
    give_back(number);
    return error;
  };
  if (const Errc error = enter(locker); error != Errc::kOk) return refuse(0, error);
  for (std::size_t i = 0; i < orders.size(); ++i) {
    Order &order = orders[i];
    if (order.what != Order::What::kLock) continue;
    Patience left = patience;
    if (patience.longest_ns != 0 && patience.longest_ns != ~0ull) {
      const std::uint64_t waited = platform::monotonic_ns() - begin;
      left.longest_ns = waited < patience.longest_ns ? patience.longest_ns - waited : 1;
    }
    const Errc error = lock(locker, order.object, order.mode, left, &order.lock);
    if (error == Errc::kOk) continue;
    if (error == Errc::kLockBusy || error == Errc::kLockTimeout)
      *holder = name_of_blocker(order.object, cell(locker), order.mode);
    return refuse(i, error);
  }
  // Each one's lock is there before the first is given back.
  for (std::size_t i = 0; i < orders.size(); ++i) {
    if (orders[i].what != Order::What::kUnlock || has_counts(locker, orders.first(i + 1))) continue;
    give_back(orders.size());
    *failed = i;
    return fail(Errc::kNotLocked, "an object that the locker does not hold so");
  }
  for (const Order &order : orders)
    if (order.what == Order::What::kUnlock) (void)unlock(locker, order.object, order.mode);
  return Errc::kOk;
}

// Can what the last of the orders gives back be given back behind all the others?
bool LockTable::has_counts(LockerId locker, std::span<const Order> orders) noexcept {
  const Order &last = orders.back();
  if (!file_.modes().has(last.mode)) return false;
  const auto wanted = std::count_if(orders.begin(), orders.end(), [&](const Order &order) {
    return order.what == Order::What::kUnlock && order.object == last.object &&
           order.mode == last.mode;
  });
  const HeldBucket bucket(file_, cells_, cell(locker), bucket_of(last.object));
  const CellIndex found = bucket.find(last.object);
  const CellIndex request =
      found == CellIndex::kNone ? CellIndex::kNone : bucket.own_hold(found, last.mode);
  return request != CellIndex::kNone && file_.request(request).count >= wanted;
}

std::uint64_t LockTable::name_of_blocker(const ObjectId &object, CellIndex locker,
                                         Mode mode) noexcept {
  const HeldBucket bucket(file_, cells_, locker, bucket_of(object));
  const CellIndex found = bucket.find(object);
  if (found == CellIndex::kNone) return 0;
  const CellIndex blocker = bucket.blocker_of(found, locker, mode);
  return blocker == CellIndex::kNone ? 0
                                     : file_.locker(blocker).name.load(std::memory_order_relaxed);
}

Errc LockTable::inherit(LockerId locker, const ObjectId &from, const ObjectId &to) noexcept {
  TMH_TRY(enter(locker));
  if (from == to) return Errc::kOk;
  const CellIndex mine = cell(locker);
  const std::uint32_t from_number = bucket_of(from);
  const std::uint32_t to_number = bucket_of(to);
  for (std::uint32_t cells = 2;;) {
    TMH_TRY(cells_.prepare(mine, cells));
    std::optional<HeldBucket> low, high;
    low.emplace(file_, cells_, mine, std::min(from_number, to_number));
    if (from_number != to_number)
      high.emplace(file_, cells_, mine, std::max(from_number, to_number));
    HeldBucket &at_from = from_number > to_number ? *high : *low;
    HeldBucket &at_to = to_number > from_number ? *high : *low;
    const CellIndex found = at_from.find(from);
    if (found == CellIndex::kNone) return Errc::kOk;
    const Errc error = at_to.copy_holders(at_from, found, to, &cells);
    if (error != Errc::kOutOfMemory) return error;
  }
}

void LockTable::settle_blockers(CellIndex index) noexcept try {
  // Their life is looked at behind the bucket's lock.
  platform::MappedMemory mapped;
  std::pmr::vector<CellIndex> blockers(&mapped);
  {
    const RequestCell &request = file_.request(index);
    const HeldBucket bucket(file_, cells_, request.locker.load(std::memory_order_relaxed),
                            request.bucket.load(std::memory_order_relaxed));
    if (request.state.load(std::memory_order_relaxed) != RequestState::kWaiting) return;
    bucket.for_each_blocker(index, [&](CellIndex blocker) { blockers.push_back(blocker); });
  }
  for (const CellIndex blocker : blockers) settle(blocker);
} catch (const std::bad_alloc &) {
  // The next look has memory, perhaps.
}

void LockTable::settle() noexcept {
  const std::uint32_t capacity = file_.capacity();
  for (std::uint32_t i = 1; i < capacity; ++i) settle(CellIndex{i});
}

bool LockTable::settle(CellIndex index) noexcept {
  if (file_.kind(index) != CellKind::kLocker) return false;
  LockerCell &locker = file_.locker(index);
  const Owner dead = locker.owner.load(std::memory_order_acquire);
  if (dead == Owner::kNobody || dead == file_.self() || file_.is_alive(dead)) return false;
  const bool has_heir = locker.succession.load(std::memory_order_relaxed) == Succession::kHeir;
  Heir *const heir = heir_.load(std::memory_order_acquire);
  if (has_heir && heir == nullptr) return false;
  if (!take_over(index, dead)) return false;
  const LockerId id{static_cast<std::uint32_t>(index)};
  if (has_heir && !heir->take(id, locker.name.load(std::memory_order_relaxed))) return false;
  end(id);
  return true;
}

bool LockTable::take_over(CellIndex index, Owner from) noexcept {
  // One heir: the others find another owner.
  if (!cells_.inherit_locker(index, from)) return false;
  observe::step(Step::kLockInherited);
  LockerCell &locker = file_.locker(index);
  locker.waits_for.store(CellIndex::kNone, std::memory_order_release);
  cells_.collect(index);
  requests_.make_list(index);
  // Its waits and failures end with its owner.
  for (CellIndex at = locker.first_request; at != CellIndex::kNone;) {
    const CellIndex next = file_.request(at).next_of_locker;
    if (file_.request(at).state.load(std::memory_order_acquire) != RequestState::kHeld)
      requests_.release(index, at);
    at = next;
  }
  return true;
}

LockTable::Totals LockTable::totals() const noexcept {
  Totals totals;
  const LockHeader &header = file_.header();
  totals.looks = header.looks.load(std::memory_order_relaxed);
  totals.waited_ns = file_.wait_times().sum_ns.load(std::memory_order_relaxed);
  for (std::size_t i = 0; i < kLockCounts; ++i)
    totals.of[i] = header.counts[i].load(std::memory_order_relaxed);
  const std::uint32_t capacity = file_.capacity();
  for (std::uint32_t cell = 1; cell < capacity; ++cell) {
    if (file_.kind(CellIndex{cell}) != CellKind::kLocker) continue;
    for (std::size_t i = 0; i < kLockCounts; ++i)
      totals.of[i] += file_.locker(CellIndex{cell}).counts[i].load(std::memory_order_relaxed);
  }
  return totals;
}

}  // namespace tmh::lock
