// tools/itm.cpp -- tmh itm: replaces this process by a program of g++ -fgnu-tm on our libitm.
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include <fmt/format.h>

#include <tmh/error.hpp>

#include "platform/assert.h"
#include "tools/commands.h"
#include "tools/failure.h"
#include "tools/preloaded_program.h"

namespace tmh::tools {

namespace {

const LoadedFirst kLibitm{"libtmh-itm", "libitm.so.1", "TMH_ITM_LIBRARY",
                          ": it is built on x86-64 Linux, without sanitizers"};
// The engine of the methods pages, which lies beside the libitm.
constexpr std::string_view kPagesLibrary = "libtmh-itm-pages.so";

bool is_of_pages(const std::string &method) {
  if (!method.empty()) return method.starts_with("pages");
  const char *const wanted = std::getenv("ITM_DEFAULT_METHOD");
  if (wanted == nullptr) return false;
  return std::string_view(wanted) == "pages" || std::string_view(wanted) == "pages-serializable";
}

// The engine has malloc() and threads of the program, so it goes before the libitm.
void preload_pages(const std::string &libitm) {
  TMH_ASSERT(!libitm.empty());
  const auto pages = std::filesystem::path(libitm).parent_path() / kPagesLibrary;
  std::error_code error;
  if (!std::filesystem::exists(pages, error))
    refuse(Errc::kIo,
           fmt::format("{} is not there: methods pages need it beside {}", pages.string(), libitm));
  preload(pages.string());
  // Stubs of calls are filled before the program's data become pages of the engine.
  set_variable("LD_BIND_NOW", "1");
}

}  // namespace

Exit run(const ItmCommand &command) {
  const std::string libitm = find_library(kLibitm, Errc::kIo);
  preload(libitm);
  if (is_of_pages(command.method)) preload_pages(libitm);
  if (!command.method.empty()) set_variable("ITM_DEFAULT_METHOD", command.method);
  if (!command.statistics.empty()) set_variable("TMH_ITM_STATISTICS", command.statistics);
  become(command.program);
}

}  // namespace tmh::tools
