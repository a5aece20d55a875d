// tests/itm/compiled/learns_of_private.cpp -- one thread makes a node private, another learns so by
// a transaction that only reads, and changes the node plainly; a third one, older, must not commit
// what it has seen of half of the change.
// Methods:   lines pages pages-serializable
// Says:      0 torn
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdio>
#include <new>

namespace {

constexpr int kRounds = 1500, kThreads = 3;
struct alignas(4096) Node {
  long a, b;
};
Node node;
alignas(4096) Node *shared;
alignas(4096) Node *handed;
alignas(4096) long torn;
std::atomic<int> *arrived;  // in memory that no transaction versions

void meet(int all) {
  for (++*arrived; *arrived < all;) sched_yield();
}
[[gnu::transaction_pure, gnu::noinline]] void delay(long n) {
  while (n-- > 0) asm volatile("" : : : "memory");
}

void learn_and_change() {
  Node *mine = nullptr;
  while (mine == nullptr) {
    __transaction_atomic { mine = handed; }
    sched_yield();
  }
  mine->a = -1;
  mine->b = -1;
}
void make_private(int round) {
  delay(round % 64 * 3000L);
  __transaction_atomic {
    handed = shared;
    shared = nullptr;
  }
}
long read_slowly() {
  long difference = 0;
  __transaction_atomic {
    difference = 0;
    if (Node *const at = shared) {
      difference = at->a;
      delay(100000);
      difference -= at->b;
    }
  }
  return difference;
}

void *run(void *argument) {
  const long role = reinterpret_cast<long>(argument);
  long seen = 0;
  for (int i = 0; i < kRounds; ++i) {
    if (role == 0) {
      node.a = node.b = i;
      shared = &node;
      handed = nullptr;
    }
    meet(i * 2 * kThreads + kThreads);
    if (role == 0) learn_and_change();
    if (role == 1) make_private(i);
    if (role == 2) seen += read_slowly() != 0;
    meet((i + 1) * 2 * kThreads);
  }
  if (role == 2) torn = seen;
  return nullptr;
}

}  // namespace

int main() {
  void *const words =
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (words == MAP_FAILED) return 3;
  arrived = new (words) std::atomic<int>(0);
  pthread_t threads[kThreads];
  for (long i = 0; i < kThreads; ++i)
    if (pthread_create(&threads[i], nullptr, run, reinterpret_cast<void *>(i)) != 0) return 3;
  for (const pthread_t each : threads) pthread_join(each, nullptr);
  std::printf("%ld torn\n", torn);
}
