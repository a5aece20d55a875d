// examples/itm/sets.h -- what sets.cpp drives: one set of keys per program. Each *_transactions.cpp
// of a set defines all of this.
#pragma once

#include <cstdint>

namespace itm {

struct SetProgram {
  const char *name, *description;
  // Defaults.
  std::uint64_t size, updates_percent;
};
extern const SetProgram kSet;

// One transaction each.
bool set_contains(std::uint64_t key);
bool set_insert(std::uint64_t key);
bool set_remove(std::uint64_t key);

// Of a set that no transaction changes.
struct SetContent {
  bool is_valid = false;  // order, balance, places: what the structure promises
  std::uint64_t keys = 0, sum = 0;
};
[[nodiscard]] SetContent set_content();

}  // namespace itm
