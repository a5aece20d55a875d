// compat/libitm/calls/library_calls.cpp -- dlopen() and dlclose(): a library's data take part in
// transactions as the program's do.
// Limits:    a library is loaded in the task that loads it, and in those that this task makes
//            later. Its path is looked up as of a call from here: DT_RUNPATH of the caller does not
//            count.
#include <dlfcn.h>

#include "levels/process/ground/ground.h"
#include "levels/process/process.h"

using tmh::itm::pages::cover_libraries;
using tmh::itm::pages::go_irrevocable;

extern "C" {

TMH_EXPORTED void *dlopen(const char *path, int mode) noexcept {
  go_irrevocable();
  // Jump tables are filled before the data move.
  void *const library = TMH_REAL(dlopen)(path, (mode & ~RTLD_LAZY) | RTLD_NOW);
  if (library != nullptr) cover_libraries();
  return library;
}

TMH_EXPORTED int dlclose(void *library) noexcept {
  go_irrevocable();
  const int result = TMH_REAL(dlclose)(library);
  if (result == 0) cover_libraries();
  return result;
}

}  // extern "C"
