// hierarchy/threads/mapped_segments.h -- which segments this process has mapped, and where: what
// its threads need to know of them.
// Sharing:   threads: all may ask; add() and remove() by one at a time. mutex_ is taken last.
// Contexts:  NOT async-signal-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "levels/page/page.h"

namespace tmh::detail {

struct MappedSegment {
  std::uint32_t number = 0;
  std::byte *base = nullptr;
  std::uint64_t max_bytes = 0;
};

class MappedSegments {
 public:
  MappedSegments() = default;
  MappedSegments(const MappedSegments &) = delete;
  MappedSegments &operator=(const MappedSegments &) = delete;

  // For one more. Throws std::bad_alloc.
  void reserve();
  // REQUIRES reserve() before.
  void add(const MappedSegment &segment) noexcept;
  void remove(std::uint32_t number) noexcept;
  // The domain closes: the epoch stays.
  void forget_all() noexcept;

  // Changes with what is mapped.
  [[nodiscard]] std::uint64_t epoch() const noexcept {
    return epoch_.load(std::memory_order_acquire);
  }
  // Throws std::bad_alloc.
  [[nodiscard]] std::vector<MappedSegment> all() const;
  [[nodiscard]] bool holds(std::uintptr_t address) const noexcept;
  [[nodiscard]] bool have(const page::SegmentSet &wanted) const noexcept;

 private:
  mutable std::mutex mutex_;
  std::vector<MappedSegment> mapped_;
  // Release after a change of mapped_.
  std::atomic<std::uint64_t> epoch_{0};
};

}  // namespace tmh::detail
