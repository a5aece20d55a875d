// hierarchy/durability/page_copies.cpp -- copying pages from home to the data files, behind the
// log.
#include "hierarchy/durability/page_copies.h"

#include <algorithm>
#include <new>

#include "observe/steps.h"
#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/fence.h"
#include "platform/files.h"
#include "platform/readahead.h"

namespace tmh::detail {

using platform::fail;

Errc PageCopies::open() noexcept {
  TMH_ASSERT(bytes_ == nullptr && count_ == 0);
  bytes_.reset(new (std::nothrow) std::byte[kBufferPages * kPageBytes]);
  if (bytes_ == nullptr) return fail(Errc::kOutOfMemory, "a buffer for changed pages");
  TMH_TRY(home_.open(memory_.home_path(segment_), platform::DiskFile::Mode::kRead));
  platform::read_without_readahead(home_.fd());
  return file_.open(memory_.segment_path(record()), platform::DiskFile::Mode::kReadWrite,
                    platform::FileRole::kSegment);
}

bool PageCopies::is_hole(std::uint64_t index, std::uint64_t pages) const noexcept {
  TMH_ASSERT(pages != 0);
  return !platform::has_data(home_.fd(), index * kPageBytes, pages * kPageBytes);
}

Errc PageCopies::add(std::uint64_t index) noexcept {
  TMH_ASSERT(bytes_ != nullptr && count_ < kBufferPages);
  std::size_t got = 0;
  std::byte *const to = bytes_.get() + count_ * kPageBytes;
  TMH_TRY(home_.read(index * kPageBytes, to, kPageBytes, &got));
  if (got != kPageBytes)
    return fail(Errc::kFileShrunk, memory_.home_path(segment_) + " was cut short");
  indexes_[count_++] = index;
  return count_ == kBufferPages ? write() : Errc::kOk;
}

Errc PageCopies::write() noexcept {
  if (count_ == 0) return Errc::kOk;
  TMH_ASSERT(count_ <= kBufferPages);
  TMH_TRY(flush_before_write());
  for (std::size_t i = 0; i < count_;) {
    std::size_t run = 1;
    while (i + run < count_ && indexes_[i + run] == indexes_[i] + run) ++run;
    const std::uint64_t offset = record().offset_bytes + indexes_[i] * kPageBytes;
    const Errc error = file_.write(offset, bytes_.get() + i * kPageBytes, run * kPageBytes);
    if (error != Errc::kOk) return error;
    i += run;
  }
  count_ = 0;
  return Errc::kOk;
}

// A store that a copy has seen is of a commit that was stamped before: the clocks, read after it,
// cover it.
Errc PageCopies::flush_before_write() noexcept {
  if (observe::is_planted(observe::Planted::kPagesBeforeLog)) return Errc::kOk;
  platform::fence(std::memory_order_acquire);  // what was read, then the clocks
  return log_.flush_all();
}

Errc write_changed_pages(page::SharedState &memory, page::DurableLog &log) noexcept {
  TMH_ASSERT(memory.has_separate_homes());
  page::ChangedPages &changed = log.writer().changed();
  for (std::uint32_t segment = 0; segment < storage::kSegmentsMax; ++segment) {
    const std::uint64_t words = changed.words(segment);
    const auto is_changed = [&] {
      for (std::uint64_t i = 0; i < words; ++i)
        if (changed.taken(segment, i) != 0) return true;
      return false;
    };
    if (!is_changed()) continue;
    PageCopies copies(memory, log, segment);
    TMH_TRY(copies.open());
    if (const Errc error = copies.write_pages(
            0, words, [&](std::uint64_t i) { return changed.taken(segment, i); });
        error != Errc::kOk)
      return error;
  }
  observe::step(observe::Step::kCheckpointWritten);
  return Errc::kOk;
}

Errc write_all_pages(page::SharedState &memory, page::DurableLog &log, std::uint32_t segment,
                     platform::DiskFile &told, Pace pace,
                     const std::atomic<bool> &is_stopping) noexcept {
  TMH_ASSERT(memory.has_separate_homes() && memory.file_of(segment) == segment);
  for (std::uint32_t other = segment; other < storage::kSegmentsMax; ++other) {
    const storage::SegmentRecordV1 &record = memory.control().segments[other];
    if (!storage::is_used(record) || memory.file_of(other) != segment) continue;
    PageCopies copies(memory, log, other);
    TMH_TRY(copies.open());
    const std::uint64_t pages =
        memory.segment_size(other).load(std::memory_order_acquire) / kPageBytes;
    const auto bits_of = [&](std::uint64_t i) -> std::uint64_t {
      const std::uint64_t count = std::min<std::uint64_t>(64, pages - 64 * i);
      if (copies.is_hole(64 * i, count)) return 0;
      std::uint64_t bits = 0;
      for (std::uint64_t page = 0; page < count; ++page)
        if (!copies.is_hole(64 * i + page, 1)) bits |= 1ull << page;
      return bits;
    };
    constexpr std::uint64_t kSlice = 64;  // times 64 pages: 16 MiB
    for (std::uint64_t i = 0; i < (pages + 63) / 64; i += kSlice) {
      TMH_TRY(copies.write_pages(i, std::min(i + kSlice, (pages + 63) / 64), bits_of));
      if (pace == Pace::kAtOnce) continue;
      // relaxed: the files stay in doubt
      if (is_stopping.load(std::memory_order_relaxed))
        return fail(Errc::kIo, told.path() + ": closed while it was in doubt");
      constexpr std::uint64_t kUnitBytes = 64 * kPageBytes;
      const Errc error = told.write_back_gently(is_stopping, record.offset_bytes + i * kUnitBytes,
                                                kSlice * kUnitBytes);
      if (error != Errc::kOk) {
        memory.log_state()->data_syncs.fail(error);
        return error;
      }
    }
  }
  return Errc::kOk;
}

}  // namespace tmh::detail
