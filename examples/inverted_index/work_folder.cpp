// examples/inverted_index/work_folder.cpp -- makes and removes it.
#include "examples/inverted_index/work_folder.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "examples/inverted_index/bad_input.h"

namespace inverted_index {

namespace fs = std::filesystem;

WorkFolder::WorkFolder(const std::string &given) : path_(given), temporary_(given.empty()) {
  if (temporary_) {
    const char *parent = std::getenv("TMPDIR");
    path_ = fmt::format("{}/tmh-demo-XXXXXX", parent != nullptr && *parent != '\0' ? parent : "/tmp");
    if (::mkdtemp(path_.data()) == nullptr) {
      throw BadInput(fmt::format("cannot make a temporary folder {}: {}", path_, std::strerror(errno)));
    }
    return;
  }
  std::error_code error;
  if (fs::exists(path_, error) && !fs::is_empty(path_, error)) {
    throw BadInput(fmt::format("{} is not empty; --domain wants a new or empty folder", path_));
  }
  if (error) throw BadInput(fmt::format("cannot use the folder {}: {}", path_, error.message()));
}

WorkFolder::~WorkFolder() {
  std::error_code ignored;  // nothing better to do in a destructor than to leave what cannot be removed
  if (temporary_) fs::remove_all(path_, ignored);
}

}  // namespace inverted_index
