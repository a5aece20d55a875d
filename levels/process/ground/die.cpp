// levels/process/ground/die.cpp -- by system calls: the program's memory may have no mapping here.
#include "levels/process/ground/die.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "levels/process/ground/assert.h"
#include "levels/process/ground/kernel_call.h"

namespace tmh::itm::pages {

void die(const char *what) noexcept {
  // The variable stderr may lie in memory of the program, which has no mapping here.
  TMH_ASSERT(what != nullptr);
  char text[256];
  const int size = std::snprintf(text, sizeof text, "libitm (tmh): method pages: %s: %s\n", what,
                                 std::strerror(errno));
  kernel_call(SYS_write, STDERR_FILENO, reinterpret_cast<long>(text), size, 0, 0, 0);
  std::_Exit(127);
}

void refuse(const char *reason) noexcept {
  TMH_ASSERT(reason != nullptr);
  std::fprintf(stderr, "libitm (tmh): method pages is not possible here: %s (%s)\n", reason,
               std::strerror(errno));
  std::_Exit(127);
}

}  // namespace tmh::itm::pages
