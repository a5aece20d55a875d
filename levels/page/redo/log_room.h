// levels/page/redo/log_room.h -- room in the redo log for what a commit's plan says (redo_plan.h),
// and the log files that it needs.
// Invariant: a commit is published only when log files for its records exist and the ring has room,
//            so that a full disk is an error before the commit point, never after.
// Errors:    kDiskFull and kPermission of making a log file: the commit aborts, later ones may
//            succeed.
// Sharing:   any thread; one at a time makes files (LogState::files_lock).
// Contexts:  not in handlers.
// Source:    docs/design.md D5.
#pragma once

#include <cstddef>
#include <cstdint>

#include "levels/page/redo/gatherer.h"
#include "levels/page/redo/redo_plan.h"
#include "levels/page/shared/shared.h"
#include "platform/assert.h"
#include "storage/log/log_state.h"
#include "storage/log/log_writer.h"

namespace tmh::page {

class LogRoom {
 public:
  // memory outlives it.
  LogRoom(SharedFiles &memory, platform::LockTag tag) noexcept : memory_(memory), tag_(tag) {
    TMH_ASSERT(memory.log_state() != nullptr);
  }

  void use_gatherer(const Gatherer *gatherer) noexcept { gatherer_ = gatherer; }

  enum class Room : std::uint8_t { kYes, kFlush, kFile, kSegment, kFailed };
  // May the planned commit be published now? *end: where the log will end. kYes reserves the room.
  [[nodiscard]] Room reserve_planned(const DomainLock::Held &held, const RedoPlan &plan,
                                     storage::Lsn *end) const noexcept;
  // The planned commit aborts after kYes.
  void give_back_planned() noexcept {
    if (gatherer_ != nullptr) state().give_back_upper();
  }
  // kLogFailed; a file of the domain is gone.
  [[nodiscard]] Errc look() const noexcept;
  // Room for the records of a commit of the level below, which any thread may commit: waits for log
  // files. kLogFailed, kDiskFull.
  [[nodiscard]] Errc reserve_for_lower(std::uint64_t bytes) noexcept;
  void give_back_for_lower(std::uint64_t bytes) noexcept {
    state().pending_bytes.fetch_sub(bytes, std::memory_order_release);
  }

  // kFailed's error.
  [[nodiscard]] static Errc fail_written() noexcept;
  // Makes log files until every byte before `end` has one, whose name is durable. kCorrupt: no
  // commit can need one that far.
  [[nodiscard]] Errc make_files_up_to(storage::Lsn end) noexcept;
  // The same for the next `files_ahead` * file_bytes.
  [[nodiscard]] Errc prepare_files(std::uint64_t files_ahead) noexcept;
  // One at a time makes, recycles or moves log files.
  void lock_files() noexcept;
  void unlock_files() noexcept { state().files_lock.unlock(); }
  // About where the log will end with what is published.
  [[nodiscard]] storage::Lsn planned_end() const noexcept;

 private:
  [[nodiscard]] bool reserve(std::uint64_t bytes, storage::Lsn *end) const noexcept;
  [[nodiscard]] std::uint64_t pending_bytes_max() const noexcept;
  [[nodiscard]] bool mend_pending_bytes() const noexcept;
  [[nodiscard]] Errc check_end(storage::Lsn end) const noexcept;
  [[nodiscard]] Errc make_file() noexcept;
  [[nodiscard]] storage::LogState &state() const noexcept { return *memory_.log_state(); }

  SharedFiles &memory_;
  const platform::LockTag tag_;
  // Null: none.
  const Gatherer *gatherer_ = nullptr;
};

}  // namespace tmh::page
