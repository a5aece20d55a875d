// tools/tpd.h -- tmh tpd: transactions and files of dbopen() for other processes, until a signal
// ends it.
// Errors:    tmh::Error.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/exit_code.h"

namespace tmh::tools {

struct TpdCommand {
  std::string socket, listen;  // one of them; listen: 127.0.0.1:PORT
  std::string home;            // empty: TP_HOME, or beside the files
  std::string durability = "strict";
  std::vector<std::string> uids, log_types;
  bool tcl = false;
  double script_s = 10, write_s = 10;
  bool json = false;
};
[[nodiscard]] Exit run(const TpdCommand &command);

}  // namespace tmh::tools
