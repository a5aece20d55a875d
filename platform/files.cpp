// platform/files.cpp -- file primitives.
#include "platform/files.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <filesystem>
#include <mutex>
#include <new>

#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/file_mappings.h"
#include "platform/page_tables.h"
#include "platform/readahead.h"
#include "platform/try.h"

namespace tmh::platform {

void FileDescriptor::reset() noexcept {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

FileDescriptor keep_off_standard(FileDescriptor fd) noexcept {
  if (!fd || fd.get() > STDERR_FILENO) return fd;
  return FileDescriptor(::fcntl(fd.get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
}

namespace {
std::string folder_of(const std::string &path) {
  const std::size_t name_at = path.find_last_of('/') + 1;
  return name_at == 0 ? "." : path.substr(0, name_at);
}

void adopt_rights(int fd, const std::string &path) noexcept {
  const std::string model = path.substr(0, path.find_last_of('/') + 1) + "tmh.control";
  struct stat made {};
  struct stat shared {};
  if (::lstat(model.c_str(), &shared) != 0 || !S_ISREG(shared.st_mode) || fstat(fd, &made) != 0)
    return;
  // Not ours to give away, as a member of that group no longer: then the rights of a group stay
  // what they are.
  if (made.st_gid != shared.st_gid && fchown(fd, static_cast<uid_t>(-1), shared.st_gid) != 0)
    return;
  const mode_t rights = shared.st_mode & 0666;
  if ((made.st_mode & 0666) != rights) (void)fchmod(fd, rights);
}

// Where a file system writes what changes elsewhere (btrfs), a store needs room that fallocate(2)
// cannot promise, and is SIGBUS when there is none. Only an empty file can be told; the price is
// btrfs's checksums of its data.
void store_in_place(int fd) noexcept {
  struct statfs system {};
  int flags = 0;
  if (fstatfs(fd, &system) != 0 || system.f_type != BTRFS_SUPER_MAGIC ||
      ioctl(fd, FS_IOC_GETFLAGS, &flags) != 0)
    return;
  flags |= FS_NOCOW_FL;
  (void)ioctl(fd, FS_IOC_SETFLAGS, &flags);
}

// Never through a symbolic link: O_EXCL does not create where one leads.
int open_or_make(const std::string &path, int flags, bool *is_new) noexcept {
  TMH_ASSERT(is_new != nullptr);
  *is_new = false;
  flags |= O_NOFOLLOW;
  if ((flags & O_CREAT) == 0) return ::open(path.c_str(), flags);
  if ((flags & O_EXCL) == 0) {
    const int fd = ::open(path.c_str(), flags & ~O_CREAT);
    if (fd >= 0 || errno != ENOENT) return fd;
  }
  const int fd = ::open(path.c_str(), flags | O_EXCL, 0660);
  *is_new = fd >= 0;
  if (fd >= 0 || errno != EEXIST || (flags & O_EXCL) != 0) return fd;
  return ::open(path.c_str(), flags & ~O_CREAT);  // made by another in between
}

Errc refuse(const std::string &path, const std::string &what) {
  const Errc error = fail(Errc::kForeignFile, path + " " + what);
  errno = 0;
  return error;
}

Errc irregular(const std::string &path, FileRole role) {
  if (role != FileRole::kSegment) return refuse(path, "is not a regular file");
  const Errc error = fail(Errc::kNotADomain, path + " is not a regular file");
  errno = 0;
  return error;
}

// Any user that may write the folder can have made a file there.
bool may_have_made(const struct stat &file, const std::string &folder) noexcept {
  if (file.st_uid == geteuid() || file.st_uid == 0) return true;
  struct stat info {};
  if (stat(folder.c_str(), &info) != 0) return false;
  return file.st_uid == info.st_uid || (info.st_mode & (S_IWGRP | S_IWOTH)) != 0;
}

// The open file is the one that counts: another one under its name comes too late.
Errc check_own(const std::string &path, const struct stat &file, FileRole role) {
  if (role == FileRole::kSegment) return Errc::kOk;
  if (role == FileRole::kOwn && file.st_nlink > 1)
    return refuse(path,
                  "has " + std::to_string(file.st_nlink) +
                      " names (hard links); remove the others, or copy the folder with cp -a");
  if (!may_have_made(file, folder_of(path)))
    return refuse(
        path, "belongs to user " + std::to_string(file.st_uid) + ", who may not write the folder");
  return Errc::kOk;
}
}  // namespace

Errc open_regular(const std::string &path, int flags, FileRole role, FileDescriptor *out) noexcept
    try {
  TMH_ASSERT((flags & O_TRUNC) == 0);
  TMH_ASSERT(out != nullptr);
  std::string target = path;
  if (role == FileRole::kSegment && (flags & O_EXCL) == 0) TMH_TRY(follow_links(path, &target));
  bool is_new = false;
  FileDescriptor fd = keep_off_standard(
      FileDescriptor(open_or_make(target, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, &is_new)));
  // A folder, a FIFO or a socket.
  if (!fd && (errno == EISDIR || errno == ENXIO)) return irregular(path, role);
  struct stat info {};
  if (!fd) {
    const int why = errno;
    if (why == ELOOP && lstat(target.c_str(), &info) == 0 && S_ISLNK(info.st_mode))
      return refuse(target, "is a symbolic link");
    errno = why;
    const Errc error = fail_errno(Errc::kIo, path);
    errno = why;
    return error;
  }
  if (fstat(fd.get(), &info) != 0) return fail_errno(Errc::kIo, path);
  if (!S_ISREG(info.st_mode)) return irregular(path, role);
  if (is_new) {
    adopt_rights(fd.get(), target);
    store_in_place(fd.get());
  } else if (const Errc error = check_own(path, info, role); error != Errc::kOk) {
    return error;
  }
  *out = std::move(fd);
  return Errc::kOk;
} catch (const std::bad_alloc &) {
  errno = ENOMEM;
  return fail_for_memory("a file's name");
}

bool has_entry(const std::string &path) noexcept {
  struct stat info {};
  return lstat(path.c_str(), &info) == 0;
}

// Link by link, each held open while its owner and its target are read: another one under its name
// is not followed.
Errc follow_links(const std::string &path, std::string *out) noexcept try {
  TMH_ASSERT(out != nullptr);
  constexpr int kLinksMax = 40;  // as the kernel
  std::filesystem::path file = path;
  const auto fail_with = [&path](int why) {
    errno = why;
    const Errc error = fail_errno(Errc::kIo, path);
    errno = why;
    return error;
  };
  for (int links = 0;; ++links) {
    const FileDescriptor link(::open(file.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (!link && errno != ENOENT && errno != ENOTDIR) return fail_with(errno);
    struct stat info {};
    if (!link || fstat(link.get(), &info) != 0 || !S_ISLNK(info.st_mode)) break;
    if (links == kLinksMax) return fail_with(ELOOP);
    struct stat folder {};
    const bool is_owners =
        stat(folder_of(file.string()).c_str(), &folder) == 0 && info.st_uid == folder.st_uid;
    if (info.st_uid != geteuid() && info.st_uid != 0 && !is_owners)
      return refuse(file.string(),
                    "is a symbolic link that user " + std::to_string(info.st_uid) +
                        " has made, which nobody else follows: name the file itself");
    char target[PATH_MAX];
    const ssize_t bytes = readlinkat(link.get(), "", target, sizeof target);
    if (bytes < 0) return fail_with(errno);
    file = file.parent_path() / std::string(target, static_cast<std::size_t>(bytes));
  }
  *out = file.string();
  return Errc::kOk;
} catch (const std::bad_alloc &) {
  errno = ENOMEM;
  return fail_for_memory("a file's name");
}

namespace {
// From open(2) to close(2) a file is listed, and no fork comes between open(2) and the list.
constinit std::mutex uninherited_mutex;
constinit UninheritedFile *uninherited = nullptr;
}  // namespace

void UninheritedFile::forget_in_child() noexcept {
  for (; uninherited != nullptr; uninherited = uninherited->next_) {
    uninherited->fd_.reset();
    uninherited->is_listed_ = false;
  }
  uninherited_mutex.unlock();
}

const int UninheritedFile::at_fork_ = pthread_atfork(
    [] { uninherited_mutex.lock(); }, [] { uninherited_mutex.unlock(); }, forget_in_child);

Errc UninheritedFile::open(const std::string &path, int flags) noexcept {
  const std::scoped_lock guard(uninherited_mutex);
  TMH_TRY(open_regular(path, flags, FileRole::kOwn, &fd_));
  if (!is_listed_) next_ = std::exchange(uninherited, this);
  is_listed_ = true;
  return Errc::kOk;
}

Errc UninheritedFile::lock(int operation, const std::string &path) noexcept {
  TMH_ASSERT(fd_.get() >= 0);
  while (flock(fd_.get(), operation) != 0) {
    if (errno != EINTR) return fail_errno(Errc::kIo, "flock " + path);
  }
  return Errc::kOk;
}

void UninheritedFile::reset() noexcept {
  if (fd_) flock(fd_.get(), LOCK_UN);
  const std::scoped_lock guard(uninherited_mutex);
  if (is_listed_) {
    UninheritedFile **link = &uninherited;
    while (*link != this) link = &(*link)->next_;
    *link = next_;
    is_listed_ = false;
  }
  fd_.reset();
}

// Until the file that it has locked is the one of that name: somebody may have emptied the folder
// while this process waited.
Errc FolderLock::acquire(const std::string &lock_path) noexcept {
  TMH_ASSERT(!held_.is_valid());
  struct stat locked {};
  struct stat named {};
  for (;;) {
    TMH_TRY(open(lock_path, O_RDWR | O_CREAT));
    TMH_TRY(lock(LOCK_EX, lock_path));
    if (fstat(fd(), &locked) != 0) return fail_errno(Errc::kIo, lock_path);
    if (lstat(lock_path.c_str(), &named) == 0 && is_same_file(locked, named)) return Errc::kOk;
  }
}

Errc FileHold::acquire(const std::string &path, int like) noexcept {
  TMH_ASSERT(like >= 0);
  struct stat held {};
  struct stat wanted {};
  TMH_TRY(open(path, O_RDONLY));
  if (fstat(fd(), &held) != 0 || fstat(like, &wanted) != 0) return fail_errno(Errc::kIo, path);
  if (!is_same_file(held, wanted)) return fail(Errc::kIo, path + ": another file by now");
  return lock(LOCK_SH, path);
}

Errc look_for_holder(const std::string &path, bool *is_held) noexcept {
  TMH_ASSERT(is_held != nullptr);
  *is_held = false;
  // A child would keep the lock for its life, and hold() wait for it.
  const std::scoped_lock no_fork(uninherited_mutex);
  FileDescriptor fd;
  if (const Errc error = open_regular(path, O_RDONLY, FileRole::kOwn, &fd); error != Errc::kOk)
    return errno == ENOENT ? Errc::kOk : error;
  if (flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return Errc::kOk;
  *is_held = errno == EWOULDBLOCK;
  return *is_held ? Errc::kOk : fail_errno(Errc::kIo, "flock " + path);
}

Errc GrowingFile::open(const std::string &path, std::uint64_t bytes_min, std::uint64_t bytes_max,
                       Blocks blocks) noexcept {
  TMH_ASSERT(bytes_max != 0 && bytes_min <= bytes_max);
  close();
  TMH_TRY(open_regular(path, O_RDWR | O_CREAT, FileRole::kOwn, &fd_));
  struct stat info {};
  if (fstat(fd_.get(), &info) != 0) return fail_errno(Errc::kIo, path);
  if (static_cast<std::uint64_t>(info.st_size) < bytes_min &&
      ftruncate(fd_.get(), static_cast<off_t>(bytes_min)) != 0)
    return fail_errno(Errc::kIo, "extending " + path);
  if (blocks == Blocks::kAllocated) {
    if (const Errc error = allocate_blocks(fd_.get(), 0, bytes_min); error != Errc::kOk)
      return fail(error, path);
  }
  loads_take_blocks_ = platform::loads_take_blocks(fd_.get());
  if (blocks == Blocks::kSparse) {
    reserved_.reset(static_cast<std::atomic<std::uint64_t> *>(
        std::calloc(bytes_max / kReservedBytes / 64 + 1, 8)));
    if (reserved_ == nullptr) return fail(Errc::kOutOfMemory, path);
  }
  void *at = map_when_touched(nullptr, bytes_max, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_NORESERVE, fd_.get(), 0);
  if (at == MAP_FAILED) return fail_errno(Errc::kOutOfMemory, "mapping " + path);
  base_ = static_cast<std::byte *>(at);
  bytes_max_ = bytes_max;
  note_mapping({reinterpret_cast<std::uintptr_t>(at), bytes_max, fd_.get(), 0});
  // A forked child is no participant and must not change our state.
  madvise(at, bytes_max, MADV_DONTFORK);
  if (blocks == Blocks::kSparse) keep_off_holes(at, 0, bytes_max, 0);
  return Errc::kOk;
}

void GrowingFile::close() noexcept {
  if (base_ != nullptr) {
    forget_mapping(base_);
    munmap(base_, bytes_max_);
  }
  base_ = nullptr;
  fd_.reset();
  reserved_.reset();
}

Errc GrowingFile::reserve_blocks(std::uint64_t offset, std::uint64_t bytes) noexcept {
  TMH_ASSERT(reserved_ != nullptr && bytes != 0 && offset + bytes <= bytes_max_);
  constexpr std::uint64_t kBlock = 4096;
  const std::uint64_t first = offset / kReservedBytes, last = (offset + bytes - 1) / kReservedBytes;
  const std::uint64_t end = std::min((last + 1) * kReservedBytes, bytes_max_);
  Errc error = allocate_blocks(fd_.get(), first * kReservedBytes, end - first * kReservedBytes);
  if (error == Errc::kOk) {
    for (std::uint64_t block = first; block <= last; ++block)
      reserved_.get()[block / 64].fetch_or(1ull << (block % 64), std::memory_order_relaxed);
    return error;
  }
  // No room for all of it. What others have had before us needs none.
  const std::uint64_t least_end =
      std::min((offset + bytes + kBlock - 1) / kBlock * kBlock, bytes_max_);
  for (std::uint64_t at = offset / kBlock * kBlock; at < least_end; at += kBlock) {
    error = allocate_blocks(fd_.get(), at, kBlock);
    if (error != Errc::kOk && !is_backed(at, kBlock)) return error;
  }
  return Errc::kOk;
}

// File systems may refuse to allocate what they have allocated (XFS), and ext4 keeps the part of a
// refused range that there was room for. What is allocated and was never stored to counts as data
// as soon as it is in the page cache; a hole never does. tmpfs refuses nothing that is there.
bool GrowingFile::is_backed(std::uint64_t offset, std::uint64_t bytes) const noexcept {
  TMH_ASSERT(base_ != nullptr && offset < bytes_max_ && bytes != 0);
  if (loads_take_blocks_) return false;
  (void)std::atomic_ref<std::byte>(base_[offset]).load(std::memory_order_relaxed);
  const off_t hole = lseek(fd_.get(), static_cast<off_t>(offset), SEEK_HOLE);
  return hole >= 0 && static_cast<std::uint64_t>(hole) >= offset + bytes;
}

Errc GrowingFile::grow(std::uint64_t bytes) noexcept {
  if (bytes > bytes_max_) return Errc::kSegmentFull;
  struct stat info {};
  if (fstat(fd_.get(), &info) != 0) return Errc::kIo;
  const auto from = static_cast<std::uint64_t>(info.st_size);
  if (from >= bytes) return Errc::kOk;
  TMH_TRY(allocate_blocks(fd_.get(), from, bytes - from));
  return ftruncate(fd_.get(), static_cast<off_t>(bytes)) == 0 ? Errc::kOk : Errc::kIo;
}

void GrowingFile::shrink(std::uint64_t bytes) noexcept {
  // The blocks stay and are reused.
  if (ftruncate(fd_.get(), static_cast<off_t>(bytes)) != 0) return;
}

Errc allocate_blocks(int fd, std::uint64_t offset_bytes, std::uint64_t bytes) noexcept {
  TMH_ASSERT(fd >= 0);
  int result;
  do {
    result = fallocate(fd, FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset_bytes),
                       static_cast<off_t>(bytes));
  } while (result != 0 && errno == EINTR);
  if (result == 0 || errno == EOPNOTSUPP || errno == ENOSYS) return Errc::kOk;
  return errno == ENOSPC || errno == EDQUOT ? Errc::kDiskFull : Errc::kIo;
}

bool has_data(int fd, std::uint64_t offset_bytes, std::uint64_t bytes) noexcept {
  TMH_ASSERT(fd >= 0);
  const off_t data = lseek(fd, static_cast<off_t>(offset_bytes), SEEK_DATA);
  // In doubt it has.
  return data >= 0 ? static_cast<std::uint64_t>(data) < offset_bytes + bytes : errno != ENXIO;
}

bool loads_take_blocks(int fd) noexcept {
  struct statfs info {};
  return fstatfs(fd, &info) == 0 && info.f_type == TMPFS_MAGIC;
}

Errc read_file(const std::string &path, std::uint64_t bytes_max, std::string *out) noexcept {
  TMH_ASSERT(out != nullptr);
  FileDescriptor fd;
  TMH_TRY(open_regular(path, O_RDONLY, FileRole::kOwn, &fd));
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) return fail_errno(Errc::kIo, path);
  if (static_cast<std::uint64_t>(info.st_size) > bytes_max)
    return fail(Errc::kCorrupt, path + " is too long");
  try {
    out->assign(static_cast<std::size_t>(info.st_size), '\0');
  } catch (const std::bad_alloc &) {
    return fail(Errc::kOutOfMemory, path);
  }
  std::size_t done = 0;
  while (done < out->size()) {
    const ssize_t got =
        pread(fd.get(), out->data() + done, out->size() - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno(Errc::kIo, path);
    if (got == 0) return fail(Errc::kShortFile, path);
    done += static_cast<std::size_t>(got);
  }
  return Errc::kOk;
}

}  // namespace tmh::platform
