// compat/libdb/file_bytes.cpp -- pread(2) and pwrite(2), until all is done.
#include "compat/libdb/file_bytes.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

#include "compat/libdb/failure.h"
#include "platform/assert.h"
#include "platform/disk.h"

namespace tmh::db {

namespace {

using platform::DiskOp;

// call(done): what the system says of the bytes from there on.
template <class Call>
std::size_t repeated(std::size_t bytes, const Call &call) {
  std::size_t done = 0;
  while (done < bytes) {
    const ssize_t now = call(done);
    if (now == 0) break;
    if (now < 0 && errno != EINTR) throw Failure{errno};
    if (now > 0) done += static_cast<std::size_t>(now);
  }
  return done;
}

void throw_unless_done(Errc error) {
  if (error != Errc::kOk) throw Failure{errno != 0 ? errno : EIO};
}

// The name that an open file has now.
[[nodiscard]] std::string path_of(int file) {
  char path[PATH_MAX];
  const std::string link = "/proc/self/fd/" + std::to_string(file);
  const ssize_t bytes = ::readlink(link.c_str(), path, sizeof path);
  return bytes > 0 ? std::string(path, static_cast<std::size_t>(bytes)) : std::string();
}

void watch(DiskOp op, int file, std::uint64_t offset, const void *data, std::size_t bytes) {
  if (!platform::disk_is_watched()) return;
  const std::string path = path_of(file);
  throw_unless_done(platform::watch_disk({op, path.c_str(), nullptr, offset, data, bytes}));
}

}  // namespace

int open_file(const std::string &path, int flags, int mode) {
  if (platform::disk_is_watched() && (flags & O_CREAT) != 0 && ::access(path.c_str(), F_OK) != 0)
    throw_unless_done(platform::watch_disk({DiskOp::kCreate, path.c_str()}));
  const int file = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  if (file < 0) throw Failure{errno};
  return file;
}

std::size_t read_at(int file, void *to, std::size_t bytes, std::uint64_t offset) {
  TMH_ASSERT(file >= 0 && to != nullptr);
  return repeated(bytes, [&](std::size_t done) {
    return ::pread(file, static_cast<char *>(to) + done, bytes - done,
                   static_cast<off_t>(offset + done));
  });
}

void write_at(int file, const void *from, std::size_t bytes, std::uint64_t offset) {
  TMH_ASSERT(file >= 0 && (from != nullptr || bytes == 0));
  watch(DiskOp::kWrite, file, offset, from, bytes);
  const std::size_t done = repeated(bytes, [&](std::size_t at) {
    return ::pwrite(file, static_cast<const char *>(from) + at, bytes - at,
                    static_cast<off_t>(offset + at));
  });
  if (done != bytes) throw Failure{EIO};
}

void set_length(int file, std::uint64_t bytes) {
  TMH_ASSERT(file >= 0);
  watch(DiskOp::kTruncate, file, bytes, nullptr, 0);
  if (::ftruncate(file, static_cast<off_t>(bytes)) != 0) throw Failure{errno};
}

void sync_file(int file) {
  TMH_ASSERT(file >= 0);
  throw_unless_done(platform::sync_file(file, path_of(file)));
}

void sync_folder_of(const std::string &path) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  throw_unless_done(platform::sync_folder(folder));
}

}  // namespace tmh::db
