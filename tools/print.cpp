// tools/print.cpp -- writing, and noticing when it fails.
#include "tools/print.h"

#include <cerrno>
#include <cstdio>

#include "platform/failure.h"
#include "tools/failure.h"

namespace tmh::tools {

namespace {
std::string text_of(const Json &document, int indent) {
  return document.dump(indent, ' ', false, Json::error_handler_t::replace) + "\n";
}
}  // namespace

void print(const std::string &text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size())
    check(platform::fail_errno(Errc::kIo, "standard output"));
}
std::string text_of_json(const Json &document) { return text_of(document, 2); }
void print(const Json &document) { print(text_of_json(document)); }
void print_line(const Json &document) { print(text_of(document, -1)); }

void flush_output() {
  errno = 0;
  if (std::fflush(stdout) != 0) check(platform::fail_errno(Errc::kIo, "standard output"));
}

}  // namespace tmh::tools
