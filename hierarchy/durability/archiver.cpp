// hierarchy/durability/archiver.cpp -- archiving of log files, hot backup.
#include "hierarchy/durability/archiver.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <filesystem>

#include "hierarchy/durability/checksum_table.h"
#include "hierarchy/durability/kept_moments.h"
#include "hierarchy/durability/log_copies.h"
#include "platform/assert.h"
#include "platform/copy_data.h"
#include "platform/failure.h"
#include "platform/files.h"
#include "platform/try.h"
#include "storage/log/log_archive.h"
#include "storage/log/log_files.h"
#include "storage/log/log_record.h"

namespace tmh::detail {

using platform::fail;
using storage::CheckpointV1;
using storage::LogState;

Errc Archiver::archive(const std::string &folder, std::vector<std::string> *moved) noexcept {
  TMH_ASSERT(moved != nullptr);
  moved->clear();
  if (::mkdir(folder.c_str(), 0770) != 0 && errno != EEXIST)
    return platform::fail_errno(Errc::kIo, folder);
  // Here, because with no file to move nothing else would notice.
  struct stat info {};
  if (stat(folder.c_str(), &info) != 0) return platform::fail_errno(Errc::kIo, folder);
  if (!S_ISDIR(info.st_mode)) return platform::fail(Errc::kBadArgument, folder + " is no folder");
  // Also where a call that was killed has made it: files that are moved into it would be lost
  // with its name. A parent that we may not read is another user's to sync, and so is where
  // another device is mounted.
  struct stat parent {};
  if (stat((folder + "/..").c_str(), &parent) == 0 && parent.st_dev == info.st_dev) {
    const Errc named = platform::sync_folder(folder + "/..");
    if (named != Errc::kOk && named != Errc::kPermission) return named;
  }
  LogState &s = *memory_.log_state();
  const auto &id = memory_.control().header.domain_id;
  const storage::LogIdentity log{{id[0], id[1]}, s.file_bytes};
  TMH_TRY(storage::verify_archive_folder(folder, log));
  Checkpointer::Held held = checkpointer_.lock();
  Errc error = checkpointer_.checkpoint(held);
  if (error == Errc::kOk) {
    // No participant recycles meanwhile. Without the lock: a writer that needs a new log file would
    // wait for copies to another device. checkpoint_lock: no other participant changes it; of one
    // who dies the next checkpoint sets it right.
    log_.room().lock_files();
    const std::uint64_t reusable_below = s.reusable_below.exchange(0, std::memory_order_relaxed);
    log_.room().unlock_files();
    const std::uint64_t needed =
        storage::file_of(checkpoint_file_.current().previous_lsn, s.file_bytes);
    std::vector<std::uint64_t> present;
    error = storage::list_log_files(memory_.folder(), &present);
    for (const std::uint64_t index : present) {
      if (index >= needed || error != Errc::kOk) break;
      error = storage::verify_archived(memory_.folder(), folder, log, index);
      if (error != Errc::kOk) break;
      error = storage::archive_log_file(memory_.folder(), folder, index);
      if (error == Errc::kOk) moved->push_back(folder + "/" + storage::log_file_name(index));
    }
    s.reusable_below.store(reusable_below, std::memory_order_release);
  }
  if (error == Errc::kOk) error = archive_moments(folder);
  held.release();
  return error;
}

// Under the folder lock: no participant names another one before the file of names is there.
Errc Archiver::archive_moments(const std::string &folder) noexcept {
  platform::FolderLock folder_lock;
  TMH_TRY(folder_lock.acquire(storage::lock_path(memory_.folder())));
  return copy_moments(memory_, folder);
}

namespace {
// Data and holes; durable. The file may change meanwhile: see Archiver::copy_to().
Errc copy_file(const std::string &from, platform::FileRole role, const std::string &to) noexcept {
  platform::FileDescriptor in;
  TMH_TRY(platform::open_regular(from, O_RDONLY, role, &in));
  platform::FileDescriptor out;
  TMH_TRY(platform::open_regular(to, O_RDWR | O_CREAT | O_EXCL, platform::FileRole::kOwn, &out));
  struct stat info {};
  if (fstat(in.get(), &info) != 0 || ftruncate(out.get(), info.st_size) != 0)
    return platform::fail_errno(Errc::kIo, to);
  const auto bytes = static_cast<std::uint64_t>(info.st_size);
  TMH_TRY(platform::copy_data(in.get(), 0, bytes, out.get(), to));
  return platform::sync_file(out.get(), to);
}

// What participants share now is not of the copy, should it be put in the place of this domain.
Errc forget_life(const std::string &control) noexcept {
  platform::FileDescriptor file;
  TMH_TRY(platform::open_regular(control, O_RDWR, platform::FileRole::kOwn, &file));
  constexpr std::uint64_t kNone = 0;
  constexpr auto kAt = static_cast<off_t>(offsetof(storage::ControlFile, header) +
                                          offsetof(storage::ControlHeaderV1, life));
  if (pwrite(file.get(), &kNone, sizeof kNone, kAt) != sizeof kNone)
    return platform::fail_errno(Errc::kIo, control);
  return platform::sync_file(file.get(), control);
}

// A segment's file, as its name says: in the domain's folder. Another one would have the same name
// in the copy: not copied, but shared with it.
bool lies_inside(const std::string &name) {
  const std::filesystem::path path(name);
  return path.is_relative() && std::find(path.begin(), path.end(), "..") == path.end();
}

// From `inner` up to `outer`, which is the caller's: a name is durable with the folder that it is
// in, and so is that folder's.
Errc sync_folders(const std::filesystem::path &inner, const std::filesystem::path &outer) noexcept {
  for (std::filesystem::path folder = inner; folder != outer; folder = folder.parent_path()) {
    TMH_ASSERT(folder.has_relative_path());  // inner lies in outer
    TMH_TRY(platform::sync_folder(folder));
  }
  return Errc::kOk;
}

Errc lengthen(const std::string &path, std::uint64_t bytes) noexcept {
  platform::FileDescriptor file;
  TMH_TRY(platform::open_regular(path, O_RDWR, platform::FileRole::kOwn, &file));
  struct stat info {};
  if (fstat(file.get(), &info) != 0) return platform::fail_errno(Errc::kIo, path);
  if (static_cast<std::uint64_t>(info.st_size) >= bytes) return Errc::kOk;
  if (ftruncate(file.get(), static_cast<off_t>(bytes)) != 0)
    return platform::fail_errno(Errc::kIo, path);
  return platform::sync_file(file.get(), path);
}
}  // namespace

// Those that are not there yet; all as long as their segments are now.
Errc Archiver::copy_data_files(const std::string &folder) noexcept {
  for (storage::SegmentRecordV1 &record : memory_.control().segments) {
    if (!storage::is_used(record)) continue;
    if (!lies_inside(record.name))
      return fail(
          Errc::kBadArgument,
          std::string(record.name) + ": a segment outside the folder cannot be copied into one");
    const std::string to = folder + "/" + record.name;
    const std::string parent = std::filesystem::path(to).parent_path();
    std::error_code ignored;
    std::filesystem::create_directories(parent, ignored);
    if (::access(to.c_str(), F_OK) != 0) {
      TMH_TRY(copy_file(memory_.segment_path(record), platform::FileRole::kSegment, to));
      TMH_TRY(sync_folders(parent, folder));
    }
    const std::uint64_t size = std::max(record.size_bytes, storage::promised_size(record));
    TMH_TRY(lengthen(to, record.offset_bytes + size));
  }
  return Errc::kOk;
}

// held: the log files behind the checkpoint stay. Data files are copied while
// versions go home: whatever a copy has or has not of commits behind the checkpoint is in the log
// up to the end that is copied after them. Files of segments that were made meanwhile, and control
// file and log's end, under the folder lock: no participant makes another one before the log's end
// is copied.
Errc Archiver::copy_to([[maybe_unused]] const Checkpointer::Held &held,
                       const std::string &folder) noexcept {
  TMH_ASSERT(held.is_valid());
  CheckpointV1 start = checkpoint_file_.current();
  const LogState &s = *memory_.log_state();
  TMH_TRY(copy_data_files(folder));
  // The file that the checkpoint promises belongs to the copy, also when nothing is in it yet.
  const std::uint64_t promised = storage::file_of(
      storage::place(start.lsn, storage::kRecordHeaderBytes, s.file_bytes), s.file_bytes);
  LogCopies log(memory_.folder(), folder, s.file_bytes);
  storage::Lsn copied = storage::file_of(start.lsn, s.file_bytes) * s.file_bytes;
  TMH_ASSERT(copied <= start.lsn);
  const auto copy_log = [&] {
    const storage::Lsn end = s.durable_lsn.load(std::memory_order_acquire);
    const Errc error =
        log.copy(copied, end, std::max(promised, storage::file_of(end - 1, s.file_bytes)));
    copied = std::max(copied, end);
    return error;
  };
  // Without locks, the last file too: what is durable of it stays as it is. Again for what came
  // meanwhile, so that little is left for below.
  Errc error = Errc::kOk;
  for (int round = 0; round < 3 && error == Errc::kOk; ++round) error = copy_log();
  if (error == Errc::kOk) error = log.sync();
  if (error != Errc::kOk) return error;
  platform::FolderLock folder_lock;
  if (error = folder_lock.acquire(storage::lock_path(memory_.folder())); error != Errc::kOk)
    return error;
  if (error = copy_data_files(folder); error != Errc::kOk) return error;
  if (error = log_.flush_all(); error != Errc::kOk) return error;
  {
    // No participant writes the last one meanwhile, and strict commits wait.
    const page::LogLock::Held writing = log_.group().lock().take();
    error = copy_log();
    // the data files may hold all of it: no earlier point in time
    start.durable_lsn = s.durable_lsn.load(std::memory_order_acquire);
  }
  if (error == Errc::kOk) error = log.sync();
  if (error != Errc::kOk) return error;
  if (error = copy_file(memory_.folder() + "/tmh.control", platform::FileRole::kOwn,
                        folder + "/tmh.control");
      error != Errc::kOk)
    return error;
  if (error = forget_life(folder + "/tmh.control"); error != Errc::kOk) return error;
  TMH_TRY(copy_moments(memory_, folder));
  storage::CheckpointFile made;
  return made.create(folder, start);
}

namespace {
// Does the folder-to-be lie in that one?
bool lies_in(const std::string &path, const std::string &folder) {
  std::error_code error;
  const auto outer = std::filesystem::canonical(folder, error);
  const auto inner = std::filesystem::weakly_canonical(path, error);
  return !error &&
         std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}
}  // namespace

// Under another name until it is whole: what a death leaves can neither be taken for a copy nor be
// opened by that name.
Errc Archiver::backup(const std::string &folder) noexcept {
  std::string to = folder;
  while (to.size() > 1 && to.back() == '/') to.pop_back();
  if (to.empty()) return fail(Errc::kBadArgument, "the copy's folder has no name");
  if (lies_in(to, memory_.folder()))
    return fail(Errc::kBadArgument, to + " lies in the domain's own folder");
  if (::access(to.c_str(), F_OK) == 0) return fail(Errc::kBadArgument, to + " exists");
  const std::string incomplete = to + ".incomplete";
  if (::mkdir(incomplete.c_str(), 0770) != 0) {
    if (errno != EEXIST) return platform::fail_errno(Errc::kIo, incomplete);
    return fail(
        Errc::kBadArgument,
        incomplete + " exists: another copy is being made, or was interrupted; remove it then");
  }
  Checkpointer::Held held = checkpointer_.lock();
  Errc error = checkpointer_.checkpoint(held);
  if (error == Errc::kOk) error = copy_to(held, incomplete);
  held.release();
  if (error == Errc::kOk)
    error = ChecksumTable::write_of_copy(incomplete, ChecksumTable(memory_).is_wanted());
  if (error == Errc::kOk) error = platform::sync_folder(incomplete);
  if (error == Errc::kOk) error = platform::rename_new(incomplete, to);
  if (error == Errc::kOk) return platform::sync_folder(to + "/..");
  std::error_code ignored;
  std::filesystem::remove_all(incomplete, ignored);
  return error;
}

}  // namespace tmh::detail
