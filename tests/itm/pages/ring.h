// tests/itm/pages/ring.h -- a list whose nodes transactions link and unlink; an unlinked one is its
// taker's, for plain code.
// Invariant: (1) left and right of a linked node are the same, in each snapshot.
//            (2) an unlinker of a node stores to the words that others store to, so that of two
//            such transactions one fails, also by snapshot isolation.
#pragma once

namespace itm::pages {

struct Node {
  long left;
  long born;  // left at the beginning
  Node *next;
  long words;  // behind these
  long *right() { return reinterpret_cast<long *>(this) + words - 1; }
  const long *right() const { return reinterpret_cast<const long *>(this) + words - 1; }
};

class Ring {
 public:
  static constexpr long kTaken = -1;
  static constexpr long kNodesMax = 10'000;

  static void link(Node *node);
  // Null: there is none. value: left and right of the node, kTaken by then; different: they were
  // not the same.
  static Node *unlink(long *value, bool *is_different);
  // The same, and frees it. False: there is none.
  static bool unlink_and_free(long *value, long *born, bool *is_different);
  // Adds to the nodes at this place and behind. How many.
  static long add(long place, long nodes);

  struct Seen {
    long nodes, counted, sum, different, later_sum;
  };
  // In one transaction: sees the nodes up to `first`, waits, and sees them all, twice.
  static Seen look(long first, long wait_ns);
};

}  // namespace itm::pages
