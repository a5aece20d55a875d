// tests/itm/compiled/copies_on_pages.cpp -- threads that have read a large heap in transactions
// keep few copies of its pages: the memory of each, beside what all share, stays small.
// Methods:   pages pages-serializable
// Levels:    3
// Says:      0 threads have more than 8 MiB
#include <pthread.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr long kBytes = 64 << 20, kPageBytes = 4096, kPagesAtOnce = 256, kOwnKiBMax = 8 << 10;
constexpr int kThreads = 3;
constexpr long kStep = kPageBytes / sizeof(long), kWords = kBytes / sizeof(long);
long *heap;
pthread_barrier_t together;

struct Found {
  long sum, own_kib;
};
Found found[kThreads];

long sum_of(long from) {
  long sum = 0;
  __transaction_atomic {
    for (long i = from; i < from + kPagesAtOnce * kStep; i += kStep) sum += heap[i];
  }
  return sum;
}

// Of the calling task, which on pages is a process of its own.
long own_kib() {
  std::FILE *const file = std::fopen("/proc/self/smaps_rollup", "r");
  char line[256];
  long kib = -1;
  while (file != nullptr && std::fgets(line, sizeof line, file) != nullptr)
    if (std::strncmp(line, "Anonymous:", 10) == 0) kib = std::atol(line + 10);
  if (file != nullptr) std::fclose(file);
  return kib;
}

void *run(void *argument) {
  auto &own = *static_cast<Found *>(argument);
  for (long i = 0; i < kWords; i += kPagesAtOnce * kStep) own.sum += sum_of(i);
  pthread_barrier_wait(&together);
  own.own_kib = own_kib();
  return nullptr;
}

}  // namespace

int main() {
  heap = static_cast<long *>(std::malloc(kBytes));
  for (long i = 0; i < kWords; ++i) heap[i] = 1;
  pthread_barrier_init(&together, nullptr, kThreads);
  pthread_t threads[kThreads];
  for (int k = 0; k < kThreads; ++k)
    if (pthread_create(&threads[k], nullptr, run, &found[k]) != 0) return 2;
  int large = 0;
  for (int k = 0; k < kThreads; ++k) {
    pthread_join(threads[k], nullptr);
    if (found[k].sum != kWords / kStep) return 3;
    if (found[k].own_kib < 0 || found[k].own_kib > kOwnKiBMax) ++large;
  }
  std::printf("%d threads have more than %ld MiB\n", large, kOwnKiBMax >> 10);
}
