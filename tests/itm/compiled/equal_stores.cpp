// tests/itm/compiled/equal_stores.cpp -- of two on call one may leave, if the other stays: each
// reads the other's word and clears its own, and stores to a word in common what it had already.
// (Under the snapshots of method pages both may leave: in_common.cpp.)
// Methods:   lines rtm serial pages-serializable
// Levels:    3
// Says:      nobody on call in 0 of 300 rounds
#include <pthread.h>

#include <cstdio>

namespace {

constexpr int kRounds = 300, kSpin = 2000;

struct Ward {
  alignas(4096) long on_call[2];
  alignas(4096) long in_common;
};
Ward ward;
pthread_barrier_t together;
int nobody = 0;
#ifndef STEP
#define STEP 0
#endif

void leave(int me) {
  __transaction_atomic {
    const long other = ward.on_call[1 - me];
    long spun = 0;
    for (long i = 0; other != 0 && i < kSpin; ++i) spun += i ^ ward.on_call[1 - me];
    if (other != 0) {
      ward.on_call[me] = spun == -1;
      ward.in_common = ward.in_common + STEP;
    }
  }
}

void *run(void *number) {
  const auto me = static_cast<int>(reinterpret_cast<long>(number));
  for (int round = 0; round < kRounds; ++round) {
    if (me == 0) {
      __transaction_atomic {
        ward.on_call[0] = 1;
        ward.on_call[1] = 1;
      }
    }
    pthread_barrier_wait(&together);
    leave(me);
    pthread_barrier_wait(&together);
    if (me == 0) {
      long on_call = 0;
      __transaction_atomic { on_call = ward.on_call[0] + ward.on_call[1]; }
      if (on_call == 0) ++nobody;
    }
    pthread_barrier_wait(&together);
  }
  return nullptr;
}

}  // namespace

int main() {
  pthread_barrier_init(&together, nullptr, 2);
  pthread_t threads[2];
  for (long k = 0; k < 2; ++k)
    if (pthread_create(&threads[k], nullptr, run, reinterpret_cast<void *>(k)) != 0) return 2;
  for (const pthread_t thread : threads) pthread_join(thread, nullptr);
  std::printf("nobody on call in %d of %d rounds\n", nobody, kRounds);
}
