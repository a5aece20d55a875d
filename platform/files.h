// platform/files.h -- descriptors, advisory folder locks, and shared files that grow under a fixed
// mapping.
// Contexts:  GrowingFile::grow() and reserve(), allocate_blocks() and has_data() are
//            async-signal-safe; everything else is not.
#pragma once

#include <sys/stat.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include <tmh/error.hpp>

#include "platform/assert.h"

namespace tmh::platform {

class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) noexcept : fd_(fd) {}
  FileDescriptor(FileDescriptor &&other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor &operator=(FileDescriptor &&other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~FileDescriptor() { reset(); }
  void reset() noexcept;
  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] explicit operator bool() const noexcept { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// What a program whose standard files are closed prints would be written into a file that got one
// of their numbers: another number, or none, with errno of fcntl(2).
[[nodiscard]] FileDescriptor keep_off_standard(FileDescriptor fd) noexcept;

// Whose choice a file's name is, hence what may stand there.
enum class FileRole : std::uint8_t {
  // The domain's own, in its folder, an archive or a copy. Whoever may write the folder can put
  // anything under that name, and this process would read, cut and overwrite it with its own
  // rights. So it must be a regular file and no symbolic link, must have no other name, and must
  // belong to one who can have made it there: this process's user, root, the folder's owner, or
  // anybody where group or others may write the folder. Such a file lies nowhere else: it is
  // no user's secret, and no other program's data.
  kOwn,
  // The same, of a log file, which may have more names: archives are made with ln(1), too.
  // REQUIRES: the caller writes to it only when its header is right.
  kOwnLog,
  // A segment's, which the program names: links lead to it, but no symbolic link that another user
  // has put there, root and the owner of the link's folder apart.
  kSegment,
};

// Opens a regular file, never waiting for one that is not (a FIFO's other end, a device). `flags`:
// of open(2), which gets O_CLOEXEC, too; what is created has mode 0660 as umask(2) permits, or in a
// folder with a tmh.control group and rights of that one: whoever shares a domain opens all of it,
// whatever umask made each file. Nothing is created where a symbolic link leads, kSegment apart.
// kForeignFile: not what the role demands; kNotADomain: a segment's is not a regular file;
// kPermission, kReadOnly, kDiskFull, kIo. errno of an open(2) that failed is kept, else it is 0.
// REQUIRES: no O_TRUNC, which would cut a file before it is looked at.
[[nodiscard]] Errc open_regular(const std::string &path, int flags, FileRole role,
                                FileDescriptor *out) noexcept;

// Is there anything of that name, a link that leads nowhere, too? False: errno says why, ENOENT
// mostly.
[[nodiscard]] bool has_entry(const std::string &path) noexcept;

// What a segment's path leads to: the path of a file that is no symbolic link, or is not there.
// kIo: links go round; kForeignFile: see kSegment.
[[nodiscard]] Errc follow_links(const std::string &path, std::string *out) noexcept;

// A descriptor that forked children close: what its holder has locked is unlocked when the holder
// dies.
class UninheritedFile {
 public:
  UninheritedFile() = default;
  UninheritedFile(const UninheritedFile &) = delete;
  UninheritedFile &operator=(const UninheritedFile &) = delete;
  // Unlocks by name: the child of a plain clone(2), which runs no handlers of pthread_atfork(3),
  // still shares the open file.
  ~UninheritedFile() { reset(); }
  void reset() noexcept;

 protected:
  // As open_regular(). A file that is open already is closed first.
  [[nodiscard]] Errc open(const std::string &path, int flags) noexcept;
  [[nodiscard]] Errc lock(int operation, const std::string &path) noexcept;
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }

 private:
  static void forget_in_child() noexcept;
  static const int at_fork_;  // said while the library is loaded: ProcessObject's reason

  FileDescriptor fd_;
  bool is_listed_ = false;
  UninheritedFile *next_ = nullptr;  // of those that have the file open
};

// Exclusive flock for the lifetime of the object; the kernel releases it when the process dies.
class FolderLock final : public UninheritedFile {
 public:
  // What functions take that run under the lock: no other process opens, grows or closes the domain
  // meanwhile.
  class Held {
   public:
    Held(const Held &) = delete;
    Held &operator=(const Held &) = delete;
    [[nodiscard]] bool is_valid() const noexcept { return lock_->fd() >= 0; }

   private:
    friend class FolderLock;
    explicit constexpr Held(const FolderLock *lock) noexcept : lock_(lock) {}
    const FolderLock *lock_;
  };
  // REQUIRES: not acquired before.
  [[nodiscard]] Errc acquire(const std::string &lock_path) noexcept;
  // REQUIRES: acquire() was kOk.
  [[nodiscard]] const Held &held() const noexcept {
    TMH_ASSERT(held_.is_valid());
    return held_;
  }

 private:
  const Held held_{this};
};

// Shared flock: says that a process uses the file, until the object goes or the process dies. Told
// by the kernel that the file system is on, whatever pids it shows to whom.
class FileHold final : public UninheritedFile {
 public:
  // `like`: a descriptor of the file. kIo: the name leads to another file by now.
  [[nodiscard]] Errc acquire(const std::string &path, int like) noexcept;
};
// Does any process have a FileHold of it? kOk and false where it does not exist. REQUIRES: no other
// asks at once (the folder lock).
[[nodiscard]] Errc look_for_holder(const std::string &path, bool *is_held) noexcept;

// A file mapped once, MAP_SHARED, over its largest possible size. Growing the file makes more of
// the mapping usable, in every process at once and without remapping. Touching beyond the file's
// end is SIGBUS: callers check a shared capacity first.
class GrowingFile {
 public:
  GrowingFile() = default;
  GrowingFile(const GrowingFile &) = delete;
  GrowingFile &operator=(const GrowingFile &) = delete;
  ~GrowingFile() { close(); }

  enum class Blocks : std::uint8_t { kSparse, kAllocated };
  // Opens or creates; the file is at least bytes_min long afterwards, with or without disk blocks
  // for them.
  [[nodiscard]] Errc open(const std::string &path, std::uint64_t bytes_min, std::uint64_t bytes_max,
                          Blocks blocks) noexcept;
  void close() noexcept;
  // Allocates disk blocks up to `bytes`, so that storing below it cannot raise SIGBUS for lack of
  // space. kDiskFull, kIo. Async-signal-safe.
  [[nodiscard]] Errc grow(std::uint64_t bytes) noexcept;
  // kSparse: before the first store to [offset, offset + bytes) of anybody, and where
  // loads_take_blocks() before the first load: disk blocks for it, and where there is room for all
  // of its block of 64 KiB. One or two loads where this process has asked before. Blocks are the
  // file's: they stay whoever asked for them and died. kDiskFull, kIo. Async-signal-safe. REQUIRES:
  // bytes <= kReservedBytes, within the file.
  static constexpr std::uint64_t kReservedBytes = 1u << 16;
  [[nodiscard]] Errc reserve(std::uint64_t offset, std::uint64_t bytes) noexcept {
    return is_reserved(offset, bytes) ? Errc::kOk : reserve_blocks(offset, bytes);
  }
  // Has this process asked for all of these blocks, and got them?
  [[nodiscard]] bool is_reserved(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    return knows(offset / kReservedBytes) && knows((offset + bytes - 1) / kReservedBytes);
  }
  // Cuts the file to `bytes`. REQUIRES: no process uses what is cut off.
  void shrink(std::uint64_t bytes) noexcept;

  [[nodiscard]] std::byte *base() const noexcept { return base_; }
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  [[nodiscard]] std::uint64_t bytes_max() const noexcept { return bytes_max_; }

 private:
  struct Free {
    void operator()(void *memory) const noexcept { std::free(memory); }
  };
  // relaxed: says only that a process asked; blocks are the kernel's
  [[nodiscard]] bool knows(std::uint64_t block) const noexcept {
    return (reserved_.get()[block / 64].load(std::memory_order_relaxed) >> (block % 64) & 1) != 0;
  }
  [[nodiscard]] Errc reserve_blocks(std::uint64_t offset, std::uint64_t bytes) noexcept;
  [[nodiscard]] bool is_backed(std::uint64_t offset, std::uint64_t bytes) const noexcept;

  FileDescriptor fd_;
  std::byte *base_ = nullptr;
  std::uint64_t bytes_max_ = 0;
  bool loads_take_blocks_ = false;
  // kSparse: a bit per block. calloc: memory follows use
  std::unique_ptr<std::atomic<std::uint64_t>, Free> reserved_;
};

// Disk blocks for a range of a file; kOk where the file system cannot promise them. kDiskFull, kIo.
// Async-signal-safe.
[[nodiscard]] Errc allocate_blocks(int fd, std::uint64_t offset_bytes,
                                   std::uint64_t bytes) noexcept;

// Is it one file? Of two that exist at the same time.
[[nodiscard]] inline bool is_same_file(const struct stat &one, const struct stat &other) noexcept {
  return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

// May anything in the range ever have been stored? False: it reads as zeros, whether it has blocks
// or not. Async-signal-safe.
[[nodiscard]] bool has_data(int fd, std::uint64_t offset_bytes, std::uint64_t bytes) noexcept;
// Does a load from a mapped hole take a block, and raise SIGBUS when there is none? (tmpfs)
[[nodiscard]] bool loads_take_blocks(int fd) noexcept;

// Whole small file of the domain's own. kIo (or a more specific code) when it cannot be read or is
// longer than bytes_max.
[[nodiscard]] Errc read_file(const std::string &path, std::uint64_t bytes_max,
                             std::string *out) noexcept;

}  // namespace tmh::platform
