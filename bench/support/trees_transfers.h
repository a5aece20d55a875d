// bench/support/trees_transfers.h -- how many blocks a search moves, for blocks of several sizes at
// once: the model of thesis 5.1.
// Shape:     the trees run with TracedKey; each comparison tells where the stored key lies. A
//            BlockCache for each block size, least recently used out first, counts what is not
//            there.
// Source:    thesis, sections 5.1 and 6.1 item 6.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <unordered_map>
#include <vector>

#include "platform/assert.h"

namespace tmh::bench {

// A key that tells of its comparisons. One thread. Nothing is noted while tracer() is null.
struct TracedKey {
  std::uint64_t value;
  [[nodiscard]] static std::vector<const void *> *&tracer() noexcept {
    static std::vector<const void *> *current = nullptr;
    return current;
  }
  friend bool operator<(const TracedKey &a, const TracedKey &b) noexcept {
    if (auto *trace = tracer()) {
      trace->push_back(&a);
      trace->push_back(&b);
    }
    return a.value < b.value;
  }
};

static_assert(sizeof(TracedKey) == sizeof(std::uint64_t), "as large as the key that it traces");

class BlockCache {
 public:
  BlockCache(std::uint64_t block_bytes, std::uint64_t memory_bytes)
      : block_bytes_(block_bytes), blocks_max_(memory_bytes / block_bytes) {
    TMH_ASSERT(blocks_max_ > 0);
  }
  void touch(std::uint64_t place);
  [[nodiscard]] std::uint64_t block_bytes() const noexcept { return block_bytes_; }
  [[nodiscard]] std::uint64_t transfers() const noexcept { return transfers_; }
  void forget_transfers() noexcept { transfers_ = 0; }

 private:
  std::uint64_t block_bytes_, blocks_max_, transfers_ = 0;
  std::list<std::uint64_t> newest_first_;
  std::unordered_map<std::uint64_t, std::list<std::uint64_t>::iterator> held_;
};

// Where the pages of a mapping really lie: a page that shows its file is at its offset there; a
// private copy is somewhere else, next to nothing. Read once from /proc/self/pagemap.
class PagePlaces {
 public:
  PagePlaces(const std::byte *data, std::uint64_t bytes);
  [[nodiscard]] bool contains(const void *address) const noexcept;
  // Distinct bytes have distinct places; neighbours in a page, or in the file, are neighbours.
  [[nodiscard]] std::uint64_t place(const void *address) const noexcept;
  [[nodiscard]] double private_share() const noexcept;  // of the pages that are in memory

 private:
  const std::byte *data_;
  std::uint64_t bytes_, pages_present_ = 0, pages_private_ = 0;
  std::vector<bool> is_private_;
};

}  // namespace tmh::bench
