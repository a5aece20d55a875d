// levels/process/ground/assert.h -- TMH_ASSERT for code that runs in the program's own process: a
// failure is said and ends the program by system calls. abort() is the program's there, and inside
// of a transaction it would end one thread alone (faults.h).
// Contexts:  async-signal-safe; in a task, and in a fork()ed child, too.
#pragma once

#include "platform/assert.h"

#ifndef NDEBUG
#include <sys/syscall.h>

#include <cstddef>

#include "levels/process/ground/kernel_call.h"

namespace tmh::itm::pages {

[[noreturn]] inline void fail_assert(const char *text, std::size_t bytes) noexcept {
  kernel_call(SYS_write, 2, reinterpret_cast<long>(text), static_cast<long>(bytes), 0, 0, 0);
  for (;;) kernel_call(SYS_exit_group, 134, 0, 0, 0, 0, 0);
}

}  // namespace tmh::itm::pages

#undef TMH_ASSERT
#define TMH_ASSERT(condition)                                                     \
  ((condition) ? static_cast<void>(0)                                             \
               : ::tmh::itm::pages::fail_assert(TMH_ASSERT_SENTENCE_(#condition), \
                                                sizeof TMH_ASSERT_SENTENCE_(#condition) - 1))
#endif
