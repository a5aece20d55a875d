// platform/assert.h -- preconditions that debug and sanitizer builds check; a release build
// compiles them to nothing.
// Shape:     needs no library and no other header of ours, so that every room can state what it
//            expects.
// Contexts:  async-signal-safe.
#pragma once

#ifdef NDEBUG
// Not evaluated, but compiled: what it names must exist, and counts as used.
#define TMH_ASSERT(condition) static_cast<void>(sizeof((condition) ? 1 : 0))
#else
#include <unistd.h>

#include <cstddef>
#include <cstdlib>

namespace tmh::platform {

[[noreturn]] inline void fail_assert(const char *sentence, std::size_t bytes) noexcept {
  static_cast<void>(!::write(STDERR_FILENO, sentence, bytes));  // it ends the process either way
  std::abort();
}

}  // namespace tmh::platform

#define TMH_ASSERT_TEXT_(number) #number
#define TMH_ASSERT_LINE_(number) TMH_ASSERT_TEXT_(number)
#define TMH_ASSERT_SENTENCE_(condition) \
  "tmh: " __FILE__ ":" TMH_ASSERT_LINE_(__LINE__) ": " condition " is false\n"
#define TMH_ASSERT(condition)                                                   \
  ((condition) ? static_cast<void>(0)                                           \
               : ::tmh::platform::fail_assert(TMH_ASSERT_SENTENCE_(#condition), \
                                              sizeof TMH_ASSERT_SENTENCE_(#condition) - 1))
#endif
