// levels/lock/cells.h -- free cells: those of all, and those that a locker keeps for itself.
// Shape:     a locker takes cells in batches, so that a lock costs nothing that is shared.
// Invariant: a cell is in the list of all only when it is free and has no keeper. A used cell's
//            keeper is the locker that took it, until another one frees it.
// Sharing:   between processes, under cells_lock. A locker's own list: by its owner alone. Owner
//            death: the next holder of cells_lock makes the lists of all anew; the locker's heir
//            calls collect().
// Contexts:  async-signal-safe.
#pragma once

#include <cstdint>

#include <tmh/error.hpp>

#include "levels/lock/layout.h"
#include "levels/lock/lock_file.h"
#include "platform/assert.h"

namespace tmh::lock {

class Cells {
 public:
  // file outlives it.
  explicit Cells(LockFile &file) noexcept : file_(file) {}

  // The locker has at least `count` free cells. kDiskFull, kIo; kOutOfMemory: the table's address
  // space is used up.
  [[nodiscard]] Errc prepare(CellIndex locker, std::uint32_t count) noexcept {
    TMH_ASSERT(count > 0);
    return file_.locker(locker).free_count >= count ? Errc::kOk : refill(locker, count);
  }
  // REQUIRES: prepared. It is still free, and nothing else lists it.
  [[nodiscard]] CellIndex take(CellIndex locker) noexcept {
    LockerCell &mine = file_.locker(locker);
    const CellIndex cell = mine.free_cells;
    TMH_ASSERT(cell != CellIndex::kNone && file_.kind(cell) == CellKind::kFree);
    mine.free_cells = file_.free_cell(cell).next;
    --mine.free_count;
    return cell;
  }
  // The cell is free, and the locker keeps it; kNone: it is free for all. REQUIRES: no list has it.
  void give(CellIndex locker, CellIndex cell) noexcept {
    if (locker == CellIndex::kNone) return give_to_all(cell);
    LockerCell &mine = file_.locker(locker);
    FreeCell &given = file_.free_cell(cell);
    // This order: a dead locker's heir finds it by its keeper, whatever its kind.
    given.keeper.store(locker, std::memory_order_relaxed);
    given.kind.store(CellKind::kFree, std::memory_order_release);
    given.next = mine.free_cells;
    mine.free_cells = cell;
    if (++mine.free_count > kKeptMax) [[unlikely]]
      return_batch(locker);
  }

  // What a locker begins with.
  struct NewLocker {
    std::uint64_t name, age;
    Succession succession;
    std::uint32_t note;
  };
  // The caller's.
  [[nodiscard]] Errc make_locker(const NewLocker &begin, CellIndex *out) noexcept;
  // Of an owner who is dead, or kNobody: the locker is the caller's. False: another one was
  // quicker, or it has ended.
  [[nodiscard]] bool inherit_locker(CellIndex locker, Owner from) noexcept;
  // REQUIRES: it has no requests, and no locker will give it any.
  void free_locker(CellIndex locker) noexcept;
  // Whatever the locker kept is free for all, the requests that it had not begun to make, or had
  // ended, too. REQUIRES: no other thread uses the locker.
  void collect(CellIndex locker) noexcept;

  // Of a refill.
  static constexpr std::uint32_t kBatch = 32;
  // A locker that has more gives a batch back.
  static constexpr std::uint32_t kKeptMax = 2 * kBatch;

 private:
  class Held;

  [[nodiscard]] Errc refill(CellIndex locker, std::uint32_t count) noexcept;
  void give_to_all(CellIndex cell) noexcept;
  void return_batch(CellIndex locker) noexcept;
  [[nodiscard]] Errc grow(const Held &held, std::uint32_t cells, std::uint32_t *first) noexcept;
  void free_for_all(const Held &held, CellIndex cell) noexcept;
  void repair(const Held &held) noexcept;

  LockFile &file_;
};

}  // namespace tmh::lock
