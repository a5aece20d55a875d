// tests/itm/pages/ring.cpp -- compiled with -fgnu-tm.
#include "tests/itm/pages/ring.h"

#include <cstdlib>

#include "tests/itm/pages/waiting.h"

namespace itm::pages {

namespace {

Node *head;
long count;

[[gnu::transaction_safe]] Node *take(long *value, bool *is_different) {
  Node *const node = head;
  if (node == nullptr) return nullptr;
  *value = node->left;
  *is_different = node->left != *node->right();
  node->left = Ring::kTaken;
  *node->right() = Ring::kTaken;
  head = node->next;
  count -= 1;
  return node;
}

[[gnu::transaction_safe]] long see(long most, long *nodes, long *different) {
  long sum = 0;
  *nodes = 0;
  for (const Node *node = head; node != nullptr && *nodes < most; node = node->next) {
    *nodes += 1;
    sum += node->left;
    if (node->left != *node->right() || node->left < node->born) *different += 1;
  }
  return sum;
}

}  // namespace

void Ring::link(Node *node) {
  __transaction_atomic {
    node->next = head;
    head = node;
    count += 1;
  }
}

Node *Ring::unlink(long *value, bool *is_different) {
  Node *node = nullptr;
  __transaction_atomic { node = take(value, is_different); }
  return node;
}

bool Ring::unlink_and_free(long *value, long *born, bool *is_different) {
  bool is_taken = false;
  __transaction_atomic {
    Node *const node = take(value, is_different);
    is_taken = node != nullptr;
    if (is_taken) {
      *born = node->born;
      std::free(node);
    }
  }
  return is_taken;
}

long Ring::add(long place, long nodes) {
  long added = 0;
  __transaction_atomic {
    added = 0;
    Node *node = head;
    for (long i = 0; i < place && node != nullptr; ++i) node = node->next;
    for (; node != nullptr && added < nodes; node = node->next) {
      node->left += 1;
      *node->right() += 1;
      ++added;
    }
  }
  return added;
}

Ring::Seen Ring::look(long first, long wait_ns) {
  Seen seen{};
  __transaction_atomic {
    seen.different = 0;
    long nodes = 0;
    see(first, &nodes, &seen.different);
    if (wait_ns != 0) wait(wait_ns);
    seen.counted = count;
    seen.sum = see(kNodesMax, &seen.nodes, &seen.different);
    seen.later_sum = see(kNodesMax, &nodes, &seen.different);
  }
  return seen;
}

}  // namespace itm::pages
