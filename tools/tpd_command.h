// tools/tpd_command.h -- the command line of tmh tpd.
#pragma once

#include <functional>

#include "programs/command_line.h"
#include "tools/exit_code.h"

namespace tmh::tools {

// *chosen: what the parsed line wants.
void add_tpd_command(programs::Command *line, std::function<Exit()> *chosen);

}  // namespace tmh::tools
