// tests/itm/pages/cells.cpp -- compiled with -fgnu-tm.
#include "tests/itm/pages/cells.h"

#include <cstdlib>

#include "tests/itm/pages/waiting.h"

namespace itm::pages {

namespace {

constexpr int kInData = Cells::kLines / 3;
constexpr long kPageWords = 512;
alignas(4096) Line in_data[kInData];
Line *in_heap;
long *calm;

inline Line &at(int index) { return index < kInData ? in_data[index] : in_heap[index - kInData]; }

}  // namespace

Line &Cells::line(int index) { return at(index); }

void Cells::open() {
  constexpr unsigned long kBytes = (kLines - kInData) * sizeof(Line);
  in_heap = static_cast<Line *>(std::aligned_alloc(4096, kBytes));
  calm = static_cast<long *>(std::aligned_alloc(4096, kCalm * 4096));
  if (in_heap == nullptr || calm == nullptr) std::abort();
  for (int i = 0; i < kLines; ++i) {
    at(i) = {};
    at(i).constant = i;
  }
  for (int i = 0; i < kCalm; ++i) calm[i * kPageWords] = 0;
}

long Cells::step(int writer, int line, int other_line) {
  long value = 0;
  __transaction_atomic {
    value = at(0).equal + 1;
    for (int i = 0; i < kLines; ++i) at(i).equal = value;
    for (int i = 0; i < kCalm; ++i) calm[i * kPageWords] = value;
    at(line).counted[writer] += 1;
    at(other_line).counted[writer] += 1;
    at(line).bytes[1 + 2 * writer] += 1;
  }
  return value;
}

Cells::Seen Cells::look(long wait_ns) {
  Seen seen{};
  __transaction_atomic {
    seen.different = 0;
    seen.value = at(0).equal;
    for (int i = 0; i < kLines; ++i)
      if (at(i).equal != seen.value || at(i).constant != i) seen.different += 1;
    if (wait_ns != 0) wait(wait_ns);
    seen.later_value = at(kLines - 1).equal;
    for (int i = 0; i < kLines; ++i)
      if (at(i).equal != seen.later_value) seen.different += 1;
    seen.calm_value = calm[0];
    for (int i = 0; i < kCalm; ++i)
      if (calm[i * kPageWords] != seen.calm_value) seen.different += 1;
  }
  return seen;
}

}  // namespace itm::pages
