// tests/itm/compiled/many_ways_back.cpp -- 300 places of begins, each of which two threads
// come back to at the same time and for the first time: at -O0 libitm makes a way back for each.
// Methods:   lines rtm serial pages pages-serializable
// Levels:    0
// Says:      0 wrong
#include <pthread.h>

#include <cstdio>

namespace {

constexpr int kThreads = 2;
pthread_barrier_t together;
long stored[kThreads * 64], wrong[kThreads * 64];

// (g++ leaves cancels out of templates.)
#define PLACE(NUMBER)                                         \
  __attribute__((noinline)) void cancel_at_##NUMBER(int me) { \
    long local = NUMBER, twice = 2 * NUMBER;                  \
    __transaction_atomic {                                    \
      stored[64 * me] += local;                               \
      local += 3;                                             \
      twice -= local;                                         \
      if (local != -1) __transaction_cancel;                  \
    }                                                         \
    wrong[64 * me] += local != NUMBER || twice != 2 * NUMBER; \
  }
#define NAME(NUMBER) cancel_at_##NUMBER,
#define TEN(DO, N) \
  DO(N##0) DO(N##1) DO(N##2) DO(N##3) DO(N##4) DO(N##5) DO(N##6) DO(N##7) DO(N##8) DO(N##9)
#define LOW(DO, N) TEN(DO, N##0) TEN(DO, N##1) TEN(DO, N##2) TEN(DO, N##3) TEN(DO, N##4)
#define HIGH(DO, N) TEN(DO, N##5) TEN(DO, N##6) TEN(DO, N##7) TEN(DO, N##8) TEN(DO, N##9)
#define HUNDRED(DO, N) LOW(DO, N) HIGH(DO, N)
HUNDRED(PLACE, 1)
HUNDRED(PLACE, 2)
HUNDRED(PLACE, 3)
void (*const places[])(int) = {HUNDRED(NAME, 1) HUNDRED(NAME, 2) HUNDRED(NAME, 3)};

void *run(void *number) {
  for (void (*const place)(int) : places) {
    pthread_barrier_wait(&together);
    for (int again = 0; again < 3; ++again) place(static_cast<int>(reinterpret_cast<long>(number)));
  }
  return nullptr;
}

}  // namespace

int main() {
  pthread_barrier_init(&together, nullptr, kThreads);
  pthread_t threads[kThreads];
  for (long k = 0; k < kThreads; ++k)
    if (pthread_create(&threads[k], nullptr, run, reinterpret_cast<void *>(k)) != 0) return 2;
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  std::printf("%ld wrong\n", wrong[0] + wrong[64] + (stored[0] != 0) + (stored[64] != 0));
}
