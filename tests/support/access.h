// tests/support/access.h -- loads and stores of segment memory that the compiler neither drops nor
// merges.
// Shape:     relaxed atomics: plain machine loads and stores. For tests that ask what one access
//            returns or does.
#pragma once

#include <atomic>
#include <cstdint>

namespace tmh::test {

template <class T>
[[nodiscard]] T load(T &word) noexcept {
  return std::atomic_ref<T>(word).load(std::memory_order_relaxed);
}
template <class T>
void store(T &word, T value) noexcept {
  std::atomic_ref<T>(word).store(value, std::memory_order_relaxed);
}

}  // namespace tmh::test
