// bench/support/line_work.h -- the work of the line bench: one loop for all contestants, compiled
// once in each of their files.
// Shape:     Memory (a contestant) says how members are accessed (Field), where nodes lie
//            (memory()), and makes a Session per thread whose update(body) and query(body) run a
//            body as one transaction.
// Checked:   content and size at the end of every run; the bank's sum in every query and at the
//            end.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "bench/support/stats.h"
#include "examples/structures/bank.hpp"
#include "examples/structures/hash_set.hpp"
#include "examples/structures/red_black_tree.hpp"
#include "examples/structures/sorted_list.hpp"
#include "platform/assert.h"

namespace tmh::bench {

using structures::HashSet;
using structures::PlainField;
using structures::RedBlackTree;
using structures::SortedList;

enum class LineKind : std::uint8_t { kList, kTree, kHash, kBank };

struct LineWork {
  LineKind kind = LineKind::kList;
  unsigned threads = 1;
  std::uint64_t operations = 0;  // of each thread
  std::uint64_t elements = 0;    // at first, of twice as many keys; bank: accounts
  unsigned update_percent = 20;  // half inserts, half removals; bank: transfers
  std::uint64_t seed = 0;
};

struct LineOutcome {
  double operations_per_us = 0;
  // Of the content at the end; with one thread the same for every contestant.
  std::uint64_t hash = 0;
  std::uint64_t attempts = 0;  // that did not commit; 0 where nobody counts
  std::string wrong;           // empty: the content is right
};

// How a contestant is seen by the bench.
class LineContestant {
 public:
  LineContestant() = default;
  LineContestant(const LineContestant &) = delete;
  LineContestant &operator=(const LineContestant &) = delete;
  virtual ~LineContestant() = default;
  [[nodiscard]] virtual const char *name() const = 0;
  [[nodiscard]] virtual unsigned threads_max() const { return ~0u; }
  // What its numbers must name; empty: its name says all.
  [[nodiscard]] virtual std::string setup() const { return {}; }
  [[nodiscard]] virtual LineOutcome run(const LineWork &work) = 0;
};

[[nodiscard]] std::unique_ptr<LineContestant> make_line_plain();
[[nodiscard]] std::unique_ptr<LineContestant> make_line_mutex();
[[nodiscard]] std::unique_ptr<LineContestant> make_line_itm();      // only where it is built
[[nodiscard]] std::unique_ptr<LineContestant> make_line_tinystm();  // only where it is built
// queries: lookups are told to be queries; false: everything runs as an update.
[[nodiscard]] std::unique_ptr<LineContestant> make_line_software(const std::string &folder,
                                                                 bool queries);

// The same through sites of a hybrid domain: on software lines.
[[nodiscard]] std::unique_ptr<LineContestant> make_line_sites(const std::string &folder);
// In RTM: plain code, or tmh::field. Null where RTM does not work.
[[nodiscard]] std::unique_ptr<LineContestant> make_line_rtm(const std::string &folder,
                                                            bool is_plain);

inline constexpr std::int64_t kLineBalance = 1000;
inline constexpr std::size_t kLineMemoryBytes = 8u << 20;

// Pages of this process, for contestants that need no file.
class LineMemory {
 public:
  std::byte *get(std::size_t bytes) {
    TMH_ASSERT(bytes > 0 && bytes % kAlignment == 0);
    if (bytes_ == nullptr)
      bytes_.reset(static_cast<std::byte *>(std::aligned_alloc(kAlignment, bytes)));
    return bytes_.get();
  }

 private:
  static constexpr std::size_t kAlignment = 4096;
  static_assert(kLineMemoryBytes % kAlignment == 0);
  struct Free {
    void operator()(std::byte *memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> bytes_;
};

// A thread's own nodes: preallocated, recycled, the same way for every contestant.
template <class Node>
class LinePool {
 public:
  LinePool(Node *nodes, std::uint64_t count) {
    TMH_ASSERT(nodes != nullptr || count == 0);
    for (std::uint64_t i = count; i > 0; --i) free_.push_back(nodes + i - 1);
  }
  Node *take() {
    TMH_ASSERT(!is_empty());
    Node *const node = free_.back();
    free_.pop_back();
    return node;
  }
  void put(Node *node) {
    TMH_ASSERT(node != nullptr);
    free_.push_back(node);
  }
  [[nodiscard]] bool is_empty() const { return free_.empty(); }

 private:
  std::vector<Node *> free_;
};

// Threads that start together. Not a template: g++ 12 cannot compile std::thread with -fgnu-tm.
class LineMeeting {
 public:
  explicit LineMeeting(unsigned threads) : threads_(threads) { TMH_ASSERT(threads > 0); }
  void meet() noexcept;
  void leave() noexcept;
  [[nodiscard]] double ns() const noexcept;  // from the start to the last finish

 private:
  unsigned threads_;
  std::atomic<unsigned> ready_{0};
  std::atomic<std::int64_t> start_{0}, finish_{0};
};
using LineBody = void (*)(void *context, unsigned index, LineMeeting &meeting);
double run_line_threads(unsigned threads, LineBody body, void *context);

// body(index, meeting) in each thread; it calls meeting.meet() when it is ready. Returns the
// nanoseconds from there to the last finish.
template <class Body>
double run_line_threads(unsigned threads, Body body) {
  return run_line_threads(
      threads,
      [](void *context, unsigned index, LineMeeting &meeting) {
        (*static_cast<Body *>(context))(index, meeting);
      },
      &body);
}

// Base of a session that runs bodies as they are.
class PlainSession {
 public:
  template <class Body>
  auto update(const Body &body) {
    return body();
  }
  template <class Body>
  auto query(const Body &body) {
    return body();
  }
};

// What every contestant does in a transaction. Bodies are the same, whatever runs them.
template <class Session>
class LineOperations {
 public:
  template <class Set>
  bool contains(const Set &set, std::uint64_t key) {
    return self().query([&] { return set.contains(key); });
  }
  template <class Set>
  bool insert(Set &set, typename Set::Node *node, std::uint64_t key) {
    return self().update([&] { return set.insert(node, key); });
  }
  template <class Set>
  typename Set::Node *remove(Set &set, std::uint64_t key) {
    return self().update([&] { return set.remove(key); });
  }
  template <class Balance>
  std::int64_t sum(const Balance *accounts, std::uint64_t count) {
    return self().query([&] { return structures::sum_of(accounts, count); });
  }
  template <class Balance>
  void transfer(Balance &from, Balance &to, std::int64_t amount) {
    self().update([&] { return structures::move(from, to, amount); });
  }
  template <class Balance>
  void put(Balance &account, std::int64_t amount) {
    self().update([&] { return (account = amount), true; });
  }

 private:
  [[nodiscard]] Session &self() { return static_cast<Session &>(*this); }
};

// Between instances nobody else is there. A domain's memory may be touched inside an instance only.
template <class Memory, class Body>
void run_alone_in(Memory &memory, const Body &body) {
  if constexpr (requires { memory.alone(body); })
    memory.alone(body);
  else
    body();
}

template <class Set, class Memory>
LineOutcome run_line_set(const LineWork &work, Memory &memory) {
  using Node = typename Set::Node;
  std::byte *const base = memory.memory(kLineMemoryBytes);
  run_alone_in(memory, [&] { std::memset(base, 0, kLineMemoryBytes); });
  Set set(base);
  auto *const nodes = reinterpret_cast<Node *>(base + (Set::kHeadBytes + 63) / 64 * 64);
  // Half of all keys are in the set. One thread needs as many nodes as there can be more of them,
  // and one in its hand. Of several one may insert what the others remove, to whom those nodes go:
  // while it has none it removes, too.
  const std::uint64_t keys = 2 * work.elements, per_thread = work.elements + 1;
  TMH_ASSERT(work.elements > 0 && work.threads > 0);
  TMH_ASSERT(reinterpret_cast<std::byte *>(nodes + work.elements + work.threads * per_thread) <=
             base + kLineMemoryBytes);
  {
    auto session = memory.session();
    LinePool<Node> pool(nodes, work.elements);
    Random random(work.seed);
    for (std::uint64_t i = 0; i < work.elements;) {
      Node *const node = pool.take();
      const std::uint64_t key = 1 + random.below(keys);
      if (session.insert(set, node, key)) {
        ++i;
      } else {
        pool.put(node);
      }
    }
  }
  std::vector<std::int64_t> grown(work.threads);
  std::vector<std::uint64_t> found(work.threads), attempts(work.threads);
  const double ns = run_line_threads(work.threads, [&](unsigned index, LineMeeting &meeting) {
    auto session = memory.session();
    LinePool<Node> pool(nodes + work.elements + index * per_thread, per_thread);
    Random random(work.seed + 77 + index);
    std::int64_t growth = 0;
    std::uint64_t hits = 0;
    meeting.meet();
    for (std::uint64_t i = 0; i < work.operations; ++i) {
      const std::uint64_t dice = random.next(), key = 1 + (dice >> 32) % keys;
      if (dice % 100 >= work.update_percent) {
        hits += session.contains(set, key) ? 1u : 0u;
      } else if ((dice >> 20) % 2 == 0 && !pool.is_empty()) {
        Node *const node = pool.take();
        if (session.insert(set, node, key)) {
          ++growth;
        } else {
          pool.put(node);
        }
      } else if (Node *const node = session.remove(set, key); node != nullptr) {
        --growth;
        pool.put(node);
      }
    }
    grown[index] = growth;
    found[index] = hits;
    attempts[index] = session.aborts();
  });
  LineOutcome outcome;
  outcome.operations_per_us = static_cast<double>(work.operations * work.threads) * 1000 / ns;
  ResultHash hash;
  std::int64_t size = 0;
  bool is_right = false;
  run_alone_in(memory, [&] {
    is_right = set.visit([&](std::uint64_t keys_here, std::uint64_t sum) {
      size += static_cast<std::int64_t>(keys_here);
      hash.add(sum);
    });
  });
  if (!is_right) outcome.wrong = "the structure is damaged";
  std::int64_t expected = static_cast<std::int64_t>(work.elements);
  for (unsigned i = 0; i < work.threads; ++i) {
    expected += grown[i];
    hash.add(found[i]);
    outcome.attempts += attempts[i];
  }
  if (outcome.wrong.empty() && size != expected)
    outcome.wrong =
        "it holds " + std::to_string(size) + " keys instead of " + std::to_string(expected);
  outcome.hash = hash.value();
  return outcome;
}

template <class Memory>
LineOutcome run_line_bank(const LineWork &work, Memory &memory) {
  using Balance = typename Memory::template Field<std::int64_t>;
  auto *const accounts = reinterpret_cast<Balance *>(memory.memory(kLineMemoryBytes));
  const std::uint64_t count = work.elements;
  TMH_ASSERT(count > 0 && count * sizeof(Balance) <= kLineMemoryBytes && work.threads > 0);
  for (std::uint64_t i = 0; i < count; ++i) {
    auto session = memory.session();
    session.put(accounts[i], kLineBalance);
  }
  const std::int64_t expected = static_cast<std::int64_t>(count) * kLineBalance;
  std::vector<std::uint64_t> wrong(work.threads), attempts(work.threads);
  const double ns = run_line_threads(work.threads, [&](unsigned index, LineMeeting &meeting) {
    auto session = memory.session();
    Random random(work.seed + index);
    std::uint64_t bad = 0;
    meeting.meet();
    for (std::uint64_t i = 0; i < work.operations; ++i) {
      const std::uint64_t dice = random.next(), from = (dice >> 40) % count,
                          to = (dice >> 20) % count;
      if (dice % 100 >= work.update_percent) {
        bad += session.sum(accounts, count) != expected ? 1u : 0u;
      } else {
        session.transfer(accounts[from], accounts[to], 1);
      }
    }
    wrong[index] = bad;
    attempts[index] = session.aborts();
  });
  LineOutcome outcome;
  outcome.operations_per_us = static_cast<double>(work.operations * work.threads) * 1000 / ns;
  ResultHash hash;
  run_alone_in(memory, [&] {
    for (std::uint64_t i = 0; i < count; ++i)
      hash.add(static_cast<std::uint64_t>(std::int64_t{accounts[i]}));
  });
  outcome.hash = hash.value();
  if (memory.session().sum(accounts, count) != expected) outcome.wrong = "money was lost or made";
  for (unsigned i = 0; i < work.threads; ++i) {
    if (wrong[i] != 0)
      outcome.wrong = std::to_string(wrong[i]) + " queries saw a sum that never was";
    outcome.attempts += attempts[i];
  }
  return outcome;
}

template <class Memory>
LineOutcome run_line_work(const LineWork &work, Memory &memory) {
  switch (work.kind) {
    case LineKind::kList:
      return run_line_set<SortedList<Memory::template Field>>(work, memory);
    case LineKind::kTree:
      return run_line_set<RedBlackTree<Memory::template Field>>(work, memory);
    case LineKind::kHash:
      return run_line_set<HashSet<Memory::template Field>>(work, memory);
    default:
      return run_line_bank(work, memory);
  }
}

}  // namespace tmh::bench
