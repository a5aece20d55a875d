// levels/page/durable_log.cpp -- group commit over the commit log ring.
#include "levels/page/durable_log.h"

#include <immintrin.h>
#include <sched.h>

#include <algorithm>
#include <new>
#include <thread>

#include "levels/page/lines.h"
#include "levels/storage/log_files.h"
#include "levels/storage/log_record.h"
#include "platform/failure.h"
#include "platform/futex.h"
#include "platform/process.h"
#include "platform/steps.h"

namespace tmh::page {

using platform::fail;
using platform::Step;
using platform::step;
using storage::LogState;
using storage::Lsn;
using storage::RecordHeaderV1;

namespace {
// Unlogged versions that may pile up in buffered mode before a commit writes the log itself: 64 MiB
// of slots.
constexpr std::uint64_t kBacklogPages = 16384;
// Where there is a core for it, a follower sleeps until shortly before the write is expected to
// end, and spins
// from there: being woken from a futex takes 30 to 60 us, and the next group would leave without
// it; spinning all the time makes the write itself slower (of a virtual disk here: 145 us instead
// of 115). Of more followers than cores the others sleep until they are woken.
// A time-out ends 22 us late here (90th percentile 30), and writes vary.
constexpr std::uint64_t kAwakeAheadNs = 50'000;
constexpr std::uint64_t kNapNsMin = 10'000;
// Beyond the expected end: as long as being woken would take.
constexpr std::uint64_t kFollowSpinNs = 60'000;
// A dead writer is found after one such wait; docs/design.md 8 allows a second.
constexpr long kDeathCheckNs = 20'000'000;
// Who waits where writes are quicker has been woken by the end of the last write, or never slept:
// so long it may take to say so.
constexpr std::uint64_t kClaimNs = 10'000;
// A participant counts as active when a commit of its became durable in one of so many last writes.
constexpr std::uint64_t kActiveFlushes = 4;

std::uint64_t word_count(LineMask lines, const std::uint8_t *words) noexcept {
  std::uint64_t count = 0;
  for (; lines != 0; lines &= lines - 1)
    count += static_cast<std::uint64_t>(std::popcount(words[std::countr_zero(lines)]));
  return count;
}
}  // namespace

DurableLog::DurableLog(DomainMemory &memory, std::uint32_t slot, platform::LockTag tag,
                       const GroupCommit &group) noexcept
    : memory_(memory),
      slot_(slot),
      tag_(tag),
      group_(group),
      cores_(std::max(1u, std::thread::hardware_concurrency())),
      handover_(memory.log_state(), slot),
      changed_(memory.folder(), memory.control()),
      buffer_(storage::kRecordBytesMax),
      record_(buffer_.data(), buffer_.size()) {
  writer_.attach(memory.folder(), memory.control().header.domain_id, memory.log_state(),
                 memory.log_tails());
}

Errc DurableLog::plan_reserve(std::size_t writes) noexcept try {
  plan_.reserve(writes * storage::kDeltaBytesMax);
  return Errc::kOk;
} catch (const std::bad_alloc &) {
  return platform::fail_for_memory("the redo log's plan of a large commit");
}

void DurableLog::plan_write(const Write &write, const std::byte *now, const std::byte *clean) {
  VersionHead &head = memory_.version(write.slot);
  for (LineMask lines = write.lines; lines != 0; lines &= lines - 1) {
    const int line = std::countr_zero(lines);
    head.words[line] = differing_words(now + static_cast<std::size_t>(line) * kLineBytes,
                                       clean + static_cast<std::size_t>(line) * kLineBytes);
  }
  beyond_durable_ = beyond_durable_ || !memory_.is_size_durable(write.page);
  (void)plan_.add(storage::delta_bytes(write.lines, word_count(write.lines, head.words)));
}

DurableLog::Room DurableLog::room(const DomainLock::Held &held, std::size_t writes,
                                  Lsn *end) const noexcept {
  TMH_ASSERT(held.is_valid());
  LogState &s = state();
  const DomainState &domain = memory_.state();
  if (s.error.load(std::memory_order_relaxed) != 0) return Room::kFailed;
  if (beyond_durable_) return Room::kSegment;
  // The ring entries of what is not written yet must stay. A commit too wide for the ring leaves it
  // full at once. acquire: those before it have been read by who wrote them to the log.
  const std::uint64_t backlog = domain.log_head.load(std::memory_order_relaxed) -
                                s.durable_position.load(std::memory_order_acquire);
  if (backlog > kBacklogPages || (backlog != 0 && backlog + writes > kLogEntries))
    return Room::kFlush;
  const std::uint64_t clock = domain.clock.load(std::memory_order_relaxed);
  if (lower_ != nullptr) {
    if (!reserve(plan_.total_bytes(), end)) return Room::kFile;
    s.keep_upper(plan_.total_bytes(), clock + 1);
    return Room::kYes;
  }
  *end = plan_.end_behind(s.append_lsn[clock & 1].load(std::memory_order_relaxed), s.file_bytes);
  return *end <= s.ready_lsn.load(std::memory_order_acquire) ? Room::kYes : Room::kFile;
}

// With a level below, commits reserve bytes, and where they will lie is only bounded: each file's
// end may stay empty by a record.
bool DurableLog::reserve(std::uint64_t bytes, Lsn *end) const noexcept {
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
std::uint64_t DurableLog::pending_bytes_max() const noexcept {
  const std::uint32_t capacity = memory_.state().version_capacity.load(std::memory_order_relaxed);
  const std::uint64_t slots = std::min<std::uint64_t>(capacity, kVersionsMax);
  return 2 * (slots * (storage::kDeltaBytesMax + sizeof(RecordHeaderV1)) +
              (lower_ == nullptr ? 0 : lower_->reserved_bytes_max()));
}

// Bytes of shared memory are not believed, and each death may leave some behind: without this, log
// files would be made until the disk is full. What it is mended to is still too much by far, but
// never too little. True: look again.
bool DurableLog::mend_pending_bytes() const noexcept {
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
Errc DurableLog::check_end(Lsn end) const noexcept {
  const LogState &s = state();
  const Lsn from = std::min(s.durable_lsn.load(std::memory_order_acquire),
                            s.ready_lsn.load(std::memory_order_acquire));
  if (end <= from || end - from <= 5 * pending_bytes_max() + 4 * s.file_bytes) return Errc::kOk;
  return fail(Errc::kCorrupt, memory_.folder() + "/tmh.log.state: a commit would end at LSN " +
                                  std::to_string(end) + ", and the log ends at " +
                                  std::to_string(from));
}

Errc DurableLog::reserve_lower(std::uint64_t bytes) noexcept {
  for (;;) {
    Lsn end = 0;
    if (state().error.load(std::memory_order_relaxed) != 0) return make_room(Room::kFailed, end);
    if (reserve(bytes, &end)) return Errc::kOk;
    if (const Errc error = make_room(Room::kFile, end); error != Errc::kOk) return error;
  }
}

// About where the log will end with what is published.
Lsn DurableLog::planned_end() const noexcept {
  const LogState &s = state();
  if (lower_ != nullptr)
    return s.durable_lsn.load(std::memory_order_relaxed) +
           s.pending_bytes.load(std::memory_order_relaxed);
  return std::max(s.append_lsn[0].load(std::memory_order_relaxed),
                  s.append_lsn[1].load(std::memory_order_relaxed));
}

Errc DurableLog::make_room(Room room, Lsn end) noexcept {
  if (room == Room::kFailed) return fail(Errc::kLogFailed, "the redo log could not be written");
  if (room == Room::kSegment) {
    const Errc error = memory_.make_sizes_durable();
    beyond_durable_ = error != Errc::kOk;
    return error;
  }
  if (room == Room::kFlush) return wait(memory_.state().clock.load(std::memory_order_acquire));
  return make_files_up_to(end);
}

void DurableLog::lock_files() noexcept {
  (void)state().files_lock.lock(tag_, DomainMemory::holder_alive,
                                &memory_);  // a dead maker's file is complete or has no name
}

// REQUIRES files_lock.
Errc DurableLog::make_file() noexcept try {
  LogState &s = state();
  if (const Errc error = memory_.check_in_place(); error != Errc::kOk) return error;
  const std::uint64_t index =
      storage::file_of(s.ready_lsn.load(std::memory_order_relaxed), s.file_bytes);
  const auto &id = memory_.control().header.domain_id;
  const storage::LogIdentity log{{id[0], id[1]}, s.file_bytes};
  std::vector<std::uint64_t> present;
  if (const Errc error = storage::list_log_files(memory_.folder(), &present); error != Errc::kOk)
    return error;
  const bool is_there = std::find(present.begin(), present.end(), index) != present.end();
  Errc error = Errc::kOk;
  if (is_there)  // made before the last recovery, or by one that died before it said so
    error = storage::verify_log_file(storage::log_file_path(memory_.folder(), index), log, index);
  if (is_there &&
      (error == Errc::kOk ||
       index <= storage::file_of(s.durable_lsn.load(std::memory_order_relaxed), s.file_bytes))) {
    error = platform::sync_folder(
        memory_.folder());  // whoever made it may have died, or failed, before its name was durable
  } else if (!is_there && !present.empty() &&
             present.front() < s.reusable_below.load(std::memory_order_acquire)) {
    error = storage::recycle_log_file(memory_.folder(), log, present.front(), index);
  } else {
    error = storage::create_log_file(memory_.folder(), log, index);
  }
  if (error != Errc::kOk) return error;
  step(Step::kLogFileMade);
  s.files_made.fetch_add(1, std::memory_order_relaxed);
  s.ready_lsn.store((index + 1) * s.file_bytes, std::memory_order_release);
  return Errc::kOk;
} catch (const std::bad_alloc &) {
  return platform::fail_for_memory("the next log file");
}

Errc DurableLog::prepare_files(std::uint64_t files_ahead) noexcept {
  if (lower_ != nullptr) static_cast<void>(mend_pending_bytes());
  return make_files_up_to(planned_end() + files_ahead * state().file_bytes);
}

Errc DurableLog::make_files_up_to(Lsn end) noexcept {
  const LogState &s = state();
  while (s.ready_lsn.load(std::memory_order_acquire) < end) {
    if (const Errc error = check_end(end); error != Errc::kOk) return error;
    lock_files();
    const Errc error = s.ready_lsn.load(std::memory_order_relaxed) < end ? make_file() : Errc::kOk;
    unlock_files();
    if (error != Errc::kOk) return error;
  }
  return Errc::kOk;
}

void DurableLog::lock() noexcept {
  // Inheriting needs no repair: the dead writer's point is the last that counts, and its records
  // are encoded again.
  (void)state().lock.lock(tag_, DomainMemory::holder_alive, &memory_);
}

void DurableLog::unlock() noexcept {
  LogState &s = state();
  s.lock.unlock();
  // seq_cst with follow(): either the follower finds the event changed, or we find it among the
  // sleepers.
  s.event.fetch_add(1, std::memory_order_seq_cst);
  if (s.sleepers.load(std::memory_order_seq_cst) != 0) platform::futex_wake(s.event);
}

Errc DurableLog::wait(std::uint64_t stamp, std::uint64_t line) noexcept {
  if (is_durable(stamp, line) && self().waits_for.load(std::memory_order_relaxed) == 0)
    return Errc::kOk;
  announce(stamp);
  const Errc result = flush(stamp, line);
  self().waits_for.store(0, std::memory_order_relaxed);
  self().last_flush.store(state().flushes.load(std::memory_order_relaxed),
                          std::memory_order_relaxed);
  return result;
}

Errc DurableLog::wait_lower(std::uint64_t line) noexcept {
  if (is_durable(0, line)) return Errc::kOk;
  const LogState &s = state();
  self().line_waiters.fetch_add(1, std::memory_order_relaxed);
  self().waits_on_cpu.store(storage::LogHandover::this_cpu(), std::memory_order_relaxed);
  self().line_waits_for.store(line, std::memory_order_release);
  const Errc result = flush(0, line);
  self().line_waits_for.store(0, std::memory_order_relaxed);
  self().last_flush.store(s.flushes.load(std::memory_order_relaxed), std::memory_order_relaxed);
  self().line_waiters.fetch_sub(1, std::memory_order_relaxed);
  return result;
}

Errc DurableLog::check_writable() const noexcept {
  const std::uint32_t failed = state().error.load(std::memory_order_acquire);
  if (failed == 0) return Errc::kOk;
  return fail(Errc::kLogFailed,
              std::string("an earlier write failed: ") + message(static_cast<Errc>(failed)));
}

Errc DurableLog::flush_all() noexcept {
  const std::uint64_t line = line_clock();
  return flush(memory_.state().clock.load(std::memory_order_acquire), line);
}

Errc DurableLog::flush(std::uint64_t stamp, std::uint64_t line) noexcept {
  LogState &s = state();
  while (!is_durable(stamp, line)) {
    if (const Errc failed = check_writable(); failed != Errc::kOk) return failed;
    const std::uint32_t event = s.event.load(std::memory_order_seq_cst);
    if (!try_lock() && !take_over()) {
      follow(event);
      continue;
    }
    Errc error = Errc::kOk;
    if (lead(stamp, line, &error) == Led::kGivenAway) {
      s.lock.unlock();  // nothing was written: no event
      handover_.await_taken(is_crowded());
      continue;
    }
    unlock();
    if (error != Errc::kOk) return error;
  }
  return Errc::kOk;
}

// The writing is this thread's, and so is the lock.
bool DurableLog::take_over() noexcept {
  const bool yields = is_crowded();
  if (!handover_.claim(yields) ||
      !storage::LogHandover::spin_until([this] { return try_lock(); }, yields))
    return false;
  handover_.taken();
  return true;
}

DurableLog::Led DurableLog::lead(std::uint64_t stamp, std::uint64_t line, Errc *error) noexcept {
  const LogState &s = state();
  if (is_durable(stamp, line)) return Led::kDone;
  if (s.error.load(std::memory_order_acquire) != 0) return Led::kDone;  // flush() reports it
  if (await_company() == Led::kGivenAway) return Led::kGivenAway;
  *error = write_published();
  return Led::kDone;
}

void DurableLog::free_lower() noexcept {
  lock();
  lower_->forget(point().line);
  unlock();
}

DurableLog::Crowd DurableLog::crowd() const noexcept {
  const LogState &s = state();
  const std::uint64_t flushes = s.flushes.load(std::memory_order_relaxed);
  const std::uint64_t durable = s.durable_clock.load(std::memory_order_relaxed);
  const std::uint64_t durable_line = s.durable_line.load(std::memory_order_relaxed);
  const std::uint32_t cpu = storage::LogHandover::this_cpu();
  Crowd crowd;
  for (std::uint32_t i = 0; i < memory_.participants_high(); ++i) {
    const storage::Participant &other = memory_.participant(i);
    if (other.state.load(std::memory_order_relaxed) != 1) continue;
    crowd.line_threads += other.line_waiters.load(std::memory_order_relaxed);
    const bool waits = other.waits_for.load(std::memory_order_acquire) > durable ||
                       other.line_waits_for.load(std::memory_order_acquire) > durable_line;
    if (waits) ++crowd.waiting;
    const std::uint32_t its_cpu = other.waits_on_cpu.load(std::memory_order_relaxed);
    if (waits && its_cpu != storage::LogHandover::kAsleep) {
      ++crowd.awake;
      crowd.has_quicker = crowd.has_quicker || handover_.is_quicker(its_cpu, cpu);
    }
    if (waits || flushes - other.last_flush.load(std::memory_order_relaxed) < kActiveFlushes)
      ++crowd.active;
  }
  return crowd;
}

// LIBTP's three thresholds (section 4.2), and a bound in time. Meanwhile whoever runs where writes
// are quicker may take over.
DurableLog::Led DurableLog::await_company() noexcept {
  if (group_.wait_us == 0) return Led::kDone;
  const std::uint64_t deadline = platform::monotonic_ns() + std::uint64_t{group_.wait_us} * 1000;
  std::uint64_t completed = 0;
  bool is_offered = false;
  for (;;) {
    const Crowd present = crowd();
    if (present.active < group_.active_min) break;
    const std::uint64_t now = platform::monotonic_ns();
    const bool is_complete =
        present.waiting * 100 >= present.active * group_.waiting_percent ||
        planned_end() - state().durable_lsn.load(std::memory_order_relaxed) >= group_.bytes;
    if (is_complete && completed == 0) completed = now;
    const std::uint64_t until = !is_complete          ? deadline
                                : present.has_quicker ? std::min(completed + kClaimNs, deadline)
                                                      : completed;
    if (now >= until) break;
    if (!is_offered) {
      handover_.offer();
      is_offered = true;
    }
    if (is_offered && handover_.is_claimed()) break;
    // Those we wait for may need this core.
    if (!is_complete && present.active > cores_) sched_yield();
    for (int i = 0; i < 10; ++i) _mm_pause();
  }
  if (!is_offered || handover_.withdraw()) return Led::kDone;
  handover_.give();
  return Led::kGivenAway;
}

// Is there a core for this follower to spin on? In a crowd of processes the first ones may; which
// of a process's threads are awake nobody knows.
bool DurableLog::may_spin(const Crowd &present) const noexcept {
  if (present.has_cores(cores_)) return true;
  return present.awake <= cores_ && self().line_waiters.load(std::memory_order_relaxed) <= 1;
}

// Sleeps until shortly before the write is expected to end, and spins until a while after that.
void DurableLog::spin_to_end(std::uint32_t event, bool yields) noexcept {
  LogState &s = state();
  const platform::PreciseTimers precise;
  const std::uint64_t now = platform::monotonic_ns(),
                      typical = s.write_ns.load(std::memory_order_relaxed);
  std::uint64_t expected = s.write_began_ns.load(std::memory_order_relaxed) + typical;
  // The writer has not begun yet.
  if (expected < now || expected > now + typical) expected = now + typical;
  if (now + kNapNsMin + kAwakeAheadNs < expected)
    (void)sleep(event, static_cast<long>(expected - kAwakeAheadNs - now));
  const std::uint64_t deadline = std::max(now, expected) + kFollowSpinNs;
  while (s.event.load(std::memory_order_acquire) == event && platform::monotonic_ns() < deadline) {
    if (yields) sched_yield();
    _mm_pause();
  }
}

// Until the writer has finished, or is dead.
void DurableLog::follow(std::uint32_t event) noexcept {
  LogState &s = state();
  const Crowd present = crowd();
  if (may_spin(present)) spin_to_end(event, present.active > cores_);
  if (s.event.load(std::memory_order_acquire) != event) return;
  self().waits_on_cpu.store(storage::LogHandover::kAsleep, std::memory_order_relaxed);
  const bool is_silent = sleep(event, kDeathCheckNs);
  self().waits_on_cpu.store(storage::LogHandover::this_cpu(), std::memory_order_relaxed);
  if (!is_silent) return;
  lock();  // waits for a living writer, inherits from a dead one
  unlock();
}

// True: nothing was written for so long.
bool DurableLog::sleep(std::uint32_t event, long timeout_ns) noexcept {
  LogState &s = state();
  s.sleepers.fetch_add(1, std::memory_order_seq_cst);
  step(Step::kGapLogFollow);
  const bool timed_out = s.event.load(std::memory_order_seq_cst) == event &&
                         platform::futex_wait(s.event, event, timeout_ns);
  s.sleepers.fetch_sub(1, std::memory_order_relaxed);
  return timed_out;
}

}  // namespace tmh::page
