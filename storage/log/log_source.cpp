// storage/log/log_source.cpp -- the window over the log.
#include "storage/log/log_source.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <new>

#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/try.h"
#include "storage/log/log_archive.h"
#include "storage/log/log_record.h"

namespace tmh::storage {

using platform::DiskFile;
using platform::fail;
using platform::fail_errno;

namespace {
// Large against the call's cost (about 1 us + 0.1 ns per byte), small against the caches: what was
// read is checked while it is near.
constexpr std::size_t kWindowBytes = 1u << 20;
static_assert(kWindowBytes > 2 * kRecordBytesAccepted,
              "reading on costs at most a second copy of one record per window");
}  // namespace

Errc LogSource::open() noexcept {
  window_.reset(new (std::nothrow) std::byte[kWindowBytes]);
  if (window_ == nullptr) return fail(Errc::kOutOfMemory, folder_);
  TMH_TRY(list_log_files(folder_, &indexes_));
  if (archive_folder_.empty()) return Errc::kOk;
  std::vector<std::uint64_t> archived;
  TMH_TRY(list_log_files(archive_folder_, &archived));
  std::vector<std::uint64_t> both;
  std::set_union(indexes_.begin(), indexes_.end(), archived.begin(), archived.end(),
                 std::back_inserter(both));
  indexes_ = std::move(both);
  return Errc::kOk;
}

// The archive first: a backup holds the beginning of a file that was archived when it was full.
// Unless it is the archive that holds the beginning: its file was copied while it was still being
// written, and the backup is younger.
std::array<const std::string *, 2> LogSource::order_of(std::uint64_t index) const noexcept {
  if (archive_folder_.empty() ||
      ::access(log_file_path(archive_folder_, index).c_str(), F_OK) != 0 ||
      ::access(log_file_path(folder_, index).c_str(), F_OK) != 0 ||
      verify_archived(folder_, archive_folder_, log_, index) != Errc::kOk)
    return {&archive_folder_, &folder_};
  return {&folder_, &archive_folder_};
}

Errc LogSource::open_file(std::uint64_t index) noexcept {
  TMH_ASSERT(is_open());
  if (current_.index == index) return Errc::kOk;
  window_bytes_ = 0;
  disk_.close();
  current_ = File{};
  File found;
  found.index = index;
  struct stat info {};
  bool is_there = false;
  for (const std::string *folder : order_of(index)) {
    if (folder->empty() || is_there) continue;
    found.path = log_file_path(*folder, index);
    is_there = lstat(found.path.c_str(), &info) == 0;
    if (!is_there && errno != ENOENT) return fail_errno(Errc::kIo, found.path);
  }
  if (is_there) {
    TMH_TRY(disk_.open(found.path, DiskFile::Mode::kRead, platform::FileRole::kOwnLog));
    found.exists = true;
    found.bytes = std::min(static_cast<std::uint64_t>(info.st_size), log_.file_bytes);
    LogFileHeaderV1 header{};
    std::size_t got = 0;
    TMH_TRY(disk_.read(0, &header, sizeof header, &got));
    found.header = got < sizeof header ? Errc::kShortFile
                                       : verify_log_file_header(header, log_, index, &found.why);
    if (found.header == Errc::kShortFile) found.why = "shorter than its header";
    // A log file whose header was damaged gets another one. A file that a user has linked here does
    // not.
    if (found.header != Errc::kOk && disk_.has_other_names())
      return fail(Errc::kForeignFile,
                  found.path + " has other names (hard links), and is no log file of this domain");
  }
  current_ = std::move(found);
  return Errc::kOk;
}

Errc LogSource::file_at(Lsn lsn, const File **file) noexcept {
  TMH_ASSERT(file != nullptr);
  const Errc error = open_file(file_of(lsn, log_.file_bytes));
  *file = &current_;
  return error;
}

Lsn LogSource::readable_end() const noexcept {
  return std::min(current_.index * log_.file_bytes + current_.bytes, end_);
}

void LogSource::sync_file_at(Lsn lsn) noexcept {
  if (open_file(file_of(lsn, log_.file_bytes)) == Errc::kOk && current_.exists)
    static_cast<void>(disk_.sync());
}

Errc LogSource::read(Lsn lsn, void *to, std::size_t bytes, std::size_t *got) noexcept {
  TMH_ASSERT(to != nullptr && got != nullptr);
  *got = 0;
  TMH_TRY(open_file(file_of(lsn, log_.file_bytes)));
  const std::uint64_t offset = lsn % log_.file_bytes;
  if (!current_.exists || offset >= current_.bytes || lsn >= end_) return Errc::kOk;
  const std::uint64_t there = std::min(current_.bytes - offset, end_ - lsn);
  return disk_.read(offset, to, static_cast<std::size_t>(std::min<std::uint64_t>(bytes, there)),
                    got);
}

Errc LogSource::view(Lsn lsn, std::size_t bytes, const std::byte **data,
                     std::size_t *got) noexcept {
  TMH_ASSERT(data != nullptr && got != nullptr && bytes <= kRecordBytesAccepted);
  const std::uint64_t index = file_of(lsn, log_.file_bytes);
  TMH_TRY(open_file(index));
  const bool inside = lsn >= window_lsn_ && lsn - window_lsn_ <= window_bytes_;
  const Lsn file_end = readable_end();
  if (!inside ||
      (lsn - window_lsn_ + bytes > window_bytes_ && window_lsn_ + window_bytes_ < file_end)) {
    window_bytes_ = 0;
    window_lsn_ = lsn / kLogBlockBytes * kLogBlockBytes;  // whole pages of the page cache
    TMH_TRY(read(window_lsn_, window_.get(), kWindowBytes, &window_bytes_));
  }
  const std::size_t skipped = static_cast<std::size_t>(lsn - window_lsn_);
  *data = window_.get() + std::min(skipped, window_bytes_);
  *got = window_bytes_ - std::min(skipped, window_bytes_);
  return Errc::kOk;
}

}  // namespace tmh::storage
