// storage/file_table.h -- which files the participants of a domain have open: each by the number
// that the kernel knows it by, and how long it is at least.
// Why:       files are found by name, and a cleaner, a restore by copying or an administrator may
//            remove, replace or cut what is in use. Participants that then have two files of one
//            name open do not see each other's commits.
// Shape:     FileTable lies in tmh.state. Each participant enters the files that it
//            opens; the first one decides.
//            tmh.control says whether there is such a table (open_mark()).
// Invariant: two participants have the same file open under each name. A participant that comes
//            looks at all of them (FolderLook) before it opens, makes or removes any.
// Sharing:   between processes, without a lock: an entry is stored once, its bytes grow and shrink
//            with the file. Entries of segments are made under the folder lock, or by the
//            participant that needs a segment first.
// Contexts:  note_bytes() is async-signal-safe; nothing else is.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include <tmh/error.hpp>

#include "storage/control.h"
#include "storage/page_id.h"

namespace tmh::storage {

enum class DomainFile : std::uint32_t {
  kControl,
  kState,
  kParticipants,
  kVersionHeads,
  kVersionData,
  kCommits,
  kAccesses,
  kLogState,
  kCheckpoint,
  kLineState,
  kContexts,
  kHardware,
  kLocks,
  kEnd
};
enum class SegmentFile : std::uint32_t { kData, kHome, kPages, kChanges, kLines, kDirectory, kEnd };

// "tmh.state". kSegment's data file has a name of its own.
[[nodiscard]] const char *name_of(DomainFile file) noexcept;
// "tmh.pages.", and the segment's number follows. REQUIRES: not kData.
[[nodiscard]] const char *name_before(SegmentFile file) noexcept;
[[nodiscard]] std::string name_of(SegmentFile file, std::uint32_t segment);

struct FileEntry {
  // Inode and birth in one; 0: no participant has opened it.
  std::atomic<std::uint64_t> number;
  // The file has at least so many.
  std::atomic<std::uint64_t> bytes;
};

// Of the log files that are made in this life of the domain.
struct LogFileEntry {
  std::atomic<std::uint64_t> index_after;  // the file's index + 1; 0: none
  std::atomic<std::uint64_t> number;
};

struct FileTable {
  FileEntry files[16];
  FileEntry of_segments[kSegmentsMax][static_cast<std::size_t>(SegmentFile::kEnd)];
  LogFileEntry log_files[32];  // file k has entry k % 32

  [[nodiscard]] FileEntry &at(DomainFile file) noexcept {
    return files[static_cast<std::size_t>(file)];
  }
  [[nodiscard]] FileEntry &at(SegmentFile file, std::uint32_t segment) noexcept {
    return of_segments[segment][static_cast<std::size_t>(file)];
  }
};
static_assert(sizeof(FileTable) == 25'344 && std::is_standard_layout_v<FileTable>);
static_assert(static_cast<std::size_t>(DomainFile::kEnd) <= 16);

// The file that `fd` is, now at least `bytes` long, is the one that the participants have open
// under that name. kFileReplaced: they have another one.
[[nodiscard]] Errc enter(FileEntry &entry, int fd, std::uint64_t bytes,
                         const std::string &path) noexcept;
// The file is so long from now on. REQUIRES: entered.
inline void note_bytes(FileEntry &entry, std::uint64_t bytes) noexcept {
  // relaxed: a reader of the file's length sees one that it had before or has now
  entry.bytes.store(bytes, std::memory_order_relaxed);
}
// The same for a log file, which keeps its length.
void enter_log_file(FileTable &table, std::uint64_t index, const std::string &path) noexcept;

// What stands where a file of the domain was.
enum class Standing : std::uint8_t {
  kSame,
  kRemoved,
  kReplaced,
  kCut,
  // The operating system does not say: this process's rights have changed, for instance.
  kUnknown
};
[[nodiscard]] const char *standing_text(Standing standing) noexcept;

// Looks for a folder's files by their names, wherever the folder is by now: its descriptor is held.
class FolderLook {
 public:
  // `folder`: a descriptor of it. All outlive the look.
  FolderLook(int folder, const std::string &path, FileTable &table,
             const ControlFile &control) noexcept
      : folder_(folder), path_(path), table_(table), control_(control) {}

  enum class Files : std::uint8_t {
    kAll,
    // Those that hold what is committed once no participant is alive: control, checkpoint, data.
    kDurable,
    // Those that are made anew for each life of the domain.
    kShared
  };
  // The first that is not the one that the participants have open: its name, and what has become of
  // it. kSame: none.
  [[nodiscard]] Standing find(Files which, std::string *name) const;
  // Is any of the domain's own files the one that the table has? None is in a copy of the folder.
  [[nodiscard]] bool has_any() const;
  // Log files [first, end), each `bytes` long.
  [[nodiscard]] Standing find_log(std::uint64_t first, std::uint64_t end, std::uint64_t bytes,
                                  std::string *name) const;
  // A log file that is another one than was made in this life of the domain, for a caller that does
  // not know which are needed: one that is gone may have been archived, or recycled.
  [[nodiscard]] Standing find_replaced_log(std::string *name) const;

 private:
  [[nodiscard]] Standing look(const FileEntry &entry, const std::string &name) const noexcept;

  const int folder_;
  const std::string &path_;
  FileTable &table_;
  const ControlFile &control_;
};

// In ControlHeaderV1::open_mark while shared memory of this boot belongs to the control file that
// `fd` is; a copy of the file has another mark. Never 0.
[[nodiscard]] std::uint64_t open_mark(int fd) noexcept;

}  // namespace tmh::storage
