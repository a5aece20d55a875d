// tests/support/structure_play.cpp -- the transactions and their invariants.
#include "tests/support/structure_play.h"

#include <set>

namespace tmh::test {

namespace {
constexpr std::uint64_t kNodesOffset = 1024;  // behind the largest head or table of accounts
constexpr std::uint64_t kHugeOffset = 16 * kPageBytes;
}  // namespace

StructurePlay::StructurePlay(Structure structure, Player &player, const Segment &segment,
                             StructureTotals *totals, std::uint32_t worker, std::uint64_t seed)
    : structure_(structure),
      player_(player),
      base_(segment.data()),
      totals_(totals),
      random_(seed) {
  static_assert(Hash::kHeadBytes <= kNodesOffset && Tree::kHeadBytes <= kNodesOffset);
  static_assert(kStructureKeys * sizeof(field<std::int64_t>) <= kNodesOffset);
  static_assert(kNodesOffset + kStructureWorkersMax * kNodesPerWorker * sizeof(Node) <=
                kHugeOffset);
  auto *const nodes = reinterpret_cast<Node *>(base_ + kNodesOffset) + worker * kNodesPerWorker;
  for (std::uint64_t i = 0; i < kNodesPerWorker; ++i) free_.push_back(nodes + i);
}

void StructurePlay::expect(bool holds, const char *what) {
  if (holds) return;
  totals_->broken.fetch_add(1);
  totals_->what.store(what);
}

field<std::uint64_t> &StructurePlay::huge_word(std::uint64_t page) const {
  return *reinterpret_cast<field<std::uint64_t> *>(base_ + kHugeOffset + page * kPageBytes);
}

// call(set, member of Node): the same code for the three sets.
template <class Call>
auto StructurePlay::with_set(const Call &call) {
  if (structure_ == Structure::kList) {
    List set(base_);
    return call(set, [](Node *node) { return &node->list; });
  }
  if (structure_ == Structure::kTree) {
    Tree set(base_);
    return call(set, [](Node *node) { return &node->tree; });
  }
  Hash set(base_);
  return call(set, [](Node *node) { return &node->hash; });
}

void StructurePlay::set_up() {
  if (is_set()) return;
  player_.update([&] {
    for (std::uint64_t i = 0; i < kStructureKeys; ++i) {
      accounts()[i] = kStructureBalance;
      player_.write(i, static_cast<std::uint64_t>(kStructureBalance));
    }
  });
}

void StructurePlay::step() {
  const std::uint64_t dice = pick(16);
  if (dice == 0) return player_.query([&] { check_all(); });
  if (structure_ == Structure::kMixed && dice < 3) return huge();
  if (!is_set()) return transfer(dice == 3);
  const std::uint64_t key = 1 + pick(kStructureKeys);
  if (dice < 6) return look_up(key);
  change(key, dice % 2 == 0);
}

void StructurePlay::look_up(std::uint64_t key) {
  player_.query([&] {
    const bool is_there = player_.read(key - 1) != 0;
    expect(with_set([&](auto &set, const auto &) { return set.contains(key); }) == is_there,
           "a look-up");
  });
}

// One look at everything in eight: with the instance's own stores in it.
void StructurePlay::change(std::uint64_t key, bool insert) {
  if (insert && free_.empty()) return look_up(key);
  const bool looks_at_all = pick(8) == 0;
  Node *freed = nullptr;
  bool changed = false;
  player_.update([&] {
    const bool is_there = player_.read(key - 1) != 0;
    freed = nullptr;
    changed = insert != is_there;
    if (changed) player_.write(key - 1, insert ? 1 : 0);
    with_set([&](auto &set, const auto &member) {
      if (insert) {
        expect(set.insert(member(free_.back()), key) == changed, "an insertion");
      } else {
        freed = reinterpret_cast<Node *>(set.remove(key));
        expect((freed != nullptr) == changed, "a removal");
      }
    });
    if (looks_at_all) check_all();
  });
  if (!changed) return;
  totals_->net[key - 1].fetch_add(insert ? 1 : -1);
  if (insert) {
    free_.pop_back();
  } else if (freed != nullptr) {
    free_.push_back(freed);
  }
}

void StructurePlay::transfer(bool looks_at_all) {
  const std::uint64_t from = pick(kStructureKeys),
                      to = (from + 1 + pick(kStructureKeys - 1)) % kStructureKeys;
  const auto amount = static_cast<std::int64_t>(1 + pick(20));
  player_.update([&] {
    const auto from_before = static_cast<std::int64_t>(player_.read(from));
    const auto to_before = static_cast<std::int64_t>(player_.read(to));
    expect(accounts()[from] == from_before && accounts()[to] == to_before, "a balance");
    structures::move(accounts()[from], accounts()[to], amount);
    player_.write(from, static_cast<std::uint64_t>(from_before - amount));
    player_.write(to, static_cast<std::uint64_t>(to_before + amount));
    if (looks_at_all) check_bank();
  });
}

// Touches every page of the table; the small ones' accounts, too.
void StructurePlay::huge() {
  player_.update([&] {
    check_huge();
    for (std::uint64_t page = 0; page < kHugePages; ++page) ++huge_word(page);
    const std::uint64_t cell = 0;
    player_.write(cell, player_.read(cell));
    check_huge();
  });
  totals_->huge_commits.fetch_add(1);
}

void StructurePlay::check_huge() {
  const std::uint64_t first = huge_word(0);
  bool same = true;
  for (std::uint64_t page = 1; page < kHugePages; ++page) same = same && huge_word(page) == first;
  expect(same, "the words of the huge instances");
}

void StructurePlay::check_bank() {
  bool same = true;
  for (std::uint64_t i = 0; i < kStructureKeys; ++i)
    same = same && static_cast<std::int64_t>(player_.read(i)) == accounts()[i];
  expect(same, "the balances");
  const std::int64_t sum = structures::sum_of(accounts(), kStructureKeys);
  expect(sum == kStructureBalance * static_cast<std::int64_t>(kStructureKeys), "the accounts' sum");
}

void StructurePlay::check_all() {
  if (!is_set()) {
    check_bank();
    if (structure_ == Structure::kMixed) check_huge();
    return;
  }
  std::uint64_t listed = 0, sum = 0, found = 0, found_sum = 0;
  for (std::uint64_t key = 1; key <= kStructureKeys; ++key) {
    if (player_.read(key - 1) == 0) continue;
    ++listed;
    sum += key;
  }
  const bool is_whole = with_set([&](auto &set, const auto &) {
    return set.visit([&](std::uint64_t keys, std::uint64_t keys_sum) {
      found += keys;
      found_sum += keys_sum;
    });
  });
  expect(is_whole, "the structure's own invariants");
  expect(found == listed && found_sum == sum, "the structure's content");
}

void StructurePlay::audit() {
  player_.query([&] {
    check_all();
    if (structure_ == Structure::kMixed)
      expect(huge_word(0) == totals_->huge_commits.load(), "the number of huge instances");
    if (!is_set()) return;
    std::set<std::uint64_t> committed, held;
    for (std::uint64_t key = 1; key <= kStructureKeys; ++key) {
      const std::int64_t net = totals_->net[key - 1].load();
      expect(net == 0 || net == 1, "a key's insertions and removals");
      if (net == 1) committed.insert(key);
      if (with_set([&](auto &set, const auto &) { return set.contains(key); })) held.insert(key);
    }
    expect(held == committed, "what was committed");
  });
}

}  // namespace tmh::test
