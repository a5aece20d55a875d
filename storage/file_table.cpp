// storage/file_table.cpp -- entering files, and looking for them.
#include "storage/file_table.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/files.h"
#include "platform/process.h"
#include "storage/crc32c.h"
#include "storage/log/log_files.h"

namespace tmh::storage {

namespace {

constexpr unsigned kMask = STATX_TYPE | STATX_SIZE | STATX_INO | STATX_BTIME;

// A file system gives an inode's number to the next file when the file has gone, and the same
// device another number when it is mounted again. A file's birth does not come again; where the
// file system does not know it, the device has to do.
std::uint64_t number_of(const struct statx &info) noexcept {
  const bool has_birth = (info.stx_mask & STATX_BTIME) != 0;
  const std::uint64_t words[] = {
      info.stx_ino,
      has_birth ? static_cast<std::uint64_t>(info.stx_btime.tv_sec) : info.stx_dev_major,
      has_birth ? info.stx_btime.tv_nsec : info.stx_dev_minor};
  std::uint64_t number = 0;
  for (const std::uint64_t word : words) {
    number = (number ^ word) * 0x9e37'79b9'7f4a'7c15ull;  // the golden ratio
    number ^= number >> 32;
  }
  return number == 0 ? 1 : number;
}

bool look_at(int fd, struct statx *info) noexcept {
  return statx(fd, "", AT_EMPTY_PATH, kMask, info) == 0;
}

bool is_durable(DomainFile file) noexcept {
  return file == DomainFile::kControl || file == DomainFile::kCheckpoint;
}

}  // namespace

const char *name_of(DomainFile file) noexcept {
  constexpr const char *kNames[] = {
      "tmh.control",  "tmh.state",    "tmh.participants", "tmh.versions.head", "tmh.versions.data",
      "tmh.commits",  "tmh.accesses", "tmh.log.state",    "tmh.checkpoint",    "tmh.line.state",
      "tmh.contexts", "tmh.hardware", "tmh.locks"};
  static_assert(std::size(kNames) == static_cast<std::size_t>(DomainFile::kEnd));
  return kNames[static_cast<std::size_t>(file)];
}

const char *name_before(SegmentFile file) noexcept {
  TMH_ASSERT(file != SegmentFile::kData);
  constexpr const char *kNames[] = {"",           "tmh.home.",     "tmh.pages.", "tmh.changes.",
                                    "tmh.lines.", "tmh.directory."};
  static_assert(std::size(kNames) == static_cast<std::size_t>(SegmentFile::kEnd));
  return kNames[static_cast<std::size_t>(file)];
}

std::string name_of(SegmentFile file, std::uint32_t segment) {
  return name_before(file) + std::to_string(segment);
}

Errc enter(FileEntry &entry, int fd, std::uint64_t bytes, const std::string &path) noexcept {
  struct statx info {};
  if (!look_at(fd, &info)) return platform::fail_errno(Errc::kIo, path);
  const std::uint64_t number = number_of(info);
  std::uint64_t others = 0;
  // relaxed: the number says all
  if (!entry.number.compare_exchange_strong(others, number, std::memory_order_relaxed) &&
      others != number)
    return platform::fail(Errc::kFileReplaced,
                          path +
                              ": the processes that have the domain open have another file of "
                              "that name open, which was removed or replaced");
  std::uint64_t least = entry.bytes.load(std::memory_order_relaxed);
  while (least < bytes &&
         !entry.bytes.compare_exchange_weak(least, bytes, std::memory_order_relaxed)) {
  }
  return Errc::kOk;
}

void enter_log_file(FileTable &table, std::uint64_t index, const std::string &path) noexcept {
  struct statx info {};
  if (statx(AT_FDCWD, path.c_str(), 0, kMask, &info) != 0) return;
  LogFileEntry &entry = table.log_files[index % std::size(table.log_files)];
  // release: pairs with find_log(); in between the entry is of no file
  entry.index_after.store(0, std::memory_order_relaxed);
  entry.number.store(number_of(info), std::memory_order_release);
  entry.index_after.store(index + 1, std::memory_order_release);
}

const char *standing_text(Standing standing) noexcept {
  switch (standing) {
    case Standing::kSame:
      return "is in its place";
    case Standing::kRemoved:
      return "was removed";
    case Standing::kReplaced:
      return "was replaced by another one";
    case Standing::kCut:
      return "was cut short";
    case Standing::kUnknown:
      break;
  }
  return "cannot be looked at";
}

namespace {

Standing stand_of(int folder, const std::string &name, std::uint64_t number,
                  std::uint64_t bytes) noexcept {
  struct statx info {};
  if (statx(folder, name.c_str(), 0, kMask, &info) != 0)
    return errno == ENOENT || errno == ENOTDIR ? Standing::kRemoved : Standing::kUnknown;
  if (number != 0 && number_of(info) != number) return Standing::kReplaced;
  if (!S_ISREG(info.stx_mode)) return Standing::kReplaced;
  return info.stx_size >= bytes ? Standing::kSame : Standing::kCut;
}

}  // namespace

// What is growing or shrinking meanwhile is looked at again: the length that it is to have and the
// one that it has are of two moments.
Standing FolderLook::look(const FileEntry &entry, const std::string &name) const noexcept {
  const std::uint64_t number = entry.number.load(std::memory_order_relaxed);
  if (number == 0) return Standing::kSame;
  constexpr int kLooks = 4;
  Standing found{};
  for (int looks = 0; looks < kLooks; ++looks) {
    found = stand_of(folder_, name, number, entry.bytes.load(std::memory_order_relaxed));
    if (found != Standing::kCut) break;
  }
  return found;
}

Standing FolderLook::find(Files which, std::string *name) const {
  const auto is_gone = [](Standing standing) {
    return standing != Standing::kSame && standing != Standing::kUnknown;
  };
  for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(DomainFile::kEnd); ++i) {
    const auto file = static_cast<DomainFile>(i);
    if (which != Files::kAll && (which == Files::kDurable) != is_durable(file)) continue;
    *name = name_of(file);
    if (const Standing found = look(table_.at(file), *name); is_gone(found)) return found;
  }
  // A link to a data file may lead where this process, in another root by now, finds nothing.
  struct stat here {};
  struct stat opened {};
  const bool finds_all = stat(path_.c_str(), &here) == 0 && fstat(folder_, &opened) == 0 &&
                         platform::is_same_file(here, opened);
  for (std::uint32_t segment = 0; segment < kSegmentsMax; ++segment) {
    if (!is_used(control_.segments[segment])) continue;
    for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(SegmentFile::kEnd); ++i) {
      const auto file = static_cast<SegmentFile>(i);
      const bool is_data = file == SegmentFile::kData;
      if (which != Files::kAll && (which == Files::kDurable) != is_data) continue;
      *name = is_data ? control_.segments[segment].name : name_of(file, segment);
      const Standing found = look(table_.at(file, segment), *name);
      if (is_data && found == Standing::kRemoved && !finds_all) continue;
      if (is_gone(found)) return found;
    }
  }
  name->clear();
  return Standing::kSame;
}

bool FolderLook::has_any() const {
  for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(DomainFile::kEnd); ++i) {
    const auto file = static_cast<DomainFile>(i);
    const FileEntry &entry = table_.at(file);
    if (entry.number.load(std::memory_order_relaxed) == 0) continue;
    const Standing found = look(entry, name_of(file));
    if (found == Standing::kSame || found == Standing::kCut) return true;
  }
  return false;
}

Standing FolderLook::find_log(std::uint64_t first, std::uint64_t end, std::uint64_t bytes,
                              std::string *name) const {
  for (std::uint64_t index = first; index < end; ++index) {
    const LogFileEntry &entry = table_.log_files[index % std::size(table_.log_files)];
    // acquire: pairs with enter_log_file()
    const bool is_known = entry.index_after.load(std::memory_order_acquire) == index + 1;
    const std::uint64_t number = entry.number.load(std::memory_order_acquire);
    const bool is_still = entry.index_after.load(std::memory_order_relaxed) == index + 1;
    *name = log_file_name(index);
    const Standing found = stand_of(folder_, *name, is_known && is_still ? number : 0, bytes);
    if (found != Standing::kSame && found != Standing::kUnknown) return found;
  }
  name->clear();
  return Standing::kSame;
}

Standing FolderLook::find_replaced_log(std::string *name) const {
  for (const LogFileEntry &entry : table_.log_files) {
    const std::uint64_t after = entry.index_after.load(std::memory_order_relaxed);
    if (after == 0) continue;
    *name = log_file_name(after - 1);
    if (stand_of(folder_, *name, entry.number.load(std::memory_order_relaxed), 0) ==
        Standing::kReplaced)
      return Standing::kReplaced;
  }
  name->clear();
  return Standing::kSame;
}

std::uint64_t open_mark(int fd) noexcept {
  struct statx info {};
  const platform::BootId boot = platform::this_boot();
  if (!look_at(fd, &info)) return 1;
  const std::uint64_t number = number_of(info);
  const std::uint64_t mark = std::uint64_t{crc32c(0, boot.text, sizeof boot.text)} << 32 |
                             crc32c(0, &number, sizeof number);
  return mark == 0 ? 1 : mark;
}

}  // namespace tmh::storage
