// tests/support/failing_new.h -- an operator new that fails when a test tells it to. It replaces
// the program's: for its one source file.
// Contexts:  a failure is of the thread that asked for it; other threads' allocations succeed.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>

namespace tmh::test {

struct NewFailure {
  // So many more allocations succeed; 0: the next one fails, less: none does.
  int after = -1;
  std::size_t bytes_min = 0;  // smaller ones are not counted, and succeed
};
inline constinit thread_local NewFailure new_failure;

}  // namespace tmh::test

void *operator new(std::size_t bytes) {
  tmh::test::NewFailure &failure = tmh::test::new_failure;
  const bool fails = bytes >= failure.bytes_min && failure.after >= 0 && failure.after-- == 0;
  void *const memory = fails ? nullptr : std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void *operator new(std::size_t bytes, const std::nothrow_t &) noexcept {
  return std::malloc(bytes);
}
// Not inlined: g++ would warn of an object that is made by `new` and freed by free().
[[gnu::noinline]] void operator delete(void *memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void *memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void *memory, const std::nothrow_t &) noexcept {
  std::free(memory);
}
