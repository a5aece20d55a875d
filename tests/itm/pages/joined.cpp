// tests/itm/pages/joined.cpp -- a thread is killed while its commit goes home page by page; plain
// code that has joined it finds the commit whole.
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>

#include "tests/itm/pages/filling.h"
#include "tests/itm/pages/told.h"

namespace itm::pages {

namespace {

constexpr long kEach = 1000;

void *fill_on_and_on(void *argument) {
  const long begin = reinterpret_cast<long>(argument);
  told().workers[0].tid = static_cast<int>(syscall(SYS_gettid));
  for (long i = 0; told().is_over == 0; ++i) Filling::fill(begin + i);
  return nullptr;
}

}  // namespace

void joined(const Options &) {
  Filling::open();
  for (long round = 1; round <= 30; ++round) {
    told().workers[0].tid = 0;
    const pthread_t thread = start(fill_on_and_on, round * kEach);
    // Its second commit has begun to go home, or a later one.
    wait_until("a commit", [round] { return Filling::first() > round * kEach; });
    syscall(SYS_kill, told().workers[0].tid.load(), SIGKILL);
    join(thread, "a join of a killed thread");
    expect(Filling::is_whole(), "a commit of a killed thread", 0, 1);
  }
}

}  // namespace itm::pages
