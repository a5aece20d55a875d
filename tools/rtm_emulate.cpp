// tools/rtm_emulate.cpp -- tmh rtm-emulate: replaces this process by a program under the RTM
// emulator.
#include <cctype>

#include <tmh/error.hpp>

#include "platform/assert.h"
#include "tools/commands.h"
#include "tools/preloaded_program.h"

namespace tmh::tools {

namespace {

const LoadedFirst kEmulator{"", "libtmh-rtm-emulation.so", "TMH_RTM_EMULATION_LIBRARY",
                            ": it is built on x86-64 Linux where Zydis is installed"};

// NAME=VALUE to TMH_RTM_EMULATION_NAME; the library judges both.
void set_knob(const std::string &knob) {
  const std::size_t equals = knob.find('=');
  TMH_ASSERT(equals != std::string::npos && equals != 0);  // the command line has looked
  std::string name = knob.substr(0, equals);
  for (char &letter : name)
    letter =
        letter == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  set_variable("TMH_RTM_EMULATION_" + name, knob.substr(equals + 1));
}

}  // namespace

Exit run(const RtmEmulateCommand &command) {
  preload(find_library(kEmulator, Errc::kRtmUnavailable));
  set_variable("TMH_RTM_EMULATION", command.native ? "auto" : "force");
  set_variable("TMH_ASSUME_RTM", "1");  // programs on libtmh: CPUID need not list RTM
  if (command.stats) set_variable("TMH_RTM_EMULATION_STATS", "1");
  if (!command.domain.empty()) set_variable("TMH_RTM_EMULATION_DOMAIN", command.domain);
  for (const std::string &knob : command.knobs) set_knob(knob);
  become(command.program);
}

}  // namespace tmh::tools
