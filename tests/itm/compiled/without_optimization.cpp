// tests/itm/compiled/without_optimization.cpp -- g++ -O0 restores variables, when a begin returns
// again, through the register with the begin's result, before it looks for an abort there.
// Methods:   lines rtm serial pages pages-serializable
// Says:      right
#include <pthread.h>

#include <cstdio>

namespace {

constexpr long kRounds = 2000;
long kept, cancelled, shared_total;

__attribute__((noinline)) void run(long k) {
  long round = k, twice = 2 * k;
  int small = 3;
  double real = 0.5;
  char byte = 'a';
  struct {
    int first, second;
    long third;
  } s = {1, 2, k};
  __transaction_atomic {
    kept += 1;
    round ^= 70;
    twice -= round;
    small += 4;
    real *= 2.0;
    byte = 'b';
    s.first += 7;
    s.second = s.first + 1;
    s.third -= 5;
    if (k % 3 != 0) __transaction_cancel;
  }
  const bool is_kept = k % 3 == 0;
  if (round != (is_kept ? k ^ 70 : k) || twice != (is_kept ? 2 * k - (k ^ 70) : 2 * k) ||
      small != (is_kept ? 7 : 3) || real != (is_kept ? 1.0 : 0.5) || byte != (is_kept ? 'b' : 'a'))
    kept += 1000000;
  if (s.first != (is_kept ? 8 : 1) || s.second != (is_kept ? 9 : 2) ||
      s.third != (is_kept ? k - 5 : k))
    kept += 1000000;
  cancelled += !is_kept;
}

void *work(void *) {
  for (long k = 0; k < kRounds; ++k) {
    long step = k, sum = 1;
    __transaction_atomic {
      step += 5;
      sum += step - k;
      shared_total += sum - 5;
      sum = 0;
    }
  }
  return nullptr;
}

}  // namespace

int main() {
  for (long k = 0; k < 300; ++k) run(k);
  pthread_t threads[2];
  for (pthread_t &each : threads)
    if (pthread_create(&each, nullptr, work, nullptr) != 0) return 3;
  for (const pthread_t each : threads) pthread_join(each, nullptr);
  std::puts(kept == 100 && cancelled == 200 && shared_total == 2 * kRounds ? "right" : "WRONG");
}
