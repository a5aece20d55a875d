// tests/support/structure_play.h -- random transactions on a bank, a list, a red-black tree, a hash
// set or a mix of small and huge work, each tied to the recorded history.
// Shape:     the structures of examples/structures/ in a raw segment, on tmh::field: one body at
//            every level. Beside a structure the board's cells say what is in it: cell k belongs to
//            key k + 1, or to account k. Whoever looks at or changes a key reads or writes its cell
//            in the same instance, so the history checker judges the structure's transactions.
// Invariant: in every instance, those that abort included: (1) the structure holds what the cells
//            say. (2) it is whole: sorted; red-black with one black height; keys in their buckets;
//            the accounts' sum is what it was; a huge instance's words are all the same.
// Caveat:    what breaks one of them is counted, not thrown: a FAILED instance's exception would be
//            swallowed with it.
#pragma once

#include <atomic>
#include <cstdint>
#include <random>
#include <vector>

#include <tmh/field.hpp>

#include "examples/structures/bank.hpp"
#include "examples/structures/hash_set.hpp"
#include "examples/structures/red_black_tree.hpp"
#include "examples/structures/sorted_list.hpp"
#include "tests/support/board.h"

namespace tmh::test {

enum class Structure : std::uint8_t { kBank, kList, kTree, kHash, kMixed };
inline constexpr const char *kStructureNames[] = {"Bank", "List", "Tree", "Hash", "Mixed"};

// Keys are 1 to this; accounts 0 to one less.
inline constexpr std::uint64_t kStructureKeys = Board::kCells;
inline constexpr std::int64_t kStructureBalance = 1000;
inline constexpr std::uint64_t kHugePages = 48;
inline constexpr std::uint32_t kStructureWorkersMax = 4;

// What all workers of a run have in common, in shared memory.
struct StructureTotals {
  std::atomic<std::int64_t> net[kStructureKeys];  // committed insertions less removals, by key
  std::atomic<std::uint64_t> huge_commits;
  std::atomic<std::uint64_t> broken;  // instances that saw an invariant broken
  // One of these (a literal: the same address in forked children).
  std::atomic<const char *> what;
};

class StructurePlay {
 public:
  // The raw segment that the structures lie in; the same one for all workers.
  static constexpr std::uint64_t kSegmentBytes = (kHugePages + 16) * kPageBytes;

  StructurePlay(Structure structure, Player &player, const Segment &segment,
                StructureTotals *totals, std::uint32_t worker, std::uint64_t seed);

  void set_up();  // the first worker, alone
  void step();    // one random transaction, until it commits
  // One query that asserts every invariant, and compares with what was committed (std::set).
  void audit();

 private:
  using List = structures::SortedList<field>;
  using Tree = structures::RedBlackTree<field>;
  using Hash = structures::HashSet<field, 8>;
  union Node {  // one pool for all of them
    List::Node list;
    Tree::Node tree;
    Hash::Node hash;
  };
  static constexpr std::uint64_t kNodesPerWorker = kStructureKeys + 1;

  std::uint64_t pick(std::uint64_t count) { return random_() % count; }
  void expect(bool holds, const char *what);
  template <class Call>
  auto with_set(const Call &call);
  void look_up(std::uint64_t key);
  void change(std::uint64_t key, bool insert);
  void transfer(bool looks_at_all);
  void huge();
  void check_all();
  void check_bank();
  void check_huge();
  [[nodiscard]] field<std::int64_t> *accounts() const {
    return reinterpret_cast<field<std::int64_t> *>(base_);
  }
  [[nodiscard]] field<std::uint64_t> &huge_word(std::uint64_t page) const;
  [[nodiscard]] bool is_set() const noexcept {
    return structure_ == Structure::kList || structure_ == Structure::kTree ||
           structure_ == Structure::kHash;
  }

  const Structure structure_;
  Player &player_;
  std::byte *const base_;
  StructureTotals *const totals_;
  std::mt19937_64 random_;
  std::vector<Node *> free_;  // of this worker
};

}  // namespace tmh::test
