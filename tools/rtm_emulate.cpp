// tools/rtm_emulate.cpp -- tmh rtm-emulate: replaces this process by a program under the RTM
// emulator.
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <vector>

#include <fmt/format.h>

#include <tmh/error.hpp>

#include "tools/commands.h"
#include "tools/failure.h"

namespace tmh::tools {

namespace {

constexpr const char *kLibrary = "libtmh-rtm-emulation.so";

// Beside this program (build tree), in the prefix that it is installed in, or where the variable
// says.
std::string find_library() {
  namespace fs = std::filesystem;
  if (const char *named = std::getenv("TMH_RTM_EMULATION_LIBRARY"); named != nullptr) return named;
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  for (const fs::path &candidate : {folder / kLibrary, folder / ".." / TMH_LIBDIR / kLibrary})
    if (fs::exists(candidate, error)) return fs::weakly_canonical(candidate, error).string();
  refuse(Errc::kRtmUnavailable,
         fmt::format(
             "{} is neither beside this program nor in ../{}: it is built on x86-64 Linux where "
             "Zydis is installed; TMH_RTM_EMULATION_LIBRARY may name it",
             kLibrary, TMH_LIBDIR));
}

void set(const std::string &name, const std::string &value) {
  ::setenv(name.c_str(), value.c_str(), 1);
}

void put_first(const char *list, const std::string &entry) {
  const char *old = std::getenv(list);
  set(list, old == nullptr || *old == 0 ? entry : entry + ":" + old);
}

// LD_PRELOAD is split at spaces, too; LD_LIBRARY_PATH is not, and finds a name without a folder.
void preload(const std::filesystem::path &library) {
  const std::string folder = library.parent_path().string();
  if (folder.find_first_of(":;") != std::string::npos)
    throw Error(Errc::kBadArgument,
                library.string() + ": the loader cannot be told of a path with ':' or ';'");
  if (folder.find(' ') == std::string::npos) return put_first("LD_PRELOAD", library.string());
  put_first("LD_LIBRARY_PATH", folder);
  put_first("LD_PRELOAD", library.filename().string());
}

// NAME=VALUE to TMH_RTM_EMULATION_NAME; the library judges both.
void set_knob(const std::string &knob) {
  const std::size_t equals = knob.find('=');
  std::string name = knob.substr(0, equals);
  for (char &letter : name)
    letter =
        letter == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  set("TMH_RTM_EMULATION_" + name, knob.substr(equals + 1));
}

}  // namespace

Exit run(const RtmEmulateCommand &command) {
  preload(find_library());
  set("TMH_RTM_EMULATION", command.native ? "auto" : "force");
  set("TMH_ASSUME_RTM", "1");  // programs on libtmh: CPUID need not list RTM
  if (command.stats) set("TMH_RTM_EMULATION_STATS", "1");
  if (!command.domain.empty()) set("TMH_RTM_EMULATION_DOMAIN", command.domain);
  for (const std::string &knob : command.knobs) set_knob(knob);
  std::vector<char *> arguments;
  for (const std::string &word : command.program)
    arguments.push_back(const_cast<char *>(word.c_str()));
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  throw Error(errno == EACCES ? Errc::kPermission : Errc::kIo,
              fmt::format("{}: {}", command.program[0], std::strerror(errno)));
}

}  // namespace tmh::tools
