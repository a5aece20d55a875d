// tests/itm/compiled/hoisted_load.cpp -- g++ -O2 may move a plain load of what a callee stores to
// over the block that calls it (partial redundancy elimination).
// Methods:   lines rtm serial pages pages-serializable
// Says:      0 wrong
#include <cstdio>

namespace {

struct Sums {
  long first, second, count;
};
__attribute__((transaction_safe, noinline)) void add(Sums *to, long v) {
  to->first += v;
  if ((v & 1) != 0) to->second += to->first;
  ++to->count;
}
__attribute__((noinline)) long run(Sums *sums, long v, bool twice) {
  long seen = 0;
  __transaction_atomic {
    if (twice) {
      add(sums, v);
      seen = sums->first;
    }
    add(sums, v + 1);
    seen += sums->first + sums->second;
  }
  return seen + sums->first;
}
__attribute__((noinline)) long run_plainly(long *state, long v, bool twice) {
  const auto step = [&](long x) {
    state[0] += x;
    if ((x & 1) != 0) state[1] += state[0];
    ++state[2];
  };
  long seen = 0;
  if (twice) {
    step(v);
    seen = state[0];
  }
  step(v + 1);
  seen += state[0] + state[1];
  return seen + state[0];
}

}  // namespace

int main() {
  Sums local = {};
  long plain[3] = {};
  int wrong = 0;
  for (long v = 0; v < 100; ++v) {
    const bool twice = v % 3 == 0;
    wrong += run(&local, v, twice) != run_plainly(plain, v, twice);
  }
  std::printf("%d wrong\n", wrong);
}
