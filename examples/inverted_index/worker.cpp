// examples/inverted_index/worker.cpp -- takes units from the lanes and adds their words to the
// index.
// Shape:     read and count a batch in ordinary memory; then one transaction per shard: check that
//            the unit is still the lane's next, add its counts, advance the lane.
// Invariant: a unit is counted once: whoever commits first advances the lane, everybody else sees
//            that and takes the next.
// Sharing:   a kill at any instruction loses only what this process has in its own memory.
#include "examples/inverted_index/worker.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

#include "examples/inverted_index/index.h"
#include "examples/inverted_index/ledger.h"
#include "examples/inverted_index/signals.h"
#include "examples/inverted_index/words.h"

namespace inverted_index {
namespace {

constexpr std::size_t kNoBatch = static_cast<std::size_t>(-1);

class Worker {
 public:
  Worker(const tmh::Domain &domain, Index &index, const Ledger &ledger)
      : domain_(domain), index_(index), ledger_(ledger) {
    tmh::query(domain_, [&] {
      lane_count_ = index_.lanes.size();
      counts_.resize(index_.shards.size());
    });
  }

  // Own lanes first, then everybody's: workers meet only near the end.
  void run(std::uint32_t slot, std::uint32_t worker_count) {
    const std::size_t first = lane_count_ * slot / worker_count;
    for (std::size_t n = 0; n < lane_count_; ++n) drain((first + n) % lane_count_);
  }

 private:
  void drain(std::size_t lane_index) {
    std::uint64_t unit_count = 0;
    std::uint64_t unit = tmh::query(domain_, [&] {
      const Lane &lane = index_.lanes[lane_index];
      unit_count = lane.unit_count;
      return lane.next_unit;
    });
    while (unit < unit_count) {
      const Unit place = unit_at(lane_index, unit, lane_count_, counts_.size());
      if (place.batch != batch_in_hand_) count_words(place.batch);
      const std::vector<WordCount> &counts = counts_[place.shard];
      unit = tmh::atomically(domain_, [&] {
        Lane &lane = index_.lanes[lane_index];
        // Somebody else has done it.
        if (lane.next_unit != unit) return std::uint64_t{lane.next_unit};
        merge(index_.shards[place.shard], counts);
        return ++lane.next_unit;
      });
      // In a strict domain it is durable now, whoever has done it.
      ledger_.acknowledge(lane_index, unit);
    }
  }

  // Fills counts_ with the words of a batch, outside any transaction: reading files and counting
  // conflicts with nobody.
  void count_words(std::size_t batch_index) {
    struct Piece {
      Slice slice;
      std::string path;
      std::uint64_t file_bytes;
    };
    const std::vector<Piece> pieces = tmh::query(domain_, [&] {
      std::vector<Piece> copies;
      const Batch &batch = index_.batches[batch_index];
      for (std::uint32_t n = 0; n < batch.slice_count; ++n) {
        const Slice &slice = index_.slices[batch.first_slice + n];
        const IndexedDocument &document = index_.documents[slice.document];
        copies.push_back(
            {slice, std::string(document.path.data(), document.path.size()), document.bytes});
      }
      return copies;
    });
    for (auto &counts : counts_) counts.clear();
    for (const Piece &piece : pieces) {
      const Excerpt excerpt =
          read_excerpt(piece.path, piece.slice.first, piece.slice.end, piece.file_bytes);
      std::unordered_map<std::string, std::uint32_t> words;
      each_word(own_text(excerpt), [&](std::string_view word) { ++words[std::string(word)]; });
      for (const auto &[word, count] : words) {
        counts_[shard_of(word, counts_.size())].push_back({word, {piece.slice.document, count}});
      }
    }
    // In the map's order: neighbours in the map share pages of the path to them, and a page counts
    // once.
    for (auto &counts : counts_) {
      std::sort(counts.begin(), counts.end(), [](const WordCount &a, const WordCount &b) {
        return a.word != b.word ? a.word < b.word : a.posting.document < b.posting.document;
      });
    }
    batch_in_hand_ = batch_index;
  }

  const tmh::Domain &domain_;
  Index &index_;
  const Ledger &ledger_;
  std::size_t lane_count_ = 0;
  std::size_t batch_in_hand_ = kNoBatch;
  std::vector<std::vector<WordCount>> counts_;  // by shard
};

}  // namespace

void run_worker(const Options &options) {
  die_with(options.parent);
  const Ledger ledger(options.ledger);
  const auto slot = static_cast<std::uint32_t>(options.worker_slot);
  tmh::Domain domain = tmh::Domain::open(options.domain_folder,
                                         domain_options(options, fmt::format("worker-{}", slot)));
  const tmh::Segment segment = domain.map(kSegmentFile);
  Worker(domain, *segment.root<Index>(kRootName), ledger).run(slot, options.workers);
  domain.close();
}

}  // namespace inverted_index
