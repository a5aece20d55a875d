// tests/itm/compiled/cancelled_deep.cpp -- cancelled transactions and blocks, whose callees have
// stored to arrays of their own by barriers alone, and have returned.
// Methods:   lines rtm serial pages pages-serializable
// Says:      880
#include <cstdio>

namespace {

long total;
__attribute__((noinline)) void dirty_stack() {
  volatile char dirty[2000];
  for (volatile char &each : dirty) each = 0x59;
}
__attribute__((transaction_safe, noinline)) void fill(char *to, long n, long a) {
  for (long i = 0; i < n; ++i) to[i] = static_cast<char>(a + i);
}
__attribute__((transaction_safe, noinline)) long deep(long a) {
  char local[1000];
  fill(local, sizeof local, a);
  return local[a & 511];
}
__attribute__((noinline)) void run(long a, bool cancels) {
  __transaction_atomic {
    total += deep(a);
    if (cancels) __transaction_cancel;
  }
}
__attribute__((noinline)) void run_nested(long a, bool cancels) {
  __transaction_atomic {
    total += 1;
    __transaction_atomic {
      total += deep(a);
      if (cancels) __transaction_cancel;
    }
  }
}

}  // namespace

int main() {
  for (long a = 0; a < 100; ++a) {
    dirty_stack();
    run(a, a % 3 == 0);
    dirty_stack();
    run_nested(a, a % 3 == 0);
  }
  std::printf("%ld\n", total);
}
