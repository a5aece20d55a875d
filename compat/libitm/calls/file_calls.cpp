// compat/libitm/calls/file_calls.cpp -- calls that close descriptors leave the engine's open.
// Why:       programs close what they do not know (daemons, before they run another program).
//            Memory whose userfaultfd is closed reads as zeros, without a word.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "levels/process/ground/ground.h"
#include "levels/process/process.h"

using tmh::itm::pages::is_own_file;
using tmh::itm::pages::is_started;

extern "C" {

TMH_EXPORTED int close(int file) {
  if (is_started() && is_own_file(file)) return errno = EBADF, -1;
  return TMH_REAL(close)(file);
}

TMH_EXPORTED int close_range(unsigned first, unsigned last, int flags) noexcept {
  if (!is_started() || first > last) return TMH_REAL(close_range)(first, last, flags);
  // Up to the next one of the engine's, and on behind it.
  const auto limit = static_cast<unsigned>(std::max(sysconf(_SC_OPEN_MAX), 0L));
  for (unsigned begin = first; begin <= last;) {
    unsigned end = begin;
    while (end <= last && end < limit && !is_own_file(static_cast<int>(end))) ++end;
    const unsigned to = end > last ? last : end < limit ? end - 1 : last;
    TMH_ASSERT(begin <= end);
    if (end > begin || end >= limit) {
      if (const int result = TMH_REAL(close_range)(begin, to, flags); result != 0) return result;
    }
    if (end >= limit || end > last) return 0;
    begin = end + 1;
  }
  return 0;
}

TMH_EXPORTED void closefrom(int first) noexcept {
  static_cast<void>(close_range(static_cast<unsigned>(std::max(first, 0)), UINT_MAX, 0));
}

// A program that uses a number of its own choice for a descriptor does not choose the engine's.
TMH_EXPORTED int dup2(int from, int to) noexcept {
  if (is_started() && is_own_file(to)) return errno = EBUSY, -1;
  return TMH_REAL(dup2)(from, to);
}

TMH_EXPORTED int dup3(int from, int to, int flags) noexcept {
  if (is_started() && is_own_file(to)) return errno = EBUSY, -1;
  return TMH_REAL(dup3)(from, to, flags);
}

}  // extern "C"
