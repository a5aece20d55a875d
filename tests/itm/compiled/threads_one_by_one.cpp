// tests/itm/compiled/threads_one_by_one.cpp -- more threads than there are keys, each with a
// transaction; main() has had none.
// Methods:   lines rtm serial pages pages-serializable
// Levels:    2
// Says:      1200
#include <pthread.h>

#include <cstdio>

namespace {

long total;
void *work(void *) {
  __transaction_atomic { ++total; }
  return nullptr;
}

}  // namespace

int main() {
  for (int k = 0; k < 1200; ++k) {
    pthread_t thread;
    if (pthread_create(&thread, nullptr, work, nullptr) != 0) return 3;
    pthread_join(thread, nullptr);
  }
  std::printf("%ld\n", total);
}
