// levels/page/transaction.h -- the story of an instance: it begins, is asked whether it can still
// commit, becomes irrevocable, ends or is aborted.
// Shape:     one per engine. An act is a few lines; the engine's other parts do the work.
// Ordering:  see consistency_tree.h for pins and clock.
// Sharing:   one thread at a time (the hierarchy serialises).
// Contexts:  not in handlers.
// Source:    thesis, section 3.3; EXCITE-VM, section 3 (lazy detection at page level).
#pragma once

#include <cstdint>

#include <tmh/error.hpp>
#include <tmh/instance.hpp>
#include <tmh/options.hpp>

#include "levels/page/commit.h"
#include "levels/page/page_sets.h"
#include "levels/page/publish/publish.h"
#include "levels/page/shared/shared.h"
#include "levels/page/touch/touch.h"
#include "levels/page/versions/versions.h"
#include "levels/page/views/views.h"
#include "observe/skew.h"
#include "platform/assert.h"

namespace tmh::page {

class Transaction {
 public:
  // All outlive it.
  Transaction(Ours &ours, Mine &mine, Touching &touching) noexcept;
  // Address space.
  [[nodiscard]] Errc reserve() noexcept { return evictor_.reserve(); }
  // Durable domains: before the first instance.
  void use_log(DurableLog *log) noexcept { commit_.use_log(log); }

  // Errors: of segments made meanwhile, which cannot be opened; of tracking, see
  // TrackingChoice::open_ring(). REQUIRES: no instance is running.
  [[nodiscard]] Errc begin(bool is_query, std::uint64_t age, ConflictPolicy policy,
                           Isolation isolation) noexcept;
  // A query that reads `moment`, if that is held: else kNotHeld. As begin().
  [[nodiscard]] Errc begin_past(const Moment &moment, ConflictPolicy policy) noexcept;
  // will_wait: the caller waits until the commit is durable.
  [[nodiscard]] Outcome end(bool will_wait) noexcept;
  void abort(AbortCause cause) noexcept;
  // kFailed: it can only abort.
  [[nodiscard]] Status validate() noexcept;
  // From now on no other instance commits at level 2, and the running instance cannot abort, but
  // for want of disk space or memory (kNoSpace): see tmh::become_irrevocable(). Waits for another
  // irrevocable instance to end. *is_pending: false: the instance has FAILED and is as it was. An
  // error: there is no room for what it has written so far; as it was. The caller leaves the turn
  // at the instance's end.
  [[nodiscard]] Errc become_irrevocable(bool *is_pending) noexcept;
  [[nodiscard]] bool is_irrevocable() const noexcept { return mine_.instance.is_irrevocable; }
  // Of the running instance, whatever it began as: an instance inside it demands it.
  void make_serializable() noexcept { mine_.instance.isolation = Isolation::kSerializable; }
  // What the running instance has read or written so far.
  [[nodiscard]] ReadSet read_set() noexcept;
  // The program will touch these bytes. False: the address belongs to no view.
  [[nodiscard]] bool advise(std::uintptr_t begin, std::uint64_t bytes, bool is_write) noexcept {
    return first_touch_.advise(begin, bytes, is_write);
  }
  // The lines of these bytes count as written by the running update, with the content that they
  // have: so other updates that write or promote one of them, and this one, do not both commit.
  // kNotMapped: they do not lie in a view; kOutOfMemory.
  [[nodiscard]] Errc promote(std::uintptr_t begin, std::uint64_t bytes) noexcept;
  // The bytes as the running instance sees them: see PageCopier. kNotMapped.
  [[nodiscard]] Errc copy(std::uintptr_t from, std::uint64_t bytes, std::byte *to) noexcept {
    return copier_.copy(from, bytes, to);
  }
  // Of the running instance, as far as is known; kNone: it has not failed.
  [[nodiscard]] AbortCause why_failed() const noexcept { return mine_.instance.why_failed(); }
  // Has the running instance been asked to end, or FAILED?
  [[nodiscard]] bool should_end() const noexcept { return mine_.instance.should_end(); }

  // Of the running instance, or the last one.
  [[nodiscard]] const Snapshot &snapshot() const noexcept { return snapshot_; }
  // Had the level below changed something that the last instance has read, by then, after its
  // snapshot? Perhaps no clock moves for that again.
  [[nodiscard]] bool has_read_behind() const noexcept { return mine_.instance.has_read_behind; }

  // Before begin(): of snapshot instances.
  void use_page_cache(const PageCache &policy) noexcept { evictor_.use(policy); }
  // Before begin(): shall the next instance abort where it would take a page that the level below
  // has used?
  void give_way(bool gives_way) noexcept { mine_.instance.gives_way = gives_way; }
  // The views are as if never used.
  void publish_size() noexcept { evictor_.publish_size(); }
  // Every instance that commits from here on. REQUIRES: tracking does not keep pages.
  void record_skew(observe::SkewRecorder *recorder) noexcept {
    TMH_ASSERT(!mine_.tracking.keeps());
    recorder_ = recorder;
  }

 private:
  [[nodiscard]] Errc listen() noexcept;
  void pin_with_lock() noexcept;
  [[nodiscard]] Errc show_past(std::uint64_t moment) noexcept;
  void leave_past() noexcept;
  [[nodiscard]] Outcome end_query() noexcept;
  [[nodiscard]] Outcome end_update(Errc found, bool will_wait) noexcept;
  void settle_committed(const Outcome &outcome) noexcept;
  void record(const Outcome &outcome) noexcept;
  void settle_aborted(AbortCause cause) noexcept;
  [[nodiscard]] Errc reserve_for_good(const DomainLock::Held &held) noexcept;
  [[nodiscard]] bool move_to_present(const DomainLock::Held &held) noexcept;
  void count_abort(AbortCause cause) noexcept;
  void adapt(KeepPolicy::End end) noexcept;
  void finish() noexcept;

  Ours &ours_;
  Mine &mine_;
  StandIns &stand_ins_;
  Snapshot &snapshot_;
  Claimer &claimer_;
  FirstTouch &first_touch_;
  PageCopier &copier_;
  Evictor evictor_;
  PageSets sets_;
  Commit commit_;
  // Null: nothing is recorded.
  observe::SkewRecorder *recorder_ = nullptr;
};

}  // namespace tmh::page
