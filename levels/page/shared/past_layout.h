// levels/page/shared/past_layout.h -- what DomainState says about the past: how much of it is
// wanted, the before-images that hold it, names, and which clock value belongs to which time.
// Shape:     a before-image is a version slot whose stamp has kPastBit: the lines of its page as
//            they were at home before the version stamped so went there. It hangs in its page's
//            chain (PageMeta::past, VersionHead::older and ::newer, by stamp), and in one list of
//            the domain, in the order in which they were made. `kept` is the list of those of which
//            only named moments and running queries of the past have need.
// Ordering:  all of it is read and written under DomainState::lock, but for the atomics that tools
//            read.
// Sharing:   death of the lock's holder: slots say what they are, and Past::repair() links them.
// Source:    docs/history.md.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tmh::page {

inline constexpr std::uint64_t kPastBit = 1ull << 63;
inline constexpr std::size_t kSamplesMax = 512;
inline constexpr std::size_t kNamedMax = 64;
inline constexpr std::size_t kNameBytes = 48;

// At that time the clock said so.
struct PastSample {
  std::uint64_t clock;  // 0: none; stored last
  std::uint64_t wall_ns;
  std::uint64_t monotonic_ns;
};

struct PastName {
  std::uint64_t clock;  // 0: free; stored last
  std::uint64_t wall_ns;
  char name[kNameBytes];
};
static_assert(sizeof(PastName) == 64);

struct alignas(64) PastState {
  // What participants have asked for, the most that any did. slots: 0: there is no history.
  std::uint64_t history_ns;
  std::atomic<std::uint64_t> history_slots;
  // With a history: every moment from here on is held.
  std::atomic<std::uint64_t> horizon;
  // Before-images, those in `kept` too.
  std::atomic<std::uint64_t> count;
  std::uint32_t oldest, newest;
  std::uint32_t kept;
  std::uint32_t named_count;
  // A query of the past runs, or ran lately.
  std::uint32_t may_have_readers;
  // Something in `kept` has perhaps lost what needed it.
  std::atomic<std::uint32_t> is_stale;
  std::uint32_t sample_count;
  // Before-images in the list `kept`.
  std::uint32_t kept_count;
  alignas(64) std::uint64_t sample_period_ns;
  std::uint64_t sampled_ns;
  std::uint64_t reserved2_zero[6];
  PastSample samples[kSamplesMax];
  PastName names[kNamedMax];
};
static_assert(sizeof(PastState) == 128 + kSamplesMax * 24 + kNamedMax * 64);

}  // namespace tmh::page
