// examples/itm/sorted_list_transactions.cpp -- a sorted linked list.
#include "examples/itm/sets.hpp"
#include "examples/structures/bank.hpp"
#include "examples/structures/sorted_list.hpp"

namespace itm {

namespace {

using Set = structures::SortedList<structures::PlainField>;
Head<Set> head;
Set set() { return Set(head.bytes); }

}  // namespace

const SetProgram kSet = {"sorted_list", "Lookups, inserts and removes in a sorted linked list", 512,
                         20};

bool set_contains(std::uint64_t key) { return contained_in(set(), key); }
bool set_insert(std::uint64_t key) { return insert_into(set(), key); }
bool set_remove(std::uint64_t key) { return remove_from(set(), key); }
SetContent set_content() { return content_of(set()); }

}  // namespace itm
