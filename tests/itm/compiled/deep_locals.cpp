// tests/itm/compiled/deep_locals.cpp -- a function keeps its path through a tree in local arrays,
// which compiled code logs, and returns; then its caller's transaction begins again. What was
// logged lies deeper in the stack than the code that rolls back.
// Methods:   lines rtm serial pages pages-serializable
// Says:      right
#include <pthread.h>

#include <cstdio>
#include <cstdlib>

namespace {

struct Node {
  Node *link[2];
  long key, weight;
};
Node *root;
long steps;
constexpr long kRounds = 4000, kKeys = 1023;

__attribute__((transaction_safe, noinline)) long touch_path(long key) {
  Node *at = root, *path[32];
  long side[32], top = 0, done = 0;
  for (;;) {
    if (at == nullptr) return 0;
    if (at->key == key) break;
    side[top] = at->key < key;
    path[top++] = at;
    at = at->link[side[top - 1]];
  }
  for (Node *next = at->link[1]; next != nullptr; next = next->link[0]) {
    side[top] = next == at->link[1];
    path[top++] = next;
  }
  while (--top >= 0 && done == 0) {
    path[top]->weight += side[top] != 0 ? -1 : +1;
    if (path[top]->weight == 77) done = 1;
  }
  return 1;
}

Node *build(long low, long high) {
  if (low > high) return nullptr;
  auto *const node = static_cast<Node *>(std::calloc(1, sizeof(Node)));
  node->key = (low + high) / 2;
  node->link[0] = build(low, node->key - 1);
  node->link[1] = build(node->key + 1, high);
  return node;
}

void *work(void *seed) {
  unsigned long random = reinterpret_cast<unsigned long>(seed) * 2654435761u + 1;
  for (long k = 0; k < kRounds; ++k) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    __transaction_atomic {
      const long found = touch_path(static_cast<long>((random >> 33) % kKeys));
      steps += found;
    }
  }
  return nullptr;
}

}  // namespace

int main() {
  root = build(0, kKeys - 1);
  pthread_t threads[2];
  for (long i = 0; i < 2; ++i)
    if (pthread_create(&threads[i], nullptr, work, reinterpret_cast<void *>(i)) != 0) return 3;
  for (const pthread_t each : threads) pthread_join(each, nullptr);
  std::puts(steps == 2 * kRounds ? "right" : "WRONG");
}
