// hierarchy/checkpoint.cpp -- checkpoints, archiving of log files, hot backup.
// Source:    docs/design.md D6; LIBTP, section 3.2.1 (checkpoints); thesis, section 2.3
//            (xCheckpoint, xArchive).
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <set>
#include <string>

#include "hierarchy/durable_domain.h"
#include "levels/storage/log_archive.h"
#include "levels/storage/log_files.h"
#include "levels/storage/log_record.h"
#include "platform/copy_data.h"
#include "platform/failure.h"
#include "platform/process.h"
#include "platform/steps.h"
#include "platform/try.h"

namespace tmh::detail {

using platform::fail;
using platform::Step;
using platform::step;
using storage::CheckpointV1;
using storage::LogState;

namespace {
// The domain lock is given back after so many versions: 256 take about 50 us.
constexpr std::size_t kCollectSlice = 256;
// How long a checkpoint waits for readers of older snapshots before it settles for an earlier
// point.
constexpr std::uint64_t kPatienceNs = 100'000'000;

void pause_us(long us) noexcept {
  const timespec wait{0, us * 1000};
  nanosleep(&wait, nullptr);
}
}  // namespace

void DurableDomain::mend(const page::DomainLock::Held &held, page::DomainLock::Context,
                         platform::Locked how) noexcept {
  if (how == platform::Locked::kClean && tree_->is_linked()) return;
  tree_->repair(held);
  // the engine's next holder also opens segments and mends the access table
  memory_.state().repair_again |= page::kRepairRest;
}

// Sends every version up to `fence` home that readers allow. True: everything up to `fence` is
// home, and was not folded into what is later.
bool DurableDomain::collect_up_to(std::uint64_t fence, std::uint64_t patience_ns) noexcept {
  const std::uint64_t deadline = platform::monotonic_ns() + patience_ns;
  for (;;) {
    page::DomainLock::Held held = domain_lock_->take();
    const std::size_t sent = tree_->collect(held, kCollectSlice, fence);
    const bool complete = tree_->oldest_stamp(held) > fence, is_linked = tree_->is_linked();
    held.release();
    if (complete || !is_linked || (sent == 0 && platform::monotonic_ns() >= deadline))
      return complete;
    if (sent == 0) pause_us(500);
  }
}

// To the present clock.
std::uint64_t DurableDomain::move_fence() noexcept {
  const page::DomainLock::Held held = domain_lock_->take();
  page::DomainState &domain = memory_.state();
  const std::uint64_t fence = domain.clock.load(std::memory_order_relaxed);
  domain.fold_fence = fence;
  return fence;
}

// An error is kept: the kernel takes the pages for clean afterwards, so that a later success would
// say nothing about them.
Errc DurableDomain::sync_data_files(Pace pace) noexcept {
  storage::DataSyncs &syncs = state().data_syncs;
  const storage::SegmentRecordV1 *const records = memory_.control().segments;
  for (std::uint32_t i = 0; i < storage::kSegmentsMax; ++i) {
    if (!storage::is_used(records[i]) || memory_.file_of(i) != i) continue;
    syncs.begin(storage::DataSyncer::kCheckpoint, i);
    const Errc error = sync_data_file(i, pace);
    syncs.end(storage::DataSyncer::kCheckpoint);
    if (error != Errc::kOk) return error;
  }
  return Errc::kOk;
}

// Of the first segment in it.
Errc DurableDomain::sync_data_file(std::uint32_t segment, Pace pace) noexcept {
  storage::DataSyncs &syncs = state().data_syncs;
  const std::uint64_t doubts = syncs.doubts(segment);
  const auto result_of = [&](Errc error) {
    if (error != Errc::kOk) syncs.fail(error);
    return error;
  };
  platform::DiskFile file;
  const std::string path = memory_.segment_path(memory_.control().segments[segment]);
  TMH_TRY(file.open(path, platform::DiskFile::Mode::kRead, platform::FileRole::kSegment));
  const std::uint64_t deadline = platform::monotonic_ns() + kPatienceNs;
  for (;;) {
    const std::uint32_t unknown = syncs.oldest_unknown(segment);
    // Behind the file's opening and the look at who syncs: whatever was told to others before is
    // here, or is in doubt.
    if (const Errc earlier = syncs.failed(); earlier != Errc::kOk)
      return fail(earlier,
                  "syncing a data file failed before: recovery must store it again from the log");
    if (unknown == 0) break;
    page::SegmentMemory &here = memory_.segment(segment);
    if (here.is_open.load(std::memory_order_acquire) && here.opened_at < unknown) {
      TMH_TRY(result_of(here.home.sync()));
      break;
    }
    if (syncs.is_in_doubt(segment, unknown) || platform::monotonic_ns() >= deadline) {
      // Home has all of it, and is another file: what that sync may have lost is written again.
      // Behind the opening of `file`, which hears what becomes of it; one opened later might not.
      if (memory_.has_separate_homes()) {
        TMH_TRY(write_all_pages(segment, file, pace));
        break;
      }
      return fail(Errc::kIo, path +
                                 ": whether all of it is on disk knows only who had it open before "
                                 "a process died that synced it; "
                                 "that one's checkpoint, or the next open, makes sure");
    }
    pause_us(500);
  }
  if (pace == Pace::kGentle) TMH_TRY(result_of(file.write_back_gently(stopping_)));
  const Errc error = result_of(file.sync());
  if (error == Errc::kOk && doubts != 0) syncs.settle(segment, doubts);
  return error;
}

// REQUIRES checkpoint_lock.
Errc DurableDomain::checkpoint_locked() noexcept {
  step(Step::kCheckpointStart);
  LogState &s = state();
  s.checkpoint_ns.store(platform::coarse_ns(), std::memory_order_relaxed);
  TMH_TRY(memory_.check_in_place());
  // First: archive() and copy_to() go by it also when there is no new one.
  TMH_TRY(checkpoint_file_.refresh());
  TMH_TRY(flush());
  // The stamp of a version says nothing about lines that were folded into it, unless a fence was in
  // between. Only the holder of checkpoint_lock moves the fence.
  const std::uint64_t fence_before = memory_.state().fold_fence;
  // From here versions go home, also to segments that this process has not mapped.
  TMH_TRY(memory_.open_segments());
  const std::uint64_t home_before = collect_up_to(fence_before, 0) ? fence_before : 0;
  log_->lock();
  storage::FlushPoint start = log_->point();
  // Whatever records before `start` name is noted by now; what follows is the next checkpoint's.
  const Errc taken = memory_.has_separate_homes() ? log_->changed().take() : Errc::kOk;
  log_->unlock();
  if (taken != Errc::kOk) return taken;
  // the next one, perhaps
  if (memory_.has_separate_homes() && !log_->lower()->is_home(start.line)) return Errc::kOk;
  // >= start.clock
  const std::uint64_t fence = move_fence();
  // made since
  TMH_TRY(memory_.open_segments());
  TMH_TRY(log_->flush(fence));
  const bool complete = collect_up_to(fence, kPatienceNs);
  step(Step::kCheckpointCollected);
  if (!complete) {
    // A reader needs what home held before: start at the last point passed in front of the fence
    // before, when that much is home.
    log_->lock();
    start = storage::FlushPoint{};
    for (const storage::FlushPoint &point : s.passed) {
      if (point.clock <= home_before && point.lsn > start.lsn) start = point;
    }
    log_->unlock();
  }
  CheckpointV1 next = checkpoint_file_.current();
  if (start.lsn <= next.lsn) return Errc::kOk;  // nothing new, or a reader holds everything back
  if (memory_.has_separate_homes()) TMH_TRY(write_changed_pages());
  TMH_TRY(sync_data_files(Pace::kGentle));
  step(Step::kCheckpointSynced);
  // The checkpoint promises the file of the next record (storage::promises_log_file()), also where
  // the one before is full.
  const storage::Lsn next_record =
      storage::place(start.lsn, storage::kRecordHeaderBytes, s.file_bytes);
  TMH_TRY(log_->make_files_up_to(next_record + 1));
  next.generation = s.generation;
  next.lsn = start.lsn;
  next.stamp = start.stamp();
  next.durable_lsn = s.durable_lsn.load(std::memory_order_acquire);
  next.time_ns = platform::wall_clock_ns();
  next.is_clean = 0;
  next.keep_all = options_.keep_log || next.keep_all != 0 ? 1 : 0;
  TMH_TRY(checkpoint_file_.store(next));
  step(Step::kCheckpointStored);
  if (memory_.has_separate_homes() && complete) log_->changed().clear_taken();
  s.checkpoint_lsn.store(start.lsn, std::memory_order_relaxed);
  s.checkpoints.fetch_add(1, std::memory_order_relaxed);
  const CheckpointV1 &stored = checkpoint_file_.current();
  if (stored.keep_all == 0)
    s.reusable_below.store(storage::file_of(stored.previous_lsn, s.file_bytes),
                           std::memory_order_release);
  return Errc::kOk;
}

Errc DurableDomain::checkpoint() noexcept {
  LogState &s = state();
  (void)s.checkpoint_lock.lock(log_->tag(), page::DomainMemory::holder_alive,
                               &memory_);  // the dead leave nothing half done
  const Errc error = checkpoint_locked();
  s.checkpoint_lock.unlock();
  return error;
}

// The housekeeper's: nobody's commits wait because another process archives, copies or is stopped.
void DurableDomain::checkpoint_if_free() noexcept {
  LogState &s = state();
  if (!s.checkpoint_lock.try_lock(log_->tag(), page::DomainMemory::holder_alive, &memory_)) return;
  (void)checkpoint_locked();
  s.checkpoint_lock.unlock();
}

Errc DurableDomain::archive(const std::string &folder, std::vector<std::string> *moved) noexcept {
  moved->clear();
  if (::mkdir(folder.c_str(), 0770) != 0 && errno != EEXIST)
    return platform::fail_errno(Errc::kIo, folder);
  // Here, because with no file to move nothing else would notice.
  struct stat info {};
  if (stat(folder.c_str(), &info) != 0) return platform::fail_errno(Errc::kIo, folder);
  if (!S_ISDIR(info.st_mode)) return platform::fail(Errc::kBadArgument, folder + " is no folder");
  // Whoever made it, perhaps a call that was killed: files that are moved into it would be lost
  // with its name. A parent that we may not read is somebody else's to sync, and so is where
  // another device is mounted.
  struct stat parent {};
  if (stat((folder + "/..").c_str(), &parent) == 0 && parent.st_dev == info.st_dev) {
    const Errc named = platform::sync_folder(folder + "/..");
    if (named != Errc::kOk && named != Errc::kPermission) return named;
  }
  LogState &s = state();
  const auto &id = memory_.control().header.domain_id;
  const storage::LogIdentity log{{id[0], id[1]}, s.file_bytes};
  TMH_TRY(storage::verify_archive_folder(folder, log));
  (void)s.checkpoint_lock.lock(log_->tag(), page::DomainMemory::holder_alive, &memory_);
  Errc error = checkpoint_locked();
  if (error == Errc::kOk) {
    // Nobody recycles meanwhile. Without the lock: who needs a new log file would wait for copies
    // to another device. checkpoint_lock: nobody else changes it; of one who dies the next
    // checkpoint sets it right.
    log_->lock_files();
    const std::uint64_t reusable_below = s.reusable_below.exchange(0, std::memory_order_relaxed);
    log_->unlock_files();
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
  s.checkpoint_lock.unlock();
  return error;
}

namespace {
// Data and holes; durable. The file may change meanwhile: see DurableDomain::copy_to().
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
  for (std::filesystem::path folder = inner; folder != outer; folder = folder.parent_path())
    TMH_TRY(platform::sync_folder(folder));
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

// Log files on their way into a copy: whole the first time, then what was written since.
class LogCopies {
 public:
  LogCopies(std::string from, std::string to, std::uint64_t file_bytes) noexcept
      : from_(std::move(from)), to_(std::move(to)), file_bytes_(file_bytes) {}

  // The log from `begin`, before which all is in the copy, to `end`; and files up to `last`, also
  // when nothing is in them yet.
  [[nodiscard]] Errc copy(storage::Lsn begin, storage::Lsn end, std::uint64_t last) noexcept {
    for (std::uint64_t index = storage::file_of(begin, file_bytes_); index <= last; ++index) {
      std::uint64_t first = 0, behind = file_bytes_;
      if (!files_.insert(index).second) {
        // By blocks: the last one is written again with what follows.
        constexpr std::uint64_t kBlock = storage::kLogBlockBytes;
        const storage::Lsn base = index * file_bytes_;
        first = (std::clamp(begin, base, base + file_bytes_) - base) / kBlock * kBlock;
        behind = (std::clamp(end, base, base + file_bytes_) - base + kBlock - 1) / kBlock * kBlock;
      }
      TMH_TRY(copy_part(index, first, behind));
    }
    return Errc::kOk;
  }
  // What was copied is durable when it returns.
  [[nodiscard]] Errc sync() noexcept {
    for (const std::uint64_t index : not_synced_) {
      platform::FileDescriptor file;
      const std::string path = storage::log_file_path(to_, index);
      TMH_TRY(platform::open_regular(path, O_RDWR, platform::FileRole::kOwn, &file));
      TMH_TRY(platform::sync_file(file.get(), path));
    }
    not_synced_.clear();
    return Errc::kOk;
  }

 private:
  [[nodiscard]] Errc copy_part(std::uint64_t index, std::uint64_t first,
                               std::uint64_t behind) noexcept {
    if (first >= behind) return Errc::kOk;
    const std::string path = storage::log_file_path(to_, index);
    platform::FileDescriptor in, out;
    Errc error = platform::open_regular(storage::log_file_path(from_, index), O_RDONLY,
                                        platform::FileRole::kOwnLog, &in);
    if (error == Errc::kOk)
      error = platform::open_regular(path, O_RDWR | O_CREAT, platform::FileRole::kOwn, &out);
    if (error != Errc::kOk) return error;
    not_synced_.insert(index);
    return platform::copy_in_place(in.get(), first, behind - first, out.get(), path);
  }

  const std::string from_, to_;
  const std::uint64_t file_bytes_;
  std::set<std::uint64_t> files_, not_synced_;
};
}  // namespace

// Those that are not there yet; all as long as their segments are now.
Errc DurableDomain::copy_data_files(const std::string &folder) noexcept {
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

// REQUIRES checkpoint_lock: the log files behind the checkpoint stay. Data files are copied while
// versions go home: whatever a copy has or has not of commits behind the checkpoint is in the log
// up to the end that is copied after them. Files of segments that were made meanwhile, and control
// file and log's end, under the folder lock: nobody makes another one before the log's end is
// copied.
Errc DurableDomain::copy_to(const std::string &folder) noexcept {
  CheckpointV1 start = checkpoint_file_.current();
  const LogState &s = state();
  TMH_TRY(copy_data_files(folder));
  // The file that the checkpoint promises belongs to the copy, also when nothing is in it yet.
  const std::uint64_t promised = storage::file_of(
      storage::place(start.lsn, storage::kRecordHeaderBytes, s.file_bytes), s.file_bytes);
  LogCopies log(memory_.folder(), folder, s.file_bytes);
  storage::Lsn copied = storage::file_of(start.lsn, s.file_bytes) * s.file_bytes;
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
  if (error = folder_lock.acquire(memory_.folder() + "/tmh.lock"); error != Errc::kOk) return error;
  if (error = copy_data_files(folder); error != Errc::kOk) return error;
  if (error = flush(); error != Errc::kOk) return error;
  log_->lock();  // nobody writes the last one meanwhile, and strict commits wait
  error = copy_log();
  // the data files may hold all of it: no earlier point in time
  start.durable_lsn = s.durable_lsn.load(std::memory_order_acquire);
  log_->unlock();
  if (error == Errc::kOk) error = log.sync();
  if (error != Errc::kOk) return error;
  if (error = copy_file(memory_.folder() + "/tmh.control", platform::FileRole::kOwn,
                        folder + "/tmh.control");
      error != Errc::kOk)
    return error;
  if (error = forget_life(folder + "/tmh.control"); error != Errc::kOk) return error;
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
Errc DurableDomain::backup(const std::string &folder) noexcept {
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
  LogState &s = state();
  (void)s.checkpoint_lock.lock(log_->tag(), page::DomainMemory::holder_alive, &memory_);
  Errc error = checkpoint_locked();
  if (error == Errc::kOk) error = copy_to(incomplete);
  s.checkpoint_lock.unlock();
  if (error == Errc::kOk) error = write_checksums_of_copy(incomplete, has_page_checksums());
  if (error == Errc::kOk) error = platform::sync_folder(incomplete);
  if (error == Errc::kOk) error = platform::rename_new(incomplete, to);
  if (error == Errc::kOk) return platform::sync_folder(to + "/..");
  std::error_code ignored;
  std::filesystem::remove_all(incomplete, ignored);
  return error;
}

}  // namespace tmh::detail
