// rtm_emulator/assert.h -- preconditions of the emulator's own functions, which a debug build
// checks; a release build compiles them to nothing.
// Why:       platform/assert.h is libtmh's, and ends a process with abort(3): inside a transaction
//            SIGABRT is blocked, and libc uses vector registers.
// Contexts:  everywhere, also inside an emulated transaction: a sentence by a raw system call, and
//            an instruction that traps.
#pragma once

#ifdef NDEBUG
// Not evaluated, but compiled: what it names must exist, and counts as used.
#define TMH_ASSERT(condition) static_cast<void>(sizeof((condition) ? 1 : 0))
#else
#include <cstddef>

#include "rtm_emulator/system.h"

namespace tmh::rtm {

[[noreturn]] inline void fail_assert(const char *sentence, std::size_t bytes) noexcept {
  constexpr std::uint64_t kStandardError = 2;
  (void)system_call(Call::kWrite, kStandardError, address_of(sentence), bytes);
  __builtin_trap();
}

}  // namespace tmh::rtm

#define TMH_ASSERT_TEXT_(number) #number
#define TMH_ASSERT_LINE_(number) TMH_ASSERT_TEXT_(number)
#define TMH_ASSERT_SENTENCE_(condition) \
  "tmh-rtm-emulation: " __FILE__ ":" TMH_ASSERT_LINE_(__LINE__) ": " condition " is false\n"
#define TMH_ASSERT(condition)                                              \
  ((condition) ? static_cast<void>(0)                                      \
               : ::tmh::rtm::fail_assert(TMH_ASSERT_SENTENCE_(#condition), \
                                         sizeof TMH_ASSERT_SENTENCE_(#condition) - 1))
#endif
