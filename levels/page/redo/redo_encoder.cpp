// levels/page/redo/redo_encoder.cpp -- encoding commits as records.
#include "levels/page/redo/redo_encoder.h"

#include <algorithm>
#include <new>
#include <utility>

#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/try.h"

namespace tmh::page {

using platform::fail;
using storage::RecordHeaderV1;
using storage::RecordKind;

RedoEncoder::RedoEncoder(SharedState &memory, storage::LogWriter &writer)
    : memory_(memory),
      writer_(writer),
      changed_(memory.folder(), memory.control(), memory.state().files),
      buffer_(storage::kRecordBytesMax),
      record_(buffer_.data(), buffer_.size()) {}

void RedoEncoder::begin_record(std::uint64_t stamp, std::uint64_t time_ns) noexcept {
  record_.clear();
  part_ = 0;
  commit_bytes_ = 0;
  stamp_ = stamp;
  time_ns_ = time_ns;
}

// Moves *at behind the commit.
Errc RedoEncoder::append(const LogLock::Held &held, storage::FlushPoint *at) noexcept {
  TMH_ASSERT(held.is_valid());
  const CommitLogEntry &first = memory_.commits().entry(at->position);
  if (first.stamp.load(std::memory_order_relaxed) != at->clock + 1)
    return fail(Errc::kCorrupt, "tmh.commits does not follow the commit order");
  ++at->clock;
  if (first.slot == 0) {  // a page went below: no commit
    ++at->position;
    return Errc::kOk;
  }
  begin_record(at->stamp(), first.time_ns);
  if (first.page == kWideCommit) {
    TMH_TRY(append_wide(held, first));
    at->position += kLogEntries + 1;
  } else {
    for (std::uint32_t i = 0; i < first.pages; ++i) {
      const CommitLogEntry &entry = memory_.commits().entry(at->position + i);
      if (const Errc error = append_page(held, entry.slot, PageId{entry.page}, entry.lines);
          error != Errc::kOk)
        return error;
    }
    at->position += first.pages;
  }
  const Errc error = finish_record(RecordKind::kCommit);
  ++batch_.commits;
  batch_.bytes += commit_bytes_;
  return error;
}

// A commit of the level below has made its differences itself; they are cut into records as
// those of this level.
Errc RedoEncoder::append(const LogLock::Held &held, const GatheredCommit &commit,
                         storage::FlushPoint *at) noexcept {
  TMH_ASSERT(held.is_valid());
  at->line = commit.stamp;
  begin_record(at->stamp(), commit.time_ns);
  storage::DeltaCursor cursor(commit.deltas, commit.bytes);
  storage::PageDelta delta;
  while (cursor.next(&delta)) {
    std::byte data[kPageBytes];
    std::uint8_t words[storage::kLinesPerPage] = {};
    storage::unpack_delta(delta, words, data);
    if (const Errc error = append_difference(held, delta.page, delta.lines, words, data);
        error != Errc::kOk)
      return error;
  }
  if (cursor.is_malformed())
    return fail(Errc::kCorrupt, "tmh.contexts holds a damaged redo record");
  const Errc error = finish_record(RecordKind::kCommit);
  ++batch_.commits;
  batch_.bytes += commit.reserved_bytes;
  return error;
}

// The ring does not list its pages: they are found by their stamp. Sorted by page, as the plan
// (LogRoom) had them.
Errc RedoEncoder::append_wide(const LogLock::Held &held, const CommitLogEntry &first) noexcept try {
  const std::uint64_t stamp = first.stamp.load(std::memory_order_relaxed);
  std::vector<std::pair<std::uint64_t, Slot>> versions;
  versions.reserve(first.pages);
  // relaxed: the clock has been acquired, and these slots were there before it
  const Slot end = memory_.state().version_capacity.load(std::memory_order_relaxed);
  for (Slot slot = 1; slot < end && versions.size() < first.pages; ++slot) {
    const VersionHead &head = memory_.version(slot);
    if (head.stamp.load(std::memory_order_acquire) == stamp) versions.emplace_back(head.page, slot);
  }
  if (versions.size() != first.pages)
    return fail(Errc::kCorrupt, "versions of a wide commit are missing");
  std::sort(versions.begin(), versions.end());
  for (const auto &[page, slot] : versions) {
    // acquire: pairs with ConsistencyTree::fold_into()
    const LineMask lines =
        std::atomic_ref(memory_.version(slot).lines).load(std::memory_order_acquire);
    TMH_TRY(append_page(held, slot, PageId{page}, lines));
  }
  return Errc::kOk;
} catch (const std::bad_alloc &) {
  return platform::fail_for_memory("the redo log's record of a large commit");
}

Errc RedoEncoder::append_page(const LogLock::Held &held, Slot slot, PageId page,
                              LineMask lines) noexcept {
  return append_difference(held, page, lines, memory_.version(slot).words,
                           memory_.version_data(slot));
}

// Cuts a transaction into records where RecordPlan::add() does.
Errc RedoEncoder::append_difference(const LogLock::Held &held, PageId page, LineMask lines,
                                    const std::uint8_t *words, const std::byte *data) noexcept {
  if (memory_.has_separate_homes()) {
    if (const Errc error = changed_.note(held, page); error != Errc::kOk) {
      cannot_note_ = error != Errc::kCorrupt;
      return error;
    }
  }
  if (record_.add(page, lines, words, data)) return Errc::kOk;
  TMH_TRY(finish_record(RecordKind::kPart));
  return record_.add(page, lines, words, data)
             ? Errc::kOk
             : fail(Errc::kCorrupt, "a page outgrows a log record");
}

Errc RedoEncoder::finish_record(RecordKind kind) noexcept {
  TMH_ASSERT(kind == RecordKind::kCommit || kind == RecordKind::kPart);
  commit_bytes_ += record_.bytes();
  RecordHeaderV1 fields{};
  fields.kind = static_cast<std::uint16_t>(kind);
  fields.stamp = stamp_;
  fields.time_ns = time_ns_;
  fields.part = part_++;
  fields.total_bytes = kind == RecordKind::kCommit ? commit_bytes_ : 0;
  const Errc error = writer_.append(&record_, fields);
  record_.clear();
  return error;
}

}  // namespace tmh::page
