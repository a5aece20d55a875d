// tests/itm/programs/privatisation.cpp -- memory that a transaction makes private is used plainly
// right after its commit, and plain memory is published by one; other threads run transactions on
// it all the while.
#include <sched.h>

#include "tests/itm/abi.h"
#include "tests/itm/meeting.h"
#include "tests/itm/program.h"

namespace {

struct Node {
  long left;
  long right;
  Node *next;
};

Node *shared_node;
Node *list;
long flag;
long payload[8];
long word;

// A difference that a transaction that committed has seen.
[[gnu::transaction_safe, gnu::noinline]] long difference_of(const Node *node) {
  return node == nullptr ? 0 : node->left - node->right;
}

[[gnu::transaction_pure, gnu::noinline]] void note_torn(long difference) {
  if (difference != 0) itm::tell(2);
}

constexpr int kRounds = 20000;

// Readers until told to stop; what committed ones saw torn is counted in word 1.
std::thread start_reader() {
  return std::thread([] {
    while (itm::told(0) == 0) {
      long difference = 0;
      __transaction_atomic { difference = difference_of(shared_node); }
      if (difference != 0) itm::tell(1);
    }
  });
}

std::thread start_writer_into_it() {
  return std::thread([] {
    while (itm::told(0) == 0) {
      __transaction_atomic {
        Node *const node = shared_node;
        if (node != nullptr) {
          node->left = node->left + 1;
          node->right = node->right + 1;
        }
      }
    }
  });
}

[[gnu::transaction_safe, gnu::noinline]] Node *take() {
  Node *const node = shared_node;
  shared_node = nullptr;
  return node;
}

[[gnu::noinline]] long plain_load(const long *place) {
  return *static_cast<const volatile long *>(place);
}

[[gnu::noinline]] void plain_store(long *place, long value) {
  *static_cast<volatile long *>(place) = value;
}

}  // namespace

ITM_PROGRAM(privatised_node_is_left_alone_by_writers, "0 violations") {
  // A writer that still runs or rolls back on the node would change what the owner sees.
  shared_node = new Node{0, 0, nullptr};
  std::thread writer = start_writer_into_it();
  int violations = 0;
  for (int round = 0; round < kRounds; ++round) {
    Node *mine = nullptr;
    __transaction_atomic { mine = take(); }
    violations += plain_load(&mine->left) != plain_load(&mine->right);
    plain_store(&mine->left, 1000000 + round);
    plain_store(&mine->right, 1000000 + round);
    violations += plain_load(&mine->left) != 1000000 + round;
    violations += plain_load(&mine->right) != 1000000 + round;
    __transaction_atomic { shared_node = mine; }
  }
  itm::tell(0);
  writer.join();
  return itm::say(violations, "violations");
}

ITM_PROGRAM(privatised_node_is_not_seen_by_readers, "0 0") {
  // The owner makes the halves differ plainly: no transaction that commits may see that.
  shared_node = new Node{0, 0, nullptr};
  std::thread reader = start_reader();
  for (int round = 0; round < kRounds; ++round) {
    Node *mine = nullptr;
    __transaction_atomic { mine = take(); }
    plain_store(&mine->left, round);
    plain_store(&mine->right, -round - 1);
    plain_store(&mine->right, round);
    __transaction_atomic { shared_node = mine; }
  }
  itm::tell(0);
  reader.join();
  return itm::say(itm::told(1), shared_node->left - shared_node->right);
}

ITM_PROGRAM(privatised_node_is_freed, "0 2000") {
  // Readers and writers of a freed node would fault or write into the next one.
  shared_node = new Node{0, 0, nullptr};
  std::thread writer = start_writer_into_it();
  std::thread reader = start_reader();
  int rounds = 0;
  int wrong = 0;
  for (; rounds < 2000; ++rounds) {
    Node *mine = nullptr;
    __transaction_atomic { mine = take(); }
    delete mine;
    long *const same_place = new long[3]{5, 6, 7};
    wrong += plain_load(&same_place[0]) != 5 || plain_load(&same_place[1]) != 6;
    delete[] same_place;
    Node *const fresh = new Node{rounds, rounds, nullptr};
    __transaction_atomic { shared_node = fresh; }
  }
  itm::tell(0);
  writer.join();
  reader.join();
  return itm::say(wrong + itm::told(1), rounds);
}

ITM_PROGRAM(privatised_by_a_flag, "0 violations") {
  // Writers store to the payload while the flag is down.
  std::thread writer([] {
    while (itm::told(0) == 0) {
      __transaction_atomic {
        if (flag == 0) {
          for (long &each : payload) each = each + 1;
        }
      }
    }
  });
  int violations = 0;
  for (int round = 0; round < kRounds; ++round) {
    __transaction_atomic { flag = 1; }
    const long first = plain_load(&payload[0]);
    for (const long &each : payload) violations += plain_load(&each) != first;
    plain_store(&payload[7], -round);
    violations += plain_load(&payload[7]) != -round;
    plain_store(&payload[7], first);
    __transaction_atomic { flag = 0; }
  }
  itm::tell(0);
  writer.join();
  return itm::say(violations, "violations");
}

ITM_PROGRAM(privatised_list_nodes, "0 4000 16000") {
  // Each of two threads unlinks the first node, works on it plainly, and links it again.
  for (int i = 0; i < 4; ++i) list = new Node{0, 0, list};
  const auto work = [] {
    for (int round = 0; round < 8000; ++round) {
      Node *mine = nullptr;
      while (mine == nullptr) {
        __transaction_atomic {
          mine = list;
          if (mine != nullptr) list = mine->next;
        }
      }
      if (plain_load(&mine->left) != plain_load(&mine->right)) itm::tell(1);
      plain_store(&mine->left, plain_load(&mine->left) + 1);
      plain_store(&mine->right, plain_load(&mine->right) + 1);
      __transaction_atomic {
        mine->next = list;
        list = mine;
      }
    }
  };
  std::thread other(work);
  work();
  other.join();
  long all = 0;
  long count = 0;
  for (const Node *node = list; node != nullptr; node = node->next) all += node->left, ++count;
  return itm::say(itm::told(1), count * 1000, all);
}

ITM_PROGRAM(published_node_is_whole, "0 torn") {
  std::thread reader = start_reader();
  for (int round = 1; round <= kRounds; ++round) {
    Node *const fresh = new Node{0, 0, nullptr};
    plain_store(&fresh->left, round);
    plain_store(&fresh->right, round);
    Node *old = nullptr;
    __transaction_atomic {
      old = shared_node;
      shared_node = fresh;
    }
    delete old;
  }
  itm::tell(0);
  reader.join();
  return itm::say(itm::told(1), "torn");
}

ITM_PROGRAM(published_by_a_flag, "0 5") {
  std::thread reader([] {
    long seen = 0;
    while (seen == 0) {
      long sum = 0;
      __transaction_atomic {
        seen = flag;
        if (flag != 0) {
          for (const long &each : payload) sum += each;
        }
      }
      if (seen != 0 && sum != 40) itm::tell(1);
    }
  });
  for (long &each : payload) plain_store(&each, 5);
  __transaction_atomic { flag = 1; }
  reader.join();
  return itm::say(itm::told(1), payload[7]);
}

ITM_PROGRAM(privatised_by_a_reader, "0 violations") {
  // A transaction that only reads finds out that the other one has let the payload go.
  std::thread writer([] {
    for (int round = 0; round < 2000; ++round) {
      while (itm::told(3) < round) sched_yield();
      __transaction_atomic {
        for (long &each : payload) each = round + 1;
        flag = round + 1;
      }
    }
  });
  int violations = 0;
  for (int round = 0; round < 2000; ++round) {
    long seen = 0;
    while (seen <= round) {
      __transaction_atomic { seen = flag; }
    }
    for (const long &each : payload) violations += plain_load(&each) != round + 1;
    for (long &each : payload) plain_store(&each, -1);
    itm::tell(3);
  }
  writer.join();
  return itm::say(violations, "violations");
}

ITM_PROGRAM(privatised_with_a_doomed_reader, "0 0") {
  // Attempts that fail look at the halves as well: none may see the owner's plain stores. Opacity.
  shared_node = new Node{0, 0, nullptr};
  std::thread reader([] {
    while (itm::told(0) == 0) {
      __transaction_atomic {
        const long difference = difference_of(shared_node);
        note_torn(difference);
      }
    }
  });
  for (int round = 0; round < kRounds; ++round) {
    Node *mine = nullptr;
    __transaction_atomic { mine = take(); }
    plain_store(&mine->left, round);
    plain_store(&mine->right, round);
    __transaction_atomic { shared_node = mine; }
  }
  itm::tell(0);
  reader.join();
  return itm::say(itm::told(2), word);
}

// Bytes of one word are objects of their own: a commit that stores some leaves the others alone.
ITM_PROGRAM(privatisation_neighbours_are_not_stored_to, "0 lost") {
  struct alignas(64) Pair {
    unsigned char shared, plain;
  };
  static Pair pairs[256];
  constexpr int kCommits = 3000, kDone = 30;
  std::thread other([] {
    for (int i = 0; i < kCommits; ++i) {
      __transaction_atomic {
        for (Pair &each : pairs) each.shared = static_cast<unsigned char>(i);
      }
    }
    itm::tell(kDone);
  });
  long lost = 0;
  for (unsigned char value = 1; itm::told(kDone) == 0; ++value) {
    for (Pair &each : pairs) *static_cast<volatile unsigned char *>(&each.plain) = value;
    for (Pair &each : pairs)
      lost += *static_cast<volatile unsigned char *>(&each.plain) != value ? 1 : 0;
  }
  other.join();
  return itm::say(lost, "lost");
}
