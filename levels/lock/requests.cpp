// levels/lock/requests.cpp -- giving requests back, and lists that the dead have left.
#include "levels/lock/requests.h"

#include "observe/steps.h"

namespace tmh::lock {

void Requests::release(CellIndex locker, CellIndex index) noexcept {
  RequestCell &request = file_.request(index);
  if (request.state.load(std::memory_order_acquire) != RequestState::kNone) {
    // Also of a victim: behind the lock, the look that has failed it has taken it out of its queue.
    HeldBucket bucket(file_, cells_, locker, request.bucket.load(std::memory_order_relaxed));
    // Another one may have made it, and die before the cell is free: published by the state.
    request.keeper.store(locker, std::memory_order_relaxed);
    const RequestState state = request.state.load(std::memory_order_relaxed);
    if (state == RequestState::kHeld || state == RequestState::kWaiting)
      bucket.remove(index, RequestState::kNone);
  }
  request.state.store(RequestState::kNone, std::memory_order_relaxed);
  unlist(locker, index);
  cells_.give(locker, index);
}

void Requests::list_inherited(CellIndex locker) noexcept {
  // acquire: pairs with inherit()
  CellIndex index =
      file_.locker(locker).inherited.exchange(CellIndex::kNone, std::memory_order_acquire);
  // Damaged links may go round, here and below.
  for (std::uint32_t left = file_.capacity(); index != CellIndex::kNone && left > 0; --left) {
    const CellIndex next = file_.request(index).next_of_locker;
    list(locker, index);
    index = next;
  }
}

// Held, waited for, or failed. Under the lock of its bucket: a giver is done then.
bool Requests::is_request_of(CellIndex locker, CellIndex index) noexcept {
  const RequestCell &request = file_.request(index);
  const auto is_it = [&] {
    return file_.kind(index) == CellKind::kRequest &&
           // acquire: the rest of the cell is what it was when the state was stored
           request.state.load(std::memory_order_acquire) != RequestState::kNone &&
           request.locker.load(std::memory_order_relaxed) == locker;
  };
  while (is_it()) {
    const std::uint32_t number = request.bucket.load(std::memory_order_relaxed);
    const HeldBucket bucket(file_, cells_, locker, number);
    if (request.bucket.load(std::memory_order_relaxed) == number) return is_it();
  }
  return false;
}

// From its cells. Another locker may give it a lock meanwhile, as long as it has one to give: it
// does so under the lock of that lock's bucket, so behind that lock it has done so. When it did
// after the list of gifts was emptied, the whole is done once more.
void Requests::make_list(CellIndex locker) noexcept {
  LockerCell &self = file_.locker(locker);
  self.must_scan.store(0, std::memory_order_relaxed);
  do {
    // acquire: the scan finds what was given before
    static_cast<void>(self.inherited.exchange(CellIndex::kNone, std::memory_order_acquire));
    self.first_request = CellIndex::kNone;
    self.held.store(0, std::memory_order_relaxed);
    self.held_writes.store(0, std::memory_order_relaxed);
    const std::uint32_t capacity = file_.capacity();
    for (std::uint32_t i = 1; i < capacity; ++i)
      if (is_request_of(locker, CellIndex{i})) list(locker, CellIndex{i});
  } while (self.inherited.load(std::memory_order_relaxed) != CellIndex::kNone);
}

void Requests::release_all(CellIndex locker) noexcept {
  LockerCell &self = file_.locker(locker);
  for (std::uint32_t left = file_.capacity();; --left) {
    if (self.must_scan.load(std::memory_order_relaxed) != 0) make_list(locker);
    list_inherited(locker);
    if (left == 0) self.first_request = CellIndex::kNone;
    if (self.first_request == CellIndex::kNone) return;
    release(locker, self.first_request);
  }
}

}  // namespace tmh::lock
