// levels/page/shared/commit_ring.cpp -- growing the ring, and bringing it into memory.
#include "levels/page/shared/commit_ring.h"

#include <algorithm>

#include "platform/assert.h"
#include "platform/disk.h"
#include "platform/page_tables.h"
#include "platform/try.h"

namespace tmh::page {

// Twice as much each time, which is seldom: it takes a while on some disks, and the lock is held.
// Where there is no room for that, as much as this commit needs.
Errc CommitRing::grow(std::uint64_t end) noexcept {
  TMH_ASSERT(state_ != nullptr);
  const auto grow_to = [this](std::uint64_t entries) {
    const std::uint64_t wanted =
        std::min((entries + kLogChunk - 1) / kLogChunk * kLogChunk, kLogEntries);
    if (wanted > state_->log_capacity) {
      TMH_TRY(file_.grow(wanted * sizeof(CommitLogEntry)));
      state_->log_capacity = wanted;
      storage::note_bytes(state_->files.at(storage::DomainFile::kCommits),
                          wanted * sizeof(CommitLogEntry));
    }
    room_.store(state_->log_capacity, std::memory_order_relaxed);
    return Errc::kOk;
  };
  const std::uint64_t ahead = end + kLogAhead;
  const Errc error =
      grow_to(ahead <= state_->log_capacity ? ahead : std::max(ahead, 2 * state_->log_capacity));
  return error == Errc::kOk ? error : grow_to(end);
}

void CommitRing::use(DomainState &state) noexcept {
  TMH_ASSERT(file_.base() != nullptr);
  state_ = &state;
  entries_ = reinterpret_cast<CommitLogEntry *>(file_.base());
  prepared_.store(0, std::memory_order_relaxed);  // alone
  room_.store(0, std::memory_order_relaxed);
}

// Until the ring has come round since this process came: then all of it is there.
void CommitRing::prepare_chunks(std::uint64_t position) noexcept {
  const std::uint64_t here = position / kLogChunk * kLogChunk;
  std::uint64_t prepared = prepared_.load(std::memory_order_relaxed);
  if (prepared == 0) all_prepared_.store(here + kLogEntries, std::memory_order_relaxed);
  const std::uint64_t room = room_.load(std::memory_order_relaxed);
  for (prepared = std::max(prepared, here);
       prepared <= position + kLogAhead && prepared % kLogEntries < room; prepared += kLogChunk)
    (void)platform::populate(&entry(prepared), kLogChunk * sizeof(CommitLogEntry), true);
  if (prepared >= all_prepared_.load(std::memory_order_relaxed)) prepared = ~0ull;
  prepared_.store(prepared, std::memory_order_relaxed);
}

Errc CommitRing::bound() noexcept {
  TMH_ASSERT(state_ != nullptr);
  // Every entry that the head has passed must have a place, and is written again.
  if (state_->log_capacity < kLogChunk || state_->log_capacity > kLogEntries ||
      state_->log_capacity < state_->log_head.load(std::memory_order_relaxed))
    state_->log_capacity = kLogEntries;
  const std::uint64_t bytes = state_->log_capacity * sizeof(CommitLogEntry);
  TMH_TRY(file_.grow(bytes));
  return platform::allocate_blocks(file_.fd(), 0, bytes);
}

}  // namespace tmh::page
