// platform/disk.h -- durable writes: what must survive a power cut goes to disk through here, and
// nowhere else.
// Shape:     DiskFile wraps one descriptor; folder operations are functions. A hook sees every
//            operation before it happens (after, where said; put_durable() apart): a test records
//            them and builds what a power cut could have left, or makes one fail with an errno of
//            its choice.
// Invariant: what write_durable() and a sync() that began later acknowledged is on disk; everything
//            else may be lost, torn at 512 bytes or written in any order. Data files are mapped:
//            their pages count as written back at any time.
// Errors:    kDiskFull (ENOSPC, EDQUOT), kReadOnly (EROFS), kPermission, kIo; the detail names file
//            and errno.
// Sharing:   a DiskFile belongs to one thread at a time; several processes may have the file open.
// Contexts:  not in handlers, except home_written().
// Source:    docs/design.md D1 to D4.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include <tmh/error.hpp>

#include "platform/files.h"

namespace tmh::platform {

inline constexpr std::size_t kDiskBlockBytes = 4096;  // unit and alignment of write_durable()

enum class DiskOp : std::uint8_t {
  kWrite = 1,         // data, not yet durable
  kWriteDurable = 2,  // data that will be durable when kWriteDone of the same file follows
  kWriteDone = 3,     // after: the last kWriteDurable of this file by this process is durable
  // Before fdatasync: what was written up to here is durable when kSyncDone follows.
  kSync = 4,
  kSyncDone = 5,  // after
  // After: committed lines were stored in a mapped data file (no error can be injected).
  kHomeWrite = 6,
  kTruncate = 7,        // offset: new length
  kCreate = 8,          // new empty file
  kRename = 9,          // path to path2
  kUnlink = 10,         //
  kFolderSync = 11,     // before fsync of the folder `path`
  kFolderSyncDone = 12  // after
};

struct DiskEvent {
  DiskOp op{};
  const char *path = nullptr;
  const char *path2 = nullptr;
  std::uint64_t offset = 0;
  const void *data = nullptr;
  std::uint64_t bytes = 0;
};

// Returns 0, or the errno with which the operation is to fail without being done. Called by any
// thread of any participant.
using DiskHook = int (*)(const DiskEvent &event);
void set_disk_hook(DiskHook hook) noexcept;

namespace detail {
extern std::atomic<DiskHook> disk_hook;
}
// Tells the hook about lines stored in a mapped data file. Costs one load when there is no hook.
// Async-signal-safe.
inline void home_written(const std::string &path, std::uint64_t offset, const void *data,
                         std::uint64_t bytes) noexcept {
  // Relaxed: set before what is watched starts.
  const DiskHook hook = detail::disk_hook.load(std::memory_order_relaxed);
  if (hook != nullptr) [[unlikely]]
    (void)hook({DiskOp::kHomeWrite, path.c_str(), nullptr, offset, data, bytes});
}
[[nodiscard]] inline bool disk_is_watched() noexcept {
  return detail::disk_hook.load(std::memory_order_relaxed) != nullptr;
}

// Asks the hook before an operation on a file that is mapped and has no DiskFile, or tells it of
// one that is done: kOk, or the failure that it injects.
[[nodiscard]] Errc watch_disk(const DiskEvent &event) noexcept;

class DiskFile {
 public:
  DiskFile() = default;
  DiskFile(DiskFile &&) = default;
  DiskFile &operator=(DiskFile &&) = default;

  enum class Mode : std::uint8_t { kRead, kReadWrite, kCreate /* new, fails when it exists */ };
  [[nodiscard]] Errc open(const std::string &path, Mode mode,
                          FileRole role = FileRole::kOwn) noexcept;
  void close() noexcept;
  [[nodiscard]] bool is_open() const noexcept { return static_cast<bool>(fd_); }
  [[nodiscard]] const std::string &path() const noexcept { return path_; }
  // To map it and to allocate blocks; never to write.
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  [[nodiscard]] Errc size(std::uint64_t *bytes) const noexcept;
  // False when the name is gone or the file is shorter than `bytes`.
  [[nodiscard]] bool is_whole(std::uint64_t bytes) const noexcept;
  // A hard link leads here, too: what is written to the file appears under that name as well. In
  // doubt there is one.
  [[nodiscard]] bool has_other_names() const noexcept;

  [[nodiscard]] Errc read(std::uint64_t offset, void *to, std::size_t bytes,
                          std::size_t *got) const noexcept;
  [[nodiscard]] Errc write(std::uint64_t offset, const void *from, std::size_t bytes) noexcept;
  // Durable when it returns. offset, bytes and `from` are multiples of kDiskBlockBytes. One
  // O_DIRECT | O_DSYNC write where the file system has it (a quarter cheaper than write + fdatasync
  // on ext4), else write + fdatasync.
  [[nodiscard]] Errc write_durable(std::uint64_t offset, const void *from,
                                   std::size_t bytes) noexcept;
  // The same, and no hook sees it: of the log's records, which go to a sink that a test may replace
  // (storage/log/log_sink.h).
  [[nodiscard]] Errc put_durable(std::uint64_t offset, const void *from,
                                 std::size_t bytes) noexcept;
  [[nodiscard]] Errc sync() noexcept;
  // Writes dirty pages of [offset, offset + bytes) back bit by bit, with pauses, so that others'
  // durable writes are not caught in a queue behind them. Promises nothing but to say which writes
  // failed: the kernel tells each descriptor once, so that a sync() afterwards would not. `hurry`:
  // no more pauses once it is set, and nothing more is done.
  [[nodiscard]] Errc write_back_gently(const std::atomic<bool> &hurry, std::uint64_t offset = 0,
                                       std::uint64_t bytes = UINT64_MAX) noexcept;
  [[nodiscard]] Errc truncate(std::uint64_t bytes) noexcept;

 private:
  void open_direct() noexcept;
  [[nodiscard]] Errc write_all(int fd, std::uint64_t offset, const void *from,
                               std::size_t bytes) noexcept;
  std::string path_;
  FileDescriptor fd_;
  FileDescriptor direct_;  // O_DIRECT | O_DSYNC; empty where refused
};

[[nodiscard]] Errc disk_rename(const std::string &from, const std::string &to) noexcept;
[[nodiscard]] Errc disk_unlink(const std::string &path) noexcept;  // kOk when there is none
[[nodiscard]] Errc sync_folder(const std::string &folder) noexcept;
// What DiskFile::sync() does, of a file that `fd` was opened by another way: what was written to it
// is durable when it returns.
[[nodiscard]] Errc sync_file(int fd, const std::string &path) noexcept;
// A file or folder gets its name only when nothing has it. kBadArgument: something has.
[[nodiscard]] Errc rename_new(const std::string &from, const std::string &to) noexcept;
// Written under another name, synced, renamed: readers see the old or the new file, never a part.
// The name is durable once the folder is synced.
[[nodiscard]] Errc replace_file(const std::string &path, const void *data,
                                std::size_t bytes) noexcept;

}  // namespace tmh::platform
