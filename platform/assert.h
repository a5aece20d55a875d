// platform/assert.h -- preconditions that debug and sanitizer builds check; a release build
// compiles them to nothing.
// Contexts:  async-signal-safe.
#pragma once

#ifdef NDEBUG
// Not evaluated, but compiled: what it names must exist, and counts as used.
#define TMH_ASSERT(condition) static_cast<void>(sizeof((condition) ? 1 : 0))
#else
#include <cstdlib>

#include "platform/fault_handler.h"

#define TMH_ASSERT_TEXT_(number) #number
#define TMH_ASSERT_LINE_(number) TMH_ASSERT_TEXT_(number)
#define TMH_ASSERT(condition)                                                                  \
  ((condition)                                                                                 \
       ? static_cast<void>(0)                                                                  \
       : (::tmh::platform::write_sentence(                                                     \
              "tmh: " __FILE__ ":" TMH_ASSERT_LINE_(__LINE__) ": " #condition " is false", 0), \
          std::abort()))
#endif
