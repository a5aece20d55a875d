// tests/itm/pages/bank.h -- accounts and lists, half in static data, half in the heap.
// Invariant: (1) the sum of all accounts does not change.
//            (2) a list has as many nodes as it says; each node is whole.
//            (3) done_by(worker) counts the worker's committed transactions.
#pragma once

namespace itm::pages {

class Bank {
 public:
  static constexpr int kAccounts = 256;
  static constexpr int kLists = 4;
  static constexpr long kSum = kAccounts * 1000l;

  // Before there are threads.
  static void open();

  static void transfer(int worker, int from, int to, long amount);
  // Adds a node of this number, or takes one away. The node's number; 0: the node was torn.
  static long change_list(int worker, int list, long number);

  enum class Death { kAccess, kDivision, kAbort, kTrap, kRaise, kAssertion };
  static constexpr int kDeaths = 6;
  // Dies in the middle of both of these.
  static void die_half_done(int worker, int from, int to, long amount, int list, long number,
                            Death death);

  struct Report {
    long sum, nodes, counted, torn;
  };
  // In one transaction.
  static Report look();
  // Plainly: no thread runs beside.
  static Report look_plainly();
  // Plainly: the worker's thread is gone.
  static long done_by(int worker);
};

}  // namespace itm::pages
