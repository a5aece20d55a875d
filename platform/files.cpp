// platform/files.cpp -- file primitives.
#include "platform/files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "platform/failure.h"

namespace tmh::platform {

void FileDescriptor::reset() noexcept {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

FolderLock::~FolderLock() {
  if (fd_) flock(fd_.get(), LOCK_UN);
}

Errc FolderLock::acquire(const std::string &lock_path) noexcept {
  fd_ = FileDescriptor(::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0660));
  if (!fd_) return fail_errno(Errc::kIo, lock_path);
  while (flock(fd_.get(), LOCK_EX) != 0) {
    if (errno != EINTR) return fail_errno(Errc::kIo, "flock " + lock_path);
  }
  return Errc::kOk;
}

Errc GrowingFile::open(const std::string &path, std::uint64_t bytes_min, std::uint64_t bytes_max,
                       Blocks blocks) noexcept {
  close();
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0660);
  if (fd_ < 0) return fail_errno(Errc::kIo, path);
  struct stat info {};
  if (fstat(fd_, &info) != 0) return fail_errno(Errc::kIo, path);
  if (static_cast<std::uint64_t>(info.st_size) < bytes_min && ftruncate(fd_, static_cast<off_t>(bytes_min)) != 0)
    return fail_errno(Errc::kIo, "extending " + path);
  if (blocks == Blocks::kAllocated) {
    if (const Errc error = allocate_blocks(fd_, 0, bytes_min); error != Errc::kOk) return fail(error, path);
  }
  void *at = mmap(nullptr, bytes_max, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd_, 0);
  if (at == MAP_FAILED) return fail_errno(Errc::kOutOfMemory, "mapping " + path);
  base_ = static_cast<std::byte *>(at);
  bytes_max_ = bytes_max;
  madvise(at, bytes_max, MADV_DONTFORK);  // a forked child is no participant and must not change our state
  return Errc::kOk;
}

void GrowingFile::close() noexcept {
  if (base_ != nullptr) munmap(base_, bytes_max_);
  if (fd_ >= 0) ::close(fd_);
  base_ = nullptr;
  fd_ = -1;
}

Errc GrowingFile::grow(std::uint64_t bytes) noexcept {
  if (bytes > bytes_max_) return Errc::kSegmentFull;
  struct stat info {};
  if (fstat(fd_, &info) != 0) return Errc::kIo;
  const auto from = static_cast<std::uint64_t>(info.st_size);
  if (from >= bytes) return Errc::kOk;
  if (const Errc error = allocate_blocks(fd_, from, bytes - from); error != Errc::kOk) return error;
  return ftruncate(fd_, static_cast<off_t>(bytes)) == 0 ? Errc::kOk : Errc::kIo;
}

void GrowingFile::shrink(std::uint64_t bytes) noexcept {
  if (ftruncate(fd_, static_cast<off_t>(bytes)) != 0) return;  // the blocks stay and are reused
}

Errc allocate_blocks(int fd, std::uint64_t offset_bytes, std::uint64_t bytes) noexcept {
  int result;
  do {
    result = fallocate(fd, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset_bytes), static_cast<off_t>(bytes));
  } while (result != 0 && errno == EINTR);
  if (result == 0 || errno == EOPNOTSUPP) return Errc::kOk;
  return errno == ENOSPC || errno == EDQUOT ? Errc::kDiskFull : Errc::kIo;
}

Errc read_file(const std::string &path, std::uint64_t bytes_max, std::string *out) noexcept {
  FileDescriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return fail_errno(Errc::kIo, path);
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) return fail_errno(Errc::kIo, path);
  if (!S_ISREG(info.st_mode)) return fail(Errc::kNotADomain, path + " is not a regular file");
  if (static_cast<std::uint64_t>(info.st_size) > bytes_max) return fail(Errc::kCorrupt, path + " is too long");
  out->assign(static_cast<std::size_t>(info.st_size), '\0');
  std::size_t done = 0;
  while (done < out->size()) {
    const ssize_t got = pread(fd.get(), out->data() + done, out->size() - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno(Errc::kIo, path);
    if (got == 0) return fail(Errc::kShortFile, path);
    done += static_cast<std::size_t>(got);
  }
  return Errc::kOk;
}

}  // namespace tmh::platform
