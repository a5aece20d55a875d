// examples/inverted_index/index.cpp -- lays out the work, and adds a unit's words to a shard.
#include "examples/inverted_index/index.h"

#include <algorithm>
#include <tuple>

namespace inverted_index {
namespace {

// Cuts the documents into batches. At most one slice of a document lies in a batch.
void cut_into_batches(Index &index, const std::vector<Document> &documents,
                      std::uint64_t batch_bytes) {
  std::uint64_t room_bytes = 0;
  for (std::size_t d = 0; d < documents.size(); ++d) {
    for (std::uint64_t first = 0; first < documents[d].bytes;) {
      if (room_bytes == 0) {
        index.batches.push_back({static_cast<std::uint32_t>(index.slices.size()), 0});
        room_bytes = batch_bytes;
      }
      const std::uint64_t end = std::min(first + room_bytes, documents[d].bytes);
      index.slices.push_back({static_cast<std::uint32_t>(d), 0, first, end});
      ++index.batches.back().slice_count;
      room_bytes -= end - first;
      first = end;
    }
  }
}

void add_posting(Postings &postings, Posting posting) {
  // Nearly always at the back: lanes hold every n-th batch, so workers move through the documents
  // together.
  const auto at = std::lower_bound(
      postings.begin(), postings.end(), posting.document,
      [](const Posting &p, std::uint32_t document) { return p.document < document; });
  if (at != postings.end() && at->document == posting.document) {
    at->count += posting.count;
  } else {
    postings.insert(at, posting);
  }
}

}  // namespace

std::uint64_t batch_bytes_for(std::uint64_t text_bytes) noexcept {
  // Below 2 KiB a transaction costs more than its words. Above 128 KiB little is gained: README.md,
  // "How the work is cut".
  return std::clamp<std::uint64_t>(text_bytes / 64, std::uint64_t{2} << 10,
                                   std::uint64_t{128} << 10);
}

void prepare(const tmh::Domain &domain, Index &index, const std::vector<Document> &documents,
             const Cut &cut) {
  tmh::atomically(domain, [&] {
    index.documents.reserve(documents.size());
    for (const Document &document : documents)
      index.documents.emplace_back(document.path, document.bytes);
    cut_into_batches(index, documents, cut.batch_bytes);

    // Never more lanes than batches: an empty lane is only a page to look at.
    const std::size_t lane_count =
        std::min<std::size_t>(cut.lane_count, std::max<std::size_t>(index.batches.size(), 1));
    index.lanes.resize(lane_count);
    for (std::size_t b = 0; b < index.batches.size(); ++b)
      index.lanes[b % lane_count].unit_count += cut.shard_count;

    index.shards.reserve(cut.shard_count);
    for (std::uint32_t s = 0; s < cut.shard_count; ++s) index.shards.emplace_back();
  });
}

std::size_t shard_of(std::string_view word, std::size_t shard_count) noexcept {
  std::uint64_t hash = 0xcbf2'9ce4'8422'2325;
  for (const char byte : word) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100'0000'01b3;
  // The low bits of FNV-1a are its weakest.
  return static_cast<std::size_t>((hash >> 32) % shard_count);
}

Unit unit_at(std::size_t lane, std::uint64_t unit, std::size_t lane_count,
             std::size_t shard_count) noexcept {
  const auto batch_of_lane = static_cast<std::size_t>(unit / shard_count);
  return {lane + batch_of_lane * lane_count, static_cast<std::size_t>((unit + lane) % shard_count)};
}

void merge(Shard &shard, const std::vector<WordCount> &counts) {
  auto at = shard.words.end();
  for (const WordCount &count : counts) {
    if (at == shard.words.end() || std::string_view(at->first) != count.word) {
      at = shard.words.lower_bound(std::string_view(count.word));
      if (at == shard.words.end() || std::string_view(at->first) != count.word) {
        at = shard.words.emplace_hint(at, std::piecewise_construct,
                                      std::forward_as_tuple(std::string_view(count.word)),
                                      std::forward_as_tuple());
      }
    }
    add_posting(at->second, count.posting);
  }
}

Progress progress_of(const Index &index) noexcept {
  Progress progress;
  for (const Lane &lane : index.lanes) {
    progress.units_done += lane.next_unit;
    progress.units_total += lane.unit_count;
  }
  return progress;
}

}  // namespace inverted_index
