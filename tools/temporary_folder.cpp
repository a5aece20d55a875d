// tools/temporary_folder.cpp -- see temporary_folder.h.
#include "tools/temporary_folder.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>

#include "platform/failure.h"
#include "tools/failure.h"

namespace tmh::tools {

std::string make_temporary_folder(const std::string &prefix) {
  std::string where = "/tmp", named = where;
  for (const char *const variable : {"TMPDIR", "TMP", "TEMP", "TEMPDIR"}) {
    const char *const value = std::getenv(variable);
    if (value == nullptr || *value == 0) continue;
    where = value;
    named = std::string(variable) + "=" + value;
    break;
  }
  struct stat found {};
  errno = 0;
  if (::stat(where.c_str(), &found) != 0 || !S_ISDIR(found.st_mode)) {
    if (errno == 0) errno = ENOTDIR;
    check(platform::fail_errno(Errc::kIo, named + " is where temporary files belong"));
  }
  std::string path = where + "/" + prefix + "XXXXXX";
  if (::mkdtemp(path.data()) == nullptr)
    check(platform::fail_errno(Errc::kIo, named + ": making a folder there"));
  return path;
}

}  // namespace tmh::tools
