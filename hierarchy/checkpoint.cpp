// hierarchy/checkpoint.cpp -- checkpoints, archiving of log files, hot backup.
// Source:    DESIGN D6; LIBTP, section 3.2.1 (checkpoints); thesis, section 2.3 (xCheckpoint, xArchive).
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "hierarchy/durable_domain.h"
#include "levels/storage/log_files.h"
#include "platform/failure.h"
#include "platform/process.h"
#include "platform/steps.h"

namespace tmh::detail {

using platform::fail;
using platform::Step;
using platform::step;
using storage::CheckpointV1;
using storage::LogState;

namespace {
// The domain lock is given back after so many versions: 256 take about 50 us.
constexpr std::size_t kCollectSlice = 256;
// How long a checkpoint waits for readers of older snapshots before it settles for an earlier point.
constexpr std::uint64_t kPatienceNs = 100'000'000;

void pause_us(long us) noexcept {
  const timespec wait{0, us * 1000};
  nanosleep(&wait, nullptr);
}
}  // namespace

void DurableDomain::lock_domain() noexcept {
  page::DomainState &domain = memory_.state();
  if (domain.lock.lock(log_->tag(), page::DomainMemory::holder_alive, &memory_) != platform::Locked::kInherited) return;
  tree_->repair();
  domain.repair_again = 1;  // the engine's next holder also opens segments and mends the access table
}

// Sends every version home that readers allow. True: everything up to `fence` is home, and was not folded into what is later.
bool DurableDomain::collect_up_to(std::uint64_t fence, std::uint64_t patience_ns) noexcept {
  const std::uint64_t deadline = platform::monotonic_ns() + patience_ns;
  for (;;) {
    lock_domain();
    const std::size_t sent = tree_->collect(kCollectSlice);
    const bool complete = tree_->oldest_stamp() > fence;
    memory_.state().lock.unlock();
    if (complete || (sent == 0 && platform::monotonic_ns() >= deadline)) return complete;
    if (sent == 0) pause_us(500);
  }
}

// To the present clock.
std::uint64_t DurableDomain::move_fence() noexcept {
  lock_domain();
  page::DomainState &domain = memory_.state();
  const std::uint64_t fence = domain.clock.load(std::memory_order_relaxed);
  domain.fold_fence = fence;
  domain.lock.unlock();
  return fence;
}

Errc DurableDomain::sync_data_files(Pace pace) noexcept {
  for (const storage::SegmentRecordV1 &record : memory_.control().segments) {
    if (record.state == 0) continue;
    platform::DiskFile file;
    const std::string path = memory_.segment_path(record);
    if (const Errc error = file.open(path, platform::DiskFile::Mode::kRead); error != Errc::kOk) return error;
    if (pace == Pace::kGentle) file.write_back_gently();
    if (const Errc error = file.sync(); error != Errc::kOk) return error;
  }
  return Errc::kOk;
}

// REQUIRES checkpoint_lock.
Errc DurableDomain::checkpoint_locked() noexcept {
  step(Step::kCheckpointStart);
  LogState &s = state();
  s.checkpoint_ns.store(platform::coarse_ns(), std::memory_order_relaxed);
  if (const Errc error = flush(); error != Errc::kOk) return error;
  // The stamp of a version says nothing about lines that were folded into it, unless a fence was in between.
  const std::uint64_t fence_before = memory_.state().fold_fence;  // checkpoint_lock: nobody moves it
  const std::uint64_t home_before = collect_up_to(fence_before, 0) ? fence_before : 0;
  log_->lock();
  storage::FlushPoint start = log_->point();
  log_->unlock();
  const std::uint64_t fence = move_fence();  // >= start.clock
  if (const Errc error = log_->flush(fence); error != Errc::kOk) return error;
  const bool complete = collect_up_to(fence, kPatienceNs);
  step(Step::kCheckpointCollected);
  if (!complete) {
    // A reader needs what home held before: start at the last point passed in front of the fence before, when that much is home.
    log_->lock();
    start = storage::FlushPoint{};
    for (const storage::FlushPoint &point : s.passed) {
      if (point.clock <= home_before && point.lsn > start.lsn) start = point;
    }
    log_->unlock();
  }
  if (const Errc error = checkpoint_file_.refresh(); error != Errc::kOk) return error;
  CheckpointV1 next = checkpoint_file_.current();
  if (start.lsn <= next.lsn) return Errc::kOk;  // nothing new, or a reader holds everything back
  if (const Errc error = sync_data_files(Pace::kGentle); error != Errc::kOk) return error;
  step(Step::kCheckpointSynced);
  next.generation = s.generation;
  next.lsn = start.lsn;
  next.stamp = start.clock;
  next.durable_lsn = s.durable_lsn.load(std::memory_order_acquire);
  next.time_ns = platform::wall_clock_ns();
  next.is_clean = 0;
  next.keep_all = options_.keep_log || next.keep_all != 0 ? 1 : 0;
  if (const Errc error = checkpoint_file_.store(next); error != Errc::kOk) return error;
  step(Step::kCheckpointStored);
  s.checkpoint_lsn.store(start.lsn, std::memory_order_relaxed);
  s.checkpoints.fetch_add(1, std::memory_order_relaxed);
  const CheckpointV1 &stored = checkpoint_file_.current();
  if (stored.keep_all == 0)
    s.reusable_below.store(storage::file_of(stored.previous_lsn, s.file_bytes), std::memory_order_release);
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

Errc DurableDomain::archive(const std::string &folder, std::vector<std::string> *moved) noexcept {
  moved->clear();
  if (::mkdir(folder.c_str(), 0770) != 0 && errno != EEXIST) return platform::fail_errno(Errc::kIo, folder);
  LogState &s = state();
  (void)s.checkpoint_lock.lock(log_->tag(), page::DomainMemory::holder_alive, &memory_);
  Errc error = checkpoint_locked();
  if (error == Errc::kOk) {
    log_->lock_files();  // nobody recycles meanwhile
    const std::uint64_t needed = storage::file_of(checkpoint_file_.current().previous_lsn, s.file_bytes);
    std::vector<std::uint64_t> present;
    error = storage::list_log_files(memory_.folder(), &present);
    for (const std::uint64_t index : present) {
      if (index >= needed || error != Errc::kOk) break;
      error = storage::archive_log_file(memory_.folder(), folder, index);
      if (error == Errc::kOk) moved->push_back(folder + "/" + storage::log_file_name(index));
    }
    log_->unlock_files();
  }
  s.checkpoint_lock.unlock();
  return error;
}

namespace {
// Data and holes; durable. The file may change meanwhile: see DurableDomain::copy_to().
Errc copy_file(const std::string &from, const std::string &to) noexcept {
  platform::FileDescriptor in(::open(from.c_str(), O_RDONLY | O_CLOEXEC));
  if (!in) return platform::fail_errno(Errc::kIo, from);
  platform::FileDescriptor out(::open(to.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0660));
  if (!out) return platform::fail_errno(Errc::kIo, to);
  struct stat info {};
  if (fstat(in.get(), &info) != 0 || ftruncate(out.get(), info.st_size) != 0)
    return platform::fail_errno(Errc::kIo, to);
  for (off_t at = 0; at < info.st_size;) {
    const off_t data = lseek(in.get(), at, SEEK_DATA);
    if (data < 0) break;  // the rest is a hole
    off_t end = lseek(in.get(), data, SEEK_HOLE);
    if (end < 0) end = info.st_size;
    for (off_t source = data, target = data; source < end;) {
      const ssize_t n =
          copy_file_range(in.get(), &source, out.get(), &target, static_cast<std::size_t>(end - source), 0);
      if (n < 0) return platform::fail_errno(Errc::kIo, to);
      if (n == 0) break;
    }
    at = end;
  }
  return fsync(out.get()) == 0 ? Errc::kOk : platform::fail_errno(Errc::kIo, to);
}
}  // namespace

// REQUIRES checkpoint_lock: the log files behind the checkpoint stay. Data files are copied while versions go home: whatever a copy has
// or has not of commits behind the checkpoint is in the log up to the end that is copied after them.
Errc DurableDomain::copy_to(const std::string &folder) noexcept {
  const CheckpointV1 start = checkpoint_file_.current();
  const LogState &s = state();
  for (const storage::SegmentRecordV1 &record : memory_.control().segments) {
    if (record.state == 0) continue;
    if (record.name[0] == '/')
      return fail(Errc::kBadArgument,
                  std::string(record.name) + ": a segment outside the folder cannot be copied into one");
    const std::string to = folder + "/" + record.name;
    std::error_code ignored;
    std::filesystem::create_directories(std::filesystem::path(to).parent_path(), ignored);
    if (::access(to.c_str(), F_OK) == 0) continue;  // another segment of the same file
    if (const Errc error = copy_file(memory_.segment_path(record), to); error != Errc::kOk) return error;
  }
  if (const Errc error = flush(); error != Errc::kOk) return error;
  const auto last_file = [&s] { return storage::file_of(s.durable_lsn.load(std::memory_order_acquire), s.file_bytes); };
  const auto copy_log = [&](std::uint64_t first, std::uint64_t end) {
    Errc error = Errc::kOk;
    for (std::uint64_t index = first; index < end && error == Errc::kOk; ++index)
      error = copy_file(storage::log_file_path(memory_.folder(), index), storage::log_file_path(folder, index));
    return error;
  };
  const std::uint64_t full = last_file();
  Errc error = copy_log(storage::file_of(start.lsn, s.file_bytes), full);
  if (error == Errc::kOk) {
    log_->lock();  // nobody writes the last one meanwhile
    error = copy_log(full, last_file() + 1);
    log_->unlock();
  }
  if (error != Errc::kOk) return error;
  if (error = copy_file(memory_.folder() + "/tmh.control", folder + "/tmh.control"); error != Errc::kOk) return error;
  storage::CheckpointFile made;
  return made.create(folder, start);
}

Errc DurableDomain::backup(const std::string &folder) noexcept {
  if (::mkdir(folder.c_str(), 0770) != 0)
    return platform::fail_errno(errno == EEXIST ? Errc::kBadArgument : Errc::kIo, folder);
  LogState &s = state();
  (void)s.checkpoint_lock.lock(log_->tag(), page::DomainMemory::holder_alive, &memory_);
  Errc error = checkpoint_locked();
  if (error == Errc::kOk) error = copy_to(folder);
  s.checkpoint_lock.unlock();
  return error == Errc::kOk ? platform::sync_folder(folder) : error;
}

}  // namespace tmh::detail
