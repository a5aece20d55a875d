// examples/trees/bptree_serial.cpp -- records inserted, erased, found and scanned in a B+-tree:
// plain serial code.
// Run:       bptree_serial [records]. bptree_shared.cpp is the same for two processes and a file
//            that lasts: compare them.
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include <tmh/trees/bptree.hpp>

namespace {

using Value = std::array<char, 512>;
using Tree = tmh::trees::BPlusTree<std::uint64_t, Value>;

// Distinct, and in no order.
std::uint64_t key_of(std::uint64_t number) { return number * 0x9e3779b97f4a7c15ULL; }
Value value_of(std::uint64_t number) { return {static_cast<char>(number)}; }

// All are inserted; the even ones are erased again.
void fill(Tree *tree, std::uint64_t first, std::uint64_t last) {
  for (std::uint64_t number = first; number < last; ++number) {
    tree->insert(key_of(number), value_of(number));
    if (number % 2 == 0) tree->erase(key_of(number));
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
  const auto tree = std::make_unique<Tree>();
  fill(tree.get(), 0, records);
  return check(tree.get(), records) ? 0 : 1;
}
