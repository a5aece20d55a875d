// tools/info.h -- what a domain's folder holds, and what is wrong with it: tmh info prints it, tmh
// check begins with it.
#pragma once

#include <string>
#include <vector>

#include "tools/print.h"

namespace tmh::tools {

struct DomainInfo {
  Json document;  // as tmh info --json prints it
  std::vector<std::string> problems;
};
// Throws what read_control() says; what is wrong with other parts is a problem.
[[nodiscard]] DomainInfo inspect(const std::string &folder);

}  // namespace tmh::tools
