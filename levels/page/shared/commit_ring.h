// levels/page/shared/commit_ring.h -- tmh.commits as one process sees it: the ring that names the
// pages of the last commits.
// Shape:     entry `position` lies at position % kLogEntries. The file grows in chunks, up to the
//            whole ring (DomainState::log_capacity); growing happens in place.
// Sharing:   between processes; entries are written under the domain lock.
// Contexts:  async-signal-safe, but for use() and bound().
#pragma once

#include <atomic>
#include <cstdint>

#include <tmh/error.hpp>

#include "levels/page/shared/domain_lock.h"
#include "levels/page/shared/layout.h"
#include "platform/assert.h"
#include "platform/files.h"

namespace tmh::page {

class CommitRing {
 public:
  // For the object that opens and closes all files of the domain.
  [[nodiscard]] platform::GrowingFile &file() noexcept { return file_; }
  // The file has been opened, and belongs to this state.
  void use(DomainState &state) noexcept;
  // Whatever damaged the state: every entry that its head has passed has a place in the file, with
  // disk blocks. Alone in the domain. kDiskFull, kIo.
  [[nodiscard]] Errc bound() noexcept;

  [[nodiscard]] CommitLogEntry &entry(std::uint64_t position) const noexcept {
    TMH_ASSERT(entries_ != nullptr);
    return entries_[position % kLogEntries];
  }
  // Room in the ring's file for so many entries behind the head; more than the ring has is all of
  // it. kDiskFull, kIo. Once all of the ring has its room, which takes kLogEntries, nothing can
  // fail any more.
  [[nodiscard]] Errc make_room(const DomainLock::Held &held, std::uint64_t entries) noexcept {
    TMH_ASSERT(held.is_valid());
    const std::uint64_t end =
        state_->log_head.load(std::memory_order_relaxed) % kLogEntries + entries;
    // relaxed: others know less, never more
    return end + kLogAhead <= room_.load(std::memory_order_relaxed) ? Errc::kOk : grow(end);
  }
  // Brings the entries behind this position into memory and into this process, if the kernel can:
  // the committer that appends them holds the lock, and meeting a page that no process has touched
  // costs 1 us in memory and 3 us in a file on a disk, for each process.
  void prepare(std::uint64_t position) noexcept {
    // relaxed: a hint; doing it twice is once
    if (position + kLogAhead >= prepared_.load(std::memory_order_relaxed)) [[unlikely]]
      prepare_chunks(position);
  }

 private:
  [[nodiscard]] Errc grow(std::uint64_t end) noexcept;
  void prepare_chunks(std::uint64_t position) noexcept;

  platform::GrowingFile file_;
  DomainState *state_ = nullptr;
  CommitLogEntry *entries_ = nullptr;
  // DomainState::log_capacity, as this process has seen it.
  std::atomic<std::uint64_t> room_{0};
  // Entries before the first of these are in memory; once it has got to the second, all are, and it
  // is beyond everything.
  std::atomic<std::uint64_t> prepared_{0}, all_prepared_{0};
};

}  // namespace tmh::page
