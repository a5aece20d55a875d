#include "tests/itm/pages/waiting.h"

#include <immintrin.h>

#include <chrono>

namespace itm::pages {

void wait(long ns) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(ns);
  while (std::chrono::steady_clock::now() < end) _mm_pause();
}

void trap() { __builtin_trap(); }

}  // namespace itm::pages
