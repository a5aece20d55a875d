// tools/preloaded_program.h -- becomes a program into which a library of ours is loaded first.
#pragma once

#include <string>
#include <vector>

#include "tools/exit_code.h"

namespace tmh::tools {

struct LoadedFirst {
  std::string folder;           // below this program's, and below the folder of libraries; or empty
  std::string name;             // of the file
  const char *variable;         // of the environment: where it is instead
  std::string where_it_is_not;  // the rest of the sentence, when it is nowhere
};

// Beside this program (build tree), in the prefix that it is installed in, or where the variable
// says. Throws kRtmUnavailable's like: `missing`, with the places.
[[nodiscard]] std::string find_library(const LoadedFirst &library, Errc missing);
// For this process and what it becomes. Throws kBadArgument: the loader cannot be told of the path.
void preload(const std::string &library);
void set_variable(const std::string &name, const std::string &value);
// Does not return, unless by throwing: kPermission, kIo.
[[noreturn]] void become(const std::vector<std::string> &program);

}  // namespace tmh::tools
