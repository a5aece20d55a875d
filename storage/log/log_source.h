// storage/log/log_source.h -- bytes of the redo log by LSN, whichever file and folder they lie
// in.
// Shape:     reads one file at a time, with pread into a window that moves forward. Not mapped: a
//            bad sector is then kIo and not SIGBUS, and so is a file that is cut meanwhile.
// Errors:    kIo, kPermission, kOutOfMemory. A missing file or a wrong header is no error here:
//            File says what was found.
// Sharing:   one thread. REQUIRES that no participant writes the log in front of read_up_to();
//            files may be recycled or archived meanwhile, and then hold other records.
// Source:    docs/design.md D3, D4.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <tmh/error.hpp>

#include "platform/assert.h"
#include "platform/disk.h"
#include "storage/log/log_files.h"
#include "storage/log/log_format.h"

namespace tmh::storage {

class LogSource {
 public:
  // archive_folder: where a file is looked for before `folder`, which comes first where it holds
  // all that the archive does; empty: nowhere.
  LogSource(std::string folder, std::string archive_folder, const LogIdentity &log)
      : folder_(std::move(folder)), archive_folder_(std::move(archive_folder)), log_(log) {}

  struct File {
    std::uint64_t index = ~0ull;
    bool exists = false;
    std::uint64_t bytes = 0;  // readable, at most file_bytes
    Errc header = Errc::kOk;  // what verify_log_file_header() says; kShortFile: not even a header
    std::string why;          // of `header`
    std::string path;         // where it lies, or would
    [[nodiscard]] bool usable() const noexcept { return exists && header == Errc::kOk; }
  };

  // Lists both folders. First of all: the other functions assert it.
  [[nodiscard]] Errc open() noexcept;
  [[nodiscard]] bool is_open() const noexcept { return window_ != nullptr; }
  // Nothing at or behind `end` is read, as if the files ended there: what lies in front of it is
  // durable, and stays as it is. It only grows. Without it: all that the files hold.
  void read_up_to(Lsn end) noexcept {
    TMH_ASSERT(end_ == ~Lsn{0} || end >= end_);
    end_ = end;
  }
  // Behind the last byte that can be read of the file that the last call was about.
  [[nodiscard]] Lsn readable_end() const noexcept;
  // What this process can read of the file at `lsn` is on disk when it returns. No error where that
  // cannot be asked for.
  void sync_file_at(Lsn lsn) noexcept;
  [[nodiscard]] const LogIdentity &log() const noexcept { return log_; }
  // Any file with an index above `index`?
  [[nodiscard]] bool has_file_behind(std::uint64_t index) const noexcept {
    return !indexes_.empty() && indexes_.back() > index;
  }
  [[nodiscard]] const std::vector<std::uint64_t> &indexes() const noexcept { return indexes_; }
  [[nodiscard]] const std::string &folder() const noexcept { return folder_; }

  // The file that holds `lsn`; valid until the next call of any function.
  [[nodiscard]] Errc file_at(Lsn lsn, const File **file) noexcept;
  // Points *data to *got bytes from lsn on: at least `bytes` (at most kRecordBytesAccepted), fewer
  // only where the file ends; 0 where there is none. Valid until the next call of file_at() or
  // view(). Right or wrong header: the caller asked file_at().
  [[nodiscard]] Errc view(Lsn lsn, std::size_t bytes, const std::byte **data,
                          std::size_t *got) noexcept;
  // Copies up to `bytes` from lsn on, not beyond its file's end. Leaves the window alone, unless it
  // lies in another file.
  [[nodiscard]] Errc read(Lsn lsn, void *to, std::size_t bytes, std::size_t *got) noexcept;

 private:
  [[nodiscard]] Errc open_file(std::uint64_t index) noexcept;
  [[nodiscard]] std::array<const std::string *, 2> order_of(std::uint64_t index) const noexcept;

  std::string folder_, archive_folder_;
  LogIdentity log_;
  std::vector<std::uint64_t> indexes_;  // ascending, of both folders
  File current_;
  platform::DiskFile disk_;
  Lsn end_ = ~Lsn{0};
  std::unique_ptr<std::byte[]> window_;
  Lsn window_lsn_ = 0;  // of its first byte
  std::size_t window_bytes_ = 0;
};

}  // namespace tmh::storage
