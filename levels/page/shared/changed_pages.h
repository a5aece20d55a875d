// levels/page/shared/changed_pages.h -- which pages the log has changed since a checkpoint wrote
// them: in domains with separate homes, where data files are written by checkpoints only.
// Shape:     tmh.changes.N, rebuildable, sparse: a bit per page of segment N, twice. The log's
//            writer notes a page before its record can be durable; a checkpoint takes what is noted
//            at the moment of its start point, writes those pages, and clears them when it is
//            stored.
// Invariant: a page named by a record before a point of the log is noted or taken when the log's
//            lock is held at that point, unless a stored checkpoint has written it as of that
//            record. What was noted and never became durable costs a write of the page.
// Sharing:   noted: under the lock of the log. taken: filled under both locks, read and cleared
//            under checkpoint_lock. Death leaves too many bits. A file is opened under the lock of
//            the log by the thread that needs it first; behind take() it is there.
// Contexts:  not in handlers.
// Source:    docs/design.md D2, D6; hierarchy/exchange/PROTOCOL.md, "Durable domains".
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "levels/page/shared/log_lock.h"
#include "platform/files.h"
#include "storage/control.h"
#include "storage/file_table.h"
#include "storage/page_id.h"

namespace tmh::page {

class ChangedPages {
 public:
  // folder, control and files outlive it.
  ChangedPages(const std::string &folder, const storage::ControlFile &control,
               storage::FileTable &files) noexcept
      : folder_(folder), control_(control), table_(files) {}

  // Disk blocks for the bits of a segment of that size: the writer must not find the disk full.
  // REQUIRES the folder lock.
  [[nodiscard]] static Errc prepare(const std::string &folder, std::uint32_t segment,
                                    const storage::SegmentRecordV1 &record,
                                    std::uint64_t size_bytes) noexcept;

  // kIo and its kind: the file cannot be opened here. kCorrupt: no such
  // page.
  [[nodiscard]] Errc note(const LogLock::Held &held, storage::PageId page) noexcept;
  // REQUIRES checkpoint_lock, too, or to be alone.
  [[nodiscard]] Errc take(const LogLock::Held &held) noexcept;
  // Bits of pages 64 * index and following, and how many such words the segment has. REQUIRES
  // checkpoint_lock; take() before.
  [[nodiscard]] std::uint64_t taken(std::uint32_t segment, std::uint64_t index) const noexcept;
  void clear_taken() noexcept;
  [[nodiscard]] std::uint64_t words(std::uint32_t segment) const noexcept;

 private:
  [[nodiscard]] Errc open(std::uint32_t segment) noexcept;
  [[nodiscard]] std::uint64_t *noted_bits(std::uint32_t segment) const noexcept {
    return reinterpret_cast<std::uint64_t *>(files_[segment].base());
  }
  [[nodiscard]] std::uint64_t *taken_bits(std::uint32_t segment) const noexcept;
  [[nodiscard]] std::uint64_t size_of(std::uint32_t segment) const noexcept;  // 0: no such segment

  const std::string &folder_;
  const storage::ControlFile &control_;
  storage::FileTable &table_;
  std::unique_ptr<platform::GrowingFile[]> files_{new platform::GrowingFile[storage::kSegmentsMax]};
  std::array<bool, storage::kSegmentsMax> is_taken_{};  // as `taken`
};

}  // namespace tmh::page
