// tests/support/last_words.h -- a child that faults: how it has ended, and what it said of it.
#pragma once

#include <functional>
#include <string>

namespace tmh::test {

struct Death {
  int signal = 0;
  int exit_code = 0;
  std::string said;  // on standard error
};
// `body` runs in a child with the default handlers of SIGSEGV and SIGBUS.
[[nodiscard]] Death death_of(const std::string &name, const std::function<void()> &body);

}  // namespace tmh::test
