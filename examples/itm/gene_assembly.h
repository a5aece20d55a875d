// examples/itm/gene_assembly.h -- what gene_assembly.cpp drives; gene_assembly_transactions.cpp
// defines it.
#pragma once

#include <cstdint>

namespace itm {

// Bases of a segment, two bits each: the first one is the highest.
__extension__ using Bases = unsigned __int128;
inline constexpr std::uint64_t kSegmentMax = 64;

// A segment that is there once. Between phases of the program, and after them, plain memory.
struct Segment {
  Bases bases;
  // In its bucket of the set of segments.
  Segment *next;
  // In its bucket of starts.
  Segment *next_start;
  // What follows it in the gene; how many bases both share.
  Segment *successor;
  std::uint64_t overlap;
  std::uint64_t has_predecessor;
};

// Before any thread works: powers of two.
void segments_open(std::uint64_t set_buckets, std::uint64_t start_buckets);
// Frees all segments.
void segments_close();

// One transaction each.
// Puts segments into the set, unless they are there; returns how many were new.
std::uint64_t add_segments(const Bases *segments, std::uint64_t count);
// Copies the pointers of a bucket's segments, at most `count`; returns how many there are.
std::uint64_t read_bucket(std::uint64_t bucket, Segment **segments, std::uint64_t count);
// Puts a segment that no other precedes into the bucket of its first `overlap` bases.
void add_start(Segment *segment, std::uint64_t length, std::uint64_t overlap);
// Links the segment to one of the starts whose first `overlap` bases are its last ones.
bool link(Segment *segment, std::uint64_t length, std::uint64_t overlap);
void empty_starts(std::uint64_t first_bucket, std::uint64_t last_bucket);
[[nodiscard]] bool lacks_predecessor(const Segment *segment);

}  // namespace itm
