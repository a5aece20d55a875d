// tests/itm/pages/filling.cpp -- many pages in one transaction.
#include "tests/itm/pages/filling.h"

#include <cstdlib>

namespace itm::pages {

namespace {

long *words;

[[gnu::transaction_safe]] void store_to_all(long value) {
  for (long i = 0; i < Filling::kWords; i += Filling::kPageWords) words[i] = value;
}

}  // namespace

void Filling::open() {
  words = static_cast<long *>(std::calloc(kWords, sizeof *words));
  if (words == nullptr) std::abort();
}

void Filling::fill(long value) {
  __transaction_atomic { store_to_all(value); }
}

long Filling::first() noexcept { return *static_cast<volatile long *>(words); }

bool Filling::is_whole() noexcept {
  for (long i = 0; i < kWords; i += kPageWords)
    if (words[i] != words[0]) return false;
  return true;
}

}  // namespace itm::pages
