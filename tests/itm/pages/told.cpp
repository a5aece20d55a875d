#include "tests/itm/pages/told.h"

#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <new>

namespace itm::pages {

namespace {

Told *mapped() {
  void *const place =
      mmap(nullptr, sizeof(Told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED) {
    std::perror("mmap of what threads tell");
    std::exit(2);
  }
  return new (place) Told{};
}

Told *const all = mapped();
constexpr int kSaidMax = 20;

}  // namespace

Told &told() { return *all; }

void wrong(const char *what, long got, long expected) {
  if (all->wrong.fetch_add(1) < kSaidMax)
    std::fprintf(stderr, "wrong: %s: %ld, expected %ld\n", what, got, expected);
}

void yield() { sched_yield(); }

std::chrono::seconds patience() {
  static const char *const factor = std::getenv("TMH_TEST_SLOWDOWN");
  return std::chrono::seconds(60) * std::max(1, factor == nullptr ? 1 : std::atoi(factor));
}

// Other threads may hold locks of the C library for ever.
void hang(const char *what) {
  std::fprintf(stderr, "wrong: %s hangs\n", what);
  std::_Exit(1);
}

pthread_t start(void *(*routine)(void *), long argument) {
  pthread_t thread{};
  const int error = pthread_create(&thread, nullptr, routine, reinterpret_cast<void *>(argument));
  if (error != 0) {
    std::fprintf(stderr, "wrong: pthread_create fails with %d\n", error);
    std::_Exit(1);
  }
  return thread;
}

void *join(pthread_t thread, const char *what) {
  timespec until{};
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += patience().count();
  void *value = nullptr;
  const int error = pthread_timedjoin_np(thread, &value, &until);
  if (error != 0) hang(what);
  return value;
}

}  // namespace itm::pages
