// examples/itm/red_black_tree_transactions.cpp -- a red-black tree.
#include "examples/itm/sets.hpp"
#include "examples/structures/bank.hpp"
#include "examples/structures/red_black_tree.hpp"

namespace itm {

namespace {

using Set = structures::RedBlackTree<structures::PlainField>;
Head<Set> head;
Set set() { return Set(head.bytes); }

}  // namespace

const SetProgram kSet = {"red_black_tree", "Lookups, inserts and removes in a red-black tree",
                         65'536, 20};

bool set_contains(std::uint64_t key) { return contained_in(set(), key); }
bool set_insert(std::uint64_t key) { return insert_into(set(), key); }
bool set_remove(std::uint64_t key) { return remove_from(set(), key); }
SetContent set_content() { return content_of(set()); }

}  // namespace itm
