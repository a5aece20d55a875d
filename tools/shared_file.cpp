// tools/shared_file.cpp -- see shared_file.h.
#include "tools/shared_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "platform/failure.h"
#include "tools/failure.h"

namespace tmh::tools {

using platform::FileDescriptor;

FileDescriptor open_shared(const std::string &path) {
  // Opening anything but a regular file may wait.
  FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd && errno == ENOENT) return fd;
  if (!fd) check(platform::fail_errno(Errc::kIo, path));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) check(platform::fail_errno(Errc::kIo, path));
  if (!S_ISREG(info.st_mode)) refuse(Errc::kNotADomain, path + " is not a regular file");
  return fd;
}

std::vector<std::byte> read_at(const FileDescriptor &file, const std::string &path, std::uint64_t offset,
                               std::size_t bytes) {
  std::vector<std::byte> block(bytes);
  const ssize_t got = ::pread(file.get(), block.data(), bytes, static_cast<off_t>(offset));
  if (got < 0) check(platform::fail_errno(Errc::kIo, path));
  block.resize(static_cast<std::size_t>(got));
  return block;
}

std::vector<std::byte> read_some(const std::string &path, std::size_t bytes) {
  const FileDescriptor file = open_shared(path);
  return file ? read_at(file, path, 0, bytes) : std::vector<std::byte>{};
}

}  // namespace tmh::tools
