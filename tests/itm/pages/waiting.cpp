#include "tests/itm/pages/waiting.h"

// assert() in each build.
#undef NDEBUG
#include <cassert>

#include <immintrin.h>

#include <chrono>
#include <csignal>

#include "tests/itm/pages/told.h"

namespace itm::pages {

void wait(long ns) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(ns);
  while (std::chrono::steady_clock::now() < end) _mm_pause();
}

void wait_for_a_commit() {
  told().attempts.fetch_add(1);
  const long question = told().questions.fetch_add(1) + 1;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
  while (told().answers < question && std::chrono::steady_clock::now() < end) _mm_pause();
}

bool await_question() {
  while (told().answers == told().questions) {
    if (told().is_over != 0) return false;
    yield();
  }
  return true;
}

void answer() { told().answers = told().questions.load(); }

void trap() { __builtin_trap(); }

void raise_abort() { static_cast<void>(std::raise(SIGABRT)); }

void fail_assertion() { assert(!"a death that is wanted"); }

}  // namespace itm::pages
