// tests/support/last_words.cpp -- its standard error is a file.
#include "tests/support/last_words.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <stdexcept>

#include "tests/support/children.h"
#include "tests/support/temp_folder.h"

namespace tmh::test {

Death death_of(const std::string &name, const std::function<void()> &body) {
  const TempFolder folder;
  const std::string path = folder / "said";
  const ChildEnd end = run_in_child(name, [&] {
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0 || dup2(file, STDERR_FILENO) < 0)
      throw std::runtime_error("redirecting standard error");
    signal(SIGSEGV, SIG_DFL);
    signal(SIGBUS, SIG_DFL);
    body();
  });
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return {end.signal, end.exit_code, text.str()};
}

}  // namespace tmh::test
