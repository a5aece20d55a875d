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
  // Each has a header of its own that says what it does.
  [[nodiscard]] LogRoom &room() noexcept { return room_; }
  [[nodiscard]] RedoWriter &writer() noexcept { return writer_; }
  [[nodiscard]] CommitGroup &group() noexcept { return group_; }

  // Without the domain lock: does what LogRoom::reserve_planned() of this plan asks for.
  [[nodiscard]] Errc make_room(LogRoom::Room room, storage::Lsn end, RedoPlan *plan) noexcept;
  // What the log has of the level below is forgotten there: its writer may be between telling and
  // that, or have died there.
  void free_lower() noexcept;
  // Everything committed so far.
  [[nodiscard]] Errc flush_all() noexcept;
  // The same for a thread that commits and waits in turns: where there is a level below, group
  // commits wait for it.
  [[nodiscard]] Errc await_all() noexcept;
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
