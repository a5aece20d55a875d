// tools/db_commands.h -- the command line of tmh db and tmh tpd.
#pragma once

#include <functional>

#include "programs/command_line.h"
#include "tools/exit_code.h"

namespace tmh::tools {

// *chosen: what the parsed line wants.
void add_db_commands(programs::Command *line, std::function<Exit()> *chosen);

}  // namespace tmh::tools
