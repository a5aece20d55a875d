// hierarchy/transaction/line_reads.h -- what an instance at level 1 has read, for a retry() that
// sleeps until it changes.
// Sharing:   of the thread that sleeps. Other threads may unmap and close meanwhile: each look is
//            protected by itself, the sleep is not.
// Contexts:  NOT async-signal-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <tmh/detail/line_access.hpp>

#include "levels/line/line_memory.h"

namespace tmh::detail {

class DomainImpl;

class LineReads {
 public:
  // REQUIRES: this thread is inside (LineUsers), and the instance has been.
  // snapshot: at which all of it was read.
  LineReads(const line::LineMemory &memory, std::span<const LineWord *const> reads,
            std::uint64_t snapshot);
  // Returns when a line has changed, the domain is closed, or at the deadline. REQUIRES: not
  // inside. Throws Error(kNotMapped): a segment of theirs is unmapped, and nothing in the others
  // has changed.
  void await_change(DomainImpl &domain, std::int64_t deadline_ns) const;

 private:
  // Those of one segment, as it was mapped when they were read.
  struct OfSegment {
    const line::LineSegment *segment;
    std::uint32_t mapping;
    std::vector<const LineWord *> reads;
    [[nodiscard]] bool holds(const LineWord *word) const noexcept;
    [[nodiscard]] bool is_mapped() const noexcept;
    [[nodiscard]] bool is_changed(std::uint64_t snapshot) const noexcept;
  };
  [[nodiscard]] OfSegment &of_segment(const line::LineMemory &memory, const LineWord *word);

  std::vector<OfSegment> segments_;
  std::uint64_t snapshot_;
};

}  // namespace tmh::detail
