// bench/support/environment.h -- what a number depends on besides the code: the columns that every
// CSV row carries.
#pragma once

#include <string>

#include "programs/json.h"

namespace tmh::bench {

using programs::Json;

// Commit, compiler, flags, cpu, cores, kernel, file system of `folder`, rtm, what page tracking may
// use.
// A value that cannot be found out is "unknown", never left out.
[[nodiscard]] Json environment(const std::string &folder);

}  // namespace tmh::bench
