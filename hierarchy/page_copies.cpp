// hierarchy/page_copies.cpp -- domains with separate homes: a checkpoint writes the pages that have
// changed since the last one; all of a file, when nobody here can tell what became of a dead one's
// sync (levels/storage/data_syncs.h).
// Shape:     pages are copied from home into a buffer, the log is made durable up to what home can
//            have held then, and the buffer is written to the data file (write-ahead:
//            docs/design.md D2). Commits go on; an image may hold parts of commits behind the
//            checkpoint's point, whose records are replayed over it: words in records are absolute,
//            and the last one of each word wins. Home is right while somebody is attached: who does
//            not trust it cannot run transactions either. A disk that loses pages of home, too,
//            while they are in use is beyond this.
// Source:    docs/design.md D2, D3, D6; ARIES (fuzzy page images, write-ahead rule).
#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <new>

#include "hierarchy/durable_domain.h"
#include "observe/planted.h"
#include "platform/disk.h"
#include "platform/failure.h"
#include "platform/fence.h"
#include "platform/files.h"
#include "platform/readahead.h"
#include "platform/steps.h"
#include "platform/try.h"

namespace tmh::detail {

using platform::fail;

namespace {
// One flush of the log and a few large writes per megabyte; a flush with nothing to write is a few
// loads.
constexpr std::size_t kBufferPages = 256;

}  // namespace

// Copies of one segment's pages on their way to its data file. Home is read as a file: this process
// need not have the segment open. What a read tears is being stored by a commit behind the
// checkpoint's point, whose record brings the whole word.
class PageCopies {
 public:
  PageCopies(page::DomainMemory &memory, page::DurableLog &log, std::uint32_t segment) noexcept
      : memory_(memory), log_(log), segment_(segment) {}

  [[nodiscard]] Errc open() noexcept {
    bytes_.reset(new (std::nothrow) std::byte[kBufferPages * kPageBytes]);
    if (bytes_ == nullptr) return fail(Errc::kOutOfMemory, "a buffer for changed pages");
    TMH_TRY(home_.open(memory_.home_path(segment_), platform::DiskFile::Mode::kRead));
    platform::read_without_readahead(home_.fd());
    return file_.open(memory_.segment_path(record()), platform::DiskFile::Mode::kReadWrite,
                      platform::FileRole::kSegment);
  }
  // Of pages 64 * first up to 64 * end: those that bits_of(i) says of pages 64 * i and following.
  template <class BitsOf>
  [[nodiscard]] Errc write_pages(std::uint64_t first, std::uint64_t end,
                                 const BitsOf &bits_of) noexcept {
    for (std::uint64_t i = first; i < end; ++i) {
      for (std::uint64_t bits = bits_of(i); bits != 0; bits &= bits - 1) {
        const std::uint64_t index = 64 * i + static_cast<std::uint64_t>(std::countr_zero(bits));
        TMH_TRY(add(index));
      }
    }
    return write();
  }
  [[nodiscard]] bool is_hole(std::uint64_t index, std::uint64_t pages) const noexcept {
    return !platform::has_data(home_.fd(), index * kPageBytes, pages * kPageBytes);
  }

 private:
  [[nodiscard]] const storage::SegmentRecordV1 &record() const noexcept {
    return memory_.control().segments[segment_];
  }
  [[nodiscard]] Errc add(std::uint64_t index) noexcept {
    std::size_t got = 0;
    std::byte *const to = bytes_.get() + count_ * kPageBytes;
    TMH_TRY(home_.read(index * kPageBytes, to, kPageBytes, &got));
    if (got != kPageBytes)
      return fail(Errc::kFileShrunk, memory_.home_path(segment_) + " was cut short");
    indexes_[count_++] = index;
    return count_ == kBufferPages ? write() : Errc::kOk;
  }
  [[nodiscard]] Errc write() noexcept {
    if (count_ == 0) return Errc::kOk;
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
  [[nodiscard]] Errc flush_before_write() noexcept {
    if (observe::is_planted(observe::Planted::kPagesBeforeLog)) return Errc::kOk;
    platform::fence(std::memory_order_acquire);  // what was read, then the clocks
    return log_.flush_all();
  }

  page::DomainMemory &memory_;
  page::DurableLog &log_;
  const std::uint32_t segment_;
  std::unique_ptr<std::byte[]> bytes_;
  std::array<std::uint64_t, kBufferPages> indexes_;  // of the pages in bytes_
  std::size_t count_ = 0;
  platform::DiskFile home_, file_;
};

// REQUIRES checkpoint_lock, or to be alone; that home is complete up to the checkpoint's point.
Errc DurableDomain::write_changed_pages() noexcept {
  page::ChangedPages &changed = log_->changed();
  for (std::uint32_t segment = 0; segment < storage::kSegmentsMax; ++segment) {
    const std::uint64_t words = changed.words(segment);
    const auto is_changed = [&] {
      for (std::uint64_t i = 0; i < words; ++i)
        if (changed.taken(segment, i) != 0) return true;
      return false;
    };
    if (!is_changed()) continue;
    PageCopies copies(memory_, *log_, segment);
    TMH_TRY(copies.open());
    if (const Errc error = copies.write_pages(
            0, words, [&](std::uint64_t i) { return changed.taken(segment, i); });
        error != Errc::kOk)
      return error;
  }
  platform::step(platform::Step::kCheckpointWritten);
  return Errc::kOk;
}

// REQUIRES as write_changed_pages(), and that `told` is the file of that segment, the first one in
// it. Whatever syncs of the file have lost is written again, but for holes, and what becomes of
// that `told` hears.
Errc DurableDomain::write_all_pages(std::uint32_t segment, platform::DiskFile &told,
                                    Pace pace) noexcept {
  for (std::uint32_t other = segment; other < storage::kSegmentsMax; ++other) {
    const storage::SegmentRecordV1 &record = memory_.control().segments[other];
    if (!storage::is_used(record) || memory_.file_of(other) != segment) continue;
    PageCopies copies(memory_, *log_, other);
    TMH_TRY(copies.open());
    const std::uint64_t pages =
        memory_.segment_size(other).load(std::memory_order_acquire) / kPageBytes;
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
      if (stopping_.load(std::memory_order_relaxed))
        return fail(Errc::kIo, told.path() + ": closed while it was in doubt");
      constexpr std::uint64_t kUnitBytes = 64 * kPageBytes;
      const Errc error = told.write_back_gently(stopping_, record.offset_bytes + i * kUnitBytes,
                                                kSlice * kUnitBytes);
      if (error != Errc::kOk) {
        state().data_syncs.fail(error);
        return error;
      }
    }
  }
  return Errc::kOk;
}

}  // namespace tmh::detail
