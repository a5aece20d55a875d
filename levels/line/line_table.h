// levels/line/line_table.h -- a set of lines of one attempt, each with a number: open addressing,
// cleared in constant time.
// Contexts:  of one thread. insert() may allocate, but for what reserve() has made room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "platform/assert.h"

namespace tmh::line {

class LineTable {
 public:
  static constexpr std::uint32_t kNone = ~0u;

  void clear() noexcept {
    count_ = 0;
    if (++epoch_ != 0) [[likely]]
      return;
    for (Cell &cell : cells_) cell.epoch = 0;  // after 2^32 attempts
    epoch_ = 1;
  }
  [[nodiscard]] std::uint32_t find(std::uintptr_t key) const noexcept {
    TMH_ASSERT(key % 8 == 0);
    for (std::size_t at = first(key);; at = (at + 1) & mask_) {
      const Cell &cell = cells_[at];
      if (cell.epoch != epoch_) return kNone;
      if (cell.key == key) return cell.value;
    }
  }
  // Room for so many. Throws std::bad_alloc; then the set is as it was.
  void reserve(std::size_t count) {
    while (2 * count > mask_ + 1) [[unlikely]] grow();
  }
  // Throws as reserve() does.
  void insert(std::uintptr_t key, std::uint32_t value) {
    TMH_ASSERT(key % 8 == 0 && value != kNone);
    TMH_ASSERT(find(key) == kNone);
    reserve(count_ + 1);
    ++count_;
    put(key, value);
  }
  [[nodiscard]] std::size_t count() const noexcept { return count_; }

 private:
  struct Cell {
    std::uintptr_t key = 0;
    std::uint32_t epoch = 0;
    std::uint32_t value = 0;
  };
  static constexpr std::size_t kCellsAtFirst = 64;  // 1 KiB

  [[nodiscard]] std::size_t first(std::uintptr_t key) const noexcept {
    // Fibonacci hashing; neighbours spread
    return ((key >> 3) * 0x9e37'79b9'7f4a'7c15ull >> 32) & mask_;
  }
  void put(std::uintptr_t key, std::uint32_t value) noexcept {
    std::size_t at = first(key);
    while (cells_[at].epoch == epoch_) at = (at + 1) & mask_;
    cells_[at] = {key, epoch_, value};
  }
  [[gnu::noinline]] void grow() {
    std::vector<Cell> old(2 * cells_.size());
    old.swap(cells_);
    mask_ = cells_.size() - 1;
    TMH_ASSERT((cells_.size() & mask_) == 0);
    for (const Cell &cell : old) {
      if (cell.epoch == epoch_) put(cell.key, cell.value);
    }
  }

  std::vector<Cell> cells_ = std::vector<Cell>(kCellsAtFirst);
  std::size_t mask_ = kCellsAtFirst - 1;
  std::size_t count_ = 0;
  std::uint32_t epoch_ = 1;
};

}  // namespace tmh::line
