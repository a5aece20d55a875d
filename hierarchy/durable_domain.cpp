// hierarchy/durable_domain.cpp -- creating, recovering and closing a durable domain; the
// housekeeper.
#include "hierarchy/durable_domain.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>

#include "hierarchy/directory.h"
#include "hierarchy/line_log.h"
#include "levels/line/line_memory.h"
#include "levels/storage/log_files.h"
#include "levels/storage/page_checksums.h"
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
// The housekeeper looks around this often at least: for log files and checkpoints;
// flush_interval_ms may ask for more.
constexpr std::uint32_t kTickMsMax = 100;
// One log file ahead: making one takes 10 to 50 ms, filling one at full speed longer.
constexpr std::uint64_t kFilesAhead = 1;
}  // namespace

RecoveryInfo to_info(const storage::RecoveryReport &report) noexcept {
  RecoveryInfo info;
  info.ran = true;
  info.was_clean = report.was_clean;
  info.transactions = report.transactions;
  info.log_bytes = report.log_bytes;
  info.pages = report.pages;
  info.tail_was_torn = report.tail_was_torn;
  info.torn_at = report.torn_at;
  info.end_lsn = report.end_lsn;
  info.last_stamp = report.last_stamp;
  info.total_us = report.total_us;
  return info;
}

DurableDomain::DurableDomain(page::DomainMemory &memory, const DomainOptions &options,
                             const GroupCommit &group) noexcept
    : memory_(memory),
      options_(options),
      group_(group),
      is_strict_(memory.control().header.durability ==
                 static_cast<std::uint32_t>(tmh::Durability::kStrict)) {}

std::uint64_t DurableDomain::log_file_bytes() const noexcept {
  return options_.log_file_bytes != 0 ? options_.log_file_bytes : storage::kLogFileBytesDefault;
}

// A new domain's log: file 0, empty, and a checkpoint that says so. Death in between leaves a
// domain without segments and without a checkpoint, which the next open takes for new again. So
// where there is a checkpoint, the names of the folder and of the control file, made by us or by
// one who died, are durable.
Errc DurableDomain::create_files() noexcept {
  const auto &id = memory_.control().header.domain_id;
  const storage::LogIdentity log{{id[0], id[1]}, log_file_bytes()};
  const Errc named = platform::sync_folder(memory_.folder() + "/..");
  if (named != Errc::kOk && named != Errc::kPermission)
    return named;  // a parent that we may not read is somebody else's to sync
  // Before there is a log file: a log without its control file is refused for ever.
  TMH_TRY(platform::sync_folder(memory_.folder()));
  TMH_TRY(storage::create_log_file(memory_.folder(), log, 0));
  CheckpointV1 first{};
  first.generation = 1;
  first.domain_id[0] = id[0];
  first.domain_id[1] = id[1];
  first.log_file_bytes = log.file_bytes;
  first.lsn = first.previous_lsn = first.durable_lsn = storage::kFirstLsn;
  first.stamp = 1;
  first.time_ns = platform::wall_clock_ns();
  first.is_clean = 1;
  first.keep_all = options_.keep_log ? 1 : 0;
  return checkpoint_file_.create(memory_.folder(), first);
}

// Another domain's stay: somebody may have lost no more than its tmh.control. The checkpoint first,
// and the control file last, by the caller: whatever is left on the way is taken for new; a log
// without its control file would be another domain's to the next one.
Errc DurableDomain::remove_new() noexcept {
  const std::string &folder = memory_.folder();
  const auto &id = memory_.control().header.domain_id;
  storage::CheckpointFile own;
  const Errc found = own.open(folder, id);
  if (found == Errc::kOk) {
    TMH_TRY(platform::disk_unlink(storage::checkpoint_path(folder)));
    TMH_TRY(platform::sync_folder(folder));
  } else if (found != Errc::kLogMissing && found != Errc::kNotADomain && found != Errc::kCorrupt &&
             found != Errc::kForeignVersion) {
    return found;  // it may be ours: made whole, so none of these
  }
  const storage::LogIdentity log{{id[0], id[1]}, log_file_bytes()};
  std::vector<std::uint64_t> present;
  TMH_TRY(storage::list_log_files(folder, &present));
  for (const std::uint64_t index : present) {
    const std::string path = storage::log_file_path(folder, index);
    if (storage::verify_log_file(path, log, index) != Errc::kOk) continue;
    TMH_TRY(platform::disk_unlink(path));
  }
  TMH_TRY(platform::disk_unlink(storage::checksums_path(folder)));
  return platform::sync_folder(folder);
}

Errc DurableDomain::open_checkpoint_file() noexcept {
  const storage::ControlFile &control = memory_.control();
  const Errc error = checkpoint_file_.open(memory_.folder(), control.header.domain_id);
  if (error != Errc::kLogMissing) return error;
  const bool has_segments = std::any_of(std::begin(control.segments), std::end(control.segments),
                                        [](const auto &s) { return storage::is_used(s); });
  return has_segments ? error : create_files();
}

Errc DurableDomain::join() noexcept {
  TMH_TRY(checkpoint_file_.open(memory_.folder(), memory_.control().header.domain_id));
  bool usable = false;
  TMH_TRY(memory_.open_log_state(&usable));
  if (!usable) return fail(Errc::kCorrupt, memory_.folder() + "/tmh.log.state");
  state().data_syncs.bury(storage::DataSyncer::kSegment);  // while there is somebody older
  return Errc::kOk;
}

Errc DurableDomain::recover(const RecoverOptions &options) noexcept {
  TMH_TRY(open_checkpoint_file());
  bool usable = false;
  TMH_TRY(memory_.open_log_state(&usable));
  if (usable) {
    TMH_TRY(salvage());
  }
  // Level 1's commits are in the log, or in none; its lines are all free in what recovery makes.
  line::LineMemory::remove_files(memory_.folder());
  hierarchy::Directory::remove_files(memory_.folder());
  TMH_TRY(memory_.start_over());
  storage::RecoveryOptions how;
  how.until_lsn = options.until_lsn;
  how.until_time_ns = options.until_time_ns;
  how.log_folder = options.log_folder;
  how.threads = options.threads;
  how.progress = options.progress;
  // A backup's; the folder's own files are never shorter than what the log names.
  if (!options.log_folder.empty())
    how.grow = [this](std::uint32_t segment, std::uint64_t size_bytes) {
      return grow(segment, size_bytes);
    };
  how.was_in_use = memory_.had_life() && checkpoint_file_.current().is_clean == 0;
  const bool is_restoration =
      how.until_lsn != ~0ull || how.until_time_ns != ~0ull || !how.log_folder.empty();
  // Of a backup, or a copy of a closed domain. Who is cut may begin again: nobody has lived here
  // yet.
  if (is_restoration && !how.was_in_use) TMH_TRY(memory_.tell_life(false));
  storage::ChecksumsHeaderV1 checksums{};  // no kind: none
  std::string why;
  const auto &id = memory_.control().header.domain_id;
  if (storage::read_checksums_header(memory_.folder(), id, &checksums, &why) != Errc::kOk)
    checksums = {};
  const bool was_current =
      !is_restoration &&
      storage::is_current(checksums, checkpoint_file_.current(), memory_.control().header);
  const bool is_of_copy =
      checksums.kind == static_cast<std::uint32_t>(storage::ChecksumsKind::kOfCopy);
  // A restoration stores to data files, and makes them longer, before it tells: no table is true
  // meanwhile.
  if (is_restoration && checksums.kind != static_cast<std::uint32_t>(storage::ChecksumsKind::kNone))
    TMH_TRY(end_checksums(checksums.is_wanted == 1));
  storage::RecoveryReport report;
  TMH_TRY(storage::recover(memory_.folder(), memory_.control(), &checkpoint_file_, how, &report));
  step(Step::kRecoveryReplayed);
  if (is_restoration && !how.was_in_use) TMH_TRY(memory_.tell_life(true));
  const std::uint64_t salvaged = recovery_.salvaged;
  recovery_ = to_info(report);
  recovery_.salvaged = salvaged;
  const Errc error = init_log_state(report);
  if (error == Errc::kOk && was_current && !is_of_copy && report.was_clean &&
      report.transactions == 0)
    state().checksums_base = checksums.sequence;
  step(Step::kRecoveryDone);
  return error == Errc::kOk && is_of_copy ? end_checksums(checksums.is_wanted == 1) : error;
}

// REQUIRES: nobody is in the domain. In the order that control.h says.
Errc DurableDomain::grow(std::uint32_t segment, std::uint64_t size_bytes) noexcept {
  storage::Home &home = memory_.segment(segment).home;
  TMH_TRY(home.extend(size_bytes));
  TMH_TRY(memory_.sync_data(&home, memory_.file_of(segment)));
  TMH_TRY(memory_.promise_size(segment, size_bytes));
  storage::store_size(&memory_.control().segments[segment], size_bytes);
  return Errc::kOk;
}

// Commits of this boot that were published and not yet in the log: buffered ones mostly, whose
// acknowledgement promised little, but the death of processes need not lose them. Not when writing
// the log had failed: then nobody knows what is on disk.
Errc DurableDomain::salvage() noexcept {
  const LogState &log = state();
  const storage::CheckpointV1 &checkpoint = checkpoint_file_.current();
  if (log.error.load(std::memory_order_relaxed) != 0 || log.generation != checkpoint.generation ||
      log.file_bytes != checkpoint.log_file_bytes)
    return Errc::kOk;
  const std::uint64_t before = log.commits_written();
  TMH_TRY(memory_.reserve_links());
  page::ConsistencyTree(memory_, 0, page::ConsistencyTree::Role::kGivesBack)
      .repair(page::DomainLock::alone());
  const Errc error = salvage_log();
  if (error == Errc::kOk) recovery_.salvaged = log.commits_written() - before;
  step(Step::kRecoverySalvaged);
  // Damaged shared memory holds nothing that was acknowledged as durable: the log decides.
  return error == Errc::kCorrupt ? Errc::kOk : error;
}

Errc DurableDomain::salvage_log() noexcept {
  page::DurableLog dead(memory_, 0, platform::lock_tag(0, 0), GroupCommit{});
  if (!platform::has_entry(memory_.folder() + "/tmh.line.state")) return dead.write_alone();
  line::LineMemory lines;
  bool found = false;
  TMH_TRY(lines.open(memory_.folder(), &found));
  LineLog line_log(memory_, lines, dead, nullptr);
  if (found && memory_.is_of_found_life(lines.state().domain_id, lines.state().life))
    dead.use_lower(&line_log);
  const Errc error = dead.write_alone();
  lines.close(false);
  return error;
}

Errc DurableDomain::init_log_state(const storage::RecoveryReport &report) noexcept {
  bool usable = false;
  TMH_TRY(memory_.open_log_state(&usable));
  const CheckpointV1 &checkpoint = checkpoint_file_.current();
  LogState &s = state();
  const std::uint64_t clock = std::max<std::uint64_t>(1, report.last_stamp);
  memory_.state().clock.store(clock, std::memory_order_relaxed);
  s.version = storage::kLogStateVersion;
  s.generation = report.generation;
  s.file_bytes = checkpoint.log_file_bytes;
  s.point[0] = storage::FlushPoint{memory_.state().log_head.load(std::memory_order_relaxed),
                                   report.next_lsn, clock, 0};  // level 1's clock begins anew
  s.durable_lsn.store(report.next_lsn, std::memory_order_relaxed);
  s.durable_position.store(s.point[0].position, std::memory_order_relaxed);
  s.durable_clock.store(clock, std::memory_order_relaxed);
  s.checkpoint_lsn.store(checkpoint.lsn, std::memory_order_relaxed);
  s.checkpoint_ns.store(platform::coarse_ns(), std::memory_order_relaxed);
  s.reusable_below.store(checkpoint.keep_all != 0
                             ? 0
                             : storage::file_of(checkpoint.previous_lsn, checkpoint.log_file_bytes),
                         std::memory_order_relaxed);
  for (auto &lsn : s.append_lsn) lsn.store(report.next_lsn, std::memory_order_relaxed);
  s.ready_lsn.store(storage::file_of(report.next_lsn, s.file_bytes) * s.file_bytes,
                    std::memory_order_relaxed);
  page::DurableLog log(memory_, 0, platform::lock_tag(0, 0), group_);
  TMH_TRY(log.prepare_files(kFilesAhead));
  TMH_TRY(log.write_open(report.open));
  TMH_TRY(promise_log_file());
  for (auto &lsn : s.append_lsn)
    lsn.store(s.durable_lsn.load(std::memory_order_relaxed), std::memory_order_relaxed);
  // The first record is nobody's commit; nor do its bytes and its write count.
  for (auto *total : {&s.totals[0].bytes, &s.totals[0].commits, &s.totals[0].empty_flushes})
    total->store(0, std::memory_order_relaxed);
  s.flushes.store(0, std::memory_order_relaxed);
  s.point[0] = s.point[1];
  std::memcpy(memory_.log_tails(), memory_.log_tails() + storage::kLogBlockBytes,
              storage::kLogBlockBytes);
  s.magic = storage::kLogStateMagic;
  return Errc::kOk;
}

// Before anybody commits: from now on the log has a durable record. Without it the only log file
// could vanish and nothing would tell.
Errc DurableDomain::promise_log_file() noexcept {
  CheckpointV1 next = checkpoint_file_.current();
  next.durable_lsn = state().durable_lsn.load(std::memory_order_relaxed);
  const Errc error = checkpoint_file_.store(next);
  step(Step::kRecoveryPromised);
  return error;
}

void DurableDomain::attach(std::uint32_t slot) noexcept {
  const platform::LockTag tag = platform::lock_tag(
      slot, memory_.participant(slot).incarnation.load(std::memory_order_relaxed));
  log_ = std::make_unique<page::DurableLog>(memory_, slot, tag, group_);
  tree_ = std::make_unique<page::ConsistencyTree>(memory_, slot,
                                                  page::ConsistencyTree::Role::kGivesBack);
  Heir &heir = *this;
  domain_lock_.emplace(memory_, tag, heir);
}

Errc DurableDomain::flush() noexcept { return log_->flush_all(); }

Errc DurableDomain::close_clean(Errc *table_error) noexcept {
  TMH_TRY(flush());
  if (memory_.has_separate_homes()) {
    // A dead thread's writes to a segment that nobody here knows are in the log: the next open
    // brings them home.
    if (!log_->lower()->is_home(log_->line_clock())) return Errc::kOk;
    TMH_TRY(log_->changed().take());
    TMH_TRY(write_changed_pages());
  }
  storage::DataSyncs &syncs = state().data_syncs;
  syncs.bury(storage::DataSyncer::kSegment);
  if (const Errc error = sync_data_files(Pace::kAtOnce); error != Errc::kOk) {
    const bool is_unknown =
        !memory_.has_separate_homes() && syncs.failed() == Errc::kOk && syncs.has_doubts();
    return is_unknown ? Errc::kOk : error;  // the next open stores it again from the log
  }
  TMH_TRY(checkpoint_file_.refresh());
  // Without a table the domain is closed all the same: the one that is there, if any, belongs to an
  // older checkpoint.
  *table_error = write_page_checksums();
  CheckpointV1 next = checkpoint_file_.current();
  const storage::FlushPoint point = log_->point();
  next.generation = state().generation;
  next.lsn = next.durable_lsn = point.lsn;
  next.stamp = point.stamp();
  next.time_ns = platform::wall_clock_ns();
  next.is_clean = 1;
  return checkpoint_file_.store(next);
}

bool DurableDomain::has_page_checksums() const noexcept {
  return ::access(storage::checksums_path(memory_.folder()).c_str(), F_OK) == 0;
}

Errc DurableDomain::use_page_checksums(PageChecksums wanted) noexcept {
  const std::string path = storage::checksums_path(memory_.folder());
  if (wanted == PageChecksums::kOn && !has_page_checksums())
    return storage::write_checksums(memory_.folder(), memory_.control(), {}, 0, nullptr);
  if (wanted != PageChecksums::kOff || !has_page_checksums()) return Errc::kOk;
  TMH_TRY(platform::disk_unlink(path));
  return platform::sync_folder(memory_.folder());
}

// The table that was found says nothing from now on. It goes, or stays as the setting that the
// domain had.
Errc DurableDomain::end_checksums(bool is_wanted) noexcept {
  if (is_wanted)
    return storage::write_checksums(memory_.folder(), memory_.control(), {}, 0, nullptr);
  return use_page_checksums(PageChecksums::kOff);
}

// For the checkpoint that close_clean() is about to store. A page that was committed to since the
// domain was opened has a stamp; the others are not read, so one that has gone bad on disk
// meanwhile keeps the checksum that says so. With separate homes level 1 leaves no such stamp: all
// are read.
Errc DurableDomain::write_page_checksums() noexcept {
  if (!has_page_checksums()) return Errc::kOk;
  TMH_TRY(memory_.open_segments());
  const std::uint64_t base = memory_.has_separate_homes() ? 0 : state().checksums_base;
  const storage::ChecksumsTitle title{storage::ChecksumsKind::kOfClose, true,
                                      checkpoint_file_.current().sequence + 1};
  // Stamps lie in a sparse file: a load from a hole would take memory.
  constexpr std::uint64_t kRunPages =
      platform::GrowingFile::kReservedBytes / sizeof(page::PageMeta);
  std::uint64_t run = ~0ull;
  bool is_run_stamped = false;
  return storage::write_checksums(
      memory_.folder(), memory_.control(), title, base, [&](storage::PageId page) {
        const page::SegmentMemory &segment = memory_.segment(storage::segment_number(page));
        // acquire: pairs with the release where the segment is opened
        if (!segment.is_open.load(std::memory_order_acquire)) return true;
        if (run != static_cast<std::uint64_t>(page) / kRunPages) {
          run = static_cast<std::uint64_t>(page) / kRunPages;
          const std::uint64_t first =
              static_cast<std::uint64_t>(storage::page_index(page)) / kRunPages * kRunPages;
          is_run_stamped =
              platform::has_data(segment.meta_file.fd(), first * sizeof(page::PageMeta),
                                 platform::GrowingFile::kReservedBytes);
        }
        // relaxed: nobody else is here
        return is_run_stamped &&
               memory_.meta_to_read(page).stamp.load(std::memory_order_relaxed) != 0;
      });
}

// Of data files that nobody else knows yet. Their control file is the copy's own: the domain's may
// have grown.
Errc DurableDomain::write_checksums_of_copy(const std::string &folder, bool is_wanted) noexcept
    try {
  std::string bytes;
  TMH_TRY(platform::read_file(folder + "/tmh.control", storage::kControlBytes, &bytes));
  if (bytes.size() != storage::kControlBytes)
    return fail(Errc::kShortFile, folder + "/tmh.control");
  const auto control = std::make_unique<storage::ControlFile>();
  std::memcpy(control.get(), bytes.data(), sizeof *control);
  storage::CheckpointFile checkpoint;
  TMH_TRY(checkpoint.open(folder, control->header.domain_id));
  const storage::ChecksumsTitle title{storage::ChecksumsKind::kOfCopy, is_wanted,
                                      checkpoint.current().sequence};
  return storage::write_checksums(folder, *control, title, 0, nullptr);
} catch (const std::bad_alloc &) {
  return platform::fail_for_memory("page checksums of a copy");
}

Errc DurableDomain::start() noexcept {
  {
    const std::scoped_lock guard(stop_mutex_);
    stopping_ = false;
  }
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);  // the program's signals are its own threads' business
  Errc result = Errc::kOk;
  try {
    housekeeper_ = std::thread([this] { keep_house(); });
  } catch (const std::system_error &) {
    result = fail(Errc::kOutOfMemory, "no thread for the housekeeper");
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return result;
}

void DurableDomain::stop() noexcept {
  {
    const std::scoped_lock guard(stop_mutex_);
    stopping_ = true;
  }
  stop_event_.notify_all();
  if (housekeeper_.joinable()) housekeeper_.join();
}

// While a file is in doubt a checkpoint is the business of those whose descriptors are older. An
// attempt of another's fails, or writes all of the file, and as the last one it would put off
// theirs, each time.
bool DurableDomain::may_settle_doubts() const noexcept {
  const storage::DataSyncs &syncs = state().data_syncs;
  for (std::uint32_t file = 0; file < storage::kSegmentsMax; ++file) {
    const std::uint32_t unknown = syncs.oldest_open(file);
    // Of a file in which no segment was ever made nobody has anything to sync.
    if (unknown == 0 || !storage::is_used(memory_.control().segments[file])) continue;
    const page::SegmentMemory &here = memory_.segment(file);
    if (!here.is_open.load(std::memory_order_acquire) || here.opened_at >= unknown) return false;
  }
  return true;
}

bool DurableDomain::checkpoint_is_due() const noexcept {
  const LogState &s = state();
  const std::uint64_t log = s.durable_lsn.load(std::memory_order_relaxed) -
                            std::min(s.durable_lsn.load(std::memory_order_relaxed),
                                     s.checkpoint_lsn.load(std::memory_order_relaxed));
  if (log == 0) return false;
  const std::uint64_t since =
      platform::coarse_ns() - s.checkpoint_ns.load(std::memory_order_relaxed);
  // With separate homes everybody can settle doubts, but at the price of the whole file: who can do
  // it for less comes first.
  const bool settles = may_settle_doubts();
  if (!settles && !memory_.has_separate_homes()) return false;
  const std::uint64_t patience = settles ? 1 : 2;
  // After a failed or held-up one not at every tick.
  return (log >= patience * options_.checkpoint_bytes && since > patience * 200'000'000) ||
         since > patience * options_.checkpoint_interval_ms * 1'000'000;
}

// Every process has one; what one has done the others find done.
void DurableDomain::keep_house() noexcept {
  const auto tick =
      std::chrono::milliseconds(std::clamp(options_.flush_interval_ms, 1u, kTickMsMax));
  const std::uint64_t interval_ns = std::uint64_t{options_.flush_interval_ms} * 1'000'000;
  std::uint64_t clock_before = 0, line_before = 0, seen_ns = platform::monotonic_ns();
  std::unique_lock guard(stop_mutex_);
  while (!stopping_) {
    stop_event_.wait_for(guard, tick);
    if (stopping_) break;
    guard.unlock();
    // What was committed one interval ago is durable now: within two intervals, whoever committed
    // it.
    if (const std::uint64_t now = platform::monotonic_ns(); now - seen_ns >= interval_ns) {
      (void)log_->flush(clock_before, line_before);
      line_before = log_->line_clock();
      clock_before = memory_.state().clock.load(std::memory_order_acquire);
      seen_ns = now;
    }
    (void)log_->prepare_files(kFilesAhead);
    if (checkpoint_is_due()) checkpoint_if_free();
    guard.lock();
  }
}

}  // namespace tmh::detail
