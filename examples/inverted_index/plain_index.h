// examples/inverted_index/plain_index.h -- the same index by plain serial code in ordinary memory,
// and the comparison.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <tmh/tmh.hpp>

#include "examples/inverted_index/corpus.h"
#include "examples/inverted_index/index.h"

namespace inverted_index {

using PlainIndex = std::map<std::string, std::vector<Posting>, std::less<>>;

// Reads each document whole: knows nothing of slices, batches, shards or transactions. Throws
// std::runtime_error with one sentence, also when a document changed since it was found. `poll` is
// called per document and may throw.
[[nodiscard]] PlainIndex build_plain(const std::vector<Document> &documents,
                                     const std::function<void()> &poll);

struct Comparison {
  std::uint64_t words = 0;  // in the shared index
  std::uint64_t postings = 0;
  std::uint64_t occurrences = 0;  // sum of all counts
  std::uint64_t difference_count = 0;
  std::vector<std::string> first_differences;  // at most kDifferencesMax sentences
};
inline constexpr std::size_t kDifferencesMax = 10;

// Compares every word, document and count, in both directions. REQUIRES: inside an instance (a
// query will do).
[[nodiscard]] Comparison compare(const Index &index, const PlainIndex &plain,
                                 const std::vector<Document> &documents);

}  // namespace inverted_index
