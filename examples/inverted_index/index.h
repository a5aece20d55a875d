// examples/inverted_index/index.h -- the inverted index and the queue of work, both in one heap
// segment of a domain.
// Shape:     ordinary std::map, std::vector and std::basic_string with tmh::allocator; nothing in
//            them knows of transactions. Root "inverted index" -> Index.
// Invariant: a unit of work (one batch of text, one shard) has its counts in the shard exactly when
//            its lane's next_unit lies beyond it: both change in one transaction, so a killed
//            worker leaves both or neither.
// Sharing:   between processes. Documents, slices and batches are written once, before the first
//            worker starts.
// Contexts:  every access REQUIRES a running instance.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <scoped_allocator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tmh/tmh.hpp>

#include "examples/inverted_index/corpus.h"

namespace inverted_index {

template <class T>
using Scoped = std::scoped_allocator_adaptor<tmh::allocator<T>>;
using Text = std::basic_string<char, std::char_traits<char>, tmh::allocator<char>>;

struct Posting {
  std::uint32_t document = 0;
  std::uint32_t count = 0;
  friend constexpr bool operator==(const Posting &, const Posting &) noexcept = default;
};
using Postings = std::vector<Posting, tmh::allocator<Posting>>;  // sorted by document
using WordMap = std::map<Text, Postings, std::less<>, Scoped<std::pair<const Text, Postings>>>;

// One part of the index: the words whose hash falls to it. On a page of its own, because a page is
// what conflicts: two workers in two shards would otherwise fail each other over the maps' root
// pointers.
struct alignas(tmh::kPageBytes) Shard {
  using allocator_type = tmh::allocator<std::byte>;
  explicit Shard(const allocator_type &allocator) : words(allocator) {}
  Shard(Shard &&other, const allocator_type &allocator)
      : words(std::move(other.words), allocator) {}
  WordMap words;
};

// A part [first, end) of one document; a word belongs to the slice in which it begins.
struct Slice {
  std::uint32_t document = 0;
  std::uint32_t reserved_zero = 0;
  std::uint64_t first = 0;
  std::uint64_t end = 0;
};

// Consecutive slices, batch_bytes of text together: small files share one, large files have
// several.
struct Batch {
  std::uint32_t first_slice = 0;
  std::uint32_t slice_count = 0;
};

// A queue of units. Lane l of n holds the batches l, l + n, l + 2n, ...; each batch is one unit per
// shard. On a page of its own, because every transaction advances one.
struct alignas(tmh::kPageBytes) Lane {
  std::uint64_t next_unit = 0;
  std::uint64_t unit_count = 0;
};

struct IndexedDocument {
  using allocator_type = tmh::allocator<std::byte>;
  IndexedDocument(std::string_view from, std::uint64_t size_bytes, const allocator_type &allocator)
      : path(from, allocator), bytes(size_bytes) {}
  IndexedDocument(IndexedDocument &&other, const allocator_type &allocator)
      : path(std::move(other.path), allocator), bytes(other.bytes) {}
  Text path;
  std::uint64_t bytes;
};

struct Index {
  using allocator_type = tmh::allocator<std::byte>;
  explicit Index(const allocator_type &allocator)
      : documents(allocator),
        slices(allocator),
        batches(allocator),
        lanes(allocator),
        shards(allocator) {}
  std::vector<IndexedDocument, Scoped<IndexedDocument>> documents;
  std::vector<Slice, tmh::allocator<Slice>> slices;
  std::vector<Batch, tmh::allocator<Batch>> batches;
  std::vector<Lane, tmh::allocator<Lane>> lanes;
  std::vector<Shard, Scoped<Shard>> shards;
};

inline constexpr const char *kSegmentFile = "index.tmh";
inline constexpr const char *kRootName = "inverted index";

// How the work is cut. The defaults were measured: see README.md.
struct Cut {
  std::uint64_t batch_bytes = 0;  // 0: batch_bytes_for(the text)
  std::uint32_t shard_count = 16;
  std::uint32_t lane_count = 32;
};

// A 64th of the text, so that several workers find batches of their own in small inputs, but at
// most 128 KiB.
[[nodiscard]] std::uint64_t batch_bytes_for(std::uint64_t text_bytes) noexcept;

// Fills an empty index with its documents, its queue and its empty shards, in one transaction.
void prepare(const tmh::Domain &domain, Index &index, const std::vector<Document> &documents,
             const Cut &cut);

// FNV-1a: the same in every process and build, which std::hash does not promise.
[[nodiscard]] std::size_t shard_of(std::string_view word, std::size_t shard_count) noexcept;

// The batch and the shard of a lane's unit. Lanes begin their batches at different shards, so that
// workers that start together do not meet.
struct Unit {
  std::size_t batch = 0;
  std::size_t shard = 0;
};
[[nodiscard]] Unit unit_at(std::size_t lane, std::uint64_t unit, std::size_t lane_count,
                           std::size_t shard_count) noexcept;

// Words of one shard found in one batch, sorted by word, then document.
struct WordCount {
  std::string word;
  Posting posting;
};

// Adds the counts to the shard. REQUIRES: inside an instance; sorted.
void merge(Shard &shard, const std::vector<WordCount> &counts);

struct Progress {
  std::uint64_t units_done = 0;
  std::uint64_t units_total = 0;
};
// REQUIRES: inside an instance (a query will do).
[[nodiscard]] Progress progress_of(const Index &index) noexcept;

}  // namespace inverted_index
