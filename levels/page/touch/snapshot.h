// levels/page/touch/snapshot.h -- the committed state that an engine's instance reads: pinned,
// validated, moved on; and the views brought to it along the commit log.
// Shape:     two clocks: level 2's, and that of the level below. The views stand at a clock of
//            their own, at most the snapshot's.
// Ordering:  see consistency_tree.h for pins and clock.
// Contexts:  the handler: what moves a running instance's snapshot. Not: what a begin calls.
// Source:    thesis, section 3.3, step 1 (a new instance is a child of the last committed node);
//            docs/mechanisms.md, "What every load rests on".
#pragma once

#include <cstdint>

#include "levels/page/redo/redo.h"
#include "levels/page/shared/shared.h"
#include "levels/page/touch/read_set.h"
#include "levels/page/touch/replay.h"
#include "levels/page/versions/versions.h"
#include "levels/page/views/views.h"
#include "observe/planted.h"
#include "platform/assert.h"

namespace tmh::page {

class Snapshot {
 public:
  // All outlive it.
  Snapshot(Ours &ours, Mine &mine, ClaimKind claims) noexcept
      : ours_(ours),
        mine_(mine),
        replay_(ours.tree, mine),
        claims_move_it_(moves_snapshot(claims)) {}

  // Address space.
  [[nodiscard]] Errc reserve() noexcept { return replay_.reserve(); }
  // reads_durable_only: without early release.
  void use_log(DurableLog *log, bool reads_durable_only) noexcept {
    TMH_ASSERT(log != nullptr || !reads_durable_only);
    log_ = log;
    reads_durable_only_ = reads_durable_only;
  }
  // The views stand at the present clock: nothing is mapped yet.
  void start(const DomainLock::Held &held) noexcept;

  // Of the running instance, or the last one.
  [[nodiscard]] std::uint64_t at() const noexcept { return at_; }
  // The same on the clock of the level below.
  [[nodiscard]] std::uint64_t line() const noexcept { return line_; }
  // Where a snapshot shows only what is durable: returns when all that is committed is.
  [[nodiscard]] Errc await_durable() noexcept {
    TMH_ASSERT(!reads_durable_only_ || log_ != nullptr);
    return reads_durable_only_ ? log_->flush_all() : Errc::kOk;
  }
  // In the commit log: the views have followed every entry before it.
  [[nodiscard]] std::uint64_t position() const noexcept { return synced_position_; }

  // A begin: the segments that there are.
  void note_segments() noexcept {
    if (ours_.memory.segments_opened_at() != known_generation_) note_new_segments();
  }
  // Announces the present as the snapshot without the lock, when no foreign commit since the last
  // instance concerns what this process holds. False: pin() does it.
  [[nodiscard]] bool pin_without_lock() noexcept;
  // Brings every page that this process holds to the clock, and announces it. The watched ones are
  // there behind finish_pin(), which needs no lock.
  void pin(const DomainLock::Held &held) noexcept;
  void finish_pin() noexcept { replay_.finish(); }

  // Why the instance can only abort: it has failed, or a page of its read set was committed since
  // the snapshot. kNone: nothing is in its way.
  [[nodiscard]] AbortCause conflict_of_reads(const DomainLock::Held &held) const noexcept {
    return is_alone(held) ? AbortCause::kNone : find_conflict_of_reads(held);
  }
  // The same of a commit. Serializable: of what was read. Snapshot isolation: a line of `writes`
  // was committed since the snapshot.
  [[nodiscard]] AbortCause conflict(const DomainLock::Held &held,
                                    const std::vector<Write> &writes) const noexcept {
    return is_alone(held) ? AbortCause::kNone : find_conflict(held, writes);
  }
  // The same as far as commits are published, and mostly without the lock: conflict() then looks at
  // what has come since. For a commit that has much to do before it has the lock. False: it can
  // only abort.
  [[nodiscard]] bool may_commit_so_far(const std::vector<Write> &writes) noexcept;
  // Nothing that the instance touched was committed since its snapshot: then it may as well have
  // begun now. False: it stays where it is.
  [[nodiscard]] bool extend(const DomainLock::Held &held) noexcept;
  // Of a claim, where nothing that the instance touched can have been committed. False: it may not
  // see the present.
  [[nodiscard]] bool move_to_present(const DomainLock::Held &held) noexcept;
  // A page lost its guard while it had a version: only the log tells that it must be guarded again.
  void must_follow() noexcept { follow_needed_ = true; }
  // The instance has committed. versioned_before: DomainState::versioned_stamp before that. The
  // kept pages of a serializable instance stand at our own commit, as no other one has committed
  // them since the snapshot; those of a snapshot instance do when no other one has committed. The
  // views do when no other page can have got its first version in between (a commit, a repair).
  void stand_at_own_commit(const DomainLock::Held &held, std::uint64_t stamp,
                           std::uint64_t versioned_before) noexcept;

 private:
  [[nodiscard]] bool views_stand() noexcept;
  [[nodiscard]] bool foreign_commits_are_elsewhere(std::uint64_t clock,
                                                   std::uint64_t *position) noexcept;
  void note_new_segments() noexcept;
  // Nothing was committed by others since the snapshot.
  [[nodiscard]] bool is_alone(const DomainLock::Held &held) const noexcept {
    TMH_ASSERT(held.is_valid());
    // No other instance has committed since an irrevocable one was untouched.
    if (mine_.instance.is_irrevocable) return !mine_.instance.has_failed();
    return mine_.instance.why_failed() == AbortCause::kNone &&
           ours_.memory.state().clock.load(std::memory_order_relaxed) == at_;
  }
  [[nodiscard]] AbortCause find_conflict_of_reads(const DomainLock::Held &held) const noexcept;
  [[nodiscard]] AbortCause find_conflict(const DomainLock::Held &held,
                                         const std::vector<Write> &writes) const noexcept;
  [[nodiscard]] bool no_page_was_committed(const DomainLock::Held &held) const noexcept;
  [[nodiscard]] bool no_line_was_committed(const DomainLock::Held &held,
                                           const std::vector<Write> &writes) const noexcept;
  // In the commit log: the running instance has been validated against all that lies before it.
  [[nodiscard]] std::uint64_t validated_position() const noexcept {
    return validated_instance_ == mine_.instance.number ? validated_position_ : synced_position_;
  }
  [[nodiscard]] bool is_read(PageId page) const noexcept {
    if (!mine_.views.is_mapped(page)) return false;
    const PageState shown = mine_.views.local(page).state;
    return shown != PageState::kAbsent && shown != PageState::kGuarded;
  }
  [[nodiscard]] bool kept_pages_are_old() const noexcept;
  [[nodiscard]] bool names_page_read(std::uint64_t from, std::uint64_t to,
                                     PageId *page) const noexcept;
  void announce(std::uint64_t clock) noexcept;
  void pull(const DomainLock::Held &held) noexcept;
  void follow_releases(const DomainLock::Held &held) noexcept;
  void refresh(const DomainLock::Held &held, const CommitLogEntry &entry) noexcept;
  [[nodiscard]] bool knows_too_little(const DomainLock::Held &held) const noexcept;
  [[nodiscard]] bool may_see_now(const DomainLock::Held &held) const noexcept;

  Ours &ours_;
  Mine &mine_;
  Replay replay_;
  // See ClaimMeaning::moves_snapshot.
  const bool claims_move_it_;
  // The snapshot moves on only to what is durable.
  bool reads_durable_only_ = false;
  bool resync_needed_ = true;
  // See must_follow().
  bool follow_needed_ = false;
  // Durable domains only.
  DurableLog *log_ = nullptr;
  std::uint64_t at_ = 0;
  std::uint64_t line_ = 0;
  // Clock at which the views stand.
  std::uint64_t synced_ = 0;
  // In the commit log: entries before it are stamped <= synced_.
  std::uint64_t synced_position_ = 0;
  // >= synced_: clock at which the kept pages stand; others may need a guard yet.
  std::uint64_t kept_synced_ = 0;
  std::uint64_t repairs_seen_ = 0;
  // See validated_position().
  std::uint64_t validated_instance_ = 0, validated_position_ = 0;
  // Segments that there were at the begin, as of the domain's generation.
  SegmentSet known_;
  std::uint32_t known_generation_ = 0;
};

}  // namespace tmh::page
