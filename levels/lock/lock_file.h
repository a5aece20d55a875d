// levels/lock/lock_file.h -- the shared lock table as one process sees it: opens it, grows it, and
// says whose lockers are alive.
// Shape:     accessors only; who may store what, layout.h says. An index that leads nowhere reads
//            as cell 0, which ends every list: damaged shared memory costs a lock, and no process.
// Sharing:   between processes.
// Contexts:  open() and close(): NOT async-signal-safe; everything else is.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include <tmh/error.hpp>

#include "levels/lock/layout.h"
#include "platform/assert.h"
#include "platform/files.h"
#include "storage/participants.h"

namespace tmh::lock {

// The participant that uses the table.
struct Self {
  const storage::Participant *participants = nullptr;
  std::uint32_t slot = 0;
  std::uint64_t incarnation = 0;
};

class LockFile {
 public:
  // Opens the table of this life of the domain, or makes it. kBadArgument: it has other modes; the
  // detail says so. kDiskFull, kIo.
  [[nodiscard]] Errc open(const platform::FolderLock::Held &lock, const std::string &path,
                          std::uint64_t life, const ModeSet &modes, const Self &self) noexcept;
  void close() noexcept { file_.close(); }
  // Disk blocks for the first `cells` cells.
  [[nodiscard]] Errc back(std::uint32_t cells) noexcept;
  [[nodiscard]] int fd() const noexcept { return file_.fd(); }

  [[nodiscard]] LockHeader &header() const noexcept {
    TMH_ASSERT(file_.base() != nullptr);
    return *reinterpret_cast<LockHeader *>(file_.base());
  }
  [[nodiscard]] const ModeSet &modes() const noexcept { return modes_; }
  // Modes, a bit each, that exclude `wanted` while another locker holds them.
  [[nodiscard]] std::uint32_t excluders(Mode wanted) const noexcept {
    return excluders_[static_cast<std::uint32_t>(wanted) % kModesMax];
  }

  [[nodiscard]] storage::HistogramV1 &wait_times() const noexcept {
    return *reinterpret_cast<storage::HistogramV1 *>(file_.base() + kWaitTimesAt);
  }
  [[nodiscard]] Bucket &bucket(std::uint32_t number) const noexcept {
    return reinterpret_cast<Bucket *>(file_.base() + kBucketsAt)[number % kBuckets];
  }
  [[nodiscard]] FreeCell &free_cell(CellIndex index) const noexcept { return at<FreeCell>(index); }
  [[nodiscard]] ObjectCell &object(CellIndex index) const noexcept { return at<ObjectCell>(index); }
  [[nodiscard]] RequestCell &request(CellIndex index) const noexcept {
    return at<RequestCell>(index);
  }
  [[nodiscard]] LockerCell &locker(CellIndex index) const noexcept { return at<LockerCell>(index); }
  [[nodiscard]] CellKind kind(CellIndex index) const noexcept {
    // acquire: pairs with the release of the cell's maker
    return free_cell(index).kind.load(std::memory_order_acquire);
  }
  // Cells [1, capacity) are there, whatever the header says.
  [[nodiscard]] std::uint32_t capacity() const noexcept;

  // 1, 2, ...: another one for each call of any participant, rising with time.
  [[nodiscard]] std::uint64_t next_number() const noexcept {
    // relaxed: a caller behind another's lock draws later
    return header().next_number.fetch_add(1, std::memory_order_relaxed) + 1;
  }
  // The next one is larger than `number`.
  void pass_number(std::uint64_t number) const noexcept;

  // See LockTable::begin().
  [[nodiscard]] std::uint32_t note_of(LockerId locker) const noexcept {
    return this->locker(CellIndex{static_cast<std::uint32_t>(locker)})
        .note.load(std::memory_order_relaxed);
  }
  // visit(LockerId, name) of all that have no owner. It may attach them.
  template <class Visit>
  void for_each_detached(const Visit &visit) const {
    const std::uint32_t cells = capacity();
    for (std::uint32_t i = 1; i < cells; ++i) {
      if (kind(CellIndex{i}) != CellKind::kLocker) continue;
      const LockerCell &cell = locker(CellIndex{i});
      if (cell.owner.load(std::memory_order_acquire) == Owner::kNobody)
        visit(LockerId{i}, cell.name.load(std::memory_order_relaxed));
    }
  }

  [[nodiscard]] Owner self() const noexcept { return owner_; }
  [[nodiscard]] platform::LockTag tag() const noexcept { return tag_; }
  // Is the owner alive? False also when its slot has passed to another participant.
  [[nodiscard]] bool is_alive(Owner owner) const noexcept;
  // SharedLock's question; context: a LockFile.
  static bool holder_alive(void *context, platform::LockTag holder) noexcept;

 private:
  template <class Cell>
  [[nodiscard]] Cell &at(CellIndex index) const noexcept {
    auto number = static_cast<std::uint32_t>(index);
    // relaxed: the teller of a cell has seen that it is there
    if (number >= known_cells_.load(std::memory_order_relaxed)) [[unlikely]]
      number = known_or_none(number);
    return *reinterpret_cast<Cell *>(file_.base() + kCellsAt +
                                     std::uint64_t{number} * sizeof(RequestCell));
  }
  [[nodiscard]] std::uint32_t known_or_none(std::uint32_t cell) const noexcept;
  [[nodiscard]] Errc make(std::uint64_t life, const ModeSet &modes) noexcept;
  void learn_modes() noexcept;

  platform::GrowingFile file_;
  Self self_;
  Owner owner_ = Owner::kNobody;
  platform::LockTag tag_{};
  ModeSet modes_{};
  std::uint32_t excluders_[kModesMax] = {};
  // So many the file has been seen to hold.
  mutable std::atomic<std::uint32_t> known_cells_{1};
};

}  // namespace tmh::lock
