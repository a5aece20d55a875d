// bench/support/snapshots_arrays.h -- a bank of many accounts and a sorted list as plain serial
// code in memory that the caller gives; what the snapshots bench does to them.
// Shape:     a step is one instance: read() of those for which is_query() is true, update() of the
//            others. Results are the same whatever runs the step.
//            Bank  balances side by side, 8 bytes each: a transfer, or the sum of all.
//            List  nodes a line apart: a lookup, an insert of a free node of the caller's, a
//                  removal.
// Isolation: serializable or snapshot. A transfer changes all that it reads. A removal changes the
//            node that leaves the list, too: so two removals of neighbours conflict, and so do a
//            removal and an insert behind the removed node.
// Contexts:  every call inside one instance. Included by code that is compiled with -fgnu-tm.
// Source:    EXCITE-VM, section 6.1 (both, from the paper on SI-STM).
#pragma once

#include <cstddef>
#include <cstdint>

#include "examples/structures/bank.hpp"
#include "examples/structures/sorted_list.hpp"

namespace tmh::bench {

struct BankStep {
  bool sums;
  std::uint64_t from, to;
  std::int64_t amount;
  [[nodiscard]] bool is_query() const noexcept { return sums; }
};

// One function for whoever sums: where the compiler puts the loop decides whether a round of it
// takes one cycle or two.
[[gnu::noinline, gnu::aligned(64)]] inline std::int64_t sum_of_balances(
    const std::int64_t *balances, std::uint64_t count) {
  return structures::sum_of(balances, count);
}

class Bank {
 public:
  using Step = BankStep;
  static constexpr bool kIsFlat = true;
  static constexpr std::int64_t kBalance = 1000;
  [[nodiscard]] static std::uint64_t bytes(std::uint64_t accounts, unsigned) {
    return accounts * sizeof(std::int64_t);
  }
  Bank(std::byte *memory, std::uint64_t accounts)
      : balances_(reinterpret_cast<std::int64_t *>(memory)), accounts_(accounts) {}

  static constexpr std::uint64_t kPortion = 65'536;
  void fill(std::uint64_t accounts, std::uint64_t portion) {
    for (std::uint64_t i = portion * kPortion; i < accounts && i < (portion + 1) * kPortion; ++i)
      balances_[i] = kBalance;
  }
  [[nodiscard]] std::uint64_t read(const Step &) const {
    return static_cast<std::uint64_t>(sum_of_balances(balances_, accounts_));
  }
  std::uint64_t update(const Step &step) {
    return structures::move(balances_[step.from], balances_[step.to], step.amount) ? 1 : 0;
  }
  // Of the content; 0: it is not what steps leave.
  [[nodiscard]] std::uint64_t fingerprint() const {
    std::uint64_t mixed = 1;
    for (std::uint64_t i = 0; i < accounts_; ++i)
      mixed = mixed * 0x100000001b3ULL + static_cast<std::uint64_t>(balances_[i]);
    const std::int64_t due = kBalance * static_cast<std::int64_t>(accounts_);
    return structures::sum_of(balances_, accounts_) == due ? mixed | 1 : 0;
  }

 private:
  std::int64_t *balances_;
  std::uint64_t accounts_;
};

enum class ListAct : std::uint8_t { kContains, kInsert, kRemove };
struct ListStep {
  ListAct act;
  std::uint64_t key;
  std::uint64_t free_node;  // of an insert
  [[nodiscard]] bool is_query() const noexcept { return act == ListAct::kContains; }
};

class List {
 public:
  using Step = ListStep;
  static constexpr bool kIsFlat = true;
  // Keys are of [1, kKeysPerElement * elements]; the even ones are there at first.
  static constexpr std::uint64_t kKeysPerElement = 2;
  // The nodes that a worker has at first; it may insert every key.
  [[nodiscard]] static std::uint64_t first_node(std::uint64_t elements, unsigned worker) {
    return elements * (1 + kKeysPerElement * worker);
  }
  [[nodiscard]] static std::uint64_t bytes(std::uint64_t elements, unsigned workers) {
    return kLine * (1 + first_node(elements, workers));
  }
  List(std::byte *memory, std::uint64_t) : memory_(memory), list_(memory) {}

  static constexpr std::uint64_t kPortion = 1'000;
  void fill(std::uint64_t elements, std::uint64_t portion) {
    for (std::uint64_t i = portion * kPortion; i < elements && i < (portion + 1) * kPortion; ++i)
      list_.insert(node(i), kKeysPerElement * (i + 1));
  }
  [[nodiscard]] std::uint64_t read(const Step &step) const {
    return list_.contains(step.key) ? 1 : 0;
  }
  // Insert: 1, or 0: it was there. Removal: 1 + the node that is free now; 0: it was not there.
  std::uint64_t update(const Step &step) {
    if (step.act == ListAct::kInsert) return list_.insert(node(step.free_node), step.key) ? 1 : 0;
    Node *const removed = list_.remove(step.key);
    if (removed == nullptr) return 0;
    removed->next = removed;  // see Isolation above
    return 1 + number_of(removed);
  }
  [[nodiscard]] std::uint64_t fingerprint() const {
    std::uint64_t mixed = 1;
    const bool is_sorted = list_.visit(
        [&](std::uint64_t, std::uint64_t key) { mixed = mixed * 0x100000001b3ULL + key; });
    return is_sorted ? mixed | 1 : 0;
  }

 private:
  using Sorted = structures::SortedList<structures::PlainField>;
  using Node = Sorted::Node;
  static constexpr std::uint64_t kLine = 64;
  static_assert(sizeof(Node) <= kLine && Sorted::kHeadBytes <= kLine, "each has a line");
  [[nodiscard]] Node *node(std::uint64_t number) const {
    return reinterpret_cast<Node *>(memory_ + kLine * (1 + number));
  }
  [[nodiscard]] std::uint64_t number_of(const Node *node) const {
    return static_cast<std::uint64_t>(reinterpret_cast<const std::byte *>(node) - memory_) / kLine -
           1;
  }
  std::byte *memory_;
  Sorted list_;
};

}  // namespace tmh::bench
