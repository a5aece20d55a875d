#include "tests/itm/pages/waiting.h"

// assert() in each build.
#undef NDEBUG
#include <cassert>

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

void fail_assertion() { assert(!"a death that is wanted"); }

}  // namespace itm::pages
