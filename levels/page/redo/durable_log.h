// levels/page/redo/durable_log.h -- durable commits: turns the commit log ring into redo records,
// in groups, for every participant.
// Shape:     a commit publishes itself in memory first (ConsistencyTree::publish); its differences
//            stay in version slots that cannot change, fold or go home before they are durable. A
//            participant that needs durability and finds no writer becomes the writer: it encodes
//            all that is published, in commit order, writes it once and tells the others (group
//            commit). So no record is ever half written by a process that died: the next writer
//            encodes it from the same slots.
// Invariant: (1) durable_clock = t: the records of all commits up to t are on disk. (2) A version
//            goes home only when its stamp is <= durable_clock (docs/design.md D2). (3) A strict
//            commit t is acknowledged only when durable_clock >= t (docs/design.md D1). Early
//            release is safe: an instance that reads commit t has a snapshot >= t, its own commit
//            is stamped later, records are durable in the order of stamps, and a strict instance
//            that only read waits for its snapshot: no instance is acknowledged before what it
//            read. With a level below (gatherer.h), durable_line promises this for its clock.
//            Records are in one order, that of (its clock, level below first): of two commits that
//            depend on each other the later one has the higher place. (4) Space first: a commit is
//            published only when log files for its records exist and the ring has room, so that a
//            full disk is an error before the commit point, never after.
// Errors:    kDiskFull and kPermission of making a log file: the commit aborts, later ones may
//            succeed. An error of writing the log is kept in LogState::error: what was published
//            and not acknowledged may or may not survive; the domain takes no more commits until
//            all have closed it and recovery has read the log. But not a process's being out of
//            descriptors: others write for it.
// Sharing:   one object per participant, used by its instance's thread, its housekeeper and every
//            thread that waits for a commit of it; LogState::lock is the writer's.
// Contexts:  not in handlers.
// Source:    docs/design.md D1, D2, D5; LIBTP, sections 3.1.1 and 4.2 (group commit); thesis,
//            section 3.2 (its log of whole pages).
#pragma once

#include <cstddef>
#include <cstdint>

#include <tmh/options.hpp>

#include "levels/page/redo/commit_group.h"
#include "levels/page/redo/gatherer.h"
#include "levels/page/redo/log_room.h"
#include "levels/page/redo/redo_plan.h"
#include "levels/page/redo/redo_writer.h"
#include "levels/page/shared/shared.h"

namespace tmh::page {

class DurableLog {
 public:
  // The domain's log state is mapped (SharedFiles::open_log_state()).
  DurableLog(SharedFiles &memory, std::uint32_t slot, platform::LockTag tag,
             const GroupCommit &group) noexcept
      : memory_(memory),
        tag_(tag),
        room_(memory, tag),
        writer_(memory, slot),
        group_(memory, slot, tag, group, room_, writer_) {}
  // Domains with a level below: before the first commit. Null: its records are not asked for any
  // more.
  void use_gatherer(Gatherer *gatherer) noexcept {
    gatherer_ = gatherer;
    room_.use_gatherer(gatherer);
    writer_.use_gatherer(gatherer);
  }
  [[nodiscard]] Gatherer *gatherer() const noexcept { return gatherer_; }
  // As LogWriter's.
  void time_writes(storage::LatencySite *times) noexcept { writer_.time_writes(times); }

  // A commit of the instance's thread, which has planned it: see log_room.h.
  using Room = LogRoom::Room;
  [[nodiscard]] Room room(const DomainLock::Held &held, const RedoPlan &plan,
                          storage::Lsn *end) const noexcept {
    return room_.reserve_planned(held, plan, end);
  }
  void give_room_back(const DomainLock::Held &) noexcept { room_.give_back_planned(); }
  // Without the domain lock: does what room() of this plan asks for.
  [[nodiscard]] Errc make_room(Room room, storage::Lsn end, RedoPlan *plan) noexcept;

  // Room for the records of a commit of the level below, which any thread may commit: waits for log
  // files. kLogFailed, kDiskFull.
  [[nodiscard]] Errc reserve_lower(std::uint64_t bytes) noexcept {
    return room_.reserve_for_lower(bytes);
  }
  void give_back(std::uint64_t bytes) noexcept {
    state().pending_bytes.fetch_sub(bytes, std::memory_order_release);
  }
  // What the log has of the level below is forgotten there: its writer may be between telling and
  // that, or have died there.
  void free_lower() noexcept;

  // See commit_group.h. kFileReplaced: what is acknowledged now may not be found again.
  void announce(std::uint64_t stamp) noexcept { group_.announce(stamp); }
  [[nodiscard]] Errc wait(std::uint64_t stamp, std::uint64_t line = 0) noexcept {
    const Errc error = group_.wait(stamp, line);
    return error == Errc::kOk ? look_in_place() : error;
  }
  [[nodiscard]] Errc flush(std::uint64_t stamp, std::uint64_t line = 0) noexcept {
    const Errc error = group_.flush(stamp, line);
    return error == Errc::kOk ? look_in_place() : error;
  }
  [[nodiscard]] Errc wait_lower(std::uint64_t line) noexcept {
    const Errc error = group_.wait_lower(line);
    return error == Errc::kOk ? look_in_place() : error;
  }
  // At most every 100 ms; the housekeeper does so where no instance waits for the log.
  [[nodiscard]] Errc look_in_place() noexcept {
    return memory_.in_place().look(platform::coarse_ns());
  }
  // Everything committed so far.
  [[nodiscard]] Errc flush_all() noexcept;
  [[nodiscard]] Errc check_writable() const noexcept { return group_.check_writable(); }
  // acquire: pairs with LogWriter::announce(). The clock first: the line is not older then.
  [[nodiscard]] std::uint64_t durable_clock() const noexcept {
    return state().durable_clock.load(std::memory_order_acquire);
  }
  [[nodiscard]] std::uint64_t durable_line() const noexcept {
    return state().durable_line.load(std::memory_order_acquire);
  }
  [[nodiscard]] std::uint64_t line_clock() const noexcept {
    return gatherer_ == nullptr ? 0 : gatherer_->clock();
  }

  // Checkpoints, recovery and housekeeping: see redo_writer.h, log_room.h.
  [[nodiscard]] ChangedPages &changed() noexcept { return writer_.changed(); }
  [[nodiscard]] Errc make_files_up_to(storage::Lsn end) noexcept {
    return room_.make_files_up_to(end);
  }
  [[nodiscard]] Errc prepare_files(std::uint64_t files_ahead) noexcept {
    return room_.prepare_files(files_ahead);
  }
  void lock_files() noexcept { room_.lock_files(); }
  void unlock_files() noexcept { room_.unlock_files(); }
  [[nodiscard]] Errc write_alone() noexcept { return writer_.write_alone(); }
  [[nodiscard]] Errc write_open(const storage::OpenPayloadV1 &open) noexcept {
    return writer_.write_open(open);
  }
  [[nodiscard]] storage::FlushPoint point() const noexcept { return writer_.point(); }
  // Takes the writer's lock, also from the dead.
  LogLock::Held lock() noexcept { return group_.lock().take(); }

  [[nodiscard]] storage::LogState &state() const noexcept { return *memory_.log_state(); }
  [[nodiscard]] platform::LockTag tag() const noexcept { return tag_; }

 private:
  SharedFiles &memory_;
  const platform::LockTag tag_;
  Gatherer *gatherer_ = nullptr;
  LogRoom room_;
  RedoWriter writer_;
  CommitGroup group_;
};

}  // namespace tmh::page
