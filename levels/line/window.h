// levels/line/window.h -- the part of a segment that a thread's accesses reach by the short ways,
// which LineAccess describes.
// Invariant: LineAccess::view, home_minus_view and words are those of the window whenever
//            LineAccess::bytes is not 0.
// Contexts:  one thread's. NOT async-signal-safe.
#pragma once

#include <cstdint>

#include <tmh/detail/line_access.hpp>

#include "levels/line/line_memory.h"
#include "platform/set_if_other.h"

namespace tmh::line {

class Window {
 public:
  explicit Window(LineMemory &memory) noexcept : memory_(memory) {}

  // The window stays unless the segment has grown or is another one: looking for its ends costs as
  // much as a small instance. Where loads take blocks it ends before the segment does, and stays
  // all the same. is_open: false: no access takes a short way, as a capacity model counts them.
  void begin(detail::LineAccess &access, bool is_open) noexcept {
    platform::set_if_other(is_open_, is_open);
    const LineSegment *const segment = segment_;
    if (segment == nullptr) [[unlikely]]
      return;
    // As in find().
    const std::uint64_t segment_bytes = segment->bytes.load(std::memory_order_acquire);
    // While it is not mapped, another thread may be mapping it again, and setting the rest.
    const bool is_mapped_still =
        segment_bytes != 0 && segment->mappings.load(std::memory_order_relaxed) == mappings_seen_;
    if (!is_mapped_still || (segment_bytes != bytes_ && !segment->loads_take_blocks)) [[unlikely]]
      return look_again(access);
    platform::set_if_other(access.bytes, is_open ? bytes_ : 0);
    access.last = detail::kNoLine;
  }
  // No access takes a short way before the next begin().
  void shut(detail::LineAccess &access) noexcept {
    access.bytes = 0;
    access.last = detail::kNoLine;
  }
  // Of the line at this offset in the window. REQUIRES: LineAccess::bytes is above it.
  [[nodiscard]] Where where(std::uint64_t offset) const noexcept {
    return Where{static_cast<std::uint64_t>(begin_at_) + offset / kLineBytes * kLineBytes};
  }
  // Of this line of the window.
  [[nodiscard]] LineWord *word(const detail::LineAccess &access,
                               std::uint64_t line) const noexcept {
    return const_cast<LineWord *>(access.words) +
           (segment_->is_process ? process_word_number(line) : line);
  }
  // Has it disk blocks, as far as this thread knows at once? REQUIRES: as where().
  [[nodiscard]] bool has_blocks(std::uint64_t offset) const noexcept {
    return memory_.has_asked_for(*segment_, begin_ + offset);
  }
  // The segment of an address, which is the window's from now on; null: plain memory.
  [[nodiscard]] LineSegment *find(detail::LineAccess &access, std::uintptr_t address) noexcept {
    if (segment_ != nullptr) {
      // acquire: pairs with LineMemory::add_segment() and grow_segment(). Before the rest: it may
      // be mapped again at this moment.
      const std::uint64_t segment_bytes = segment_->bytes.load(std::memory_order_acquire);
      if (segment_bytes != 0 && address - segment_->view < segment_bytes) return segment_;
    }
    LineSegment *segment = memory_.find(address);
    if (segment != nullptr) use(access, *segment, address - segment->view);
    return segment;
  }
  // Where loads take blocks: there is one at this offset, and the window has it. kDiskFull, kIo.
  [[nodiscard]] Errc make_loadable(detail::LineAccess &access, LineSegment &segment,
                                   std::uint64_t offset) noexcept;

 private:
  void open(detail::LineAccess &access) noexcept {
    access.bytes = is_open_ ? bytes_ : 0;
    access.last = detail::kNoLine;
  }
  void use(detail::LineAccess &access, LineSegment &segment, std::uint64_t offset) noexcept;
  void look_again(detail::LineAccess &access) noexcept;

  LineMemory &memory_;
  LineSegment *segment_ = nullptr;
  std::uint32_t mappings_seen_ = 0;  // of the segment, when it was used first
  bool is_open_ = false;
  std::uint64_t begin_ = 0, bytes_ = 0;  // of the window, in the segment
  Where begin_at_{};
};

}  // namespace tmh::line
