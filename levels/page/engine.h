// levels/page/engine.h -- level 2 of one participant: runs instances at page granularity on the
// participant's views of one domain.
// Shape:     view = MAP_PRIVATE over home. The kernel resolves first touches (kernel tracking) or
//            raises SIGSEGV (signal tracking, and pages whose home is not what the snapshot reads).
//            Private copies are compared with a clean twin at end; the differing lines become
//            versions, which go home when no snapshot needs the older content.
// Invariant: during an instance with snapshot s, every page of a view is
//              kPrivate/kReadOnly: state(s) plus own stores;   kFile, and kAbsent under kernel
//              tracking: home holds state(s); kGuarded, and kAbsent under signal tracking: not
//                        accessible, made state(s) at the touch.
//            Hence every load, in doomed instances too, sees state(s) or the instance's own stores.
// Ordering:  see consistency_tree.h for pins and clock.
// Sharing:   one Engine per participant: one per process and domain, and one per thread with views
//            of its own. One thread at a time (the hierarchy serialises), the fault handler on that
//            thread.
// Contexts:  touch(): in the handler. Everything else: not.
// Source:    thesis, sections 3.1 to 3.3; EXCITE-VM, section 3 (lazy detection at page level);
//            docs/mechanisms.md, "What every load rests on".
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <tmh/instance.hpp>
#include <tmh/options.hpp>

#include "levels/page/access_table.h"
#include "levels/page/consistency_tree.h"
#include "levels/page/domain_lock.h"
#include "levels/page/domain_memory.h"
#include "levels/page/durable_log.h"
#include "levels/page/instance.h"
#include "levels/page/keep_policy.h"
#include "levels/page/lower_level.h"
#include "levels/page/page_sets.h"
#include "levels/page/reaper.h"
#include "levels/page/snapshot.h"
#include "levels/page/stand_ins.h"
#include "levels/page/touch_tracker.h"
#include "levels/page/tracking_choice.h"
#include "levels/page/turn.h"
#include "levels/page/views.h"
#include "platform/fault_handler.h"
#include "platform/page_tables.h"
#include "platform/process.h"
#include "platform/protection_keys.h"
#include "platform/stray_access.h"

namespace tmh::page {

class Engine;

class Engine {
 public:
  Engine(DomainMemory &memory, std::uint32_t slot, Detection detection);
  Engine(const Engine &) = delete;
  Engine &operator=(const Engine &) = delete;

  // Chooses the tracking; kTrackingUnavailable when `wanted` is not permitted, kIo without
  // descriptors, kBadTracking when it does not fit the detection. alone: no other participant is
  // alive.
  [[nodiscard]] Errc start(Tracking wanted, bool alone) noexcept;
  // Any thread.
  [[nodiscard]] const TrackingReport &tracking() const noexcept { return tracking_.report(); }

  // Durable domains: before the first instance. reads_durable_only: without early release.
  void use_log(DurableLog *log, bool reads_durable_only) noexcept {
    log_ = log;
    snapshot_.use_log(log, reads_durable_only);
  }
  // Domains with a level below: before start(). REQUIRES lazy detection.
  void use_lower(LowerLevel *lower) noexcept {
    lower_ = lower;
    views_.use_lower();
    reaper_.use_lower(lower);
    stand_ins_.use_lower(lower);
    snapshot_.use_lower(lower);
    has_lower_ = true;
  }
  [[nodiscard]] std::uint64_t snapshot() const noexcept { return snapshot_.at(); }
  [[nodiscard]] std::uint64_t line_snapshot() const noexcept { return snapshot_.line(); }
  // Had the level below changed something that the last instance has read, by then, after its
  // snapshot? Perhaps no clock moves any more for that.
  [[nodiscard]] bool has_read_behind() const noexcept { return instance_.has_read_behind; }

  using Placement = Views::Placement;
  [[nodiscard]] Errc map(std::uint32_t segment, Placement placement, std::byte **view) noexcept;
  [[nodiscard]] Errc unmap(std::uint32_t segment) noexcept;
  // With a level below, for the process's other mode. vacate(): the views are as if never used,
  // whatever stands at their addresses from now on; remap(): they stand there again. Both REQUIRE
  // that no instance runs; between them the engine runs none.
  void vacate() noexcept;
  [[nodiscard]] Errc remap() noexcept { return views_.remap(); }
  // Pages that this process has taken from the level below and not lost since, the last ones first,
  // at most `count_max`.
  template <class Visit>
  void visit_taken(std::size_t count_max, Visit visit) noexcept {
    for (std::size_t i = lists_.resident.size(); i > 0 && count_max > 0; --i, --count_max)
      if ((views_.local(lists_.resident[i - 1]).lists & kResident) != 0)
        visit(lists_.resident[i - 1]);
  }

  [[nodiscard]] Errc begin(bool is_query, std::uint64_t age, ConflictPolicy policy) noexcept;
  struct Outcome {
    Status status = Status::kAborted;
    AbortCause cause = AbortCause::kNone;
    std::uintptr_t query_wrote = 0;  // first byte stored to by a query
    Errc error = Errc::kOk;          // kNoSpace's reason
    // Committed: to acknowledge it durably, every commit up to this timestamp must be durable.
    std::uint64_t durable_at = 0;
    // the same on the clock of the level below, for what was only read
    std::uint64_t durable_line = 0;
  };
  [[nodiscard]] Outcome end(bool will_wait) noexcept;
  void abort(AbortCause cause) noexcept;
  [[nodiscard]] Status validate() noexcept;
  // False: the address belongs to no view.
  [[nodiscard]] bool advise(std::uintptr_t begin, std::uint64_t bytes, bool is_write) noexcept;
  // What the running instance has read or written so far, of which segments. In modes that keep
  // pages mapped it is exact only when none was at the begin: forget_kept() sees to that, for the
  // next instance. REQUIRES that none runs.
  using SegmentSet = page::SegmentSet;
  struct ReadSet {
    static constexpr std::size_t kPagesMax = 16;

    bool is_exact = false;
    SegmentSet segments;
    std::array<PageId, kPagesMax> pages{};
    std::size_t page_count = 0;  // more than kPagesMax: too many to list
    // With a level below: releases so far. None of these pages is among them, for the instance runs
    // yet; later they may go down, and come back changed and without a stamp.
    std::uint64_t announcements = 0;
    // Memory stood in for a page without a block. Then that may have stayed with the level below,
    // where commits move the level's own clock alone.
    bool has_stand_ins = false;
    std::uint64_t line_snapshot = 0;
  };
  [[nodiscard]] ReadSet read_set() noexcept;
  void forget_kept() noexcept { views_.drop_all(); }
  [[nodiscard]] bool running() const noexcept { return instance_.is_running; }
  [[nodiscard]] const KeepPolicy &keeping() const noexcept { return keeping_; }

  // The domain's turn to commit alone (starvation guard).
  [[nodiscard]] Turn &turn() noexcept { return turn_; }

  // From now on nobody else commits at level 2, and the running instance cannot abort, but for want
  // of disk space or memory (kNoSpace): see tmh::become_irrevocable(). Waits for another
  // irrevocable instance to end. *is_pending: false: the instance has FAILED and is as it was. An
  // error: there is no room for what it has written so far; as it was. The caller leaves the turn
  // at the instance's end.
  [[nodiscard]] Errc become_irrevocable(bool *is_pending) noexcept;
  [[nodiscard]] bool irrevocable() const noexcept { return instance_.is_irrevocable; }

  // Collects versions and reaps the dead; returns versions still held.
  std::uint64_t collect() noexcept;
  // Leaves the domain: everything that can go home goes; the participant's slot is free afterwards.
  void detach() noexcept;

  // For work of the hierarchy under the domain lock; by any thread of this process, not in a
  // handler.
  DomainLock::Held lock_domain() noexcept { return lock_.take(DomainLock::Context::kHandler); }
  [[nodiscard]] Reaper &reaper() noexcept { return reaper_; }

  [[nodiscard]] ConsistencyTree &tree() noexcept { return tree_; }
  [[nodiscard]] DomainMemory &memory() noexcept { return memory_; }
  [[nodiscard]] std::uint64_t begin_age() noexcept {
    return memory_.state().age_next.fetch_add(1, std::memory_order_relaxed);
  }

 private:
  // engine.cpp: life
  [[nodiscard]] storage::Participant &self() const noexcept { return own_; }
  [[nodiscard]] Errc give_up_kernel_tracking() noexcept;
  [[nodiscard]] bool silent() const noexcept { return tracking_.is_silent(); }
  [[nodiscard]] bool keeps() const noexcept { return tracking_.keeps(); }
  [[nodiscard]] bool eager() const noexcept { return detection_ == Detection::kEager; }
  // engine_touch.cpp, engine_open.cpp: first touches
  static void report_stray(const View &view, const platform::Fault &fault,
                           platform::StrayCause cause) noexcept;
  static platform::FaultAnswer on_fault(void *context, const platform::Fault &fault) noexcept;
  [[nodiscard]] bool touch(View &view, PageId page, bool is_write) noexcept;
  void touch_guarded(View &view, PageId page) noexcept;
  [[nodiscard]] bool take_from_below(const DomainLock::Held &held, PageId page) noexcept;
  void take_ahead(const DomainLock::Held &held, View &view, PageId page) noexcept;
  void prepare_ahead(const View &view, PageId page) noexcept;
  void register_access(PageId first, std::uint64_t page_count, bool is_write) noexcept;
  [[nodiscard]] bool open_page(View &view, PageId page, bool is_write) noexcept;
  [[nodiscard]] bool open_block(View &view, PageId page) noexcept;
  [[nodiscard]] bool read_versions(PageId page, std::uint32_t *twin) noexcept;
  void read_snapshot(const DomainLock::Held &held, PageId page, std::byte *to) noexcept;
  void make_private(PageId page, std::uint32_t twin) noexcept;
  [[nodiscard]] bool advice_helps(PageState state, bool is_write) const noexcept;

  // engine_end.cpp: writesets, validation, settling
  [[nodiscard]] Outcome commit_writes(bool will_wait) noexcept;
  [[nodiscard]] Errc fill_slots() noexcept;
  void plan_log() noexcept;
  // Empty: *error says why.
  [[nodiscard]] std::optional<DomainLock::Held> lock_with_log_space(storage::Lsn *log_end,
                                                                    Errc *error) noexcept;
  void sweep(const DomainLock::Held &held, std::uint64_t now_ns) noexcept;
  void count_abort(AbortCause cause) noexcept;
  void finish_instance() noexcept;
  void adapt(KeepPolicy::End end) noexcept;
  // A level below: first touches that follow each other take pages ahead, see take_ahead(). At most
  // 32: about 50 us under the domain lock.
  static constexpr std::uint64_t kAheadMin = 4, kAheadMax = 32;
  // So far apart they still follow each other: pages in between are open already, or were not free.
  static constexpr std::uint64_t kAheadGap = 16;

  DomainMemory &memory_;
  const std::uint32_t slot_;
  // The slot's record.
  storage::Participant &own_;
  Instance instance_;
  const Detection detection_;
  ConsistencyTree tree_;
  AccessTable accesses_;
  Reaper reaper_;
  DomainLock lock_;
  Turn turn_;
  DurableLog *log_ = nullptr;  // durable domains only
  LowerLevel *lower_ = &NoLevelBelow::here();
  // Asked where the hot paths would otherwise call *lower_.
  bool has_lower_ = false;
  TrackingChoice tracking_;
  PageLists lists_;
  Views views_;
  PageSets sets_;
  KeepPolicy keeping_;
  StandIns stand_ins_;
  TouchTracker touches_;
  Snapshot snapshot_;

  PageId ahead_last_{0};     // the first touch of a closed page before
  PageId ahead_end_{0};      // behind the pages that were looked at then
  std::uint64_t ahead_ = 0;  // pages to take ahead
  std::uint64_t next_sweep_ns_ = 0;
  std::uint32_t fork_generation_ = platform::fork_generation();
};

}  // namespace tmh::page
