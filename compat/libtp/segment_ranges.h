// compat/libtp/segment_ranges.h -- where a process has the environment's segments: asked before
// each record of bytes.
// Sharing:   threads: lies_within() by all, without a lock; add() by one at a time. A range stays:
//            the environment keeps its segments mapped.
// Contexts:  NOT async-signal-safe.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include <tmh/domain.hpp>

#include "platform/assert.h"
#include "storage/page_id.h"

namespace tmh::tp {

class SegmentRanges {
 public:
  // Relocatable ones are left out: an address there means nothing to others.
  void add(const Segment &segment) {
    if (segment.is_relocatable()) return;
    const std::size_t count = count_.load(std::memory_order_relaxed);
    TMH_ASSERT(count < ranges_.size());
    ranges_[count].segment = segment;
    ranges_[count].begin = reinterpret_cast<std::uintptr_t>(segment.data());
    ranges_[count].bytes.store(segment.size_bytes(), std::memory_order_relaxed);
    // release: pairs with lies_within()
    count_.store(count + 1, std::memory_order_release);
  }
  // Do the bytes lie in one of them?
  [[nodiscard]] bool lies_within(const void *address, std::size_t bytes) const {
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    const std::size_t count = count_.load(std::memory_order_acquire);
    for (std::size_t i = 0; i < count; ++i)
      if (at >= ranges_[i].begin && at - ranges_[i].begin < ranges_[i].segment.max_bytes())
        return ranges_[i].holds(at - ranges_[i].begin, bytes);
    return false;
  }

 private:
  struct Range {
    Segment segment;
    std::uintptr_t begin = 0;
    mutable std::atomic<std::uint64_t> bytes{0};

    [[nodiscard]] bool holds(std::uint64_t offset, std::uint64_t wanted) const {
      const auto is_held = [&](std::uint64_t all) {
        return wanted <= all && offset <= all - wanted;
      };
      if (is_held(bytes.load(std::memory_order_relaxed))) return true;
      // It has grown, perhaps.
      bytes.store(segment.size_bytes(), std::memory_order_relaxed);
      return is_held(bytes.load(std::memory_order_relaxed));
    }
  };

  // As many as a domain may have.
  std::array<Range, storage::kSegmentsMax> ranges_;
  std::atomic<std::size_t> count_{0};
};

}  // namespace tmh::tp
