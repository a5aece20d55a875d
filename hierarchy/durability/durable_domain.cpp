// hierarchy/durability/durable_domain.cpp -- creating, recovering and closing a durable domain; the
// housekeeper.
#include "hierarchy/durability/durable_domain.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <new>

#include "hierarchy/durability/checksum_table.h"
#include "hierarchy/durability/kept_moments.h"
#include "hierarchy/durability/line_files.h"
#include "hierarchy/durability/line_log.h"
#include "levels/line/line_memory.h"
#include "observe/steps.h"
#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/process.h"
#include "platform/try.h"
#include "storage/log/log_files.h"
#include "storage/page_checksums.h"

namespace tmh::detail {

using observe::Step;
using observe::step;
using platform::fail;
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

DurableDomain::DurableDomain(page::SharedFiles &memory, const DomainOptions &options,
                             const GroupCommit &group, EarlyRelease early_release) noexcept
    : memory_(memory),
      options_(options),
      group_(group),
      early_release_(early_release),
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
    return named;  // a parent that we may not read is another user's to sync
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

// Another domain's stay: its user may have lost no more than its tmh.control. The checkpoint first,
// and the control file last, by the caller: whatever is left on the way is taken for new; a log
// without its control file would be another domain's to the next one.
Errc DurableDomain::remove_new(const platform::FolderLock::Held &lock) noexcept {
  TMH_ASSERT(lock.is_valid());
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

Errc DurableDomain::enter_checkpoint_file() noexcept {
  return memory_.in_place().enter(storage::DomainFile::kCheckpoint, checkpoint_file_.fd(),
                                  2 * sizeof(CheckpointV1));
}

Errc DurableDomain::join() noexcept {
  TMH_TRY(checkpoint_file_.open(memory_.folder(), memory_.control().header.domain_id));
  TMH_TRY(enter_checkpoint_file());
  bool usable = false;
  TMH_TRY(memory_.open_log_state(&usable));
  if (!usable) return fail(Errc::kCorrupt, memory_.folder() + "/tmh.log.state");
  TMH_TRY(memory_.in_place().check());                     // log files, too
  state().data_syncs.bury(storage::DataSyncer::kSegment);  // while there is an older participant
  return Errc::kOk;
}

Errc DurableDomain::recover(const platform::FolderLock::Held &lock,
                            const RecoverOptions &options) noexcept {
  TMH_ASSERT(lock.is_valid());
  TMH_ASSERT(log_ == nullptr);
  TMH_TRY(open_checkpoint_file());
  bool usable = false;
  TMH_TRY(memory_.open_log_state(&usable));
  if (usable) {
    TMH_TRY(salvage());
  }
  // Level 1's commits are in the log, or in none; its lines are all free in what recovery makes.
  remove_line_files(lock, memory_.folder());
  TMH_TRY(memory_.start_over(lock));
  storage::RecoveryOptions how;
  how.until_lsn = options.until_lsn;
  how.until_time_ns = options.until_time_ns;
  how.log_folder = options.log_folder;
  how.threads = options.threads;
  how.progress = options.progress;
  // A backup's; the folder's own files are never shorter than what the log names.
  if (!options.log_folder.empty())
    how.grow = [this, &lock](std::uint32_t segment, std::uint64_t size_bytes) {
      return grow(lock, segment, size_bytes);
    };
  how.was_in_use = memory_.had_life() && checkpoint_file_.current().is_clean == 0;
  const bool is_restoration =
      how.until_lsn != ~0ull || how.until_time_ns != ~0ull || !how.log_folder.empty();
  // Of a backup, or a copy of a closed domain. An open that is cut may begin again: no
  // participant has lived here yet.
  if (is_restoration && !how.was_in_use) TMH_TRY(memory_.durable_control().tell_life(false));
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
    TMH_TRY(ChecksumTable(memory_).end(checksums.is_wanted == 1));
  storage::RecoveryReport report;
  TMH_TRY(storage::recover(memory_.folder(), memory_.control(), &checkpoint_file_, how, &report));
  step(Step::kRecoveryReplayed);
  TMH_TRY(settle_moments(memory_, options.log_folder, report.last_stamp, report.open.previous_end));
  if (is_restoration && !how.was_in_use) TMH_TRY(memory_.durable_control().tell_life(true));
  const std::uint64_t salvaged = recovery_.salvaged;
  recovery_ = to_info(report);
  recovery_.salvaged = salvaged;
  const Errc error = init_log_state(report);
  if (error == Errc::kOk && was_current && !is_of_copy && report.was_clean &&
      report.transactions == 0)
    state().checksums_base = checksums.sequence;
  step(Step::kRecoveryDone);
  return error == Errc::kOk && is_of_copy ? ChecksumTable(memory_).end(checksums.is_wanted == 1)
                                          : error;
}

// REQUIRES: no participant is in the domain. In the order that control.h says.
Errc DurableDomain::grow(const platform::FolderLock::Held &lock, std::uint32_t segment,
                         std::uint64_t size_bytes) noexcept {
  TMH_ASSERT(lock.is_valid());
  TMH_ASSERT(segment < storage::kSegmentsMax && log_ == nullptr);
  storage::Home &home = memory_.segment(segment).home;
  TMH_TRY(home.extend(size_bytes));
  memory_.in_place().note_size(segment, size_bytes);
  TMH_TRY(memory_.sync_data(&home, memory_.file_of(segment)));
  TMH_TRY(memory_.durable_control().promise_size(lock, segment, size_bytes));
  storage::store_size(&memory_.control().segments[segment], size_bytes);
  return Errc::kOk;
}

// Commits of this boot that were published and not yet in the log: buffered ones mostly, whose
// acknowledgement promised little, but the death of processes need not lose them. Not when writing
// the log had failed: then what is on disk is unknown.
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
  if (!platform::has_entry(memory_.folder() + "/tmh.line.state"))
    return dead.writer().write_alone();
  line::LineMemory lines;
  bool found = false;
  TMH_TRY(lines.open(memory_.folder(), &found));
  LineLog line_log(memory_, lines, dead, nullptr, nullptr);
  if (found && memory_.is_of_found_life(lines.state().domain_id, lines.state().life))
    dead.use_gatherer(&line_log);
  const Errc error = dead.writer().write_alone();
  lines.close(false);
  return error;
}

Errc DurableDomain::init_log_state(const storage::RecoveryReport &report) noexcept {
  bool usable = false;
  TMH_TRY(memory_.open_log_state(&usable));
  TMH_TRY(enter_checkpoint_file());
  const CheckpointV1 &checkpoint = checkpoint_file_.current();
  LogState &s = state();
  const std::uint64_t clock = std::max<std::uint64_t>(1, report.last_stamp);
  memory_.state().clock.store(clock, std::memory_order_relaxed);
  s.version = storage::kLogStateVersion;
  s.generation = report.generation;
  s.file_bytes = checkpoint.log_file_bytes;
  std::copy(std::begin(checkpoint.domain_id), std::end(checkpoint.domain_id),
            std::begin(s.domain_id));
  s.life = memory_.state().life;
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
  for (std::uint64_t index = storage::file_of(checkpoint.lsn, s.file_bytes);
       index < storage::file_of(report.next_lsn, s.file_bytes); ++index)
    storage::enter_log_file(memory_.state().files, index,
                            storage::log_file_path(memory_.folder(), index));
  page::DurableLog log(memory_, 0, platform::lock_tag(0, 0), group_);
  TMH_TRY(log.room().prepare_files(kFilesAhead));
  TMH_TRY(log.writer().write_open(report.open));
  TMH_TRY(promise_log_file());
  for (auto &lsn : s.append_lsn)
    lsn.store(s.durable_lsn.load(std::memory_order_relaxed), std::memory_order_relaxed);
  // The first record is no commit; nor do its bytes and its write count.
  for (auto *total : {&s.totals[0].bytes, &s.totals[0].commits, &s.totals[0].empty_flushes})
    total->store(0, std::memory_order_relaxed);
  s.flushes.store(0, std::memory_order_relaxed);
  s.point[0] = s.point[1];
  std::memcpy(memory_.log_tails(), memory_.log_tails() + storage::kLogBlockBytes,
              storage::kLogBlockBytes);
  // Last: a reader that does not join the domain believes the rest then. A recoverer that is killed
  // before it leaves no magic number: readers go by the checkpoint, and the next open begins anew.
  std::atomic_ref(s.magic).store(storage::kLogStateMagic, std::memory_order_release);
  return Errc::kOk;
}

// Before any instance commits: from now on the log has a durable record. Without it the only log
// file could vanish and nothing would tell.
Errc DurableDomain::promise_log_file() noexcept {
  CheckpointV1 next = checkpoint_file_.current();
  next.durable_lsn = state().durable_lsn.load(std::memory_order_relaxed);
  const Errc error = checkpoint_file_.store(next);
  step(Step::kRecoveryPromised);
  return error;
}

void DurableDomain::attach(std::uint32_t slot) noexcept {
  TMH_ASSERT(slot < storage::kParticipantsMax && log_ == nullptr);
  const platform::LockTag tag = platform::lock_tag(
      slot, memory_.participant(slot).incarnation.load(std::memory_order_relaxed));
  log_ = std::make_unique<page::DurableLog>(memory_, slot, tag, group_);
  checkpointer_ =
      std::make_unique<Checkpointer>(memory_, slot, options_, checkpoint_file_, *log_, stopping_);
  archiver_ = std::make_unique<Archiver>(memory_, checkpoint_file_, *log_, *checkpointer_);
}

Errc DurableDomain::flush() noexcept { return log().await_all(); }

Errc DurableDomain::checkpoint() noexcept {
  TMH_ASSERT(checkpointer_ != nullptr);
  return checkpointer_->checkpoint(checkpointer_->lock());
}

Errc DurableDomain::archive(const std::string &folder, std::vector<std::string> *moved) noexcept {
  TMH_ASSERT(archiver_ != nullptr);
  return archiver_->archive(folder, moved);
}

Errc DurableDomain::backup(const std::string &folder) noexcept { return archiver_->backup(folder); }

Errc DurableDomain::use_page_checksums(const platform::FolderLock::Held &lock,
                                       PageChecksums wanted) noexcept {
  TMH_ASSERT(lock.is_valid());
  return ChecksumTable(memory_).use(wanted);
}

Errc DurableDomain::close_clean(const platform::FolderLock::Held &lock,
                                Errc *table_error) noexcept {
  TMH_ASSERT(lock.is_valid());
  TMH_ASSERT(table_error != nullptr && log_ != nullptr && !housekeeper_.joinable());
  TMH_TRY(flush());
  if (memory_.has_separate_homes()) {
    // A dead thread's writes to a segment that this process does not know are in the log: the next
    // open brings them home.
    if (!log_->gatherer()->is_home(log_->line_clock())) return Errc::kOk;
    TMH_TRY(log_->writer().changed().take(page::LogLock::alone()));
    TMH_TRY(write_changed_pages(memory_, *log_));
  }
  storage::DataSyncs &syncs = state().data_syncs;
  syncs.bury(storage::DataSyncer::kSegment);
  if (const Errc error = checkpointer_->sync_data_files(Pace::kAtOnce); error != Errc::kOk) {
    const bool is_unknown =
        !memory_.has_separate_homes() && syncs.failed() == Errc::kOk && syncs.has_doubts();
    return is_unknown ? Errc::kOk : error;  // the next open stores it again from the log
  }
  TMH_TRY(checkpoint_file_.refresh());
  // Without a table the domain is closed all the same: the one that is there, if any, belongs to an
  // older checkpoint.
  *table_error = ChecksumTable(memory_).write_at_close(checkpoint_file_.current().sequence + 1);
  CheckpointV1 next = checkpoint_file_.current();
  const storage::FlushPoint point = log_->writer().point();
  next.generation = state().generation;
  next.lsn = next.durable_lsn = point.lsn;
  next.stamp = point.stamp();
  next.time_ns = platform::wall_clock_ns();
  next.is_clean = 1;
  return checkpoint_file_.store(next);
}

Errc DurableDomain::start() noexcept {
  TMH_ASSERT(log_ != nullptr && checkpointer_ != nullptr && !housekeeper_.joinable());
  stopping_ = false;
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
  stopping_ = true;
  doorbell_.ring();
  if (housekeeper_.joinable()) housekeeper_.join();
  TMH_ASSERT(!housekeeper_.joinable());
}

// Every process has one; what one has done the others find done.
void DurableDomain::keep_house() noexcept {
  const auto tick =
      std::chrono::milliseconds(std::clamp(options_.flush_interval_ms, 1u, kTickMsMax));
  const std::uint64_t interval_ns = std::uint64_t{options_.flush_interval_ms} * 1'000'000;
  std::uint64_t clock_before = 0, line_before = 0, seen_ns = platform::monotonic_ns();
  for (;;) {
    const bool is_rung = doorbell_.wait_for(tick);
    if (stopping_) break;
    if (is_rung) (void)log_->group().flush(0, log_->line_clock());
    // What was committed one interval ago is durable now: within two intervals, whoever committed
    // it.
    if (const std::uint64_t now = platform::monotonic_ns(); now - seen_ns >= interval_ns) {
      (void)log_->group().flush(clock_before, line_before);
      line_before = log_->line_clock();
      clock_before = memory_.state().clock.load(std::memory_order_acquire);
      seen_ns = now;
    }
    (void)memory_.in_place().look(platform::coarse_ns());
    (void)log_->room().prepare_files(kFilesAhead);
    // Commits wait for no other process that archives, copies or is stopped.
    if (checkpointer_->is_due())
      if (const auto held = checkpointer_->try_lock()) (void)checkpointer_->checkpoint(*held);
  }
}

}  // namespace tmh::detail
