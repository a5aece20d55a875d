// platform/files.h -- descriptors, advisory folder locks, and shared files that grow under a fixed mapping.
// Contexts:  GrowingFile::grow() is async-signal-safe; everything else is not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <tmh/error.hpp>

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

// Exclusive flock for the lifetime of the object; the kernel releases it when the process dies.
class FolderLock {
 public:
  FolderLock() = default;
  FolderLock(const FolderLock &) = delete;
  FolderLock &operator=(const FolderLock &) = delete;
  // Unlocks by name: a child forked meanwhile shares the open file, and closing ours would leave it locked.
  ~FolderLock();
  [[nodiscard]] Errc acquire(const std::string &lock_path) noexcept;

 private:
  FileDescriptor fd_;
};

// A file mapped once, MAP_SHARED, over its largest possible size. Growing the file makes more of the mapping usable, in every
// process at once and without remapping. Touching beyond the file's end is SIGBUS: callers check a shared capacity first.
class GrowingFile {
 public:
  GrowingFile() = default;
  GrowingFile(const GrowingFile &) = delete;
  GrowingFile &operator=(const GrowingFile &) = delete;
  ~GrowingFile() { close(); }

  enum class Blocks : std::uint8_t { kSparse, kAllocated };
  // Opens or creates; the file is at least bytes_min long afterwards, with or without disk blocks for them.
  [[nodiscard]] Errc open(const std::string &path, std::uint64_t bytes_min, std::uint64_t bytes_max,
                          Blocks blocks) noexcept;
  void close() noexcept;
  // Allocates disk blocks up to `bytes`, so that storing below it cannot raise SIGBUS for lack of space. kDiskFull, kIo.
  // Async-signal-safe.
  [[nodiscard]] Errc grow(std::uint64_t bytes) noexcept;
  // Cuts the file to `bytes`. REQUIRES: nobody uses what is cut off.
  void shrink(std::uint64_t bytes) noexcept;

  [[nodiscard]] std::byte *base() const noexcept { return base_; }
  [[nodiscard]] int fd() const noexcept { return fd_; }

 private:
  int fd_ = -1;
  std::byte *base_ = nullptr;
  std::uint64_t bytes_max_ = 0;
};

// Disk blocks for a range of a file; kOk where the file system cannot promise them. kDiskFull, kIo. Async-signal-safe.
[[nodiscard]] Errc allocate_blocks(int fd, std::uint64_t offset_bytes, std::uint64_t bytes) noexcept;

// Whole small file. kIo (or a more specific code) when it cannot be read or is longer than bytes_max.
[[nodiscard]] Errc read_file(const std::string &path, std::uint64_t bytes_max, std::string *out) noexcept;

}  // namespace tmh::platform
