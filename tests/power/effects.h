// tests/power/effects.h -- what a transaction of the power tests does, as bytes that are recorded
// before its end and replayed by the judge.
// Shape:     the world is some raw segments, seen as arrays of words, and a heap with one list per
//            worker. Word 0 of the ledger is G, the number of update transactions committed so far;
//            word 512 + g says which transaction was the g-th. So every state tells by itself which
//            prefix of the commit order it must be.
// Invariant: an Effects never reads the world: replaying those of 1..G in order gives every word.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

namespace tmh::test::power {

inline constexpr std::uint64_t kWordsPerPage = 512;
inline constexpr std::uint32_t kLedger = 0, kData = 1, kBig = 2, kFirstLate = 3, kLateSegments = 3;
inline constexpr std::uint32_t kRawSegments = kFirstLate + kLateSegments;
inline constexpr std::uint64_t kLedgerPages = 49, kDataPages = 64, kDataPagesMax = 192,
                               kBigPages = 96, kLatePages = 4;
inline constexpr std::uint64_t kCommitsMax = (kLedgerPages - 1) * kWordsPerPage - 1;
inline constexpr std::uint32_t kLists = 16;
inline constexpr std::uint64_t kAccounts = 32;  // word 0 of the first data pages; their sum stays 0

struct RawShape {
  std::string name;
  std::uint64_t pages, pages_max;
};
[[nodiscard]] RawShape raw_shape(std::uint32_t segment);

// Content that follows from a seed.
[[nodiscard]] std::uint64_t filler(std::uint64_t seed, std::uint64_t index) noexcept;

struct WordStore {
  std::uint32_t segment, word;
  std::uint64_t value;
};
struct PageFill {  // every word of `pages` pages: filler(seed, word)
  std::uint32_t segment, first_page, pages, reserved_zero;
  std::uint64_t seed;
};
struct ListChange {
  std::uint32_t list;
  std::uint32_t bytes;  // appended node's payload, 0: the oldest node is removed
  std::uint64_t g;
};

struct Effects {
  std::uint64_t id = 0;  // unique among all attempts of a run
  std::uint64_t g = 0;   // place in the commit order, if it commits
  std::vector<WordStore> stores;
  std::vector<PageFill> fills;
  std::vector<ListChange> changes;

  [[nodiscard]] std::vector<std::byte> encode() const;
  [[nodiscard]] static Effects decode(std::span<const std::byte> bytes);
};

// The world after a prefix of the commit order.
class Model {
 public:
  Model();
  void apply(const Effects &effects);
  [[nodiscard]] std::uint64_t g() const noexcept { return words_[kLedger][0]; }
  [[nodiscard]] const std::vector<std::uint64_t> &words(std::uint32_t segment) const {
    return words_[segment];
  }
  [[nodiscard]] const std::deque<ListChange> &list(std::uint32_t index) const {
    return lists_[index];
  }

 private:
  std::vector<std::uint64_t> words_[kRawSegments];
  std::deque<ListChange> lists_[kLists];
};

}  // namespace tmh::test::power
