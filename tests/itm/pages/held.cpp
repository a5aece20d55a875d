// tests/itm/pages/held.cpp -- compiled with -fgnu-tm.
#include "tests/itm/pages/held.h"

#include "tests/itm/pages/waiting.h"

namespace itm::pages {

namespace {

Held::Page pages[Held::kPages];
alignas(4096) long commits;

}  // namespace

Held::Page &Held::page(int index) { return pages[index]; }

long Held::add(int index) {
  long plain = 0;
  __transaction_atomic {
    wait_for_a_commit();
    plain = pages[index].plain;
    pages[index].inside += 1;
  }
  return plain;
}

void *Held::commit_on(void *) {
  while (await_question()) {
    __transaction_atomic { commits += 1; }
    answer();
  }
  return nullptr;
}

}  // namespace itm::pages
