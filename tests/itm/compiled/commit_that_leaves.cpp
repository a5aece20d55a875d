// tests/itm/compiled/commit_that_leaves.cpp -- g++ jumps to a commit that is the last that its
// function does, with the function's frame gone: what restores the frame runs in the middle of it.
// Methods:   lines rtm serial pages pages-serializable
// Says:      right
#include <pthread.h>

#include <cstdio>
#include <map>

namespace {

constexpr long kRounds = 200;
struct State {
  long before;
  std::map<long, long> map;
};
long shared_total;

__attribute__((transaction_safe, noinline)) void add(long *to, long k) { *to += k; }
__attribute__((noinline)) void run(State *s, long k) {
  __transaction_relaxed { s->map[k & 15] += k; }
}
__attribute__((noinline)) void run_with_locals(long k) {
  long locals[6] = {k, 1, 2, 3, 4, 5};
  __transaction_atomic {
    for (long &each : locals) add(&each, k);
    add(&shared_total, locals[0] - 2 * k + 1);
  }
}

void *work(void *argument) {
  for (long k = 0; k < kRounds; ++k) {
    run(static_cast<State *>(argument), k);
    run_with_locals(k);
  }
  return nullptr;
}

}  // namespace

int main() {
  auto *const states = new State[2]();
  pthread_t threads[2];
  for (int i = 0; i < 2; ++i)
    if (pthread_create(&threads[i], nullptr, work, &states[i]) != 0) return 3;
  for (const pthread_t each : threads) pthread_join(each, nullptr);
  long sum = 0;
  for (int i = 0; i < 2; ++i)
    for (const auto &[key, value] : states[i].map) sum += value;
  std::puts(sum == kRounds * (kRounds - 1) && shared_total == 2 * kRounds ? "right" : "WRONG");
}
