// bench/support/sets_work.h -- the work of the sets bench: one loop for all contestants, compiled
// once in each of their files.
// Shape:     the set is full at first. An update removes a key in one transaction, and adds it
//            again in the next; a lookup asks for two keys in two transactions. So a set keeps its
//            size, and each operation is two transactions.
//            Memory (a contestant) says how members are accessed (Field), makes a Session for each
//            thread, and gives a fresh head(). Its Session runs bodies as update(body) or
//            query(body), and in them has allocate() and deallocate().
// Nodes:     allocated and freed in the transaction that adds or removes; or each thread keeps
//            those that it has removed. A B-tree makes its nodes, and gives none back.
// Checked:   content and size at the end of every run.
// Source:    2PLSF (its benchmarks: full sets, pairs).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "bench/support/clock.h"
#include "bench/support/line_work.h"
#include "examples/structures/b_tree.hpp"
#include "examples/structures/skip_list.hpp"
#include "platform/assert.h"

namespace tmh::bench {

using structures::BTree;
using structures::SkipList;

enum class SetKind : std::uint8_t { kHash, kList, kTree, kBTree, kSkip };

struct SetWork {
  SetKind kind = SetKind::kHash;
  unsigned threads = 1;
  std::uint64_t operations = 0;  // of each thread
  std::uint64_t elements = 0;
  unsigned update_percent = 20;
  bool allocates = true;
  std::size_t alignment = 64;  // of nodes
  // The last thread does not do these, but sums so many keys that follow each other; 0: as all.
  std::uint64_t range = 0;
  std::uint64_t seed = 0;
};

struct SetOutcome {
  double transactions_per_us = 0;
  double ranges_per_us = 0;
  std::uint64_t hash = 0;          // of what was found; with one thread the same for all
  std::uint64_t page_commits = 0;  // of tmh: instances that ran at pages
  std::string wrong;               // empty: the content is right
};

class SetContestant {
 public:
  SetContestant() = default;
  SetContestant(const SetContestant &) = delete;
  SetContestant &operator=(const SetContestant &) = delete;
  virtual ~SetContestant() = default;
  [[nodiscard]] virtual const char *name() const = 0;
  [[nodiscard]] virtual unsigned threads_max() const { return ~0u; }
  [[nodiscard]] virtual bool aligns() const { return true; }  // SetWork::alignment
  [[nodiscard]] virtual SetOutcome run(const SetWork &work) = 0;
};
[[nodiscard]] std::unique_ptr<SetContestant> make_sets_plain();
[[nodiscard]] std::unique_ptr<SetContestant> make_sets_tmh(const std::string &folder);
[[nodiscard]] std::unique_ptr<SetContestant> make_sets_itm();      // only where it is built
[[nodiscard]] std::unique_ptr<SetContestant> make_sets_tinystm();  // only where it is built
[[nodiscard]] std::unique_ptr<SetContestant> make_sets_2plsf();    // only where it is built

// `processes` of them, each with one thread: rates of all together. The set is in `folder`.
[[nodiscard]] SetOutcome run_sets_in_processes(const std::string &folder, const SetWork &work,
                                               unsigned processes);

// Does it take its nodes from whoever calls?
template <class Set>
inline constexpr bool kTakesNodes = requires(Set set, typename Set::Node *node) {
  set.insert(node, std::uint64_t{});
};
template <class Set>
inline constexpr bool kHasRanges = requires(const Set set) {
  set.sum_from(std::uint64_t{}, std::uint64_t{});
};

// Memory of the process for a set's head.
class SetHead {
 public:
  // Of a whole line on.
  std::byte *zeros(std::size_t bytes) {
    TMH_ASSERT(bytes > 0);
    bytes_.assign(bytes + 64, std::byte{});
    return bytes_.data() + (-reinterpret_cast<std::uintptr_t>(bytes_.data()) & 63);
  }

 private:
  std::vector<std::byte> bytes_;
};

// What every contestant does in a transaction. Bodies are the same, whatever runs them.
template <class Session>
class SetOperations {
 public:
  template <class Set>
  bool contains(const Set &set, std::uint64_t key) {
    return self().query([&] { return set.contains(key); });
  }
  template <class Set>
  std::uint64_t sum_from(const Set &set, std::uint64_t key, std::uint64_t count) {
    return self().query([&] { return set.sum_from(key, count); });
  }
  // alignment: of the nodes that it makes.
  template <class Set>
  bool add(Set &set, std::uint64_t key, std::size_t alignment) {
    using Node = typename Set::Node;
    return self().update([&] {
      const auto make = [&] {
        return static_cast<Node *>(self().allocate(sizeof(Node), alignment));
      };
      if constexpr (kTakesNodes<Set>) {
        Node *const node = make();
        if (set.insert(node, key)) return true;
        self().deallocate(node, sizeof(Node), alignment);
        return false;
      } else {
        return set.insert(key, make);
      }
    });
  }
  template <class Set>
  bool take(Set &set, std::uint64_t key, std::size_t alignment) {
    using Node = typename Set::Node;
    return self().update([&] {
      if constexpr (kTakesNodes<Set>) {
        Node *const node = set.remove(key);
        if (node == nullptr) return false;
        self().deallocate(node, sizeof(Node), alignment);
        return true;
      } else {
        return set.remove(key);
      }
    });
  }
  template <class Set>
  bool insert(Set &set, typename Set::Node *node, std::uint64_t key) {
    return self().update([&] { return set.insert(node, key); });
  }
  template <class Set>
  typename Set::Node *remove(Set &set, std::uint64_t key) {
    return self().update([&] { return set.remove(key); });
  }

 private:
  [[nodiscard]] Session &self() { return static_cast<Session &>(*this); }
};

template <class Set, class Session>
void fill_set(const SetWork &work, Set &set, Session &session) {
  for (std::uint64_t key = 1; key <= work.elements; ++key) session.add(set, key, work.alignment);
}

// One thread's. Returns how many keys were found.
template <class Set, class Session>
std::uint64_t use_set(const SetWork &work, Set &set, Session &session, std::uint64_t seed) {
  TMH_ASSERT(work.elements > 0 && work.update_percent <= 100);
  Random random(seed);
  std::uint64_t found = 0;
  const auto any_key = [&] { return 1 + random.below(work.elements); };
  for (std::uint64_t i = 0; i < work.operations; ++i) {
    if (random.below(100) >= work.update_percent) {
      found += session.contains(set, any_key()) ? 1U : 0U;
      found += session.contains(set, any_key()) ? 1U : 0U;
      continue;
    }
    const std::uint64_t key = any_key();
    if constexpr (kTakesNodes<Set>) {
      if (!work.allocates) {
        if (auto *const node = session.remove(set, key); node != nullptr)
          found += session.insert(set, node, key) ? 1U : 0U;
        continue;
      }
    }
    if (session.take(set, key, work.alignment))
      found += session.add(set, key, work.alignment) ? 1U : 0U;
  }
  return found;
}

// Nobody else is there. Empty: the set is as it was when it was full.
template <class Set>
std::string what_is_wrong(const SetWork &work, const Set &set) {
  std::uint64_t keys = 0, sum = 0;
  if (!set.visit([&](std::uint64_t count, std::uint64_t sum_of_keys) {
        keys += count;
        sum += sum_of_keys;
      }))
    return "the structure is damaged";
  if (keys != work.elements || sum != work.elements * (work.elements + 1) / 2)
    return "it holds " + std::to_string(keys) + " keys instead of " + std::to_string(work.elements);
  return {};
}

template <class Set, class Memory>
SetOutcome run_set(const SetWork &work, Memory &memory) {
  Set set(memory.head(Set::kHeadBytes));
  {
    auto session = memory.session();
    fill_set(work, set, session);
  }
  TMH_ASSERT(work.threads > 0 && work.elements > 0);
  // Of a range's threads the last one does nothing else.
  TMH_ASSERT(work.range == 0 || (kHasRanges<Set> && work.threads > 1));
  std::vector<std::uint64_t> found(work.threads);
  std::atomic<unsigned> busy{work.threads - 1};
  SetOutcome outcome;
  std::uint64_t ranges = 0;
  double ranges_ns = 1;
  const double ns = run_line_threads(work.threads, [&](unsigned index, LineMeeting &meeting) {
    auto session = memory.session();
    meeting.meet();
    if constexpr (kHasRanges<Set>) {
      if (work.range != 0 && index + 1 == work.threads) {
        Random random(work.seed + index);
        const std::int64_t start = now_ns();
        for (; busy.load(std::memory_order_relaxed) != 0; ++ranges)
          found[index] += session.sum_from(set, 1 + random.below(work.elements), work.range);
        ranges_ns = static_cast<double>(now_ns() - start);
        return;
      }
    }
    found[index] = use_set(work, set, session, work.seed + 77 + index);
    busy.fetch_sub(1, std::memory_order_relaxed);
  });
  const unsigned updaters = work.range != 0 ? work.threads - 1 : work.threads;
  outcome.transactions_per_us = static_cast<double>(2 * work.operations * updaters) * 1000 / ns;
  outcome.ranges_per_us = static_cast<double>(ranges) * 1000 / ranges_ns;
  ResultHash hash;
  if (work.range == 0)
    for (const std::uint64_t each : found) hash.add(each);
  outcome.hash = hash.value();
  run_alone_in(memory, [&] { outcome.wrong = what_is_wrong(work, set); });
  return outcome;
}

// Set with this kind of fields; hands it to run(set type).
template <template <class> class Field, class Run>
auto with_set(SetKind kind, const Run &run) {
  switch (kind) {
    case SetKind::kHash:
      return run(std::type_identity<HashSet<Field>>{});
    case SetKind::kList:
      return run(std::type_identity<SortedList<Field>>{});
    case SetKind::kTree:
      return run(std::type_identity<RedBlackTree<Field>>{});
    case SetKind::kBTree:
      return run(std::type_identity<BTree<Field>>{});
    default:
      return run(std::type_identity<SkipList<Field>>{});
  }
}
template <class Memory>
SetOutcome run_set_work(const SetWork &work, Memory &memory) {
  return with_set<Memory::template Field>(
      work.kind, [&]<class Set>(std::type_identity<Set>) { return run_set<Set>(work, memory); });
}

}  // namespace tmh::bench
