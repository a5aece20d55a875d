#include "tests/itm/pages/waiting.h"

#include <assert.h>

#include <immintrin.h>

#include <chrono>
#include <csignal>

namespace itm::pages {

void wait(long ns) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(ns);
  while (std::chrono::steady_clock::now() < end) _mm_pause();
}

void trap() { __builtin_trap(); }

void raise_abort() { static_cast<void>(std::raise(SIGABRT)); }

// What assert() calls, in builds without it, too.
void fail_assertion() { __assert_fail("a death that is wanted", "waiting.cpp", 0, ""); }

}  // namespace itm::pages
