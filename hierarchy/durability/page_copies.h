// hierarchy/durability/page_copies.h -- domains with separate homes: a checkpoint writes the pages
// that have changed since the last one; all of a file, when no participant that is left can tell
// what became of a dead one's sync (storage/data_syncs.h).
// Shape:     pages are copied from home into a buffer, the log is made durable up to what home can
//            have held then, and the buffer is written to the data file (write-ahead:
//            docs/design.md D2). Commits go on; an image may hold parts of commits behind the
//            checkpoint's point, whose records are replayed over it: words in records are absolute,
//            and the last one of each word wins. Home is right while somebody is attached: who does
//            not trust it cannot run transactions either. A disk that loses pages of home, too,
//            while they are in use is beyond this.
// Source:    docs/design.md D2, D3, D6; ARIES (fuzzy page images, write-ahead rule).
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <tmh/error.hpp>

#include "levels/page/redo/redo.h"
#include "levels/page/shared/shared.h"
#include "platform/assert.h"
#include "platform/disk.h"
#include "platform/try.h"

namespace tmh::detail {

// Copies of one segment's pages on their way to its data file. Home is read as a file: this process
// need not have the segment open. A read may find half of a word that a commit is storing. Such a
// commit lies behind the checkpoint's point: its record brings the whole word.
class PageCopies {
 public:
  PageCopies(page::SharedState &memory, page::DurableLog &log, std::uint32_t segment) noexcept
      : memory_(memory), log_(log), segment_(segment) {}

  [[nodiscard]] Errc open() noexcept;
  // Of pages 64 * first up to 64 * end: those that bits_of(i) says of pages 64 * i and following.
  template <class BitsOf>
  [[nodiscard]] Errc write_pages(std::uint64_t first, std::uint64_t end,
                                 const BitsOf &bits_of) noexcept {
    TMH_ASSERT(first <= end);
    for (std::uint64_t i = first; i < end; ++i) {
      for (std::uint64_t bits = bits_of(i); bits != 0; bits &= bits - 1) {
        const std::uint64_t index = 64 * i + static_cast<std::uint64_t>(std::countr_zero(bits));
        TMH_TRY(add(index));
      }
    }
    return write();
  }
  [[nodiscard]] bool is_hole(std::uint64_t index, std::uint64_t pages) const noexcept;

 private:
  [[nodiscard]] const storage::SegmentRecordV1 &record() const noexcept {
    return memory_.control().segments[segment_];
  }
  [[nodiscard]] Errc add(std::uint64_t index) noexcept;
  [[nodiscard]] Errc write() noexcept;
  [[nodiscard]] Errc flush_before_write() noexcept;

  // One flush of the log and a few large writes per megabyte; a flush with nothing to write is a
  // few loads.
  static constexpr std::size_t kBufferPages = 256;

  page::SharedState &memory_;
  page::DurableLog &log_;
  const std::uint32_t segment_;
  std::unique_ptr<std::byte[]> bytes_;
  // Of the pages in bytes_.
  std::array<std::uint64_t, kBufferPages> indexes_;
  std::size_t count_ = 0;
  platform::DiskFile home_, file_;
};

// How fast a data file is written back.
enum class Pace : std::uint8_t { kAtOnce, kGentle };

// These REQUIRE checkpoint_lock, or that no other participant has the domain open; and that home is
// complete up to the checkpoint's point.
[[nodiscard]] Errc write_changed_pages(page::SharedState &memory, page::DurableLog &log) noexcept;
// Whatever syncs of the file have lost is written again, but for holes, and what becomes of that
// `told` hears. told: the file of that segment, the first one in it.
[[nodiscard]] Errc write_all_pages(page::SharedState &memory, page::DurableLog &log,
                                   std::uint32_t segment, platform::DiskFile &told, Pace pace,
                                   const std::atomic<bool> &is_stopping) noexcept;

}  // namespace tmh::detail
