// tests/itm/pages/owners.cpp -- compiled with -fgnu-tm.
#include "tests/itm/pages/owners.h"

#include <unistd.h>

#include <cstdlib>

#include "tests/itm/pages/waiting.h"

namespace itm::pages {

namespace {

struct alignas(4096) Shared {
  long steps[Owners::kMost];
  long common;
};
Shared shared;
alignas(4096) Block *blocks[Owners::kMost][Owners::kBlocks];
long *nowhere;

constexpr long kGarbage = -1'000'000'000;

[[gnu::transaction_safe]] inline void store_first(int worker, long value) {
  for (int i = 0; i < Owners::kBlocks; ++i) blocks[worker][i]->a = value;
}
[[gnu::transaction_safe]] inline void store_last(int worker, long value) {
  for (int i = 0; i < Owners::kBlocks; ++i) blocks[worker][i]->b = value;
  shared.steps[worker] = value;
}

[[gnu::transaction_safe]] inline Owners::Seen look_at(int worker) {
  Owners::Seen seen{shared.steps[worker], 0};
  for (int i = 0; i < Owners::kBlocks; ++i) {
    const Block *const block = blocks[worker][i];
    if (block == nullptr) continue;  // not open yet
    if (block->a != seen.value) seen.different += 1;
    if (block->b != seen.value) seen.different += 1;
  }
  return seen;
}

}  // namespace

void Owners::open(int worker) {
  for (int i = 0; i < kBlocks; ++i) {
    auto *const block = static_cast<Block *>(std::malloc(4096));
    if (block == nullptr) std::abort();
    *block = {};
    for (int at = 0; at < Block::kConstants; ++at)
      block->constant[at] = worker * 1000 + i * 10 + at;
    blocks[worker][i] = block;
  }
}

Block &Owners::block(int worker, int index) { return *blocks[worker][index]; }

long Owners::step(int worker, long work_ns, bool is_common) {
  long value = 0;
  __transaction_atomic {
    value = blocks[worker][0]->a + 1;
    store_first(worker, value);
    if (work_ns != 0) wait(work_ns);
    if (is_common) shared.common += 1;
    store_last(worker, value);
  }
  return value;
}

long Owners::step_nested(int worker, long work_ns, unsigned kept) {
  long value = 0;
  __transaction_atomic {
    value = blocks[worker][0]->a + 1;
    store_first(worker, value);
    for (int i = 0; i < Block::kNested; ++i) {
      __transaction_atomic {
        for (int at = 0; at < kBlocks; ++at) {
          blocks[worker][at]->nested[i] += 1;
          blocks[worker][at]->b = kGarbage;
        }
        if (work_ns != 0 && i % 4 == 0) wait(work_ns / 4);
        if ((kept >> i & 1) == 0) {
          for (int at = 0; at < kBlocks; ++at) blocks[worker][at]->a = kGarbage;
          shared.steps[worker] = kGarbage;
          __transaction_cancel;
        }
      }
    }
    // What the outer transaction has stored before must still be there.
    if (blocks[worker][kBlocks - 1]->a != value) value = kGarbage;
    store_last(worker, value);
  }
  return value;
}

long Owners::step_irrevocably(int worker, long work_ns, int file) {
  long value = 0;
  __transaction_relaxed {
    value = blocks[worker][0]->a + 1;
    store_first(worker, value);
    if (write(file, "x", 1) != 1) value = kGarbage;
    if (work_ns != 0) wait(work_ns);
    store_last(worker, value);
  }
  return value;
}

void Owners::cancel(int worker, long work_ns) {
  __transaction_atomic {
    store_first(worker, kGarbage);
    shared.common += kGarbage;
    if (work_ns != 0) wait(work_ns);
    __transaction_atomic {
      for (int i = 0; i < kBlocks; ++i) blocks[worker][i]->nested[0] += kGarbage;
    }
    store_last(worker, kGarbage + 1);
    __transaction_cancel;
  }
}

void Owners::die(int worker, long work_ns, bool is_trap) {
  __transaction_atomic {
    store_first(worker, kGarbage);
    if (work_ns != 0) wait(work_ns);
    store_last(worker, kGarbage + 1);
    if (is_trap) trap();
    *nowhere = work_ns;
  }
}

void Owners::look(Seen seen[kMost], int workers, long wait_ns) {
  Seen first[kMost], later[kMost];
  __transaction_atomic {
    for (int i = 0; i < workers; ++i) first[i] = look_at(i);
    if (wait_ns != 0) wait(wait_ns);
    for (int i = 0; i < workers; ++i) later[i] = look_at(i);
  }
  for (int i = 0; i < workers; ++i) {
    seen[i] = first[i];
    seen[i].different += later[i].different + (later[i].value != first[i].value ? 1 : 0);
  }
}

Owners::Seen Owners::look_plainly(int worker) { return look_at(worker); }

long Owners::common() { return shared.common; }

long Owners::visit(int worker, int index) {
  long count = 0;
  __transaction_atomic { count = blocks[worker][index]->nested[1] += 1; }
  return count;
}

}  // namespace itm::pages
