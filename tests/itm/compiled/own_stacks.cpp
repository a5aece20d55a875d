// tests/itm/compiled/own_stacks.cpp -- transactions on stacks of makecontext(), kept and cancelled.
// Methods:   lines rtm serial
// Levels:    0 2
// Says:      right
#include <ucontext.h>

#include <cstdio>
#include <cstdlib>

namespace {

constexpr std::size_t kStackBytes = 256 * 1024;
ucontext_t caller, fiber;
long total, on_fiber;

__attribute__((transaction_safe, noinline)) void add(long *to, long v) { *to += v; }
__attribute__((noinline)) void run(long k) {
  long local = 0;
  __transaction_atomic {
    add(&local, 2);
    add(&total, local);
  }
  on_fiber += local;
  __transaction_atomic {
    add(&total, 1000);
    if (k >= 0) __transaction_cancel;
  }
}
void body() {
  for (long k = 0; k < 50; ++k) {
    run(k);
    swapcontext(&fiber, &caller);
  }
}

}  // namespace

int main() {
  getcontext(&fiber);
  fiber.uc_stack.ss_sp = std::malloc(kStackBytes);
  fiber.uc_stack.ss_size = kStackBytes;
  fiber.uc_link = &caller;
  makecontext(&fiber, body, 0);
  for (long k = 0; k < 50; ++k) {
    swapcontext(&caller, &fiber);
    run(k);
  }
  std::puts(total == 200 && on_fiber == 200 ? "right" : "WRONG");
}
