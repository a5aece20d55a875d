// levels/page/engine.h -- level 2 of one participant: runs instances at page granularity on the
// participant's views of one domain.
// Shape:     view = MAP_PRIVATE over home. The kernel resolves first touches (kernel tracking) or
//            raises SIGSEGV (signal tracking, and pages whose home is not what the snapshot reads).
//            Private copies are compared with a clean twin at end; the differing lines become
//            versions, which go home when no snapshot needs the older content. The engine owns the
//            parts and joins them; transaction.h tells the story.
// Invariant: during an instance with snapshot s, every page of a view is
//              kPrivate/kReadOnly/kClean: state(s) plus own stores;   kFile, and kAbsent under
//              kernel tracking: home holds state(s); kGuarded, and kAbsent under signal tracking:
//              not accessible, made state(s) at the touch.
//            Hence every load, in doomed instances too, sees state(s) or the instance's own stores.
// Ordering:  see consistency_tree.h for pins and clock.
// Sharing:   one Engine per participant: one per process and domain, and one per thread with views
//            of its own. One thread at a time (the hierarchy serialises), the fault handler on that
//            thread.
// Contexts:  not in handlers; first_touch.h has what runs there.
// Source:    thesis, sections 3.1 to 3.3; EXCITE-VM, section 3 (lazy detection at page level);
//            docs/mechanisms.md, "What every load rests on".
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include <tmh/instance.hpp>
#include <tmh/options.hpp>
#include <tmh/past.hpp>

#include "levels/page/commit.h"
#include "levels/page/page_sets.h"
#include "levels/page/publish/publish.h"
#include "levels/page/redo/redo.h"
#include "levels/page/shared/shared.h"
#include "levels/page/touch/touch.h"
#include "levels/page/transaction.h"
#include "levels/page/versions/versions.h"
#include "levels/page/views/views.h"
#include "observe/skew.h"

namespace tmh::page {

class Engine {
 public:
  Engine(SharedFiles &memory, std::uint32_t slot, Detection detection);
  Engine(const Engine &) = delete;
  Engine &operator=(const Engine &) = delete;

  // Chooses the tracking; kTrackingUnavailable when `wanted` is not permitted, kIo without
  // descriptors, kBadTracking when it does not fit the detection. alone: no other participant is
  // alive.
  [[nodiscard]] Errc start(Tracking wanted, bool alone) noexcept;
  // Any thread.
  [[nodiscard]] const TrackingReport &tracking() const noexcept { return mine_.tracking.report(); }

  // Durable domains: before the first instance. reads_durable_only: without early release.
  void use_log(DurableLog *log, bool reads_durable_only) noexcept {
    transaction_.use_log(log);
    touching_.snapshot.use_log(log, reads_durable_only);
  }
  // Domains with a level below: before start(). REQUIRES lazy detection.
  void use_recaller(Recaller *recaller) noexcept {
    TMH_ASSERT(!touching_.claimer.moves_snapshot());
    mine_.views.use_lower();
    ours_.use_recaller(recaller);
  }

  // Detection locking: before start(). It outlives the engine.
  void use_locker(PageLocker *locker) noexcept { touching_.claimer.use_locker(locker); }

  // The instances that it runs.
  [[nodiscard]] Transaction &transaction() noexcept { return transaction_; }
  // What it shares with other participants.
  [[nodiscard]] Ours &ours() noexcept { return ours_; }

  using Placement = Views::Placement;
  [[nodiscard]] Errc map(std::uint32_t segment, Placement placement, std::byte **view) noexcept;
  [[nodiscard]] Errc unmap(std::uint32_t segment) noexcept;
  // With a level below, for the process's other mode. vacate(): the views are as if never used,
  // whatever stands at their addresses from now on; remap(): they stand there again. Both REQUIRE
  // that no instance runs; between them the engine runs none.
  void vacate() noexcept {
    touching_.first_touch.vacate();
    transaction_.publish_size();
  }
  [[nodiscard]] Errc remap() noexcept { return mine_.views.remap(); }
  // Pages that this process has taken from the level below and not lost since, the last ones first,
  // at most `count_max`.
  template <class Visit>
  void visit_taken(std::size_t count_max, Visit visit) noexcept {
    const PageList &pages = mine_.residents.pages();
    for (std::size_t i = pages.size(); i > 0 && count_max > 0; --i, --count_max)
      if ((mine_.views.local(pages[i - 1]).lists & kResident) != 0) visit(pages[i - 1]);
  }

  // Records every instance that commits from here on, for tmh skew, in a file of the domain's
  // folder. kDiskFull, kIo, kPermission, kOutOfMemory: it has left the domain, as by
  // detach(). REQUIRES: start() with tracking that keeps no pages.
  [[nodiscard]] Errc record_skew(std::uint32_t slot) noexcept;
  // Null: nothing is recorded.
  [[nodiscard]] observe::SkewRecorder *recorder() const noexcept { return recorder_.get(); }
  // In modes that keep pages mapped: the next instance's read set is exact. REQUIRES that none
  // runs.
  void forget_kept() noexcept { mine_.views.drop_all(); }
  [[nodiscard]] const KeepPolicy &keeping() const noexcept { return mine_.keeping; }

  // Collects versions and reaps the dead; returns versions still held.
  std::uint64_t collect() noexcept;
  // Leaves the domain: everything that can go home goes; the participant's slot is free afterwards.
  void detach() noexcept;

  // For work of the hierarchy under the domain lock; by any thread of this process, not in a
  // handler.
  DomainLock::Held lock_domain() noexcept { return ours_.lock.take(DomainLock::Context::kHandler); }

 private:
  const Detection detection_;
  Ours ours_;
  Mine mine_;
  Touching touching_;
  Transaction transaction_;
  // Null: nothing is recorded.
  std::unique_ptr<observe::SkewRecorder> recorder_;
};

}  // namespace tmh::page
