// bench/support/itm_programs.h -- --programs FILE: programs of others, which bench/itm runs as its
// own. bench/README.md has the format.
#pragma once

#include <string>
#include <vector>

#include "bench/support/itm_cases.h"

namespace tmh::bench {

// Throws BadInput, which names the file, the program and what is wrong with it. Names must differ
// from those of `others`.
[[nodiscard]] std::vector<ItmCase> outside_cases(const std::string &path,
                                                 const std::vector<ItmCase> &others);

}  // namespace tmh::bench
