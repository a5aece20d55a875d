// tools/completion.h -- the command's words for bash: made from the command line's own description,
// so that nothing can be left out.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "programs/command_line.h"

namespace tmh::tools {

// What an option's value may be. commas: a list of several of them.
struct Values {
  std::vector<std::string> words;
  bool commas = false;
};
// Of options with a check() of their own; type() describes those with check_one_of().
using ValuesOf = std::map<programs::Option, Values>;

// A bash script that completes subcommands, options and their values, and folders where an argument
// is one.
[[nodiscard]] std::string bash_completion(const programs::Command &command, const ValuesOf &values);

}  // namespace tmh::tools
