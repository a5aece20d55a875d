// levels/page/durable_log.h -- durable commits: turns the commit log ring into redo records, in
// groups, for every participant.
// Shape:     a commit publishes itself in memory first (ConsistencyTree::publish); its differences
//            stay in version slots that cannot change, fold or go home before they are durable.
//            Whoever needs durability and finds nobody writing becomes the writer: it encodes all
//            that is published, in commit order, writes it once and tells the others (group
//            commit). So no record is ever half written by a process that died: the next writer
//            encodes it from the same slots.
// Invariant: (1) durable_clock = t: the records of all commits up to t are on disk. (2) A version
//            goes home only when its stamp is <= durable_clock (docs/design.md D2). (3) A strict
//            commit t is acknowledged only when durable_clock >= t (docs/design.md D1). Early
//            release is safe: whoever reads commit t has a snapshot >= t, its own commit is stamped
//            later, records are durable in the order of stamps, and a strict instance that only
//            read waits for its snapshot: nobody is acknowledged before what it read. With a level
//            below (lower_log.h), durable_line says the same of its clock. Records are in one
//            order, that of (its clock, level below first): of two commits that depend on each
//            other the later one has the higher place.
//            (4) Space first: a commit is published only when log files for its records exist and
//                the ring has room, so that a full disk is an error before the commit point, never
//                after.
// Errors:    kDiskFull and kPermission of making a log file: the commit aborts, later ones may
//            succeed. An error of writing the log is kept in LogState::error: what was published
//            and not acknowledged may or may not survive; the domain takes no more commits until
//            all have closed it and recovery has read the log. But not a process's being out of
//            descriptors: others write for it.
// Sharing:   one object per participant, used by its instance's thread, its housekeeper and whoever
//            waits for a commit of it; LogState::lock is the writer's.
// Contexts:  not in handlers.
// Source:    docs/design.md D1, D2, D5; LIBTP, sections 3.1.1 and 4.2 (group commit); thesis,
//            section 3.2 (its log of whole pages).
#pragma once

#include <cstdint>
#include <vector>

#include <tmh/options.hpp>

#include "levels/page/changed_pages.h"
#include "levels/page/consistency_tree.h"
#include "levels/page/domain_memory.h"
#include "levels/page/lower_log.h"
#include "levels/storage/log_handover.h"
#include "levels/storage/log_writer.h"

namespace tmh::page {

class DurableLog {
 public:
  // The domain's log state is mapped (DomainMemory::open_log_state()).
  DurableLog(DomainMemory &memory, std::uint32_t slot, platform::LockTag tag,
             const GroupCommit &group) noexcept;
  // Domains with a level below: before the first commit. Null: its records are not asked for any
  // more.
  void use_lower(LowerLog *lower) noexcept { lower_ = lower; }
  // As LogWriter's.
  void time_writes(storage::LatencySite *times) noexcept { writer_.time_writes(times); }

  // Counts what a commit of `writes` will need, word masks included (VersionHead::words of their
  // slots are filled in here).
  // REQUIRES: slots filled; clean(i) is the page as it was before, for writes[i].
  void plan_begin() noexcept {
    plan_.clear();
    beyond_durable_ = false;
  }
  // Before its slots are taken. kOutOfMemory.
  [[nodiscard]] Errc plan_reserve(std::size_t writes) noexcept;
  void plan_write(const Write &write, const std::byte *now, const std::byte *clean);

  enum class Room : std::uint8_t { kYes, kFlush, kFile, kSegment, kFailed };
  // May the planned commit be published now? *end: where the log will
  // end. kYes reserves the room.
  [[nodiscard]] Room room(const DomainLock::Held &held, std::size_t writes,
                          storage::Lsn *end) const noexcept;
  // The planned commit aborts after kYes.
  void give_room_back(const DomainLock::Held &) noexcept {
    if (lower_ != nullptr) state().give_back_upper();
  }
  // Without the domain lock: does what room() asks for.
  [[nodiscard]] Errc make_room(Room room, storage::Lsn end) noexcept;

  // Room for the records of a commit of the level below, which any thread may commit: waits for log
  // files. kLogFailed, kDiskFull.
  [[nodiscard]] Errc reserve_lower(std::uint64_t bytes) noexcept;
  void give_back(std::uint64_t bytes) noexcept {
    state().pending_bytes.fetch_sub(bytes, std::memory_order_release);
  }
  // What the log has of the level below is forgotten there: whoever wrote it may be between telling
  // and that, or have died there.
  void free_lower() noexcept;

  // The calling thread has published a commit and will wait() for it: from here on the group need
  // not be held up for it.
  void announce(std::uint64_t stamp) noexcept {
    self().waits_on_cpu.store(storage::LogHandover::this_cpu(), std::memory_order_relaxed);
    self().waits_for.store(stamp, std::memory_order_release);
  }
  // Returns when every commit up to `stamp`, and of the level below up to `line`, is durable.
  // kLogFailed or the error of the write.
  [[nodiscard]] Errc wait(std::uint64_t stamp, std::uint64_t line = 0) noexcept;
  // The same for callers that are not to be waited for by group commits: the housekeeper.
  [[nodiscard]] Errc flush(std::uint64_t stamp, std::uint64_t line = 0) noexcept;
  // The same for a thread of the level below.
  [[nodiscard]] Errc wait_lower(std::uint64_t line) noexcept;
  // Everything committed so far.
  [[nodiscard]] Errc flush_all() noexcept;
  // kLogFailed: a write has failed, and nobody commits any more.
  [[nodiscard]] Errc check_writable() const noexcept;
  // acquire: pairs with LogWriter::announce(). The clock first: the line is not older then.
  [[nodiscard]] std::uint64_t durable_clock() const noexcept {
    return state().durable_clock.load(std::memory_order_acquire);
  }
  [[nodiscard]] std::uint64_t durable_line() const noexcept {
    return state().durable_line.load(std::memory_order_acquire);
  }
  [[nodiscard]] std::uint64_t line_clock() const noexcept {
    return lower_ == nullptr ? 0 : lower_->clock();
  }
  [[nodiscard]] LowerLog *lower() const noexcept { return lower_; }
  [[nodiscard]] ChangedPages &changed() noexcept { return changed_; }
  // Makes log files until every byte before `end` has one, whose name is durable. kCorrupt: nobody
  // can need one that far.
  [[nodiscard]] Errc make_files_up_to(storage::Lsn end) noexcept;
  // The same for the next `files_ahead` * file_bytes.
  [[nodiscard]] Errc prepare_files(std::uint64_t files_ahead) noexcept;
  // Writes whatever is published, without any lock. REQUIRES: alone in the domain.
  [[nodiscard]] Errc write_alone() noexcept;
  // First record of a generation. REQUIRES: alone, the point stands at a block boundary.
  [[nodiscard]] Errc write_open(const storage::OpenPayloadV1 &open) noexcept;

  [[nodiscard]] storage::LogState &state() const noexcept { return *memory_.log_state(); }
  [[nodiscard]] storage::FlushPoint point() const noexcept {
    const storage::LogState &s = state();
    return s.point[s.flushes.load(std::memory_order_acquire) & 1];
  }
  // Takes the writer's lock, also from the dead.
  void lock() noexcept;
  // One at a time makes, recycles or moves log files.
  void lock_files() noexcept;
  void unlock_files() noexcept { state().files_lock.unlock(); }
  [[nodiscard]] bool try_lock() noexcept { return state().lock.try_lock(tag_); }
  void unlock() noexcept;
  [[nodiscard]] platform::LockTag tag() const noexcept { return tag_; }

 private:
  [[nodiscard]] Errc write_published() noexcept;
  [[nodiscard]] Errc timed_write() noexcept;
  std::uint64_t acquire_published() const noexcept;
  [[nodiscard]] Errc plan_cut(const storage::FlushPoint &at, storage::LogCut *cut) noexcept;
  [[nodiscard]] bool has_upper(const storage::FlushPoint &at,
                               const storage::LogCut &cut) const noexcept;
  [[nodiscard]] Errc append_next(const storage::LogCut &cut, storage::FlushPoint *at) noexcept;
  [[nodiscard]] Errc finish_batch(const storage::FlushPoint &at) noexcept;
  [[nodiscard]] Errc append_commit(storage::FlushPoint *at) noexcept;
  [[nodiscard]] Errc append_lower(const LowerCommit &commit, storage::FlushPoint *at) noexcept;
  [[nodiscard]] Errc append_wide(const CommitLogEntry &first) noexcept;
  [[nodiscard]] Errc append_page(Slot slot, PageId page, LineMask lines) noexcept;
  [[nodiscard]] Errc append_difference(PageId page, LineMask lines, const std::uint8_t *words,
                                       const std::byte *data) noexcept;
  [[nodiscard]] Errc finish_record(storage::RecordKind kind) noexcept;
  void begin_record(std::uint64_t stamp, std::uint64_t time_ns) noexcept;
  [[nodiscard]] bool reserve(std::uint64_t bytes, storage::Lsn *end) const noexcept;
  [[nodiscard]] std::uint64_t pending_bytes_max() const noexcept;
  [[nodiscard]] bool mend_pending_bytes() const noexcept;
  [[nodiscard]] Errc check_end(storage::Lsn end) const noexcept;
  [[nodiscard]] storage::Lsn planned_end() const noexcept;
  [[nodiscard]] bool is_durable(std::uint64_t stamp, std::uint64_t line) const noexcept {
    const storage::LogState &s = state();
    return s.durable_clock.load(std::memory_order_acquire) >= stamp &&
           (line == 0 || s.durable_line.load(std::memory_order_acquire) >= line);
  }
  [[nodiscard]] Errc fail_log(Errc error) noexcept;
  enum class Led : std::uint8_t { kDone, kGivenAway };
  [[nodiscard]] Led lead(std::uint64_t stamp, std::uint64_t line, Errc *error) noexcept;
  [[nodiscard]] Errc make_file() noexcept;
  [[nodiscard]] Led await_company() noexcept;
  [[nodiscard]] bool take_over() noexcept;
  void follow(std::uint32_t event) noexcept;
  void spin_to_end(std::uint32_t event, bool yields) noexcept;
  [[nodiscard]] bool sleep(std::uint32_t event, long timeout_ns) noexcept;
  struct Crowd {
    std::uint32_t active = 0, waiting = 0;
    std::uint32_t awake = 0;  // of those who wait, the one who asks included
    // That wait at the level below; those of a dead participant until it is reaped.
    std::uint32_t line_threads = 0;
    bool has_quicker = false;  // one of those who wait is awake, where writes are quicker
    // Those who wait spin: a process with threads at the level below counts once among the active.
    [[nodiscard]] bool has_cores(unsigned cores) const noexcept {
      return active <= cores && line_threads <= cores;
    }
  };
  [[nodiscard]] Crowd crowd() const noexcept;
  [[nodiscard]] bool is_crowded() const noexcept { return crowd().active > cores_; }
  [[nodiscard]] bool may_spin(const Crowd &present) const noexcept;
  [[nodiscard]] storage::Participant &self() const noexcept { return memory_.participant(slot_); }

  DomainMemory &memory_;
  const std::uint32_t slot_;
  const platform::LockTag tag_;
  const GroupCommit group_;
  const unsigned cores_;
  storage::LogHandover handover_;
  storage::RecordPlan plan_;  // of the instance's thread
  // The plan has pages that a power cut could take out of their segment.
  bool beyond_durable_ = false;
  LowerLog *lower_ = nullptr;
  storage::LogWriter writer_;  // under LogState::lock, as what follows
  ChangedPages changed_;
  std::vector<LowerCommit> lower_commits_;  // of the cut, not yet appended: from next_lower_ on
  std::size_t next_lower_ = 0;
  bool cannot_note_ = false;  // this process could not open the notes of changed pages
  std::vector<std::byte> buffer_;
  storage::RecordBuilder record_;  // in buffer_
  std::uint32_t part_ = 0;         // of the commit being appended
  std::uint64_t stamp_ = 0, time_ns_ = 0, commit_bytes_ = 0;
  std::uint64_t batch_commits_ = 0, batch_bytes_ = 0;  // bytes: of what was reserved
  storage::Lsn batch_start_ = 0;
};

}  // namespace tmh::page
