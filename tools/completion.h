// tools/completion.h -- the command's words for bash: made from the command line's own description,
// so that nothing can be left out.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace tmh::tools {

// What an option's value may be. commas: a list of several of them.
struct Values {
  std::vector<std::string> words;
  bool commas = false;
};
// Of options whose check() CLI11 cannot describe; those with CLI::IsMember it describes itself.
using ValuesOf = std::map<const CLI::Option *, Values>;

// A bash script that completes subcommands, options and their values, and folders where an argument
// is one.
[[nodiscard]] std::string bash_completion(const CLI::App &app, const ValuesOf &values);

}  // namespace tmh::tools
