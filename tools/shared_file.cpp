// tools/shared_file.cpp -- see shared_file.h.
#include "tools/shared_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "platform/assert.h"
#include "platform/failure.h"
#include "tools/failure.h"

namespace tmh::tools {

using platform::FileDescriptor;

FileDescriptor open_shared(const std::string &path) {
  FileDescriptor fd;
  const Errc error = platform::open_regular(path, O_RDONLY, platform::FileRole::kOwn, &fd);
  if (error != Errc::kOk && errno != ENOENT) check(error);
  return fd;
}

std::vector<std::byte> read_at(const FileDescriptor &file, const std::string &path,
                               std::uint64_t offset, std::size_t bytes) {
  TMH_ASSERT(static_cast<bool>(file));
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
