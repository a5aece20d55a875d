// examples/trees/bptree_shared.cpp -- records inserted, erased, found and scanned in a B+-tree: two
// processes, one file that lasts.
// Run:       bptree_shared [records]; in an empty folder. bptree_serial.cpp is what it was made of:
//            compare them.
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include <sys/wait.h>
#include <unistd.h>

#include <tmh/tmh.hpp>
#include <tmh/trees/bptree.hpp>

namespace {

using Value = std::array<char, 512>;
using Tree = tmh::trees::BPlusTree<std::uint64_t, Value, 4096, tmh::allocator<std::byte>>;

// Distinct, and in no order.
std::uint64_t key_of(std::uint64_t number) { return number * 0x9e3779b97f4a7c15ULL; }
Value value_of(std::uint64_t number) { return {static_cast<char>(number)}; }

// All are inserted; the even ones are erased again.
void fill(const tmh::Domain &domain, Tree *tree, std::uint64_t first, std::uint64_t last) {
  for (std::uint64_t number = first; number < last; ++number) {
    tmh::atomically(domain, [&] { tree->insert(key_of(number), value_of(number)); });
    if (number % 2 == 0) tmh::atomically(domain, [&] { tree->erase(key_of(number)); });
  }
}

bool check(const Tree *tree, std::uint64_t records) {
  std::uint64_t found = 0, scanned = 0;
  for (std::uint64_t number = 1; number < records; number += 2) {
    const Value *value = tree->find(key_of(number));
    if (value != nullptr && *value == value_of(number)) ++found;
  }
  tree->scan(0, UINT64_MAX, [&](std::uint64_t, const Value &) { ++scanned; });
  std::printf("%llu records\n", static_cast<unsigned long long>(scanned));
  return found == records / 2 && scanned == found && tree->invariants().empty();
}

}  // namespace

int main(int argc, char **argv) {
  const std::uint64_t records = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 2000;
  const bool is_child = fork() == 0;
  tmh::DomainOptions durable;
  durable.durability = tmh::Durability::kStrict;
  const tmh::Domain domain = tmh::Domain::open("trees.domain", durable);
  const tmh::Segment segment = domain.map("records");
  Tree *tree = segment.root<Tree>();
  fill(domain, tree, is_child ? 0 : records / 2, is_child ? records / 2 : records);
  if (is_child) return 0;
  int status = 0;
  if (wait(&status) < 0 || status != 0) return 1;
  return tmh::query(domain, [&] { return check(tree, records); }) ? 0 : 1;
}
