// levels/page/redo/redo_encoder.h -- encodes commits, of this level and of the level below, as
// records of the redo log.
// Shape:     a commit of this level is its entries in the commit log ring and its version slots;
//            of the level below, a GatheredCommit. Either is cut into records where
//            storage::RecordPlan cuts it.
// Sharing:   under the lock of the log (log_lock.h), or alone. Encoding twice gives the same bytes,
//            so a dead writer's heir begins again.
// Contexts:  not in handlers.
// Source:    thesis, section 3.2 (its log of whole pages).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "levels/page/redo/gatherer.h"
#include "levels/page/shared/shared.h"
#include "storage/log/log_record.h"
#include "storage/log/log_writer.h"

namespace tmh::page {

class RedoEncoder {
 public:
  // What was appended since start_batch(); bytes: of what was reserved.
  struct Batch {
    std::uint64_t commits = 0;
    std::uint64_t bytes = 0;
  };

  // Both outlive it.
  RedoEncoder(SharedState &memory, storage::LogWriter &writer);

  void start_batch() noexcept { batch_ = {}; }
  [[nodiscard]] const Batch &batch() const noexcept { return batch_; }
  // The commit of this level at *at, which moves behind it. kCorrupt, kOutOfMemory, kIo.
  [[nodiscard]] Errc append(const LogLock::Held &held, storage::FlushPoint *at) noexcept;
  // A commit of the level below; *at moves to its stamp.
  [[nodiscard]] Errc append(const LogLock::Held &held, const GatheredCommit &commit,
                            storage::FlushPoint *at) noexcept;

  // Separate homes: the pages that the next checkpoint writes.
  [[nodiscard]] ChangedPages &changed() noexcept { return changed_; }
  // This process could not open the notes of changed pages.
  [[nodiscard]] bool cannot_note() const noexcept { return cannot_note_; }
  void forget_trouble() noexcept { cannot_note_ = false; }

 private:
  [[nodiscard]] Errc append_wide(const LogLock::Held &held, const CommitLogEntry &first) noexcept;
  [[nodiscard]] Errc append_page(const LogLock::Held &held, Slot slot, PageId page,
                                 LineMask lines) noexcept;
  [[nodiscard]] Errc append_difference(const LogLock::Held &held, PageId page, LineMask lines,
                                       const std::uint8_t *words, const std::byte *data) noexcept;
  void begin_record(std::uint64_t stamp, std::uint64_t time_ns) noexcept;
  [[nodiscard]] Errc finish_record(storage::RecordKind kind) noexcept;

  SharedState &memory_;
  storage::LogWriter &writer_;
  ChangedPages changed_;
  bool cannot_note_ = false;
  std::vector<std::byte> buffer_;
  // In buffer_.
  storage::RecordBuilder record_;
  // Of the commit being appended.
  std::uint32_t part_ = 0;
  std::uint64_t stamp_ = 0, time_ns_ = 0, commit_bytes_ = 0;
  Batch batch_;
};

}  // namespace tmh::page
