// hierarchy/retry.h -- what a sleeping retry() waits for.
// Shape:     at level 1 the words of the lines that it has read; at level 2 the domain's clock, and which segments it has read; level 1's clock,
//            too, where memory stood in for a page on a full disk.
// Sharing:   of the thread that sleeps. Other threads may unmap and close meanwhile: each look is protected by itself, the sleep is not.
// Source:    Harris, Marlow, Peyton Jones, Herlihy, Composable Memory Transactions, 2005 (retry; blocked for ever is an exception there, too).
#pragma once

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include <tmh/detail/line_access.hpp>

#include "levels/line/line_memory.h"

namespace tmh::detail {

class DomainImpl;

// On std::chrono::steady_clock. What this thread's last retry() was told; taken when its instance ends.
inline constexpr std::int64_t kNoDeadline = std::numeric_limits<std::int64_t>::max();
inline constinit thread_local std::int64_t retry_deadline_ns = kNoDeadline;

// Nobody is woken: a change is seen within a millisecond.
template <class Look>
void sleep_until(Look look, std::int64_t deadline_ns = kNoDeadline) {
  constexpr std::int64_t kPauseNsMin = 20'000, kPauseNsMax = 1'000'000;
  for (std::int64_t pause_ns = kPauseNsMin; !look(); pause_ns = std::min(2 * pause_ns, kPauseNsMax)) {
    std::int64_t wait_ns = pause_ns;
    if (deadline_ns != kNoDeadline) {
      const std::int64_t now_ns = std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
      if (deadline_ns <= now_ns) return;
      wait_ns = std::min(wait_ns, deadline_ns - now_ns);
    }
    const timespec pause{0, wait_ns};
    nanosleep(&pause, nullptr);
  }
}

// What an instance at level 1 has read.
class LineReads {
 public:
  // REQUIRES: this thread is inside (LineUsers), and the instance has been.
  // snapshot: at which all of it was read.
  LineReads(const line::LineMemory &memory, std::span<const LineWord *const> reads, std::uint64_t snapshot);
  // Returns when a line has changed, the domain is closed, or at the deadline. REQUIRES: not inside. Throws Error(kNotMapped): a segment of theirs is
  // unmapped, and nothing in the others has changed.
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

// REQUIRES an instance of level 2 of this thread: notes what it has read for await_change(). Throws Error(kNothingRead).
void note_page_reads_here();
[[noreturn]] void raise_nothing_read();

}  // namespace tmh::detail
