// examples/itm/hash_set_transactions.cpp -- a hash set with chains.
#include "examples/itm/sets.hpp"
#include "examples/structures/bank.hpp"
#include "examples/structures/hash_set.hpp"

namespace itm {

namespace {

using Set = structures::HashSet<structures::PlainField>;
Head<Set> head;
Set set() { return Set(head.bytes); }

}  // namespace

const SetProgram kSet = {"hash_set", "Lookups, inserts and removes in a hash set of 16,384 chains",
                         16'384, 20};

bool set_contains(std::uint64_t key) { return contained_in(set(), key); }
bool set_insert(std::uint64_t key) { return insert_into(set(), key); }
bool set_remove(std::uint64_t key) { return remove_from(set(), key); }
SetContent set_content() { return content_of(set()); }

}  // namespace itm
