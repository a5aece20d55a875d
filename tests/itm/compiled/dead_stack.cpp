// tests/itm/compiled/dead_stack.cpp -- a rollback stores nothing to frames that are gone. Functions
// that transactions have called have stored to large arrays of their own; a pattern is laid over
// them before each way back: of a restart, a cancel, a nested cancel, after an exception.
// Methods:   lines rtm serial pages pages-serializable
// Says:      0 bytes changed, right
#include <sys/mman.h>

#include <atomic>
#include <cstdio>
#include <new>

extern "C" [[gnu::transaction_pure, noreturn]] void _ITM_abortTransaction(int);
extern "C" [[gnu::transaction_pure]] int _ITM_inTransaction();

namespace {

// Frames of a rollback, and of signals meanwhile, lie above kOwn bytes below its caller's.
constexpr std::size_t kArray = 40 * 1024, kOwn = 16 * 1024, kWatched = 16 * 1024;
constexpr unsigned char kPattern = 0x59;
constexpr long kRounds = 20;
constexpr int kUserRetry = 2, kRetryable = 1;
long changed, kept, caught_sum;
std::atomic<long> *restarts;  // in memory that no transaction versions or undoes

[[gnu::transaction_pure, gnu::noinline]] void lay_pattern() {
  volatile unsigned char dead[kOwn + kWatched];
  for (volatile unsigned char &each : dead) each = kPattern;
}
// In the frame of lay_pattern(), of the same caller.
[[gnu::transaction_pure, gnu::noinline]] void look() {
  volatile unsigned char dead[kOwn + kWatched];
  for (std::size_t i = 0; i < kWatched; ++i) changed += dead[i] != kPattern;
}
[[gnu::transaction_safe, gnu::noinline]] void fill(unsigned char *to, std::size_t n, long k) {
  for (std::size_t i = 0; i < n; ++i) to[i] = static_cast<unsigned char>(k + static_cast<long>(i));
}
[[gnu::transaction_safe, gnu::noinline]] long deep(long k) {
  unsigned char array[kArray];
  fill(array, sizeof array, k);
  return array[k & 1023];
}
[[gnu::transaction_safe, gnu::noinline]] long deep_and_nested(long k) {
  unsigned char array[kArray];
  __transaction_atomic {
    fill(array, sizeof array, k);
    if (k < 0) __transaction_cancel;
  }
  return array[k & 1023];
}

[[gnu::noinline]] void run_cancelled(long k) {
  __transaction_atomic {
    kept += deep(k) + deep_and_nested(k);
    lay_pattern();
    if (k >= 0) __transaction_cancel;
  }
  look();
}
[[gnu::noinline]] void run_nested(long k) {
  __transaction_atomic {
    kept += 1;
    __transaction_atomic {
      kept += deep(k) + deep_and_nested(k);
      lay_pattern();
      if (k >= 0) __transaction_cancel;
    }
    look();
  }
}
[[gnu::transaction_pure]] bool must_restart(long k) {
  if (restarts->load(std::memory_order_relaxed) > k || _ITM_inTransaction() != kRetryable)
    return false;
  restarts->store(k + 1, std::memory_order_relaxed);  // one thread
  return true;
}
[[gnu::noinline]] void run_restarted(long k) {
  __transaction_atomic {
    const long ignored = deep(k) + deep_and_nested(k);
    kept += ignored - ignored + 1;
    lay_pattern();
    if (must_restart(k)) _ITM_abortTransaction(kUserRetry);
  }
  if (restarts->load(std::memory_order_relaxed) > k) look();
}
[[gnu::transaction_safe, gnu::noinline]] long throw_deep(long k) {
  const long value = deep(k);
  if (k >= 0) throw value;
  return value;
}
[[gnu::transaction_safe, gnu::noinline]] void note_caught(long value) { caught_sum += value; }
[[gnu::transaction_safe, gnu::noinline]] long catch_deep(long k) {
  try {
    return throw_deep(k);
  } catch (...) {
    note_caught(1);
  }
  return 1;
}
[[gnu::noinline]] void run_caught(long k) {
  __transaction_atomic {
    kept += catch_deep(k);
    lay_pattern();
    if (k >= 0) __transaction_cancel;
  }
  look();
}

}  // namespace

int main() {
  void *const words =
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (words == MAP_FAILED) return 3;
  restarts = new (words) std::atomic<long>(0);
  for (long k = 0; k < kRounds; ++k) {
    run_cancelled(k);
    run_nested(k);
    run_restarted(k);
    run_caught(k);
  }
  const bool is_right = kept == 2 * kRounds && caught_sum == 0;
  std::printf("%ld bytes changed, %s\n", changed, is_right ? "right" : "WRONG");
}
