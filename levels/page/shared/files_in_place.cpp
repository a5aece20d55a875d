// levels/page/shared/files_in_place.cpp -- entering files, and looking for them.
#include "levels/page/shared/files_in_place.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <new>

#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/try.h"

namespace tmh::page {

using platform::fail;
using platform::fail_errno;
using storage::DomainFile;
using storage::SegmentFile;
using storage::Standing;

namespace {
constexpr std::uint64_t kLookPeriodNs = 100'000'000;
constexpr const char *kMeanwhile = " while the domain was in use";
}  // namespace

Errc FilesInPlace::open_folder() noexcept {
  const std::string &path = memory_.folder();
  folder_ = platform::keep_off_standard(
      platform::FileDescriptor(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)));
  return folder_ ? Errc::kOk : fail_errno(Errc::kIo, path);
}

Errc FilesInPlace::enter(DomainFile file, int fd, std::uint64_t bytes) const noexcept try {
  return storage::enter(table().at(file), fd, bytes, memory_.path(storage::name_of(file)));
} catch (const std::bad_alloc &) {
  return platform::fail_for_memory("a file's name");
}

Errc FilesInPlace::enter(SegmentFile file, std::uint32_t segment, int fd,
                         std::uint64_t bytes) const noexcept try {
  TMH_ASSERT(segment < storage::kSegmentsMax);
  const std::string path = file == SegmentFile::kData
                               ? memory_.segment_path(memory_.control().segments[segment])
                               : memory_.path(storage::name_of(file, segment).c_str());
  return storage::enter(table().at(file, segment), fd, bytes, path);
} catch (const std::bad_alloc &) {
  return platform::fail_for_memory("a file's name");
}

void FilesInPlace::note_size(std::uint32_t segment, std::uint64_t size_bytes) const noexcept {
  TMH_ASSERT(segment < storage::kSegmentsMax);
  storage::note_bytes(table().at(SegmentFile::kData, segment),
                      memory_.control().segments[segment].offset_bytes + size_bytes);
  if (memory_.has_separate_homes())
    storage::note_bytes(table().at(SegmentFile::kHome, segment), size_bytes);
}

void FilesInPlace::note_versions(const DomainLock::Held &held,
                                 std::uint64_t capacity) const noexcept {
  TMH_ASSERT(held.is_valid());
  storage::note_bytes(table().at(DomainFile::kVersionHeads), capacity * sizeof(VersionHead));
  storage::note_bytes(table().at(DomainFile::kVersionData), capacity * kPageBytes);
}

void FilesInPlace::note_accesses(const DomainLock::Held &held,
                                 std::uint64_t capacity) const noexcept {
  TMH_ASSERT(held.is_valid());
  storage::note_bytes(table().at(DomainFile::kAccesses), capacity * sizeof(AccessEntry));
}

void FilesInPlace::forget(bool is_copy) const noexcept {
  const auto forget = [](storage::FileEntry &entry) {
    entry.number.store(0, std::memory_order_relaxed);
    entry.bytes.store(0, std::memory_order_relaxed);
  };
  for (storage::FileEntry &entry : table().files) forget(entry);
  for (std::uint32_t segment = 0; segment < storage::kSegmentsMax; ++segment) {
    for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(SegmentFile::kEnd); ++i) {
      const auto file = static_cast<SegmentFile>(i);
      if (file != SegmentFile::kData || is_copy) forget(table().at(file, segment));
    }
  }
  for (storage::LogFileEntry &entry : table().log_files)
    entry.index_after.store(0, std::memory_order_relaxed);
}

storage::FolderLook FilesInPlace::folder_look() const noexcept {
  return {folder_.get(), memory_.folder(), table(), memory_.control()};
}

// Also where this process no longer reaches the folder by its path.
Errc FilesInPlace::check_files(Files which) const noexcept try {
  std::string name;
  Standing standing = folder_look().find(which, &name);
  if (standing == Standing::kSame && memory_.log_state() != nullptr) standing = find_log(&name);
  if (standing == Standing::kSame) return Errc::kOk;
  if (is_folder_gone())
    return fail(Errc::kFileReplaced, memory_.folder() + " was removed" + kMeanwhile);
  const std::string path = name.front() == '/' ? name : memory_.path(name.c_str());
  return fail(Errc::kFileReplaced, path + " " + standing_text(standing) + kMeanwhile);
} catch (const std::bad_alloc &) {
  return platform::fail_for_memory("the names of the domain's files");
}

// The files that recovery would read. A checkpoint that is taken meanwhile makes older ones free to
// be recycled.
Standing FilesInPlace::find_log(std::string *name) const {
  const storage::LogState &log = *memory_.log_state();
  const std::uint64_t bytes = log.file_bytes;
  for (;;) {
    // acquire: pairs with the checkpointer, and with LogRoom::make_file()
    const storage::Lsn from = log.checkpoint_lsn.load(std::memory_order_acquire);
    const storage::Lsn ready = log.ready_lsn.load(std::memory_order_acquire);
    const Standing found = folder_look().find_log(storage::file_of(from, bytes),
                                                  storage::file_of(ready, bytes), bytes, name);
    if (found == Standing::kSame || log.checkpoint_lsn.load(std::memory_order_acquire) == from)
      return found;
  }
}

bool FilesInPlace::is_folder_gone() const noexcept {
  struct stat info {};
  return fstat(folder_.get(), &info) == 0 && info.st_nlink == 0;
}

Errc FilesInPlace::check_path() const noexcept try {
  const std::string &path = memory_.folder();
  struct stat here {};
  struct stat opened {};
  if (fstat(folder_.get(), &opened) != 0) return fail_errno(Errc::kIo, path);
  if (is_folder_gone()) return fail(Errc::kFileReplaced, path + " was removed" + kMeanwhile);
  const bool is_found = stat(path.c_str(), &here) == 0;
  if (is_found && platform::is_same_file(here, opened)) return Errc::kOk;
  // This process's rights may have changed, or its root directory.
  if (!is_found && errno != ENOENT && errno != ENOTDIR) return fail_errno(Errc::kIo, path);
  char buffer[PATH_MAX] = {};
  const std::string link = "/proc/self/fd/" + std::to_string(folder_.get());
  const bool is_known = readlink(link.c_str(), buffer, sizeof buffer - 1) > 0;
  const std::string now = is_known ? buffer : "another place";
  if (now.starts_with("(unreachable)") || now == path)
    return fail(Errc::kIo, path + " is not the domain's folder in this process's root directory");
  return fail(Errc::kFileReplaced,
              path + " was moved to " + now + kMeanwhile +
                  "; nothing is lost: move it back, or end the process and open the domain there");
} catch (const std::bad_alloc &) {
  return platform::fail_for_memory("the folder's name");
}

Errc FilesInPlace::check() const noexcept {
  TMH_TRY(check_files(Files::kAll));
  return check_path();
}

// Once a file is missing, each call looks: it may be put back.
Errc FilesInPlace::look_again(std::uint64_t now_ns) noexcept {
  const Errc error = check_files(Files::kAll);
  next_look_ns_.store(error == Errc::kOk ? now_ns + kLookPeriodNs : 0, std::memory_order_relaxed);
  return error;
}

}  // namespace tmh::page
