// tests/itm/pages/bank.cpp -- compiled with -fgnu-tm.
#include "tests/itm/pages/bank.h"

#include <cstdlib>

#include "tests/itm/pages/waiting.h"

namespace itm::pages {

namespace {

struct Account {
  long balance;
  long unused[15];
};
struct Node {
  long number, opposite;
  Node *next;
};
struct List {
  Node *first;
  long nodes;
  long unused[6];
};
struct Count {
  long done;
  long unused[7];
};

constexpr int kHalf = Bank::kAccounts / 2;
constexpr long kNodesMost = 64, kNodesMax = 100'000;
Account in_data[kHalf];
Account *in_heap;
List lists[Bank::kLists];
Count counts[16];
long zero;
long *nowhere;

inline Account &account(int index) {
  return index < kHalf ? in_data[index] : in_heap[index - kHalf];
}

inline bool is_torn(const Node &node) { return node.opposite != ~node.number; }

[[gnu::transaction_safe]] void add_node(List &list, long number) {
  // Blocks of several sizes, so that nodes lie in several spans.
  const auto bytes = sizeof(Node) + static_cast<unsigned long>(number % 7) * 32;
  Node *const node = static_cast<Node *>(std::malloc(bytes));
  node->number = number;
  node->opposite = ~number;
  node->next = list.first;
  list.first = node;
  list.nodes += 1;
}

[[gnu::transaction_safe]] long take_node(List &list) {
  Node *const node = list.first;
  const long number = is_torn(*node) ? 0 : node->number;
  list.first = node->next;
  list.nodes -= 1;
  std::free(node);
  return number;
}

[[gnu::transaction_safe]] Bank::Report add_up() {
  Bank::Report report{};
  for (int i = 0; i < Bank::kAccounts; ++i) report.sum += account(i).balance;
  for (int i = 0; i < Bank::kLists; ++i) {
    report.counted += lists[i].nodes;
    long nodes = 0;
    for (const Node *node = lists[i].first; node != nullptr && nodes < kNodesMax;
         node = node->next) {
      ++nodes;
      if (is_torn(*node)) report.torn += 1;
    }
    report.nodes += nodes;
  }
  return report;
}

}  // namespace

void Bank::open() {
  in_heap = static_cast<Account *>(std::calloc(kHalf, sizeof(Account)));
  if (in_heap == nullptr) std::abort();
  for (int i = 0; i < kAccounts; ++i) account(i).balance = kSum / kAccounts;
}

void Bank::transfer(int worker, int from, int to, long amount) {
  __transaction_atomic {
    account(from).balance -= amount;
    account(to).balance += amount;
    counts[worker].done += 1;
  }
}

long Bank::change_list(int worker, int list, long number) {
  long result = number;
  __transaction_atomic {
    List &own = lists[list];
    // Longer lists shrink more often than shorter ones.
    if (number % kNodesMost < own.nodes) {
      result = take_node(own);
    } else {
      add_node(own, number);
    }
    counts[worker].done += 1;
  }
  return result;
}

void Bank::die_half_done(int worker, int from, int to, long amount, int list, long number,
                         Death death) {
  __transaction_atomic {
    List &own = lists[list];
    account(from).balance -= amount;
    counts[worker].done += 1;
    if (own.nodes != 0) {
      // Its number changes without the rest.
      own.first->number = number;
      if (number % 2 != 0) take_node(own);
    }
    add_node(own, number);
    own.nodes += 5;
    if (death == Death::kAccess) *nowhere = number;
    if (death == Death::kDivision) account(to).balance = number / zero;
    if (death == Death::kAbort) std::abort();
    if (death == Death::kTrap) trap();
    if (death == Death::kRaise) raise_abort();
    if (death == Death::kAssertion) fail_assertion();
    account(to).balance += amount;
  }
}

Bank::Report Bank::look() {
  Report report{};
  __transaction_atomic { report = add_up(); }
  return report;
}

Bank::Report Bank::look_plainly() { return add_up(); }

long Bank::done_by(int worker) { return counts[worker].done; }

}  // namespace itm::pages
