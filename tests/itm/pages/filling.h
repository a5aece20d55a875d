// tests/itm/pages/filling.h -- a transaction that stores the same word to each of many pages.
#pragma once

namespace itm::pages {

class Filling {
 public:
  static constexpr long kPageWords = 512, kWords = 4 * 1024 * kPageWords;
  // Before the first thread.
  static void open();
  static void fill(long value);
  // Without a transaction.
  [[nodiscard]] static long first() noexcept;
  [[nodiscard]] static bool is_whole() noexcept;
};

}  // namespace itm::pages
