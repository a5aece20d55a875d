// levels/page/redo/log_room.cpp -- reserving room for a commit's records; making log files.
#include "levels/page/redo/log_room.h"

#include <algorithm>
#include <new>
#include <string>
#include <vector>

#include "observe/steps.h"
#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/try.h"
#include "storage/log/log_files.h"
#include "storage/log/log_record.h"

namespace tmh::page {

using observe::Step;
using observe::step;
using platform::fail;
using storage::LogState;
using storage::Lsn;
using storage::RecordHeaderV1;

namespace {
// Unlogged versions that may pile up in buffered mode before a commit writes the log itself: 64 MiB
// of slots.
constexpr std::uint64_t kBacklogPages = 16384;
}  // namespace

LogRoom::Room LogRoom::reserve_planned(const DomainLock::Held &held, const RedoPlan &plan,
                                       Lsn *end) const noexcept {
  TMH_ASSERT(held.is_valid());
  TMH_ASSERT(plan.page_count() > 0);
  LogState &s = state();
  const DomainState &domain = memory_.state();
  if (s.error.load(std::memory_order_relaxed) != 0) return Room::kFailed;
  if (plan.needs_sizes()) return Room::kSegment;
  // The ring entries of what is not written yet must stay. A commit too wide for the ring leaves it
  // full at once. acquire: those before it have been read by who wrote them to the log.
  const std::uint64_t backlog = domain.log_head.load(std::memory_order_relaxed) -
                                s.durable_position.load(std::memory_order_acquire);
  if (backlog > kBacklogPages || (backlog != 0 && backlog + plan.page_count() > kLogEntries))
    return Room::kFlush;
  const std::uint64_t clock = domain.clock.load(std::memory_order_relaxed);
  if (gatherer_ != nullptr) {
    if (!reserve(plan.records().total_bytes(), end)) return Room::kFile;
    s.keep_upper(plan.records().total_bytes(), clock + 1);
    return Room::kYes;
  }
  *end = plan.records().end_behind(s.append_lsn[clock & 1].load(std::memory_order_relaxed),
                                   s.file_bytes);
  return *end <= s.ready_lsn.load(std::memory_order_acquire) ? Room::kYes : Room::kFile;
}

// With a level below, commits reserve bytes, and where they will lie is only bounded: each file's
// end may stay empty by a record.
bool LogRoom::reserve(std::uint64_t bytes, Lsn *end) const noexcept {
  TMH_ASSERT(gatherer_ != nullptr && bytes > 0);
  LogState &s = state();
  do {
    // acquire: the writer moves durable_lsn before it takes bytes out, so that both together are
    // never too small
    const std::uint64_t pending =
        s.pending_bytes.fetch_add(bytes, std::memory_order_acq_rel) + bytes;
    const std::uint64_t files = pending / (s.file_bytes / 2) + 1;
    *end = s.durable_lsn.load(std::memory_order_acquire) + pending +
           files * (storage::kRecordBytesMax + storage::kLogBlockBytes + sizeof(RecordHeaderV1));
    if (*end <= s.ready_lsn.load(std::memory_order_acquire)) return true;
    s.pending_bytes.fetch_sub(bytes, std::memory_order_release);
  } while (mend_pending_bytes());
  return false;
}

// What is published and not in the log has its version slots, or its place in a ring below. Twice:
// what is durable may not be taken out yet.
std::uint64_t LogRoom::pending_bytes_max() const noexcept {
  const std::uint32_t capacity = memory_.state().version_capacity.load(std::memory_order_relaxed);
  const std::uint64_t slots = std::min<std::uint64_t>(capacity, kVersionsMax);
  return 2 * (slots * (storage::kDeltaBytesMax + sizeof(RecordHeaderV1)) +
              (gatherer_ == nullptr ? 0 : gatherer_->reserved_bytes_max()));
}

// Bytes of shared memory are not believed, and each death may leave some behind: without this, log
// files would be made until the disk is full. What it is mended to is still too much by far, but
// never too little. True: look again.
bool LogRoom::mend_pending_bytes() const noexcept {
  std::atomic<std::uint64_t> &pending = state().pending_bytes;
  const std::uint64_t most = pending_bytes_max();
  std::uint64_t found = pending.load(std::memory_order_relaxed);
  while (found > 2 * most) {  // not at once again
    if (pending.compare_exchange_weak(found, most, std::memory_order_release,
                                      std::memory_order_relaxed))
      return true;
  }
  return false;
}

// The same for what says where the log ends. Five times: what is reserved, and as much again where
// each file's end stays empty.
Errc LogRoom::check_end(Lsn end) const noexcept {
  const LogState &s = state();
  const Lsn from = std::min(s.durable_lsn.load(std::memory_order_acquire),
                            s.ready_lsn.load(std::memory_order_acquire));
  if (end <= from || end - from <= 5 * pending_bytes_max() + 4 * s.file_bytes) return Errc::kOk;
  return fail(Errc::kCorrupt, memory_.folder() + "/tmh.log.state: a commit would end at LSN " +
                                  std::to_string(end) + ", and the log ends at " +
                                  std::to_string(from));
}

Errc LogRoom::look() const noexcept {
  if (state().error.load(std::memory_order_relaxed) != 0) return fail_written();
  return memory_.in_place().is_displaced() ? memory_.in_place().look(platform::coarse_ns())
                                           : Errc::kOk;
}

Errc LogRoom::reserve_for_lower(std::uint64_t bytes) noexcept {
  for (;;) {
    Lsn end = 0;
    TMH_TRY(look());
    if (reserve(bytes, &end)) return Errc::kOk;
    TMH_TRY(make_files_up_to(end));
  }
}

// About where the log will end with what is published.
Lsn LogRoom::planned_end() const noexcept {
  const LogState &s = state();
  if (gatherer_ != nullptr)
    return s.durable_lsn.load(std::memory_order_relaxed) +
           s.pending_bytes.load(std::memory_order_relaxed);
  return std::max(s.append_lsn[0].load(std::memory_order_relaxed),
                  s.append_lsn[1].load(std::memory_order_relaxed));
}

void LogRoom::lock_files() noexcept {
  (void)state().files_lock.lock(tag_, SharedFiles::holder_alive,
                                &memory_);  // a dead maker's file is complete or has no name
}

// REQUIRES files_lock.
Errc LogRoom::make_file() noexcept try {
  LogState &s = state();
  TMH_TRY(memory_.in_place().check());
  const std::uint64_t index =
      storage::file_of(s.ready_lsn.load(std::memory_order_relaxed), s.file_bytes);
  const auto &id = memory_.control().header.domain_id;
  const storage::LogIdentity log{{id[0], id[1]}, s.file_bytes};
  std::vector<std::uint64_t> present;
  TMH_TRY(storage::list_log_files(memory_.folder(), &present));
  const bool is_there = std::find(present.begin(), present.end(), index) != present.end();
  Errc error = Errc::kOk;
  if (is_there)  // made before the last recovery, or by one that died before it said so
    error = storage::verify_log_file(storage::log_file_path(memory_.folder(), index), log, index);
  if (is_there &&
      (error == Errc::kOk ||
       index <= storage::file_of(s.durable_lsn.load(std::memory_order_relaxed), s.file_bytes))) {
    error = platform::sync_folder(
        memory_.folder());  // its maker may have died, or failed, before its name was durable
  } else if (!is_there && !present.empty() &&
             present.front() < s.reusable_below.load(std::memory_order_acquire)) {
    error = storage::recycle_log_file(memory_.folder(), log, present.front(), index);
  } else {
    error = storage::create_log_file(memory_.folder(), log, index);
  }
  if (error != Errc::kOk) return error;
  step(Step::kLogFileMade);
  s.files_made.fetch_add(1, std::memory_order_relaxed);
  storage::enter_log_file(memory_.state().files, index,
                          storage::log_file_path(memory_.folder(), index));
  s.ready_lsn.store((index + 1) * s.file_bytes, std::memory_order_release);
  return Errc::kOk;
} catch (const std::bad_alloc &) {
  return platform::fail_for_memory("the next log file");
}

Errc LogRoom::prepare_files(std::uint64_t files_ahead) noexcept {
  if (gatherer_ != nullptr) static_cast<void>(mend_pending_bytes());
  return make_files_up_to(planned_end() + files_ahead * state().file_bytes);
}

Errc LogRoom::make_files_up_to(Lsn end) noexcept {
  const LogState &s = state();
  while (s.ready_lsn.load(std::memory_order_acquire) < end) {
    TMH_TRY(check_end(end));
    lock_files();
    const Errc error = s.ready_lsn.load(std::memory_order_relaxed) < end ? make_file() : Errc::kOk;
    unlock_files();
    if (error != Errc::kOk) return error;
  }
  return Errc::kOk;
}

Errc LogRoom::fail_written() noexcept {
  return fail(Errc::kLogFailed, "the redo log could not be written");
}

}  // namespace tmh::page
