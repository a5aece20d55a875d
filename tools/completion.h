// tools/completion.h -- the command's words for bash: made from the command line's own description, so that nothing can be left out.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace tmh::tools {

// A bash script that completes subcommands, options, and folders where an argument is one.
[[nodiscard]] std::string bash_completion(const CLI::App &app);

}  // namespace tmh::tools
