// tools/itm.cpp -- tmh itm: replaces this process by a program of g++ -fgnu-tm on our libitm.
#include <tmh/error.hpp>

#include "tools/commands.h"
#include "tools/preloaded_program.h"

namespace tmh::tools {

namespace {

const LoadedFirst kLibitm{"libtmh-itm", "libitm.so.1", "TMH_ITM_LIBRARY",
                          ": it is built on x86-64 Linux, without sanitizers"};

}  // namespace

Exit run(const ItmCommand &command) {
  preload(find_library(kLibitm, Errc::kIo));
  if (!command.method.empty()) set_variable("ITM_DEFAULT_METHOD", command.method);
  if (!command.statistics.empty()) set_variable("TMH_ITM_STATISTICS", command.statistics);
  become(command.program);
}

}  // namespace tmh::tools
