// examples/itm/gene_assembly_transactions.cpp -- two tables with chains: the set of segments, and
// those segments by their first bases that nothing precedes yet.
#include "examples/itm/gene_assembly.h"

#include <bit>
#include <cstdlib>

#include "examples/itm/support/section.h"

namespace itm {

namespace {

struct Table {
  Segment **buckets;
  std::uint64_t count;
};
// All workers read it, none writes it while they work.
alignas(128) Table segments, starts;

Table make_table(std::uint64_t count) {
  auto *const buckets = static_cast<Segment **>(std::calloc(count, sizeof(Segment *)));
  if (buckets == nullptr) std::abort();
  return {buckets, count};
}
std::uint64_t bucket_of(Bases bases, const Table &table) {
  const auto low = static_cast<std::uint64_t>(bases),
             high = static_cast<std::uint64_t>(bases >> 64);
  std::uint64_t hash = (low ^ (high * 0xff51'afd7'ed55'8ccdULL)) * 0x9e37'79b9'7f4a'7c15ULL;
  hash ^= hash >> 32;
  return hash & (table.count - 1);
}
Bases first_bases(Bases bases, std::uint64_t length, std::uint64_t count) {
  return bases >> (2 * (length - count));
}
// REQUIRES: count is below kSegmentMax.
Bases last_bases(Bases bases, std::uint64_t count) {
  return bases & ((Bases{1} << (2 * count)) - 1);
}

bool add_segment(const Table &table, Bases bases) {
  Segment **const bucket = table.buckets + bucket_of(bases, table);
  Segment *const first = *bucket;
  for (const Segment *each = first; each != nullptr; each = each->next) {
    if (each->bases == bases) return false;
  }
  auto *const fresh = static_cast<Segment *>(std::malloc(sizeof(Segment)));
  fresh->bases = bases;
  fresh->next = first;
  fresh->next_start = nullptr;
  fresh->successor = nullptr;
  fresh->overlap = 0;
  fresh->has_predecessor = 0;
  *bucket = fresh;
  return true;
}

}  // namespace

void segments_open(std::uint64_t set_buckets, std::uint64_t start_buckets) {
  segments = make_table(set_buckets);
  starts = make_table(start_buckets);
}
void segments_close() {
  for (std::uint64_t i = 0; i < segments.count; ++i) {
    for (Segment *each = segments.buckets[i]; each != nullptr;) {
      Segment *const next = each->next;
      std::free(each);
      each = next;
    }
  }
  std::free(segments.buckets);
  std::free(starts.buckets);
}

std::uint64_t add_segments(const Bases *bases, std::uint64_t count) {
  const Table table = segments;
  return atomically([&] {
    std::uint64_t fresh = 0;
    for (std::uint64_t i = 0; i < count; ++i) fresh += add_segment(table, bases[i]) ? 1u : 0u;
    return fresh;
  });
}
std::uint64_t read_bucket(std::uint64_t bucket, Segment **copies, std::uint64_t count) {
  Segment **const first = segments.buckets + bucket;
  return atomically([&] {
    std::uint64_t found = 0;
    for (Segment *each = *first; each != nullptr; each = each->next) {
      if (found < count) copies[found] = each;
      ++found;
    }
    return found;
  });
}
void add_start(Segment *segment, std::uint64_t length, std::uint64_t overlap) {
  // No worker writes the bases of a segment that is in the set.
  Segment **const bucket =
      starts.buckets + bucket_of(first_bases(segment->bases, length, overlap), starts);
  atomically([&] {
    segment->next_start = *bucket;
    *bucket = segment;
  });
}
bool link(Segment *segment, std::uint64_t length, std::uint64_t overlap) {
  const Bases end = last_bases(segment->bases, overlap);
  Segment **const first = starts.buckets + bucket_of(end, starts);
  return atomically([&] {
    for (Segment *each = *first; each != nullptr; each = each->next_start) {
      if (each == segment || each->has_predecessor != 0) continue;
      if (first_bases(each->bases, length, overlap) != end) continue;
      each->has_predecessor = 1;
      segment->successor = each;
      segment->overlap = overlap;
      return true;
    }
    return false;
  });
}
void empty_starts(std::uint64_t first_bucket, std::uint64_t last_bucket) {
  // Few at once: a transaction that empties all would be as large as the table.
  constexpr std::uint64_t kBuckets = 64;
  Segment **const buckets = starts.buckets;
  for (std::uint64_t from = first_bucket; from < last_bucket; from += kBuckets) {
    atomically([&] {
      const std::uint64_t to = from + kBuckets < last_bucket ? from + kBuckets : last_bucket;
      for (std::uint64_t i = from; i < to; ++i) {
        if (buckets[i] != nullptr) buckets[i] = nullptr;
      }
    });
  }
}
bool lacks_predecessor(const Segment *segment) {
  return atomically([&] { return segment->has_predecessor == 0; });
}

}  // namespace itm
