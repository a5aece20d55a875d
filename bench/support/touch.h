// bench/support/touch.h -- the page-touch transactions of thesis figures 4-1 and 4-3, and who runs
// them.
// Shape:     a request names one batch of transactions; a reply gives their time and a checksum of
//            what the last one read and wrote. Requests are the same for all variants, so the
//            checksums must be too.
//            pattern  pages of transaction k                 state before the batch
//            hot      the same every time                    fresh view, two warm-up transactions
//            cold     the next ones of a walk through a      kept from the batch before; fresh view
//                     segment much larger than the batch;    when the walk starts again
//                     page cache warm
//            random   drawn from the segment's first         fresh view, warm-up over all of them
//                     `random_pages` pages
// Stores change a word of the page to a value it does not have: writing what is there already would
// cost nothing at commit where pages are compared.
// Source:    thesis, section 4.2.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "bench/support/modes.h"
#include "bench/support/worker.h"

namespace tmh::bench {

enum class Pattern : std::uint8_t { kHot, kCold, kRandom };
// Range: one call for all reads, one for all writes.
enum class Advice : std::uint8_t { kNone, kPerPage, kRange };

[[nodiscard]] const char *to_string(Pattern pattern) noexcept;
[[nodiscard]] const char *to_string(Advice advice) noexcept;

struct Shape {
  std::uint32_t read_pages = 0;
  std::uint32_t write_pages = 0;
  [[nodiscard]] std::uint32_t pages() const noexcept { return read_pages + write_pages; }
  friend auto operator<=>(const Shape &, const Shape &) = default;
};
[[nodiscard]] std::string to_string(Shape shape);

struct TouchRequest {
  std::uint64_t segment_pages = 0;
  std::uint64_t seed = 0;  // of the random pattern; differs from round to round
  std::uint32_t transactions = 0;
  std::uint32_t random_pages = 0;
  Shape shape;
  Pattern pattern = Pattern::kHot;
  Advice advice = Advice::kNone;
  // The file holds only the pages that batches of 32 pages touch (see kSweepBlocks).
  bool sparse = false;
};

struct TouchReply {
  double us_per_transaction = 0;
  std::uint64_t checksum = 0;
  std::uint64_t aborted = 0;  // must be 0: nobody else runs
  double log_bytes_per_transaction = 0;
};

// A sparse segment is touched in this many blocks of consecutive pages, spread evenly over it,
// whatever its size.
inline constexpr std::uint32_t kSweepBlocks = 32;
inline constexpr std::uint32_t kSweepBlockPages = 32;

using TouchWorker = Worker<TouchRequest, TouchReply>;

// Level 2 in one of its modes; `folder` holds the domain and its files.
[[nodiscard]] std::unique_ptr<TouchWorker> start_engine(const Mode &mode,
                                                        const std::string &folder);
// The thesis's mechanism (thesis_mechanism.h).
[[nodiscard]] std::unique_ptr<TouchWorker> start_thesis(const std::string &folder);

}  // namespace tmh::bench
