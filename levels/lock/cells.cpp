// levels/lock/cells.cpp -- batches of free cells, and the lists made anew.
#include "levels/lock/cells.h"

#include <algorithm>

#include "observe/steps.h"
#include "platform/failure.h"
#include "platform/try.h"

namespace tmh::lock {

namespace {
constexpr std::uint32_t kGrowCells = 1024;
constexpr std::uint32_t kGrowLockers = 16;
constexpr std::uint32_t kCellsOfLocker = sizeof(LockerCell) / sizeof(RequestCell);
}  // namespace

// The proof that the calling thread holds cells_lock.
class Cells::Held {
 public:
  explicit Held(Cells &cells) noexcept : cells_(cells) {
    LockHeader &header = cells.file_.header();
    if (header.cells_lock.lock(cells.file_.tag(), LockFile::holder_alive, &cells.file_) ==
        platform::Locked::kInherited)
      cells.repair(*this);
  }
  Held(const Held &) = delete;
  Held &operator=(const Held &) = delete;
  ~Held() { cells_.file_.header().cells_lock.unlock(); }

 private:
  Cells &cells_;
};

Errc Cells::refill(CellIndex locker, std::uint32_t count) noexcept {
  TMH_ASSERT(file_.kind(locker) == CellKind::kLocker);
  LockerCell &mine = file_.locker(locker);
  const Held held(*this);
  LockHeader &header = file_.header();
  while (mine.free_count < std::max(count, kBatch)) {
    if (header.free_cells == CellIndex::kNone) {
      std::uint32_t first = 0;
      TMH_TRY(grow(held, kGrowCells, &first));
      for (std::uint32_t i = kGrowCells; i-- > 0;) free_for_all(held, CellIndex{first + i});
    }
    const CellIndex cell = header.free_cells;
    FreeCell &taken = file_.free_cell(cell);
    header.free_cells = taken.next;
    taken.keeper.store(locker, std::memory_order_relaxed);
    observe::step(observe::Step::kLockCellTaken);
    taken.next = mine.free_cells;
    mine.free_cells = cell;
    ++mine.free_count;
  }
  return Errc::kOk;
}

void Cells::give_to_all(CellIndex cell) noexcept {
  const Held held(*this);
  free_for_all(held, cell);
}

void Cells::return_batch(CellIndex locker) noexcept {
  LockerCell &mine = file_.locker(locker);
  const Held held(*this);
  for (std::uint32_t i = 0; i < kBatch; ++i) {
    const CellIndex cell = mine.free_cells;
    mine.free_cells = file_.free_cell(cell).next;
    --mine.free_count;
    free_for_all(held, cell);
  }
}

void Cells::free_for_all(const Held &, CellIndex cell) noexcept {
  TMH_ASSERT(cell != CellIndex::kNone);
  FreeCell &freed = file_.free_cell(cell);
  LockHeader &header = file_.header();
  freed.keeper.store(CellIndex::kNone, std::memory_order_relaxed);
  freed.kind.store(CellKind::kFree, std::memory_order_release);
  freed.next = header.free_cells;
  header.free_cells = cell;
}

// New cells are all zeros: free, and in no list.
Errc Cells::grow(const Held &, std::uint32_t cells, std::uint32_t *first) noexcept {
  LockHeader &header = file_.header();
  const std::uint32_t from = header.capacity.load(std::memory_order_relaxed);
  TMH_ASSERT(first != nullptr && cells > 0);
  if (from > kCellsMax - cells) return Errc::kOutOfMemory;
  if (from + cells > header.backed) {
    TMH_TRY(file_.back(from + cells));
    header.backed = from + cells;
  }
  // release: pairs with LockFile::capacity()
  header.capacity.store(from + cells, std::memory_order_release);
  *first = from;
  return Errc::kOk;
}

Errc Cells::make_locker(const NewLocker &begin, CellIndex *out) noexcept {
  TMH_ASSERT(out != nullptr);
  const Held held(*this);
  LockHeader &header = file_.header();
  if (header.free_lockers == CellIndex::kNone) {
    std::uint32_t first = 0;
    TMH_TRY(grow(held, kGrowLockers * kCellsOfLocker, &first));
    for (std::uint32_t i = 0; i < kGrowLockers; ++i) {
      const CellIndex made{first + i * kCellsOfLocker};
      LockerCell &locker = file_.locker(made);
      locker.rest_kind.store(CellKind::kLockerRest, std::memory_order_relaxed);
      locker.kind.store(CellKind::kFreeLocker, std::memory_order_release);
      locker.next_free_locker = header.free_lockers;
      header.free_lockers = made;
    }
  }
  *out = header.free_lockers;
  LockerCell &locker = file_.locker(*out);
  header.free_lockers = locker.next_free_locker;
  locker.owner.store(file_.self(), std::memory_order_relaxed);
  locker.name.store(begin.name, std::memory_order_relaxed);
  locker.age.store(begin.age, std::memory_order_relaxed);
  locker.succession.store(begin.succession, std::memory_order_relaxed);
  locker.note.store(begin.note, std::memory_order_relaxed);
  locker.priority.store(0, std::memory_order_relaxed);
  locker.first_request = locker.free_cells = CellIndex::kNone;
  locker.free_count = 0;
  locker.inherited.store(CellIndex::kNone, std::memory_order_relaxed);
  locker.waits_for.store(CellIndex::kNone, std::memory_order_relaxed);
  locker.held.store(0, std::memory_order_relaxed);
  locker.held_writes.store(0, std::memory_order_relaxed);
  locker.must_scan.store(0, std::memory_order_relaxed);
  observe::step(observe::Step::kLockCellTaken);
  // release: a reader that sees a locker sees whose it is
  locker.kind.store(CellKind::kLocker, std::memory_order_release);
  return Errc::kOk;
}

// Under the lock, so that it neither ends nor becomes another's meanwhile.
bool Cells::inherit_locker(CellIndex index, Owner from) noexcept {
  const Held held(*this);
  // acquire: what the dead one has stored
  return file_.kind(index) == CellKind::kLocker &&
         file_.locker(index).owner.compare_exchange_strong(from, file_.self(),
                                                           std::memory_order_acq_rel);
}

void Cells::free_locker(CellIndex index) noexcept {
  LockerCell &locker = file_.locker(index);
  TMH_ASSERT(locker.first_request == CellIndex::kNone);
  LockHeader &header = file_.header();
  const Held held(*this);
  while (locker.free_cells != CellIndex::kNone) {
    const CellIndex cell = locker.free_cells;
    locker.free_cells = file_.free_cell(cell).next;
    free_for_all(held, cell);
  }
  locker.free_count = 0;
  for (std::size_t i = 0; i < kLockCounts; ++i)
    header.counts[i].fetch_add(locker.counts[i].exchange(0, std::memory_order_relaxed),
                               std::memory_order_relaxed);
  locker.kind.store(CellKind::kFreeLocker, std::memory_order_release);
  locker.next_free_locker = header.free_lockers;
  header.free_lockers = index;
}

void Cells::collect(CellIndex keeper) noexcept {
  LockerCell &locker = file_.locker(keeper);
  const Held held(*this);
  locker.free_cells = CellIndex::kNone;
  locker.free_count = 0;
  const std::uint32_t capacity = file_.capacity();
  for (std::uint32_t i = 1; i < capacity; ++i) {
    const CellIndex cell{i};
    const CellKind kind = file_.kind(cell);
    if (kind != CellKind::kFree && kind != CellKind::kRequest) continue;
    // acquire: the locker that ends a request of another one is its keeper before
    if (kind == CellKind::kRequest &&
        file_.request(cell).state.load(std::memory_order_acquire) != RequestState::kNone)
      continue;
    if (file_.free_cell(cell).keeper.load(std::memory_order_relaxed) != keeper) continue;
    // First: a free cell whose heir dies here is found by the next one.
    file_.free_cell(cell).kind.store(CellKind::kFree, std::memory_order_release);
    free_for_all(held, cell);
  }
}

void Cells::repair(const Held &held) noexcept {
  LockHeader &header = file_.header();
  header.free_cells = CellIndex::kNone;
  header.free_lockers = CellIndex::kNone;
  const std::uint32_t capacity = file_.capacity();
  for (std::uint32_t i = 1; i < capacity; ++i) {
    const CellIndex cell{i};
    const CellKind kind = file_.kind(cell);
    if (kind == CellKind::kFree &&
        file_.free_cell(cell).keeper.load(std::memory_order_relaxed) == CellIndex::kNone) {
      free_for_all(held, cell);
    } else if (kind == CellKind::kFreeLocker) {
      file_.locker(cell).next_free_locker = header.free_lockers;
      header.free_lockers = cell;
    }
  }
}

}  // namespace tmh::lock
