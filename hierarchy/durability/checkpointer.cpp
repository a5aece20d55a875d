// hierarchy/durability/checkpointer.cpp -- taking a checkpoint: versions home, data files synced,
// then told.
#include "hierarchy/durability/checkpointer.h"

#include <time.h>

#include <algorithm>
#include <cstddef>
#include <string>

#include "observe/steps.h"
#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/process.h"
#include "platform/try.h"
#include "storage/log/log_files.h"
#include "storage/log/log_record.h"

namespace tmh::detail {

using observe::Step;
using observe::step;
using platform::fail;
using storage::CheckpointV1;
using storage::LogState;

namespace {
// The domain lock is given back after so many versions: 256 take about 50 us.
constexpr std::size_t kCollectSlice = 256;
// How long a checkpoint waits for readers of older snapshots before it settles for an earlier
// point.
constexpr std::uint64_t kPatienceNs = 100'000'000;

void pause_us(long us) noexcept {
  TMH_ASSERT(us > 0 && us < 1'000'000);
  const timespec wait{0, us * 1000};
  nanosleep(&wait, nullptr);
}
}  // namespace

Checkpointer::Checkpointer(page::SharedFiles &memory, std::uint32_t slot,
                           const DomainOptions &options, storage::CheckpointFile &file,
                           page::DurableLog &log, const std::atomic<bool> &is_stopping) noexcept
    : memory_(memory),
      options_(options),
      file_(file),
      log_(log),
      is_stopping_(is_stopping),
      tree_(memory, slot, page::ConsistencyTree::Role::kGivesBack),
      domain_lock_(memory, log.tag(), *this) {}

void Checkpointer::mend(const page::DomainLock::Held &held, page::DomainLock::Context,
                        platform::Locked how) noexcept {
  TMH_ASSERT(held.is_valid());
  if (how == platform::Locked::kClean && tree_.is_linked()) return;
  tree_.repair(held);
  // the engine's next holder also opens segments and mends the access table
  memory_.state().repair_again |= page::kRepairRest;
}

// Sends every version up to `fence` home that readers allow. True: everything up to `fence` is
// home, and was not folded into what is later.
bool Checkpointer::collect_up_to(std::uint64_t fence, std::uint64_t patience_ns) noexcept {
  const std::uint64_t deadline = platform::monotonic_ns() + patience_ns;
  for (;;) {
    page::DomainLock::Held held = domain_lock_.take();
    const std::size_t sent = tree_.collect(held, kCollectSlice, fence);
    const bool complete = tree_.oldest_stamp(held) > fence, is_linked = tree_.is_linked();
    held.release();
    if (complete || !is_linked || (sent == 0 && platform::monotonic_ns() >= deadline))
      return complete;
    if (sent == 0) pause_us(500);
  }
}

// To the present clock.
std::uint64_t Checkpointer::move_fence() noexcept {
  const page::DomainLock::Held held = domain_lock_.take();
  page::DomainState &domain = memory_.state();
  const std::uint64_t fence = domain.clock.load(std::memory_order_relaxed);
  domain.fold_fence = fence;
  return fence;
}

Errc Checkpointer::sync_data_files(Pace pace) noexcept {
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
Errc Checkpointer::sync_data_file(std::uint32_t segment, Pace pace) noexcept {
  TMH_ASSERT(segment < storage::kSegmentsMax && memory_.file_of(segment) == segment);
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
    // The checkpointer asks last, behind the opening of the file and the look at running syncs. A
    // write-back error that the kernel reported to another process before is noted by then, or its
    // sync is the one in doubt.
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
        TMH_TRY(write_all_pages(memory_, log_, segment, file, pace, is_stopping_));
        break;
      }
      return fail(Errc::kIo, path +
                                 ": whether all of it is on disk knows only who had it open before "
                                 "a process died that synced it; "
                                 "that one's checkpoint, or the next open, makes sure");
    }
    pause_us(500);
  }
  if (pace == Pace::kGentle) TMH_TRY(result_of(file.write_back_gently(is_stopping_)));
  const Errc error = result_of(file.sync());
  if (error == Errc::kOk && doubts != 0) syncs.settle(segment, doubts);
  return error;
}

Errc Checkpointer::checkpoint([[maybe_unused]] const Held &held) noexcept {
  TMH_ASSERT(held.is_valid());
  step(Step::kCheckpointStart);
  LogState &s = state();
  s.checkpoint_ns.store(platform::coarse_ns(), std::memory_order_relaxed);
  TMH_TRY(memory_.in_place().check());
  // First: archive() and copy_to() go by it also when there is no new one.
  TMH_TRY(file_.refresh());
  TMH_TRY(log_.flush_all());
  // The stamp of a version says nothing about lines that were folded into it, unless a fence was in
  // between. Only the holder of checkpoint_lock moves the fence.
  const std::uint64_t fence_before = memory_.state().fold_fence;
  // From here versions go home, also to segments that this process has not mapped.
  TMH_TRY(memory_.open_segments());
  const std::uint64_t home_before = collect_up_to(fence_before, 0) ? fence_before : 0;
  storage::FlushPoint start;
  {
    const page::LogLock::Held writing = log_.group().lock().take();
    start = log_.writer().point();
    // Whatever records before `start` name is noted by now; what follows is the next checkpoint's.
    if (memory_.has_separate_homes()) TMH_TRY(log_.writer().changed().take(writing));
  }
  // the next one, perhaps
  if (memory_.has_separate_homes() && !log_.gatherer()->is_home(start.line)) return Errc::kOk;
  const std::uint64_t fence = move_fence();
  TMH_ASSERT(fence >= start.clock);
  // made since
  TMH_TRY(memory_.open_segments());
  TMH_TRY(log_.group().flush(fence));
  const bool complete = collect_up_to(fence, kPatienceNs);
  step(Step::kCheckpointCollected);
  if (!complete) {
    // A reader needs what home held before: start at the last point passed in front of the fence
    // before, when that much is home.
    const page::LogLock::Held writing = log_.group().lock().take();
    start = storage::FlushPoint{};
    for (const storage::FlushPoint &point : s.passed) {
      if (point.clock <= home_before && point.lsn > start.lsn) start = point;
    }
  }
  CheckpointV1 next = file_.current();
  if (start.lsn <= next.lsn) return Errc::kOk;  // nothing new, or a reader holds everything back
  if (memory_.has_separate_homes()) TMH_TRY(write_changed_pages(memory_, log_));
  TMH_TRY(sync_data_files(Pace::kGentle));
  step(Step::kCheckpointSynced);
  // The checkpoint promises the file of the next record (storage::promises_log_file()), also where
  // the one before is full.
  const storage::Lsn next_record =
      storage::place(start.lsn, storage::kRecordHeaderBytes, s.file_bytes);
  TMH_TRY(log_.room().make_files_up_to(next_record + 1));
  next.generation = s.generation;
  next.lsn = start.lsn;
  next.stamp = start.stamp();
  next.durable_lsn = s.durable_lsn.load(std::memory_order_acquire);
  next.time_ns = platform::wall_clock_ns();
  next.is_clean = 0;
  next.keep_all = options_.keep_log || next.keep_all != 0 ? 1 : 0;
  TMH_TRY(file_.store(next));
  step(Step::kCheckpointStored);
  if (memory_.has_separate_homes() && complete) log_.writer().changed().clear_taken();
  s.checkpoint_lsn.store(start.lsn, std::memory_order_relaxed);
  s.checkpoints.fetch_add(1, std::memory_order_relaxed);
  const CheckpointV1 &stored = file_.current();
  if (stored.keep_all == 0)
    s.reusable_below.store(storage::file_of(stored.previous_lsn, s.file_bytes),
                           std::memory_order_release);
  return Errc::kOk;
}

Checkpointer::Held Checkpointer::lock() noexcept {
  // The dead leave nothing half done.
  (void)state().checkpoint_lock.lock(log_.tag(), page::SharedFiles::holder_alive, &memory_);
  return Held(state());
}

std::optional<Checkpointer::Held> Checkpointer::try_lock() noexcept {
  if (!state().checkpoint_lock.try_lock(log_.tag(), page::SharedFiles::holder_alive, &memory_))
    return std::nullopt;
  return Held(state());
}

// While a file is in doubt a checkpoint is the business of those whose descriptors are older. An
// attempt of another's fails, or writes all of the file, and as the last one it would put off
// theirs, each time.
bool Checkpointer::may_settle_doubts() const noexcept {
  const storage::DataSyncs &syncs = state().data_syncs;
  for (std::uint32_t file = 0; file < storage::kSegmentsMax; ++file) {
    const std::uint32_t unknown = syncs.oldest_open(file);
    // Of a file in which no segment was ever made no participant has anything to sync.
    if (unknown == 0 || !storage::is_used(memory_.control().segments[file])) continue;
    const page::SegmentMemory &here = memory_.segment(file);
    if (!here.is_open.load(std::memory_order_acquire) || here.opened_at >= unknown) return false;
  }
  return true;
}

bool Checkpointer::is_due() const noexcept {
  const LogState &s = state();
  const std::uint64_t log = s.durable_lsn.load(std::memory_order_relaxed) -
                            std::min(s.durable_lsn.load(std::memory_order_relaxed),
                                     s.checkpoint_lsn.load(std::memory_order_relaxed));
  if (log == 0) return false;
  const std::uint64_t since =
      platform::coarse_ns() - s.checkpoint_ns.load(std::memory_order_relaxed);
  // With separate homes every participant can settle a doubt about a dead one's sync, by writing
  // the whole file. One that had the file open then pays less, so the others wait twice as long.
  const bool settles = may_settle_doubts();
  if (!settles && !memory_.has_separate_homes()) return false;
  const std::uint64_t patience = settles ? 1 : 2;
  // After a failed or held-up one not at every tick.
  return (log >= patience * options_.checkpoint_bytes && since > patience * 200'000'000) ||
         since > patience * options_.checkpoint_interval_ms * 1'000'000;
}

}  // namespace tmh::detail
