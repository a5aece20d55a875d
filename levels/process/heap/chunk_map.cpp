// levels/process/heap/chunk_map.cpp -- first fit over a bitmap of atomic words.
#include "levels/process/heap/chunk_map.h"

#include <algorithm>
#include <bit>

#include "levels/process/ground/ground.h"

namespace tmh::itm::pages {

namespace {
constexpr std::uint64_t kClearedOne = std::uint64_t{1} << 32;

[[nodiscard]] std::size_t word_of(std::uint64_t hint) noexcept {
  return static_cast<std::uint32_t>(hint);
}

// Bits [first, end) of the word that has `first`.
[[nodiscard]] std::uint64_t mask_of(std::size_t first, std::size_t end) noexcept {
  TMH_ASSERT(first < end);
  const std::size_t count = std::min(end, (first / 64 + 1) * 64) - first;
  return (~std::uint64_t{0} >> (64 - count)) << (first % 64);
}
}  // namespace

void ChunkMap::start(std::atomic<std::uint64_t> *words, std::size_t chunks) noexcept {
  TMH_ASSERT(words != nullptr && chunks != 0);
  words_ = words;
  chunks_ = chunks;
}

// The next chunk that is used, or is not; chunks_: none.
std::size_t ChunkMap::next(std::size_t from, bool is_used) const noexcept {
  const std::uint64_t flip = is_used ? 0 : ~std::uint64_t{0};
  for (std::size_t word = from / 64; word * 64 < chunks_; ++word) {
    // relaxed: try_set() decides.
    std::uint64_t bits = words_[word].load(std::memory_order_relaxed) ^ flip;
    if (word == from / 64) bits &= ~std::uint64_t{0} << (from % 64);
    if (bits != 0)
      return std::min(chunks_, word * 64 + static_cast<std::size_t>(std::countr_zero(bits)));
  }
  return chunks_;
}

std::size_t ChunkMap::first_free_run(std::size_t from, std::size_t count, std::size_t alignment,
                                     std::size_t phase) const noexcept {
  for (std::size_t first = from;;) {
    first = next(first, false);
    first = ((first + phase + alignment - 1) & ~(alignment - 1)) - phase;
    if (first >= chunks_ || count > chunks_ - first) return kNone;
    const std::size_t end = next(first, true);
    if (end - first >= count) return first;
    first = std::max(end, first + 1);
  }
}

bool ChunkMap::try_set(std::size_t first, std::size_t count) noexcept {
  const std::size_t end = first + count;
  for (std::size_t at = first; at < end; at = (at / 64 + 1) * 64) {
    const std::uint64_t mask = mask_of(at, end);
    // acquire: pairs with the release in clear().
    const std::uint64_t old = words_[at / 64].fetch_or(mask, std::memory_order_acquire);
    if ((old & mask) == 0) continue;
    words_[at / 64].fetch_and(~(mask & ~old), std::memory_order_release);
    clear(first, at - first);
    lower_hint(first / 64);
    return false;
  }
  return true;
}

void ChunkMap::clear(std::size_t first, std::size_t count) noexcept {
  const std::size_t end = first + count;
  for (std::size_t at = first; at < end; at = (at / 64 + 1) * 64)
    words_[at / 64].fetch_and(~mask_of(at, end), std::memory_order_release);
}

std::size_t ChunkMap::take(std::size_t count, std::size_t alignment, std::size_t phase,
                           bool *is_fresh) noexcept {
  TMH_ASSERT(count != 0 && std::has_single_bit(alignment) && phase < alignment);
  for (;;) {
    // acquire: a bit that was cleared before this value was stored is seen cleared.
    std::uint64_t hint = hint_.load(std::memory_order_acquire);
    const std::size_t first = first_free_run(word_of(hint) * 64, count, alignment, phase);
    if (first == kNone) return kNone;
    // All words before have been seen full. A bit that was cleared since has changed the hint.
    if (count == 1 && alignment == 1 && first / 64 > word_of(hint))
      hint_.compare_exchange_strong(hint, (hint - word_of(hint)) + first / 64,
                                    std::memory_order_relaxed, std::memory_order_relaxed);
    if (!try_set(first, count)) continue;
    std::size_t mark = mark_.load(std::memory_order_relaxed);
    while (mark < first + count &&
           !mark_.compare_exchange_weak(mark, first + count, std::memory_order_release,
                                        std::memory_order_relaxed)) {
    }
    *is_fresh = first >= mark;
    TMH_ASSERT(first + count <= chunks_ && (first + phase) % alignment == 0);
    return first;
  }
}

void ChunkMap::give(std::size_t first, std::size_t count) noexcept {
  TMH_ASSERT(count != 0 && first + count <= mark());
  clear(first, count);
  lower_hint(first / 64);
}

void ChunkMap::lower_hint(std::size_t cleared) noexcept {
  std::uint64_t hint = hint_.load(std::memory_order_relaxed), lower;
  do {
    const std::size_t word = std::min(word_of(hint), cleared);
    lower = (hint - word_of(hint)) + kClearedOne + word;
  } while (!hint_.compare_exchange_weak(hint, lower, std::memory_order_release,
                                        std::memory_order_relaxed));
}

std::size_t ChunkMap::used() const noexcept {
  std::size_t used = 0;
  for (std::size_t word = 0; word * 64 < mark(); ++word)
    used += static_cast<std::size_t>(std::popcount(words_[word].load(std::memory_order_relaxed)));
  return used;
}

}  // namespace tmh::itm::pages
