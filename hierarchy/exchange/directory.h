// hierarchy/exchange/directory.h -- which level has which page, and how a page moves between level
// 1 and level 2.
// Shape:     one 16-byte record per page (tmh.directory.N, sparse, rebuildable): zero is L, as
//            no instance has touched it; H is level 1 in hardware (RTM). Level 2's N, R and W are
//            read off: a page at level 2 that a resident's running instance may use is R or W.
// Invariant: S1 to S4 of docs/design.md 4, after every store: (1) a page is at level 2 => all its
//            line words have the U bit, or DirectoryState::moving names it and the domain lock is
//            held (by a living process, or by a dead one whose heir repairs). (2) A process that is
//            not a resident of a page has it inaccessible in its view. (3) A page in L or H has no
//            versions and no resident with a running instance.
//            (4) A page in H has the U bit in all its line words: for software lines it is at the
//                level above.
// Ordering:  release(): clock.store, then loads of pins (seq_cst both); Snapshot::announce
//            is the other side.
// Sharing:   records change under the domain lock only; any order is relaxed there. `residents` has
//            bit slot % 64: processes that share a bit are taken for residents together, which
//            costs waiting and never isolation. A dead resident's bit is harmless: no instance
//            runs.
// Contexts:  prepare(), take(), as_of(), settle(), repair() run in the fault handler:
//            async-signal-safe. release() and open() do not.
// Source:    thesis, section 6.2; hierarchy/exchange/PROTOCOL.md has the steps.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "hierarchy/exchange/hardware_pages.h"
#include "levels/line/line_memory.h"
#include "levels/page/page.h"
#include "levels/page/shared/shared.h"
#include "platform/files.h"

namespace tmh::hierarchy {

enum class PageLevel : std::uint32_t {
  kLines = 0,     // L: software lines
  kPages = 1,     // level 2
  kHardware = 2,  // H: what RTM may touch
};

struct DirectoryRecord {
  std::atomic<std::uint64_t> residents;  // bit slot % 64
  std::atomic<PageLevel> level;
  std::uint32_t reserved_zero;
};
static_assert(sizeof(DirectoryRecord) == 16);

enum class Release : std::uint8_t {
  kReleased,
  kRunning,   // updates of level 2 use it
  kQueried,   // a query of level 2 does
  kVersions,  // they cannot go home yet
};

class Directory final : public page::Recaller {
 public:
  Directory(page::SharedFiles &memory, line::LineMemory &lines, std::uint32_t slot);

  // REQUIRES the folder lock, and that `lines` is open.
  [[nodiscard]] Errc open(const std::string &folder) noexcept { return hardware_.open(folder); }
  [[nodiscard]] HardwarePages &hardware() noexcept { return hardware_; }
  // A segment that this process maps. REQUIRES the folder lock.
  [[nodiscard]] Errc open_segment(std::uint32_t number, std::uint64_t max_bytes) noexcept;
  // The file of that segment's records, of kRecordBytes for each page. REQUIRES open_segment().
  [[nodiscard]] platform::GrowingFile &records_file(std::uint32_t number) noexcept {
    return segments_[number].file;
  }
  static constexpr std::uint64_t kRecordBytes = sizeof(DirectoryRecord);
  static void remove_files(const std::string &folder) noexcept;

  // Gives the page to level 1. kRunning: an instance of level 2 may use it; kVersions: some of its
  // versions cannot go home yet, or the log must be written first.
  [[nodiscard]] Release release(const page::DomainLock::Held &held, storage::PageId page) noexcept;
  // The same to the hardware level: from level 2, or from software lines where no owner needs to be
  // asked.
  [[nodiscard]] Release release_to_hardware(const page::DomainLock::Held &held,
                                            storage::PageId page) noexcept;
  // Gives the page to the hardware level before any instance asks for it, where the disk has room
  // for its record. Only a page that no level has used yet. One that the hardware level has is
  // announced once more, for processes that have dropped it.
  void open_ahead(const page::DomainLock::Held &held, storage::PageId page) noexcept;
  // FAILs the running instances that may use the page, but for those that are waited for.
  void fail_users(const page::DomainLock::Held &held, storage::PageId page) noexcept;
  // The instance of level 2 that has kept a page from the last release() that said so.
  struct User {
    const storage::Participant *participant = nullptr;
    std::uint64_t instance = 0;
    friend bool operator==(const User &, const User &) noexcept = default;
  };
  [[nodiscard]] const User &used_by(const page::DomainLock::Held &) const noexcept {
    return used_by_;
  }

  // A context of that participant keeps others waiting: recovered when it has no owner.
  void recover_if_dead(const page::DomainLock::Held &held, std::uint32_t slot,
                       std::uint64_t incarnation) noexcept;

  // Pages that this process has taken from level 1.
  [[nodiscard]] std::uint64_t recalls_here() const noexcept {
    return recalls_here_.load(std::memory_order_relaxed);
  }

  // page::Recaller
  [[nodiscard]] std::uint64_t clock() const noexcept override;
  [[nodiscard]] Errc prepare(storage::PageId page) noexcept override;
  [[nodiscard]] bool read_unchanged(storage::PageId page, std::byte *content) noexcept override;
  [[nodiscard]] std::uint64_t take(const page::DomainLock::Held &held,
                                   storage::PageId page) noexcept override;
  [[nodiscard]] bool take_ahead(const page::DomainLock::Held &held, storage::PageId page,
                                std::uint64_t snapshot) noexcept override;
  [[nodiscard]] bool read_beside(const page::DomainLock::Held &held, storage::PageId page,
                                 std::uint64_t snapshot, std::byte *content) noexcept override;
  [[nodiscard]] bool is_above(const page::DomainLock::Held &held, storage::PageId page,
                              std::uint64_t *newest) const noexcept override;
  [[nodiscard]] bool is_resident(const page::DomainLock::Held &held,
                                 storage::PageId page) const noexcept override;
  void as_of(const page::DomainLock::Held &held, storage::PageId page, std::uint64_t snapshot,
             std::byte *content) noexcept override;
  void settle(const page::DomainLock::Held &held, std::uint32_t slot) noexcept override;
  void repair(const page::DomainLock::Held &held) noexcept override;

 private:
  [[nodiscard]] bool knows(storage::PageId page) const noexcept;
  [[nodiscard]] bool is_prepared(storage::PageId page) const noexcept;
  [[nodiscard]] DirectoryRecord &record(storage::PageId page) const noexcept;
  [[nodiscard]] static std::uint64_t bit(std::uint32_t slot) noexcept {
    return std::uint64_t{1} << (slot % 64);
  }
  [[nodiscard]] Release give_up(const page::DomainLock::Held &held, storage::PageId page) noexcept;
  [[nodiscard]] bool has_upper_line(storage::PageId page) const noexcept;
  [[nodiscard]] bool make_room_for_announcement(const page::DomainLock::Held &held) noexcept;
  void recall(const page::DomainLock::Held &held, storage::PageId page) noexcept;
  void recall_from_hardware(const page::DomainLock::Held &held, storage::PageId page) noexcept;
  void recover(const page::DomainLock::Held &held, std::uint32_t slot,
               std::uint64_t incarnation) noexcept;
  void repair_move(const page::DomainLock::Held &held) noexcept;
  void mark_lines(const page::DomainLock::Held &held, storage::PageId page) noexcept;
  void await_committer(const page::DomainLock::Held &held, line::LineWord &word) noexcept;
  [[nodiscard]] std::uint64_t read_line(const page::DomainLock::Held &held, storage::PageId page,
                                        std::size_t line, std::byte *content) noexcept;
  [[nodiscard]] std::uint64_t newest(storage::PageId page) const noexcept;
  template <class Visit>
  void for_users(std::uint64_t residents, Visit visit) const noexcept;

  page::SharedFiles &memory_;
  line::LineMemory &lines_;
  HardwarePages hardware_;
  const std::uint32_t slot_;
  // under the domain lock; the engine's own belongs to the instance's thread
  page::ConsistencyTree tree_;
  User used_by_;                                // under the lock
  std::atomic<std::uint64_t> recalls_here_{0};  // under the lock; relaxed: a total
  struct SegmentDirectory {
    platform::GrowingFile file;
    // release after the file is mapped; acquire in handlers
    std::atomic<DirectoryRecord *> records{nullptr};
  };
  std::unique_ptr<SegmentDirectory[]> segments_;
};

}  // namespace tmh::hierarchy
