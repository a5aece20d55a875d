// levels/process/heap/chunk_map.h -- which chunks of the heap are in use: a bit for each.
// Shape:     first fit from the lowest word that may have a free bit. Free neighbours are one free
//            range without more ado.
// Invariant: a chunk whose bit a task has set is that task's to use, or, if it dies, no task's.
// Ordering:  give() releases what the giver did to the chunk's tables; take() acquires it.
// Sharing:   between tasks, without a lock. take() of several chunks takes bits one word after
//            another, and gives them back when another task is faster; a task that looks meanwhile
//            may overlook that room.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tmh::itm::pages {

class ChunkMap {
 public:
  static constexpr std::size_t kNone = ~std::size_t{0};

  [[nodiscard]] static constexpr std::size_t bytes_for(std::size_t chunks) noexcept {
    return (chunks + 63) / 64 * 8;
  }
  // words: zeroed, bytes_for(chunks).
  void start(std::atomic<std::uint64_t> *words, std::size_t chunks) noexcept;

  // The first chunk of `count`, whose number plus `phase` is a multiple of `alignment` (a power of
  // two). is_fresh: none of them has been taken before.
  [[nodiscard]] std::size_t take(std::size_t count, std::size_t alignment, std::size_t phase,
                                 bool *is_fresh) noexcept;
  void give(std::size_t first, std::size_t count) noexcept;
  // Chunks from there on have never been taken.
  [[nodiscard]] std::size_t mark() const noexcept { return mark_.load(std::memory_order_acquire); }
  [[nodiscard]] std::size_t used() const noexcept;

 private:
  [[nodiscard]] std::size_t first_free_run(std::size_t from, std::size_t count,
                                           std::size_t alignment, std::size_t phase) const noexcept;
  [[nodiscard]] std::size_t next(std::size_t from, bool is_used) const noexcept;
  [[nodiscard]] bool try_set(std::size_t first, std::size_t count) noexcept;
  void clear(std::size_t first, std::size_t count) noexcept;
  // A bit of that word was cleared.
  void lower_hint(std::size_t cleared) noexcept;

  std::atomic<std::uint64_t> *words_;
  std::size_t chunks_;
  std::atomic<std::size_t> mark_;
  // The lowest word that may have a free bit, and above it how often a bit was cleared: a taker
  // that raises the word must have seen all of those.
  std::atomic<std::uint64_t> hint_;
};

}  // namespace tmh::itm::pages
