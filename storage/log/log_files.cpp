// storage/log/log_files.cpp -- log files under their temporary and their final names.
#include "storage/log/log_files.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "platform/assert.h"
#include "platform/disk.h"
#include "platform/failure.h"
#include "platform/try.h"
#include "storage/crc32c.h"

namespace tmh::storage {

using platform::DiskFile;
using platform::fail;
using platform::fail_errno;

namespace {

constexpr std::string_view kPrefix = "tmh.log.";
constexpr std::size_t kIndexDigits = 10;
// Written at a time: large enough that the calls cost nothing, small enough for any heap.
constexpr std::size_t kPieceBytes = 256u << 10;
static_assert(sizeof(LogFileHeaderV1) % platform::kDiskBlockBytes == 0, "write_durable() takes it");

std::uint32_t header_crc(const LogFileHeaderV1 &header) noexcept {
  return crc32c(0, &header, offsetof(LogFileHeaderV1, crc));
}

// The header alone, durably. REQUIRES: the file is at least that long.
Errc write_header(DiskFile *file, const LogIdentity &log, std::uint64_t index) noexcept {
  TMH_ASSERT(file != nullptr && file->is_open());
  alignas(platform::kDiskBlockBytes) const LogFileHeaderV1 header =
      make_log_file_header(log, index);
  return file->write_durable(0, &header, sizeof header);
}

Errc fill(DiskFile *file, const LogIdentity &log, std::uint64_t index) noexcept {
  const std::unique_ptr<std::byte[]> zeros(new (std::nothrow) std::byte[kPieceBytes]());
  if (zeros == nullptr) return fail(Errc::kOutOfMemory, file->path());
  for (std::uint64_t at = 0; at < log.file_bytes; at += kPieceBytes) {
    const std::size_t piece = std::min<std::uint64_t>(kPieceBytes, log.file_bytes - at);
    TMH_TRY(file->write(at, zeros.get(), piece));
  }
  TMH_TRY(write_header(file, log, index));
  return file->sync();  // length, blocks and zeros; the header was durable on its own
}

// A final name for the complete file under the temporary one.
Errc publish(const std::string &folder, std::uint64_t index) noexcept {
  const Errc error =
      platform::disk_rename(log_temporary_path(folder), log_file_path(folder, index));
  return error != Errc::kOk ? error : platform::sync_folder(folder);
}

bool on_one_device(const std::string &one, const std::string &other) noexcept {
  struct stat a {};
  struct stat b {};
  return stat(one.c_str(), &a) == 0 && stat(other.c_str(), &b) == 0 && a.st_dev == b.st_dev;
}

// *is_far: it has to be copied. So on another device, and under another mount of the same one, as
// containers have them.
Errc move_file(const std::string &from, const std::string &to_folder, const std::string &to,
               bool *is_far) noexcept {
  *is_far = !on_one_device(from, to_folder);
  if (*is_far) return Errc::kOk;
  const Errc error = platform::disk_rename(from, to);
  *is_far = error != Errc::kOk && errno == EXDEV;
  return *is_far ? Errc::kOk : error;
}

}  // namespace

std::string log_file_name(std::uint64_t index) {
  std::string digits = std::to_string(index);
  if (digits.size() < kIndexDigits) digits.insert(0, kIndexDigits - digits.size(), '0');
  return std::string(kPrefix) + digits;
}

std::string log_file_path(const std::string &folder, std::uint64_t index) {
  return folder + "/" + log_file_name(index);
}

std::string log_temporary_path(const std::string &folder) { return folder + "/tmh.log.new"; }

std::optional<std::uint64_t> log_file_index(std::string_view name) noexcept {
  if (name.size() < kPrefix.size() + kIndexDigits || name.substr(0, kPrefix.size()) != kPrefix)
    return std::nullopt;
  const std::string_view digits = name.substr(kPrefix.size());
  // Another spelling of a shorter one.
  if (digits.size() > kIndexDigits && digits.front() == '0') return std::nullopt;
  std::uint64_t index = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  return index;
}

LogFileHeaderV1 make_log_file_header(const LogIdentity &log, std::uint64_t index) noexcept {
  LogFileHeaderV1 header{};
  header.magic = kLogMagic;
  header.format_version = kLogVersion;
  header.header_bytes = sizeof header;
  header.domain_id[0] = log.domain_id[0];
  header.domain_id[1] = log.domain_id[1];
  header.file_index = index;
  header.file_bytes = log.file_bytes;
  header.crc = header_crc(header);
  return header;
}

namespace {
bool is_read(std::uint32_t version) noexcept {
  return version >= kLogVersionRead && version <= kLogVersion;
}

// Of a power cut in update_log_file_header(): version and checksum lie in different sectors, and
// one of them is the other version's.
bool is_torn_update(LogFileHeaderV1 header) noexcept {
  if (!is_read(header.format_version)) return false;
  const std::uint32_t crc = header.crc;
  header.format_version = header.format_version == kLogVersion ? kLogVersionRead : kLogVersion;
  return crc == header_crc(header);
}
}  // namespace

Errc verify_log_file_header(const LogFileHeaderV1 &header, const LogIdentity &log,
                            std::uint64_t index, std::string *why) {
  TMH_ASSERT(why != nullptr);
  const auto refuse = [why](Errc code, const char *text) {
    *why = text;
    return code;
  };
  // The checksum first: a flipped bit in magic number, version or domain is damage, not somebody
  // else's file.
  const bool whole = header.crc == header_crc(header) || is_torn_update(header);
  if (header.magic != kLogMagic)
    return refuse(whole ? Errc::kNotADomain : Errc::kCorrupt, "magic number");
  if (!whole) return refuse(Errc::kCorrupt, "checksum");
  if (!is_read(header.format_version)) return refuse(Errc::kForeignVersion, "format_version");
  if (header.header_bytes != sizeof header) return refuse(Errc::kForeignVersion, "header_bytes");
  if (header.domain_id[0] != log.domain_id[0] || header.domain_id[1] != log.domain_id[1])
    return refuse(Errc::kNotADomain, "domain_id: a file of another domain");
  if (header.file_index != index)
    return refuse(Errc::kCorrupt, "file_index: not what the file's name says");
  if (header.file_bytes != log.file_bytes) return refuse(Errc::kCorrupt, "file_bytes");
  if (!std::all_of(std::begin(header.reserved_zero), std::end(header.reserved_zero),
                   [](auto b) { return b == 0; }))
    return refuse(Errc::kForeignVersion, "reserved bytes");
  return Errc::kOk;
}

Errc update_log_file_header(platform::DiskFile *file, const LogFileHeaderV1 &found,
                            const LogIdentity &log, std::uint64_t index) noexcept {
  TMH_ASSERT(file != nullptr && file->is_open());
  // verify_log_file_header() has found it right
  TMH_ASSERT(is_read(found.format_version) && found.file_index == index);
  alignas(platform::kDiskBlockBytes) const LogFileHeaderV1 header =
      make_log_file_header(log, index);
  if (std::memcmp(&header, &found, sizeof header) == 0) return Errc::kOk;
  return file->write_durable(0, &header, sizeof header);
}

Errc verify_log_file(const std::string &path, const LogIdentity &log, std::uint64_t index) {
  DiskFile file;
  TMH_TRY(file.open(path, DiskFile::Mode::kRead, platform::FileRole::kOwnLog));
  LogFileHeaderV1 header{};
  std::size_t got = 0;
  TMH_TRY(file.read(0, &header, sizeof header, &got));
  if (got < sizeof header || !file.is_whole(log.file_bytes)) return fail(Errc::kShortFile, path);
  std::string why;
  const Errc error = verify_log_file_header(header, log, index, &why);
  return error == Errc::kOk ? error : fail(error, path + ": " + why);
}

Errc create_log_file(const std::string &folder, const LogIdentity &log, std::uint64_t index) {
  const std::string temporary = log_temporary_path(folder);
  TMH_TRY(platform::disk_unlink(temporary));
  DiskFile file;
  Errc error = file.open(temporary, DiskFile::Mode::kCreate);
  if (error != Errc::kOk) return error;
  error = fill(&file, log, index);
  if (error == Errc::kOk) error = publish(folder, index);
  if (error != Errc::kOk) {  // give a full disk its blocks back
    const std::string detail = platform::failure_detail();
    static_cast<void>(platform::disk_unlink(temporary));
    return fail(error, detail);
  }
  return Errc::kOk;
}

Errc recycle_log_file(const std::string &folder, const LogIdentity &log, std::uint64_t old_index,
                      std::uint64_t new_index) {
  TMH_ASSERT(old_index < new_index);  // LSNs grow: no record of the old one is where it says
  const std::string temporary = log_temporary_path(folder);
  TMH_TRY(platform::disk_rename(log_file_path(folder, old_index), temporary));
  DiskFile file;
  TMH_TRY(file.open(temporary, DiskFile::Mode::kReadWrite, platform::FileRole::kOwnLog));
  if (!file.is_whole(log.file_bytes))
    return fail(Errc::kShortFile, log_file_path(folder, old_index));
  // A user keeps it: "ln", "cp -l".
  if (file.has_other_names()) return create_log_file(folder, log, new_index);
  TMH_TRY(write_header(&file, log, new_index));
  return publish(folder, new_index);
}

Errc copy_log_file(const std::string &from_folder, const std::string &to_folder,
                   std::uint64_t index) noexcept {
  TMH_ASSERT(from_folder != to_folder);
  const std::string from_path = log_file_path(from_folder, index);
  const std::string temporary = log_temporary_path(to_folder);
  TMH_TRY(platform::disk_unlink(temporary));
  DiskFile from;
  DiskFile to;
  TMH_TRY(from.open(from_path, DiskFile::Mode::kRead, platform::FileRole::kOwnLog));
  TMH_TRY(to.open(temporary, DiskFile::Mode::kCreate));
  const std::unique_ptr<std::byte[]> piece(new (std::nothrow) std::byte[kPieceBytes]);
  if (piece == nullptr) return fail(Errc::kOutOfMemory, from_path);
  std::size_t got = 0;
  for (std::uint64_t at = 0;; at += got) {
    TMH_TRY(from.read(at, piece.get(), kPieceBytes, &got));
    if (got == 0) break;
    TMH_TRY(to.write(at, piece.get(), got));
  }
  TMH_TRY(to.sync());
  return publish(to_folder, index);
}

Errc archive_log_file(const std::string &folder, const std::string &archive_folder,
                      std::uint64_t index) noexcept {
  const std::string from = log_file_path(folder, index);
  const std::string to = log_file_path(archive_folder, index);
  if (!platform::has_entry(from) && platform::has_entry(to)) return Errc::kOk;
  bool is_far = false;
  TMH_TRY(move_file(from, archive_folder, to, &is_far));
  if (is_far) {
    TMH_TRY(copy_log_file(folder, archive_folder, index));
    TMH_TRY(platform::disk_unlink(from));
  } else {
    TMH_TRY(platform::sync_folder(archive_folder));
  }
  return platform::sync_folder(folder);
}

Errc list_log_files(const std::string &folder, std::vector<std::uint64_t> *indexes) {
  TMH_ASSERT(indexes != nullptr);
  indexes->clear();
  DIR *dir = opendir(folder.c_str());
  if (dir == nullptr) return fail_errno(Errc::kIo, folder);
  errno = 0;
  while (const dirent *entry = readdir(dir)) {
    if (const auto index = log_file_index(entry->d_name)) indexes->push_back(*index);
    errno = 0;
  }
  const Errc error = errno == 0 ? Errc::kOk : fail_errno(Errc::kIo, folder);
  closedir(dir);
  std::sort(indexes->begin(), indexes->end());
  return error;
}

}  // namespace tmh::storage
