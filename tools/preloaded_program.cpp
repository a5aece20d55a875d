// tools/preloaded_program.cpp -- LD_PRELOAD and exec.
#include "tools/preloaded_program.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "platform/assert.h"
#include "tools/failure.h"

namespace tmh::tools {

namespace {

void put_first(const char *list, const std::string &entry) {
  const char *old = std::getenv(list);
  set_variable(list, old == nullptr || *old == 0 ? entry : entry + ":" + old);
}

}  // namespace

std::string find_library(const LoadedFirst &library, Errc missing) {
  TMH_ASSERT(library.variable != nullptr && !library.name.empty() && missing != Errc::kOk);
  namespace fs = std::filesystem;
  std::error_code error;
  if (const char *named = std::getenv(library.variable); named != nullptr) {
    if (!fs::is_regular_file(named, error))
      refuse(missing, fmt::format("{}={}: there is no such file", library.variable, named));
    return fs::absolute(named, error).string();  // the loader looks elsewhere for a name alone
  }
  const fs::path own = fs::read_symlink("/proc/self/exe", error).parent_path();
  const fs::path below = fs::path(library.folder) / library.name;
  for (const fs::path &candidate : {own / below, own / ".." / TMH_LIBDIR / below})
    if (fs::exists(candidate, error)) return fs::weakly_canonical(candidate, error).string();
  refuse(missing,
         fmt::format("{} is neither beside this program nor in ../{}{}; {} may name it",
                     below.string(), TMH_LIBDIR, library.where_it_is_not, library.variable));
}

void set_variable(const std::string &name, const std::string &value) {
  TMH_ASSERT(!name.empty() && name.find('=') == std::string::npos);
  ::setenv(name.c_str(), value.c_str(), 1);
}

// LD_PRELOAD is split at spaces, too; LD_LIBRARY_PATH is not, and finds a name without a folder.
void preload(const std::string &library) {
  TMH_ASSERT(!library.empty());
  const std::filesystem::path path(library);
  const std::string folder = path.parent_path().string();
  if (folder.find_first_of(":;") != std::string::npos)
    throw Error(Errc::kBadArgument,
                library + ": the loader cannot be told of a path with ':' or ';'");
  if (folder.find(' ') == std::string::npos) return put_first("LD_PRELOAD", library);
  put_first("LD_LIBRARY_PATH", folder);
  put_first("LD_PRELOAD", path.filename().string());
}

void become(const std::vector<std::string> &program) {
  TMH_ASSERT(!program.empty());
  std::vector<char *> arguments;
  for (const std::string &word : program) arguments.push_back(const_cast<char *>(word.c_str()));
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  throw Error(errno == EACCES ? Errc::kPermission : Errc::kIo,
              fmt::format("{}: {}", program[0], std::strerror(errno)));
}

}  // namespace tmh::tools
