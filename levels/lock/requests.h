// levels/lock/requests.h -- the requests of a locker: its list of them, and their end.
// Shape:     a request is its locker's by what its cell says; the list is for its owner, to find
//            all of them, and is made anew from the cells when a death has left it wrong.
// Sharing:   the locker's owner alone; the lists of others are not looked at.
// Contexts:  async-signal-safe.
#pragma once

#include "levels/lock/cells.h"
#include "levels/lock/held_bucket.h"
#include "levels/lock/layout.h"
#include "levels/lock/lock_file.h"
#include "platform/assert.h"

namespace tmh::lock {

class Requests {
 public:
  // Both outlive it.
  Requests(LockFile &file, Cells &cells) noexcept : file_(file), cells_(cells) {}

  // REQUIRES: it is the locker's, and in no list.
  void list(CellIndex locker, CellIndex request) noexcept;
  // What others have given it.
  void list_inherited(CellIndex locker) noexcept;
  // Anew, from the cells.
  void make_list(CellIndex locker) noexcept;
  // Whatever it is: held, waiting, failed.
  void release(CellIndex locker, CellIndex request) noexcept;
  void release_all(CellIndex locker) noexcept;

 private:
  void unlist(CellIndex locker, CellIndex request) noexcept;
  [[nodiscard]] bool is_request_of(CellIndex locker, CellIndex request) noexcept;

  LockFile &file_;
  Cells &cells_;
};

inline void Requests::list(CellIndex locker, CellIndex index) noexcept {
  LockerCell &mine = file_.locker(locker);
  RequestCell &request = file_.request(index);
  TMH_ASSERT(request.locker.load(std::memory_order_relaxed) == locker);
  request.previous_of_locker = CellIndex::kNone;
  request.next_of_locker = mine.first_request;
  if (mine.first_request != CellIndex::kNone)
    file_.request(mine.first_request).previous_of_locker = index;
  mine.first_request = index;
  mine.held.store(mine.held.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (file_.modes().is_write(request.mode))
    mine.held_writes.store(mine.held_writes.load(std::memory_order_relaxed) + 1,
                           std::memory_order_relaxed);
}

inline void Requests::unlist(CellIndex locker, CellIndex index) noexcept {
  LockerCell &mine = file_.locker(locker);
  RequestCell &request = file_.request(index);
  (request.previous_of_locker == CellIndex::kNone
       ? mine.first_request
       : file_.request(request.previous_of_locker).next_of_locker) = request.next_of_locker;
  if (request.next_of_locker != CellIndex::kNone)
    file_.request(request.next_of_locker).previous_of_locker = request.previous_of_locker;
  mine.held.store(mine.held.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  if (file_.modes().is_write(request.mode))
    mine.held_writes.store(mine.held_writes.load(std::memory_order_relaxed) - 1,
                           std::memory_order_relaxed);
}

}  // namespace tmh::lock
