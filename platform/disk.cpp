// platform/disk.cpp -- durable writes.
#include "platform/disk.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <new>

#include "observe/probes.h"
#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/process.h"
#include "platform/try.h"

namespace tmh::platform {

namespace detail {
constinit std::atomic<DiskHook> disk_hook{nullptr};
}  // namespace detail

namespace {
Errc fail_with(int error, const std::string &what) noexcept {
  errno = error;
  return fail_errno(Errc::kIo, what);
}
Errc fail_with_exists(const std::string &path) noexcept {
  return fail(Errc::kBadArgument, path + " exists");
}
}  // namespace

Errc watch_disk(const DiskEvent &event) noexcept {
  TMH_ASSERT(event.path != nullptr);
  const DiskHook hook = detail::disk_hook.load(std::memory_order_relaxed);
  if (hook == nullptr) return Errc::kOk;
  const int error = hook(event);
  return error == 0 ? Errc::kOk : fail_with(error, event.path);
}

void set_disk_hook(DiskHook hook) noexcept {
  detail::disk_hook.store(hook, std::memory_order_relaxed);
}

Errc DiskFile::open(const std::string &path, Mode mode, FileRole role) noexcept try {
  close();
  path_ = path;
  if (mode == Mode::kCreate) {
    TMH_TRY(watch_disk({DiskOp::kCreate, path_.c_str()}));
  }
  const int flags = mode == Mode::kRead        ? O_RDONLY
                    : mode == Mode::kReadWrite ? O_RDWR
                                               : O_RDWR | O_CREAT | O_EXCL;
  TMH_TRY(open_regular(path, flags, role, &fd_));
  // Only log files and checkpoints are written by blocks, and these are never links.
  if (mode != Mode::kRead && role != FileRole::kSegment) open_direct();
  return Errc::kOk;
} catch (const std::bad_alloc &) {
  return fail_for_memory("a file's name");
}

// The same file once more, if it still has that name. None, where that or the file system refuses:
// see write_durable().
void DiskFile::open_direct() noexcept {
  TMH_ASSERT(is_open() && !direct_);
  struct stat mine {};
  struct stat opened {};
  FileDescriptor direct = keep_off_standard(
      FileDescriptor(::open(path_.c_str(), O_RDWR | O_DIRECT | O_DSYNC | O_CLOEXEC | O_NOFOLLOW |
                                               O_NONBLOCK | O_NOCTTY)));
  if (direct && fstat(fd_.get(), &mine) == 0 && fstat(direct.get(), &opened) == 0 &&
      mine.st_dev == opened.st_dev && mine.st_ino == opened.st_ino)
    direct_ = std::move(direct);
}

void DiskFile::close() noexcept {
  fd_.reset();
  direct_.reset();
}

Errc DiskFile::size(std::uint64_t *bytes) const noexcept {
  TMH_ASSERT(bytes != nullptr && is_open());
  struct stat info {};
  if (fstat(fd_.get(), &info) != 0) return fail_errno(Errc::kIo, path_);
  *bytes = static_cast<std::uint64_t>(info.st_size);
  return Errc::kOk;
}

bool DiskFile::is_whole(std::uint64_t bytes) const noexcept {
  TMH_ASSERT(is_open());
  // Not fstat: a caller that asks for a file's times makes the kernel (6.13 and later) write the
  // inode with the next change, 60 us per commit.
  struct statx info {};
  if (statx(fd_.get(), "", AT_EMPTY_PATH, STATX_SIZE | STATX_NLINK, &info) == 0)
    return info.stx_nlink > 0 && info.stx_size >= bytes;
  struct stat slowly {};  // a sandbox that does not know statx
  return fstat(fd_.get(), &slowly) == 0 && slowly.st_nlink > 0 &&
         static_cast<std::uint64_t>(slowly.st_size) >= bytes;
}

bool DiskFile::has_other_names() const noexcept {
  TMH_ASSERT(is_open());
  struct statx info {};
  return statx(fd_.get(), "", AT_EMPTY_PATH, STATX_NLINK, &info) != 0 || info.stx_nlink > 1;
}

Errc DiskFile::read(std::uint64_t offset, void *to, std::size_t bytes,
                    std::size_t *got) const noexcept {
  TMH_ASSERT(is_open() && got != nullptr && (to != nullptr || bytes == 0));
  *got = 0;
  while (*got < bytes) {
    const ssize_t n = pread(fd_.get(), static_cast<char *>(to) + *got, bytes - *got,
                            static_cast<off_t>(offset + *got));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno(Errc::kIo, path_);
    if (n == 0) break;
    *got += static_cast<std::size_t>(n);
  }
  return Errc::kOk;
}

Errc DiskFile::write_all(int fd, std::uint64_t offset, const void *from,
                         std::size_t bytes) noexcept {
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t n = pwrite(fd, static_cast<const char *>(from) + done, bytes - done,
                             static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno(Errc::kIo, path_);
    done += static_cast<std::size_t>(n);
  }
  return Errc::kOk;
}

Errc DiskFile::write(std::uint64_t offset, const void *from, std::size_t bytes) noexcept {
  TMH_TRY(watch_disk({DiskOp::kWrite, path_.c_str(), nullptr, offset, from, bytes}));
  return write_all(fd_.get(), offset, from, bytes);
}

Errc DiskFile::write_durable(std::uint64_t offset, const void *from, std::size_t bytes) noexcept {
  TMH_TRY(watch_disk({DiskOp::kWriteDurable, path_.c_str(), nullptr, offset, from, bytes}));
  TMH_TRY(put_durable(offset, from, bytes));
  return watch_disk({DiskOp::kWriteDone, path_.c_str()});
}

Errc DiskFile::put_durable(std::uint64_t offset, const void *from, std::size_t bytes) noexcept {
  TMH_ASSERT(is_open() && offset % kDiskBlockBytes == 0 && bytes % kDiskBlockBytes == 0);
  TMH_ASSERT(reinterpret_cast<std::uintptr_t>(from) % kDiskBlockBytes == 0);
  observe::probe::fsync(path_.c_str(), bytes);
  if (direct_) {
    const Errc error = write_all(direct_.get(), offset, from, bytes);
    if (error == Errc::kOk) {
      observe::probe::fsync_done(path_.c_str(), bytes);
      return Errc::kOk;
    }
    if (errno != EINVAL) return error;
    direct_.reset();  // the file system took the flag but not the write
  }
  TMH_TRY(write_all(fd_.get(), offset, from, bytes));
  if (fdatasync(fd_.get()) != 0) return fail_errno(Errc::kIo, "fdatasync " + path_);
  observe::probe::fsync_done(path_.c_str(), bytes);
  return Errc::kOk;
}

Errc DiskFile::sync() noexcept { return sync_file(fd_.get(), path_); }

Errc DiskFile::write_back_gently(const std::atomic<bool> &hurry, std::uint64_t offset,
                                 std::uint64_t bytes) noexcept {
  // 32 pages at a time: a durable write waits for at most so many others. Three times as long a
  // pause: a quarter of the device.
  constexpr off_t kPieceBytes = 128 << 10;
  constexpr std::uint64_t kWroteSomethingNs = 30'000;
  struct stat info {};
  if (fstat(fd_.get(), &info) != 0) return Errc::kOk;
  const auto size = static_cast<std::uint64_t>(info.st_size);
  const auto end =
      static_cast<off_t>(offset < size ? offset + std::min(bytes, size - offset) : offset);
  // relaxed: nothing is read because of it
  for (auto at = static_cast<off_t>(offset); at < end && !hurry.load(std::memory_order_relaxed);) {
    // Not used otherwise: reads and writes name their offsets.
    at = lseek(fd_.get(), at, SEEK_DATA);
    if (at < 0 || at >= end) return Errc::kOk;  // nothing but a hole behind it
    at -= at % kPieceBytes;
    const std::uint64_t start = monotonic_ns();
    if (sync_file_range(fd_.get(), at, kPieceBytes,
                        SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER) != 0) {
      // EPERM: a sandbox.
      const bool is_unable =
          errno == ESPIPE || errno == EINVAL || errno == ENOSYS || errno == EPERM;
      return is_unable ? Errc::kOk : fail_errno(Errc::kIo, path_);
    }
    const std::uint64_t took = monotonic_ns() - start;
    at += kPieceBytes;
    if (took < kWroteSomethingNs) continue;
    const std::uint64_t rest = 3 * took;
    const timespec pause{static_cast<time_t>(rest / 1'000'000'000),
                         static_cast<long>(rest % 1'000'000'000)};
    nanosleep(&pause, nullptr);
  }
  return Errc::kOk;
}

Errc DiskFile::truncate(std::uint64_t bytes) noexcept {
  TMH_TRY(watch_disk({DiskOp::kTruncate, path_.c_str(), nullptr, bytes}));
  return ftruncate(fd_.get(), static_cast<off_t>(bytes)) == 0 ? Errc::kOk
                                                              : fail_errno(Errc::kIo, path_);
}

Errc disk_rename(const std::string &from, const std::string &to) noexcept {
  TMH_TRY(watch_disk({DiskOp::kRename, from.c_str(), to.c_str()}));
  return ::rename(from.c_str(), to.c_str()) == 0 ? Errc::kOk : fail_errno(Errc::kIo, from);
}

Errc disk_unlink(const std::string &path) noexcept {
  TMH_TRY(watch_disk({DiskOp::kUnlink, path.c_str()}));
  return ::unlink(path.c_str()) == 0 || errno == ENOENT ? Errc::kOk : fail_errno(Errc::kIo, path);
}

Errc sync_folder(const std::string &folder) noexcept {
  TMH_TRY(watch_disk({DiskOp::kFolderSync, folder.c_str()}));
  const FileDescriptor fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return fail_errno(Errc::kIo, folder);
  observe::probe::fsync(folder.c_str(), 0);
  if (::fsync(fd.get()) != 0) return fail_errno(Errc::kIo, "fsync " + folder);
  observe::probe::fsync_done(folder.c_str(), 0);
  return watch_disk({DiskOp::kFolderSyncDone, folder.c_str()});
}

Errc sync_file(int fd, const std::string &path) noexcept {
  TMH_ASSERT(fd >= 0);
  TMH_TRY(watch_disk({DiskOp::kSync, path.c_str()}));
  observe::probe::fsync(path.c_str(), 0);
  if (fdatasync(fd) != 0) return fail_errno(Errc::kIo, "fdatasync " + path);
  observe::probe::fsync_done(path.c_str(), 0);
  return watch_disk({DiskOp::kSyncDone, path.c_str()});
}

Errc rename_new(const std::string &from, const std::string &to) noexcept {
  int failed = ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE);
  // A file system that does not know the flag. What comes between the look and rename() is replaced
  // only if it is an empty folder.
  if (failed != 0 && errno == EINVAL) {
    if (::access(to.c_str(), F_OK) == 0) return fail_with_exists(to);
    failed = ::rename(from.c_str(), to.c_str());
  }
  if (failed == 0) return Errc::kOk;
  return errno == EEXIST || errno == ENOTEMPTY ? fail_with_exists(to) : fail_errno(Errc::kIo, to);
}

Errc replace_file(const std::string &path, const void *data, std::size_t bytes) noexcept {
  TMH_ASSERT(data != nullptr || bytes == 0);
  const std::string temporary = path + ".new";
  TMH_TRY(disk_unlink(temporary));
  DiskFile file;
  TMH_TRY(file.open(temporary, DiskFile::Mode::kCreate));
  TMH_TRY(file.write(0, data, bytes));
  TMH_TRY(file.sync());
  return disk_rename(temporary, path);
}

}  // namespace tmh::platform
