// tests/itm/pages/privatise.cpp -- nodes pass between transactions and plain code all the time.
// Invariant: (1) an unlinked node is its taker's: no transaction stores to it any more.
//            (2) no snapshot shows what plain code has stored to an unlinked node, nor to its
//            memory after it was freed.
//            (3) each addition to a node is in it when it is taken.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "tests/itm/pages/ring.h"
#include "tests/itm/pages/told.h"

namespace itm::pages {

namespace {

constexpr int kTakers = 2, kAdder = 2, kPrivateMax = 8;
constexpr long kLongNs = 200'000'000, kShortNs = 3'000'000;
std::uint32_t seed;

// What a taker has, for plain use.
struct Private {
  Node *nodes[kPrivateMax];
  int count;
};

Node *made(std::minstd_rand *random) {
  // Up to three pages.
  const long words = 8 + (below(random, 4) == 0 ? below(random, 1500) : below(random, 24));
  const auto bytes = static_cast<std::size_t>(words) * sizeof(long);
  Node *const node = static_cast<Node *>(std::malloc(bytes));
  if (node == nullptr) std::abort();
  node->words = words;
  node->born = node->left = *node->right() = below(random, 1000);
  return node;
}

// Words that a reader would find wrong; between them, of whole lines.
void store_plainly(Node *node, long value) {
  node->left = -value;
  *node->right() = value;
  long *const words = reinterpret_cast<long *>(node);
  for (long i = 4; i < node->words - 1; i += 3) words[i] = value;
}

void free_one(Private *own, std::minstd_rand *random) {
  const int index = below(random, own->count);
  Node *const node = own->nodes[index];
  const long value = *node->right();
  expect(value > 0 && node->left == -value, "an own node", node->left, -value);
  const long *const words = reinterpret_cast<const long *>(node);
  for (long i = 4; i < node->words - 1; i += 3)
    expect(words[i] == value, "a word of an own node", words[i], value);
  node->born = node->words = -2;
  std::free(node);
  own->nodes[index] = own->nodes[--own->count];
}

void take_one(Private *own, Worker *worker, std::minstd_rand *random) {
  long value = 0, born = 0;
  bool is_different = false;
  if (below(random, 3) == 0) {
    if (!Ring::unlink_and_free(&value, &born, &is_different)) return;
  } else {
    Node *const node = Ring::unlink(&value, &is_different);
    if (node == nullptr) return;
    born = node->born;
    expect(node->left == Ring::kTaken, "a taken node's left", node->left, Ring::kTaken);
    expect(*node->right() == Ring::kTaken, "a taken node's right", *node->right(), Ring::kTaken);
    store_plainly(node, 1 + below(random, 1'000'000));
    own->nodes[own->count++] = node;
  }
  expect(!is_different, "a taken node's words differ", value, born);
  worker->commits.fetch_add(value - born);
  worker->generation.fetch_add(1);
}

void *take(void *argument) {
  const auto number = static_cast<int>(reinterpret_cast<long>(argument));
  Worker &own = told().workers[number];
  std::minstd_rand random(seed + static_cast<std::uint32_t>(number));
  Private nodes{};
  while (told().is_over == 0) {
    if (below(&random, 2) == 0) Ring::link(made(&random));
    if (nodes.count == kPrivateMax || (nodes.count != 0 && below(&random, 2) == 0))
      free_one(&nodes, &random);
    if (below(&random, 2) == 0) take_one(&nodes, &own, &random);
  }
  while (nodes.count != 0) free_one(&nodes, &random);
  return nullptr;
}

void *add(void *) {
  std::minstd_rand random(seed + kAdder);
  while (told().is_over == 0)
    told().workers[kAdder].commits.fetch_add(Ring::add(below(&random, 30), 1 + below(&random, 6)));
  return nullptr;
}

void look(long first, long wait_ns) {
  const Ring::Seen seen = Ring::look(first, wait_ns);
  expect(seen.different == 0, "nodes whose words differ", seen.different, 0);
  expect(seen.nodes == seen.counted, "nodes", seen.nodes, seen.counted);
  expect(seen.sum == seen.later_sum, "nodes seen again", seen.later_sum, seen.sum);
  told().looks.fetch_add(1);
}

void *look_long(void *) {
  look(Ring::kNodesMax, kLongNs);
  return nullptr;
}

bool all_have_taken() {
  return told().workers[kAdder].commits != 0 &&
         std::all_of(told().workers, told().workers + kTakers,
                     [](const Worker &each) { return each.generation != 0; });
}

void check_end() {
  long added = told().workers[kAdder].commits, taken = 0;
  look(0, 0);
  expect(added > 0, "additions", added, 1);
  for (int i = 0; i < kTakers; ++i) {
    added -= told().workers[i].commits;
    taken += told().workers[i].generation;
    expect(told().workers[i].generation > 0, "nodes of a taker", 0, 1);
  }
  long value = 0;
  bool is_different = false;
  for (Node *node; (node = Ring::unlink(&value, &is_different)) != nullptr; std::free(node)) {
    expect(!is_different, "the words of a node at the end", value, node->born);
    added -= value - node->born;
  }
  expect(added == 0, "lost additions", added, 0);
  std::printf("%ld nodes taken, %ld additions, %ld looks\n", taken,
              told().workers[kAdder].commits.load(), told().looks.load());
}

}  // namespace

void privatise(const Options &options) {
  seed = options.seed;
  std::minstd_rand random(seed + kAdder + 1);
  for (int i = 0; i < 50; ++i) Ring::link(made(&random));
  pthread_t threads[kAdder + 1];
  for (int i = 0; i < kTakers; ++i) threads[i] = start(take, i);
  threads[kAdder] = start(add, 0);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(options.seconds);
  while (std::chrono::steady_clock::now() < end || !all_have_taken()) {
    // A new thread has no copies yet.
    join(start(look_long, 0), "a long look");
    for (int i = 0; i < 50; ++i) look(below(&random, 30), i % 10 == 0 ? kShortNs : 0);
  }
  told().is_over = 1;
  for (const pthread_t each : threads) join(each, "a thread's end");
  check_end();
}

}  // namespace itm::pages
