// levels/lock/held_bucket.cpp -- objects, their holders and their queues; and both made anew.
#include "levels/lock/held_bucket.h"

#include "observe/planted.h"
#include "observe/steps.h"
#include "platform/futex.h"

namespace tmh::lock {

using observe::Planted;
using observe::Step;

CellIndex HeldBucket::make(const ObjectId &object) noexcept {
  TMH_ASSERT(find(object) == CellIndex::kNone);
  const CellIndex index = cells_.take(self_);
  ObjectCell &made = file_.object(index);
  made.object = object;
  made.first_holder = made.first_waiter = made.last_waiter = CellIndex::kNone;
  made.holders = 0;
  made.held_modes = 0;
  made.bucket.store(number_, std::memory_order_relaxed);
  made.kind.store(CellKind::kObject, std::memory_order_release);
  made.next_in_bucket = bucket_.first_object;
  bucket_.first_object = index;
  observe::step(Step::kLockObject);
  return index;
}

CellIndex HeldBucket::hold_of(CellIndex object, CellIndex locker, Mode mode) const noexcept {
  const ObjectCell &cell = file_.object(object);
  if ((cell.held_modes & ModeSet::bit(mode)) == 0) return CellIndex::kNone;
  Walk walk(file_);
  for (CellIndex at = cell.first_holder; walk.goes_on(at); at = file_.request(at).next_on_object)
    if (locker_of(at) == locker && file_.request(at).mode == mode) return at;
  return CellIndex::kNone;
}

CellIndex HeldBucket::own_hold(CellIndex object, Mode mode) const noexcept {
  const ObjectCell &cell = file_.object(object);
  if ((cell.held_modes & ModeSet::bit(mode)) == 0) return CellIndex::kNone;
  const LockerCell &mine = file_.locker(self_);
  const bool is_list_whole = mine.inherited.load(std::memory_order_relaxed) == CellIndex::kNone &&
                             mine.must_scan.load(std::memory_order_relaxed) == 0;
  if (!is_list_whole || mine.held.load(std::memory_order_relaxed) >= cell.holders)
    return hold_of(object, self_, mode);
  Walk walk(file_);
  for (CellIndex at = mine.first_request; walk.goes_on(at); at = file_.request(at).next_of_locker) {
    const RequestCell &request = file_.request(at);
    if (request.object == object && request.mode == mode &&
        request.state.load(std::memory_order_relaxed) == RequestState::kHeld)
      return at;
  }
  return CellIndex::kNone;
}

bool HeldBucket::is_holder(CellIndex object, CellIndex locker) const noexcept {
  const ObjectCell &cell = file_.object(object);
  Walk walk(file_);
  for (CellIndex at = cell.first_holder; walk.goes_on(at); at = file_.request(at).next_on_object)
    if (locker_of(at) == locker) return true;
  return false;
}

bool HeldBucket::is_excluded(CellIndex object, CellIndex locker, Mode mode) const noexcept {
  return excluder_of(object, locker, mode) != CellIndex::kNone;
}

CellIndex HeldBucket::excluder_of(CellIndex object, CellIndex locker, Mode mode) const noexcept {
  const ObjectCell &cell = file_.object(object);
  const std::uint32_t excluders = file_.excluders(mode);
  if ((cell.held_modes & excluders) == 0) return CellIndex::kNone;
  Walk walk(file_);
  for (CellIndex at = cell.first_holder; walk.goes_on(at); at = file_.request(at).next_on_object)
    if (locker_of(at) != locker && (excluders & ModeSet::bit(file_.request(at).mode)) != 0)
      return locker_of(at);
  return CellIndex::kNone;
}

CellIndex HeldBucket::blocker_of(CellIndex object, CellIndex locker, Mode mode) const noexcept {
  const CellIndex holder = excluder_of(object, locker, mode);
  const CellIndex last = file_.object(object).last_waiter;
  if (holder != CellIndex::kNone || last == CellIndex::kNone || is_holder(object, locker))
    return holder;
  return locker_of(last);
}

CellIndex HeldBucket::add(CellIndex object, CellIndex locker, Mode mode, Place place) noexcept {
  TMH_ASSERT(file_.kind(object) == CellKind::kObject);
  TMH_ASSERT(file_.modes().has(mode));
  const CellIndex index = cells_.take(self_);
  RequestCell &made = file_.request(index);
  made.state.store(RequestState::kNone, std::memory_order_relaxed);
  made.object = object;
  made.locker.store(locker, std::memory_order_relaxed);
  made.count = 1;
  made.mode = mode;
  made.bucket.store(number_, std::memory_order_relaxed);
  // relaxed: read by the locker that has the lock
  made.generation.fetch_add(1, std::memory_order_relaxed);
  made.holds_object = place == Place::kFirstWaiter ? 1 : 0;
  made.ticket = bucket_.next_ticket++;
  made.kind.store(CellKind::kRequest, std::memory_order_release);
  // From here on it is held, or waits: see layout.h.
  made.state.store(place == Place::kHolder ? RequestState::kHeld : RequestState::kWaiting,
                   std::memory_order_release);
  observe::step(Step::kLockRequested);
  link(object, index, place);
  return index;
}

bool HeldBucket::is_before(CellIndex waiter, const RequestCell &other) const noexcept {
  const RequestCell &cell = file_.request(waiter);
  if (cell.holds_object != other.holds_object) return cell.holds_object != 0;
  return cell.ticket < other.ticket;
}

void HeldBucket::link(CellIndex object, CellIndex index, Place place) noexcept {
  ObjectCell &cell = file_.object(object);
  RequestCell &request = file_.request(index);
  if (place == Place::kHolder) {
    request.next_on_object = cell.first_holder;
    request.previous_on_object = CellIndex::kNone;
    if (cell.first_holder != CellIndex::kNone)
      file_.request(cell.first_holder).previous_on_object = index;
    cell.first_holder = index;
    ++cell.holders;
    cell.held_modes |= ModeSet::bit(request.mode);
    return;
  }
  // From behind: it is nearly always the last.
  CellIndex before = cell.last_waiter;
  Walk walk(file_);
  while (walk.goes_on(before) && !is_before(before, request))
    before = file_.request(before).previous_on_object;
  CellIndex &next =
      before == CellIndex::kNone ? cell.first_waiter : file_.request(before).next_on_object;
  request.previous_on_object = before;
  request.next_on_object = next;
  (request.next_on_object == CellIndex::kNone
       ? cell.last_waiter
       : file_.request(request.next_on_object).previous_on_object) = index;
  next = index;
}

void HeldBucket::unlink(CellIndex index, RequestState was) noexcept {
  RequestCell &request = file_.request(index);
  ObjectCell &cell = file_.object(request.object);
  const bool held = was == RequestState::kHeld;
  (request.previous_on_object == CellIndex::kNone
       ? (held ? cell.first_holder : cell.first_waiter)
       : file_.request(request.previous_on_object).next_on_object) = request.next_on_object;
  if (request.next_on_object != CellIndex::kNone)
    file_.request(request.next_on_object).previous_on_object = request.previous_on_object;
  else if (!held)
    cell.last_waiter = request.previous_on_object;
  if (!held) return;
  --cell.holders;
  note_modes(request.object);
}

void HeldBucket::note_modes(CellIndex object) noexcept {
  ObjectCell &cell = file_.object(object);
  const std::uint32_t before = cell.held_modes;
  std::uint32_t modes = 0;
  Walk walk(file_);
  // Most often the first holders have all the modes that there were.
  for (CellIndex at = cell.first_holder; walk.goes_on(at) && modes != before;
       at = file_.request(at).next_on_object)
    modes |= ModeSet::bit(file_.request(at).mode);
  cell.held_modes = modes;
}

void HeldBucket::set_mode(CellIndex index, Mode mode) noexcept {
  RequestCell &request = file_.request(index);
  TMH_ASSERT(request.state.load(std::memory_order_relaxed) == RequestState::kHeld);
  request.mode = mode;
  file_.object(request.object).held_modes |= ModeSet::bit(mode);
  note_modes(request.object);
  grant(request.object);
}

void HeldBucket::remove(CellIndex index, RequestState state) noexcept {
  RequestCell &request = file_.request(index);
  const CellIndex object = request.object;
  const RequestState was = request.state.load(std::memory_order_relaxed);
  TMH_ASSERT(was == RequestState::kHeld || was == RequestState::kWaiting);
  request.state.store(state, std::memory_order_release);
  observe::step(Step::kLockReleased);
  unlink(index, was);
  const ObjectCell &cell = file_.object(object);
  if (cell.first_waiter != CellIndex::kNone) {
    grant(object);
  } else if (cell.first_holder == CellIndex::kNone) {
    free_object(object);
  }
}

void HeldBucket::fail(CellIndex index) noexcept {
  const CellIndex locker = locker_of(index);
  remove(index, RequestState::kVictim);
  wake(locker);
}

void HeldBucket::free_object(CellIndex object) noexcept {
  TMH_ASSERT(file_.object(object).first_holder == CellIndex::kNone && !has_waiters(object));
  CellIndex *link = &bucket_.first_object;
  Walk walk(file_);
  while (walk.goes_on(*link) && *link != object) link = &file_.object(*link).next_in_bucket;
  if (*link == object) *link = file_.object(object).next_in_bucket;
  cells_.give(self_, object);
}

// Waiters from the first on, until one must wait.
void HeldBucket::grant(CellIndex object) noexcept {
  Walk walk(file_);
  for (;;) {
    const CellIndex first = file_.object(object).first_waiter;
    if (!walk.goes_on(first)) return;
    RequestCell &waiter = file_.request(first);
    const CellIndex locker = locker_of(first);
    if (is_excluded(object, locker, waiter.mode)) return;
    unlink(first, RequestState::kWaiting);
    waiter.state.store(RequestState::kHeld, std::memory_order_release);
    observe::step(Step::kLockRequested);
    link(object, first, Place::kHolder);
    wake(locker);
  }
}

void HeldBucket::wake_granted() noexcept {
  for (std::uint32_t i = 0; i < granted_count_; ++i)
    platform::futex_wake(file_.locker(granted_[i]).wake, 1);
}

void HeldBucket::wake(CellIndex locker) noexcept {
  if (observe::is_planted(Planted::kLockWakeLost)) return;
  LockerCell &woken = file_.locker(locker);
  // release: pairs with the waiter's acquire, before it looks at its request's state
  woken.wake.fetch_add(1, std::memory_order_release);
  if (granted_count_ < granted_.size()) {
    granted_[granted_count_++] = locker;
  } else {
    platform::futex_wake(woken.wake, 1);
  }
}

// The locks are there before their lockers' lists know of them. A process that dies in between
// leaves both buckets marked: a locker that gives `from` back, and one that meets `to`, look at its
// cells.
Errc HeldBucket::copy_holders(HeldBucket &source, CellIndex from, const ObjectId &to,
                              std::uint32_t *cells) noexcept {
  TMH_ASSERT(cells != nullptr);
  TMH_ASSERT(file_.object(from).bucket.load(std::memory_order_relaxed) == source.number_);
  CellIndex copy = find(to);
  const auto for_each_new = [&](const auto &visit) {
    Walk walk(file_);
    for (CellIndex at = file_.object(from).first_holder; walk.goes_on(at);
         at = file_.request(at).next_on_object) {
      const Mode mode = file_.request(at).mode;
      if (copy == CellIndex::kNone || hold_of(copy, locker_of(at), mode) == CellIndex::kNone)
        visit(locker_of(at), mode);
    }
  };
  std::uint32_t needed = copy == CellIndex::kNone ? 1 : 0;
  bool is_busy = false;
  for_each_new([&](CellIndex locker, Mode mode) {
    ++needed;
    is_busy = is_busy || (copy != CellIndex::kNone && is_excluded(copy, locker, mode));
  });
  if (is_busy) return Errc::kLockBusy;
  if (file_.locker(self_).free_count < needed) {
    *cells = needed;
    return Errc::kOutOfMemory;
  }
  if (needed == 0) return Errc::kOk;
  source.bucket_.is_inheriting = bucket_.is_inheriting = 1;
  if (copy == CellIndex::kNone) copy = make(to);
  for_each_new([&](CellIndex locker, Mode mode) {
    const CellIndex made = add(copy, locker, mode, Place::kHolder);
    observe::step(Step::kLockInheriting);
    std::atomic<CellIndex> &inherited = file_.locker(locker).inherited;
    CellIndex first = inherited.load(std::memory_order_relaxed);
    do file_.request(made).next_of_locker = first;
    // release: pairs with the owner, which takes them all
    while (!inherited.compare_exchange_weak(first, made, std::memory_order_release,
                                            std::memory_order_relaxed));
  });
  source.bucket_.is_inheriting = bucket_.is_inheriting = 0;
  advance_holders(copy);
  grant(copy);
  return Errc::kOk;
}

// Waiters that have become holders by a gift go before those that hold nothing, which may wait for
// them now.
void HeldBucket::advance_holders(CellIndex object) noexcept {
  Walk walk(file_);
  for (CellIndex at = file_.object(object).first_waiter; walk.goes_on(at);) {
    RequestCell &waiter = file_.request(at);
    const CellIndex next = waiter.next_on_object;
    if (waiter.holds_object == 0 && is_holder(object, locker_of(at))) {
      unlink(at, RequestState::kWaiting);
      waiter.holds_object = 1;
      link(object, at, Place::kFirstWaiter);
    }
    at = next;
  }
}

// What the cells say. The dead holder may have left an object without requests, a request in no
// list, a waiter that can go, or one that was granted and not woken.
void HeldBucket::repair() noexcept {
  const std::uint32_t capacity = file_.capacity();
  const auto is_mine = [&](CellIndex index) {
    return file_.kind(index) == CellKind::kObject &&
           file_.object(index).bucket.load(std::memory_order_relaxed) == number_;
  };
  bucket_.first_object = CellIndex::kNone;
  for (std::uint32_t i = 1; i < capacity; ++i) {
    const CellIndex index{i};
    if (!is_mine(index)) continue;
    ObjectCell &object = file_.object(index);
    object.first_holder = object.first_waiter = object.last_waiter = CellIndex::kNone;
    object.holders = 0;
    object.held_modes = 0;
    object.next_in_bucket = bucket_.first_object;
    bucket_.first_object = index;
  }
  for (std::uint32_t i = 1; i < capacity; ++i) {
    const CellIndex index{i};
    if (file_.kind(index) != CellKind::kRequest) continue;
    RequestCell &request = file_.request(index);
    // acquire: the rest of the cell is what it was when the state was stored
    const RequestState state = request.state.load(std::memory_order_acquire);
    if (state != RequestState::kHeld && state != RequestState::kWaiting) continue;
    if (request.bucket.load(std::memory_order_relaxed) != number_ || !is_mine(request.object))
      continue;
    link(request.object, index, state == RequestState::kHeld ? Place::kHolder : Place::kWaiter);
    const CellIndex locker = locker_of(index);
    if (bucket_.is_inheriting != 0)
      file_.locker(locker).must_scan.store(1, std::memory_order_relaxed);
    if (state == RequestState::kHeld) wake(locker);
  }
  bucket_.is_inheriting = 0;
  Walk walk(file_);
  for (CellIndex at = bucket_.first_object; walk.goes_on(at);) {
    const CellIndex next = file_.object(at).next_in_bucket;
    grant(at);
    const ObjectCell &object = file_.object(at);
    if (object.first_holder == CellIndex::kNone && object.first_waiter == CellIndex::kNone)
      free_object(at);
    at = next;
  }
}

}  // namespace tmh::lock
