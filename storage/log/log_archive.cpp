// storage/log/log_archive.cpp -- comparing an archived log file's records with those of the file
// that is to replace it.
#include "storage/log/log_archive.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <new>

#include "platform/assert.h"
#include "platform/disk.h"
#include "platform/failure.h"
#include "platform/try.h"
#include "storage/control.h"
#include "storage/log/log_record.h"

namespace tmh::storage {

using platform::DiskFile;
using platform::fail;

namespace {

// The records of one file, one behind the other, over the generations that opened in it. What lies
// behind the last one, a torn tail or what a recycled file had before, counts for nothing.
class FileRecords {
 public:
  FileRecords(const DiskFile &file, const LogIdentity &log, std::uint64_t index,
              std::byte *buffer) noexcept
      : file_(file),
        file_bytes_(log.file_bytes),
        lsn_(index * log.file_bytes + kLogBlockBytes),
        buffer_(buffer) {
    TMH_ASSERT(buffer != nullptr);  // kRecordBytesAccepted
  }

  // *is_there: false: there are no more. Else the record is in the buffer.
  [[nodiscard]] Errc next(bool *is_there) noexcept {
    if (const Errc error = load(is_there); error != Errc::kOk || *is_there) return error;
    const Lsn opening = open_position(lsn_, file_bytes_);
    if (opening == lsn_ || file_of(opening, file_bytes_) != file_of(lsn_, file_bytes_))
      return Errc::kOk;
    lsn_ = opening;
    const Errc error = load(is_there);
    *is_there = *is_there && RecordKind{header_.kind} == RecordKind::kOpen;
    return error;
  }
  void pass() noexcept {
    TMH_ASSERT(header_.lsn == lsn_ && header_.length >= kRecordHeaderBytes);  // next() gave it
    generation_ = header_.generation;
    lsn_ += header_.length;
  }
  [[nodiscard]] std::uint64_t offset() const noexcept { return lsn_ % file_bytes_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return header_.length; }

 private:
  [[nodiscard]] Errc load(bool *is_there) noexcept {
    *is_there = false;
    const std::uint64_t room = offset() == 0 ? 0 : file_bytes_ - offset();
    if (room < kRecordHeaderBytes) return Errc::kOk;
    std::size_t got = 0;
    TMH_TRY(file_.read(offset(), &header_, sizeof header_, &got));
    if (got < sizeof header_ || !is_header_sane(header_, lsn_, room) ||
        header_.generation < generation_)
      return Errc::kOk;
    TMH_TRY(file_.read(offset(), buffer_, header_.length, &got));
    *is_there = got == header_.length && is_crc_right(header_, buffer_);
    return Errc::kOk;
  }

  const DiskFile &file_;
  const std::uint64_t file_bytes_;
  Lsn lsn_;
  std::byte *buffer_;
  RecordHeaderV1 header_{};
  std::uint32_t generation_ = 0;
};

Errc verify_header(const DiskFile &file, const LogIdentity &log, std::uint64_t index) noexcept {
  LogFileHeaderV1 header{};
  std::size_t got = 0;
  TMH_TRY(file.read(0, &header, sizeof header, &got));
  std::string why;
  const Errc error =
      got < sizeof header ? Errc::kShortFile : verify_log_file_header(header, log, index, &why);
  // A header cut short or damaged says nothing about whose the file is; its records do.
  return error == Errc::kNotADomain ? fail(error, file.path() + ": " + why) : Errc::kOk;
}

}  // namespace

Errc verify_archived(const std::string &folder, const std::string &archive_folder,
                     const LogIdentity &log, std::uint64_t index) noexcept {
  const std::string archived_path = log_file_path(archive_folder, index);
  if (!platform::has_entry(archived_path) && errno == ENOENT) return Errc::kOk;
  DiskFile archived, present;
  TMH_TRY(archived.open(archived_path, DiskFile::Mode::kRead, platform::FileRole::kOwnLog));
  TMH_TRY(present.open(log_file_path(folder, index), DiskFile::Mode::kRead,
                       platform::FileRole::kOwnLog));
  TMH_TRY(verify_header(archived, log, index));
  const std::unique_ptr<std::byte[]> ours(new (std::nothrow) std::byte[kRecordBytesAccepted]);
  const std::unique_ptr<std::byte[]> theirs(new (std::nothrow) std::byte[kRecordBytesAccepted]);
  if (ours == nullptr || theirs == nullptr) return fail(Errc::kOutOfMemory, archived_path);
  FileRecords records(archived, log, index, theirs.get());
  for (bool is_there = true;; records.pass()) {
    if (const Errc error = records.next(&is_there); error != Errc::kOk || !is_there) return error;
    std::size_t got = 0;
    TMH_TRY(present.read(records.offset(), ours.get(), records.bytes(), &got));
    if (got != records.bytes() || std::memcmp(ours.get(), theirs.get(), got) != 0)
      return fail(
          Errc::kBadArgument,
          archived_path + " holds other records: another history of the domain is archived there");
  }
}

Errc verify_archive_folder(const std::string &archive_folder, const LogIdentity &log) noexcept {
  const std::string path = archive_folder + "/tmh.control";
  if (!platform::has_entry(path) && errno == ENOENT) return Errc::kOk;
  DiskFile file;
  TMH_TRY(file.open(path, DiskFile::Mode::kRead));
  ControlHeaderV1 header{};
  std::size_t got = 0;
  TMH_TRY(file.read(0, &header, sizeof header, &got));
  const bool is_own = got == sizeof header && header.domain_id[0] == log.domain_id[0] &&
                      header.domain_id[1] == log.domain_id[1];
  return is_own ? Errc::kOk
                : fail(Errc::kNotADomain,
                       archive_folder +
                           " is the folder of another domain, which would use the files again");
}

}  // namespace tmh::storage
