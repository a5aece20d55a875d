// examples/inverted_index/work_folder.cpp -- makes and removes it.
#include "examples/inverted_index/work_folder.h"

#include <linux/magic.h>
#include <sys/vfs.h>

#include <cerrno>
#include <cstdint>
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
    path_ =
        fmt::format("{}/tmh-demo-XXXXXX", parent != nullptr && *parent != '\0' ? parent : "/tmp");
    if (::mkdtemp(path_.data()) == nullptr) {
      throw BadInput(
          fmt::format("cannot make a temporary folder {}: {}", path_, std::strerror(errno)));
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
  // Nothing better to do in a destructor than to leave what cannot be removed.
  std::error_code ignored;
  if (temporary_) fs::remove_all(path_, ignored);
}

std::string WorkFolder::file_system() const {
  struct statfs info {};
  if (::statfs(path_.c_str(), &info) != 0) return "unknown file system";
  switch (static_cast<std::uint64_t>(info.f_type)) {
    case TMPFS_MAGIC:
      return "tmpfs: memory, where nothing survives a real power cut";
    case EXT4_SUPER_MAGIC:
      return "ext4";
    case XFS_SUPER_MAGIC:
      return "xfs";
    case BTRFS_SUPER_MAGIC:
      return "btrfs";
    case OVERLAYFS_SUPER_MAGIC:
      return "overlayfs";
    default:
      return fmt::format("file system {:#x}", info.f_type);
  }
}

}  // namespace inverted_index
