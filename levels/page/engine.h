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
#include <bitset>
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
#include "levels/page/local_pages.h"
#include "levels/page/lower_level.h"
#include "platform/fault_handler.h"
#include "platform/fault_ring.h"
#include "platform/page_tables.h"
#include "platform/process.h"
#include "platform/protection_keys.h"
#include "platform/stray_access.h"

namespace tmh::page {

class Engine;

// One segment mapped in this process. Never moves: the fault handler holds its address.
struct View {
  Engine *engine = nullptr;
  std::uint32_t segment = 0;
  std::string name;  // for messages
  std::byte *base = nullptr;
  std::uint64_t bytes = 0;
  LocalPage *pages = nullptr;
  ReservedArray pages_memory;
  // with a level below: a byte per block, 0 or Engine::kAllOfIt, kPageByPage
  ReservedArray open_blocks;
};

class Engine : private DomainLock::Heir {
 public:
  Engine(DomainMemory &memory, std::uint32_t slot, Detection detection);
  ~Engine() override;
  Engine(const Engine &) = delete;
  Engine &operator=(const Engine &) = delete;

  // Chooses the tracking; kTrackingUnavailable when `wanted` is not permitted, kIo without
  // descriptors, kBadTracking when it does not fit the detection. alone: no other participant is
  // alive.
  [[nodiscard]] Errc start(Tracking wanted, bool alone) noexcept;
  // Any thread. acquire: pairs with the release in give_up_kernel_tracking()
  [[nodiscard]] const TrackingReport &tracking() const noexcept {
    return *report_.load(std::memory_order_acquire);
  }

  // Durable domains: before the first instance. reads_durable_only: without early release.
  void use_log(DurableLog *log, bool reads_durable_only) noexcept {
    log_ = log;
    reads_durable_only_ = reads_durable_only;
  }
  // Domains with a level below: before start(). REQUIRES lazy detection.
  void use_lower(LowerLevel *lower) noexcept {
    lower_ = lower;
    has_lower_ = true;
  }
  [[nodiscard]] std::uint64_t snapshot() const noexcept { return snapshot_; }
  [[nodiscard]] std::uint64_t line_snapshot() const noexcept { return line_snapshot_; }
  // Had the level below changed something that the last instance has read, by then, after its
  // snapshot? Perhaps no clock moves any more for that.
  [[nodiscard]] bool has_read_behind() const noexcept { return read_behind_; }

  // kCommon: at the address that the segment has in every process; kAnywhere: where there is room.
  enum class Placement : std::uint8_t { kCommon, kAnywhere };
  [[nodiscard]] Errc map(std::uint32_t segment, Placement placement, std::byte **view) noexcept;
  [[nodiscard]] Errc unmap(std::uint32_t segment) noexcept;
  // With a level below, for the process's other mode. vacate(): the views are as if never used,
  // whatever stands at their addresses from now on; remap(): they stand there again. Both REQUIRE
  // that no instance runs; between them the engine runs none.
  void vacate() noexcept;
  [[nodiscard]] Errc remap() noexcept;
  // Pages that this process has taken from the level below and not lost since, the last ones first,
  // at most `count_max`.
  template <class Visit>
  void visit_taken(std::size_t count_max, Visit visit) noexcept {
    for (std::size_t i = resident_.size(); i > 0 && count_max > 0; --i, --count_max)
      if ((local(resident_[i - 1]).lists & kResident) != 0) visit(resident_[i - 1]);
  }
  [[nodiscard]] const View *view_of(std::uintptr_t address) noexcept;

  // Before begin(): shall the next instance abort where it would take a page that the level below
  // has used?
  void give_way(bool gives_way) noexcept { gives_way_ = gives_way; }
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
  using SegmentSet = std::bitset<storage::kSegmentsMax>;
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
  void forget_kept() noexcept { drop_all(); }
  [[nodiscard]] bool running() const noexcept { return running_; }
  // The last instances touched no page for the first time.
  [[nodiscard]] bool is_steady() const noexcept { return steady_ends_ >= kSteadyEnds; }

  // Waits for, takes and leaves the domain's turn to commit alone (starvation guard).
  void take_turn() noexcept;
  void leave_turn() noexcept;

  // From now on nobody else commits at level 2, and the running instance cannot abort, but for want
  // of disk space or memory (kNoSpace): see tmh::become_irrevocable(). Waits for another
  // irrevocable instance to end. *is_pending: false: the instance has FAILED and is as it was. An
  // error: there is no room for what it has written so far; as it was. The caller leaves the turn
  // at the instance's end.
  [[nodiscard]] Errc become_irrevocable(bool *is_pending) noexcept;
  [[nodiscard]] bool irrevocable() const noexcept { return irrevocable_; }

  // Collects versions and reaps the dead; returns versions still held.
  std::uint64_t collect() noexcept;
  // Leaves the domain: everything that can go home goes; the participant's slot is free afterwards.
  void detach() noexcept;

  // For work of the hierarchy under the domain lock; by any thread of this process, not in a
  // handler.
  DomainLock::Held lock_domain() noexcept { return lock_.take(DomainLock::Context::kHandler); }
  // Cleans up after participants that have died.
  void reap_dead(const DomainLock::Held &held) noexcept;

  [[nodiscard]] ConsistencyTree &tree() noexcept { return tree_; }
  [[nodiscard]] DomainMemory &memory() noexcept { return memory_; }
  [[nodiscard]] std::uint64_t begin_age() noexcept {
    return memory_.state().age_next.fetch_add(1, std::memory_order_relaxed);
  }

 private:
  // engine.cpp: life, lock, reaping
  void mend(const DomainLock::Held &held, DomainLock::Context context,
            platform::Locked how) noexcept override;
  static bool slot_alive(void *context, std::uint32_t slot) noexcept;
  void reap(const DomainLock::Held &held, std::uint32_t slot) noexcept;
  void finish_reaping(const DomainLock::Held &held, std::uint32_t wanted) noexcept;
  void count_reaped(const DomainLock::Held &held, std::uint32_t slot) noexcept;
  void reap_suspects(const DomainLock::Held &held, std::uint64_t now_ns) noexcept;
  [[nodiscard]] storage::Participant &self() const noexcept { return own_; }
  [[nodiscard]] Errc choose_tracking(Tracking wanted) noexcept;
  [[nodiscard]] Errc open_kernel_tracking() noexcept;
  [[nodiscard]] Errc try_guards() noexcept;
  [[nodiscard]] Errc open_ring() noexcept;
  [[nodiscard]] Errc give_up_kernel_tracking() noexcept;
  [[nodiscard]] bool silent() const noexcept {
    return kind_ == Tracking::kKernel || kind_ == Tracking::kKernelHot;
  }
  [[nodiscard]] bool keeps() const noexcept {
    return kind_ == Tracking::kSignalHot || kind_ == Tracking::kKernelHot;
  }
  [[nodiscard]] bool eager() const noexcept { return detection_ == Detection::kEager; }
  // By others, under the domain lock: eager policies, level 1's abort-upper, tmh kill-stuck.
  // acquire: pairs with their release.
  [[nodiscard]] bool was_failed() const noexcept {
    return self().failed_instance.load(std::memory_order_acquire) == instance_;
  }

  // engine_touch.cpp, engine_open.cpp: first touches
  void set_access(platform::KeyAccess access) const noexcept {
    if (key_ != platform::kNoKey) platform::set_key_access(key_, access);
  }
  static void report_stray(const View &view, const platform::Fault &fault,
                           platform::StrayCause cause) noexcept;
  static platform::FaultAnswer on_fault(void *context, const platform::Fault &fault) noexcept;
  [[nodiscard]] bool touch(View &view, PageId page, bool is_write) noexcept;
  // engine_hole.cpp: pages without disk blocks
  [[nodiscard]] bool touch_hole(View &view, PageId page) noexcept;
  [[nodiscard]] bool stands_in_for_closed(PageId page) noexcept;
  [[nodiscard]] bool stands_aside(PageId page) noexcept;
  void stand_in(PageId page, const std::byte *content, Errc why) noexcept;
  void stand_down(PageId page) noexcept;
  void touch_guarded(View &view, PageId page) noexcept;
  [[nodiscard]] bool is_closed(const LocalPage &page) const noexcept;
  [[nodiscard]] bool take_from_below(const DomainLock::Held &held, PageId page) noexcept;
  [[nodiscard]] bool extend(const DomainLock::Held &held) noexcept;
  void note_segments() noexcept;
  [[nodiscard]] bool knows_too_little(const DomainLock::Held &held) const noexcept;
  [[nodiscard]] bool may_see_now(const DomainLock::Held &held) const noexcept;
  void open_closed(View &view, PageId page, std::uint64_t page_count) noexcept;
  [[nodiscard]] bool is_in_use(const View &view, std::uint64_t index) const noexcept;
  [[nodiscard]] std::uint64_t end_of_unused(const View &view, std::uint64_t first,
                                            std::uint64_t end) const noexcept;
  [[nodiscard]] bool open_blocks(View &view, std::uint64_t first, std::uint64_t behind) noexcept;
  [[nodiscard]] bool open_block_without_area(View &view, std::uint64_t block) noexcept;
  void take_ahead(const DomainLock::Held &held, View &view, PageId page) noexcept;
  void prepare_ahead(const View &view, PageId page) noexcept;
  void register_access(PageId first, std::uint64_t page_count, bool is_write) noexcept;
  void fail_instance(AbortCause cause, Errc error = Errc::kOk) noexcept;
  void list_as(PageId page, PageState state) noexcept;
  [[nodiscard]] bool open_page(View &view, PageId page, bool is_write) noexcept;
  [[nodiscard]] bool open_block(View &view, PageId page) noexcept;
  [[nodiscard]] bool close_tail(const View &view, std::uint64_t usable) const noexcept;
  void protect_stand_ins() noexcept;
  [[nodiscard]] bool needs_versions(PageId page) const noexcept;
  [[nodiscard]] bool read_versions(PageId page, std::uint32_t *twin) noexcept;
  void read_snapshot(const DomainLock::Held &held, PageId page, std::byte *to) noexcept;
  void make_private(PageId page, std::uint32_t twin) noexcept;
  [[nodiscard]] std::uint64_t block_pages() const noexcept;
  void collect_touched() noexcept;
  void classify(PageList &list) noexcept;
  [[nodiscard]] bool advice_helps(PageState state, bool is_write) const noexcept;
  void populate(PageId first, std::uint64_t page_count, bool is_write) noexcept;
  void scan_views() noexcept;
  void note_page(PageId page, platform::PageKind kind) noexcept;

  // engine_begin.cpp: snapshots
  [[nodiscard]] bool pin_without_lock() noexcept;
  [[nodiscard]] bool views_stand() noexcept;
  [[nodiscard]] bool foreign_commits_are_elsewhere(std::uint64_t clock,
                                                   std::uint64_t *position) noexcept;
  void discard_outside_touches() noexcept;
  void pull(const DomainLock::Held &held) noexcept;
  void follow_releases(const DomainLock::Held &held) noexcept;
  void refresh(const DomainLock::Held &held, const CommitLogEntry &entry) noexcept;
  void guard_pending(const DomainLock::Held &held, std::uint32_t segment_or_all) noexcept;
  void drop_all() noexcept;
  void drop_page(PageId page) noexcept { drop_run(page, 1); }
  void drop_run(PageId first, std::uint64_t page_count) noexcept;
  void drop_spans() noexcept;
  void discard(PageId first, std::uint64_t page_count) noexcept;
  void map_anew(PageId page) noexcept;
  void remove_guards(PageId first, std::uint64_t page_count) noexcept;
  [[nodiscard]] bool opens_silently(PageId page) const noexcept;
  void close_views() noexcept;
  void guard(PageId page) noexcept;
  void lose(PageId page) noexcept;
  static constexpr std::uint32_t kAllSegments = ~0u;
  void lose_all(std::uint32_t segment_or_all) noexcept;
  void announce_snapshot(std::uint64_t clock) noexcept;

  // engine_end.cpp: writesets, validation, settling
  [[nodiscard]] Errc find_writes() noexcept;  // kOutOfMemory: not all of them
  [[nodiscard]] bool is_valid(const DomainLock::Held &held) noexcept;
  [[nodiscard]] Outcome commit_writes(bool will_wait) noexcept;
  [[nodiscard]] Errc allocate_blocks() noexcept;
  [[nodiscard]] Errc fill_slots() noexcept;
  void plan_log() noexcept;
  // Empty: *error says why.
  [[nodiscard]] std::optional<DomainLock::Held> lock_with_log_space(storage::Lsn *log_end,
                                                                    Errc *error) noexcept;
  DomainLock::Held lock_when_turn_allows() noexcept;
  void wait_for_turn(std::uint32_t turn) noexcept;
  void take_turn_for_good() noexcept;
  void sweep(const DomainLock::Held &held, std::uint64_t now_ns) noexcept;
  void settle_committed() noexcept;
  [[nodiscard]] std::uintptr_t first_difference(const Write &write) const noexcept;
  void settle_private() noexcept;
  [[nodiscard]] bool stays_private(PageId page) noexcept;
  // Coarse time in ends of instances, 1 to 255, wrapping: pages written again within two epochs are
  // hot.
  [[nodiscard]] std::uint8_t epoch() const noexcept {
    return static_cast<std::uint8_t>(instance_ / 16 % 255 + 1);
  }
  void roll_back() noexcept;
  void count_abort(AbortCause cause) noexcept;
  void finish_instance() noexcept;
  void adapt(bool conflicted) noexcept;
  [[nodiscard]] std::byte *clean_copy(PageId page, const LocalPage &local) const noexcept;
  [[nodiscard]] LocalPage &local(PageId page) const noexcept {
    return views_[storage::segment_number(page)]
        .pages[static_cast<std::uint64_t>(storage::page_index(page))];
  }
  [[nodiscard]] std::byte *address_of(PageId page) const noexcept {
    return views_[storage::segment_number(page)].base + storage::page_offset(page);
  }
  [[nodiscard]] bool is_mapped(PageId page) const noexcept {
    return views_[storage::segment_number(page)].base != nullptr;
  }

  // protections_ after which signal tracking works in blocks of 16, 256, 4096 pages; see
  // block_pages()
  static constexpr std::uint64_t kBlocksAfter = 12288, kMediumBlocksAfter = 18432,
                                 kLargeBlocksAfter = 24576;

  // A level below: first touches that follow each other take pages ahead, see take_ahead(). At most
  // 32: about 50 us under the domain lock.
  static constexpr std::uint64_t kAheadMin = 4, kAheadMax = 32;
  // So far apart they still follow each other: pages in between are open already, or were not free.
  static constexpr std::uint64_t kAheadGap = 16;

  // relaxed: divides the number of areas roughly
  static inline std::atomic<std::uint32_t> engines_here_{0};

  // Following the log page by page costs more than starting again beyond this many entries.
  static constexpr std::uint64_t kFollowMax = 1u << 16;

  static constexpr std::uint64_t kBlockPages = 512;  // one page table
  // In View::open_blocks: the block is accessible but for guards; its pages are opened one by one,
  // and not guarded but inaccessible otherwise.
  static constexpr std::byte kAllOfIt{1}, kPageByPage{2};
  static constexpr PageId kNoHole{~0ull};
  // give_way(): pages of one instance that stay below. Each costs an area of the address space, and
  // the instance has failed with the first.
  static constexpr std::size_t kAsideMax = 64;
  // one may be chance; a short hot phase should gain, too
  static constexpr std::uint32_t kSteadyEnds = 2;

  DomainMemory &memory_;
  const std::uint32_t slot_;
  storage::Participant &own_;  // the slot's record
  DomainLock lock_;
  const Detection detection_;
  // of the views: open to the thread that runs an instance, to a query for loads; kNoKey: always
  // open
  const int key_;
  ConsistencyTree tree_;
  AccessTable accesses_;
  DurableLog *log_ = nullptr;  // durable domains only
  LowerLevel *lower_ = &NoLevelBelow::here();
  // Asked where the hot paths would otherwise call *lower_.
  bool has_lower_ = false;
  TrackingReport tracking_, later_tracking_;
  std::atomic<const TrackingReport *> report_{&tracking_};
  Tracking kind_ = Tracking::kAuto;  // *report_'s; of the runner
  bool chose_freely_ = false;        // nobody has asked for kind_
  platform::FaultAroundSwitch fault_around_;
  platform::PageMap page_map_;
  std::unique_ptr<View[]> views_;
  std::vector<std::uint32_t> mapped_;  // segment numbers
  std::uintptr_t last_begin_ = 0;      // the view found last: most look-ups repeat
  std::uint64_t last_bytes_ = 0;
  const View *last_view_ = nullptr;

  // pages that are kFile, kPrivate or kReadOnly: the read set (superset when pages are kept)
  PageList kept_;
  PageList private_;  // of these, kPrivate
  PageList fresh_;    // touched silently in this instance, not yet classified
  PageList blocks_;   // escalated signal tracking: first pages of blocks opened for writing
  // made private as of before what the level below has changed: no log entry will ever bring them
  // up to date
  PageList undone_;
  // no disk block for the page: anonymous memory stands there until the instance ends
  PageList standing_in_;
  PageList resident_;  // with a level below: pages that are or were kResident
  Twins twins_;
  std::vector<Write> writes_;

  std::uint64_t snapshot_ = 0;       // of the running instance
  std::uint64_t line_snapshot_ = 0;  // the same on the clock of the level below
  std::uint64_t synced_ = 0;         // clock at which the views stand
  // in the commit log: entries before it are stamped <= synced_
  std::uint64_t synced_position_ = 0;
  // >= synced_: clock at which the kept pages stand; others may need a guard yet
  std::uint64_t kept_synced_ = 0;
  std::uint64_t instance_ = 0;
  std::uint64_t protections_ = 0;  // VMA-splitting calls since the views were last reset
  PageId ahead_last_{0};           // the first touch of a closed page before
  PageId ahead_end_{0};            // behind the pages that were looked at then
  std::uint64_t ahead_ = 0;        // pages to take ahead
  std::uint32_t steady_ends_ = 0;  // in a row, without a first touch
  std::uint64_t quiet_ends_ = 0;   // since the last drop of kept pages
  std::uint64_t keep_period_ = 1024;
  std::uint32_t calm_commits_ = 0;
  // relaxed: a hint; lock_domain() comes from other threads
  std::atomic<std::uint64_t> next_reap_ns_{0};
  std::uint64_t next_sweep_ns_ = 0;
  std::uintptr_t query_wrote_ = 0;
  ConflictPolicy policy_ = ConflictPolicy::kOldestWins;
  bool running_ = false;
  bool query_ = false;
  bool irrevocable_ = false;
  bool gives_way_ = false;  // see give_way()
  bool began_with_kept_ = false;
  bool read_everything_ = false;  // the fault ring overflowed: any foreign commit is a conflict
  bool any_protected_ = false;    // some guard is a protected page, see guard()
  bool read_behind_ = false;      // see has_read_behind()
  // signal tracking: a dropped page is accessible still, see drop_run()
  bool is_left_open_ = false;
  bool reads_durable_only_ = false;  // a snapshot moves on only to what is durable
  bool failed_ = false;              // eager: own policy or lack of space
  AbortCause failed_cause_ = AbortCause::kNone;
  Errc failed_error_ = Errc::kOk;    // kNoSpace's reason
  PageId hole_ = kNoHole;            // touched last where there was no block
  std::byte unchanged_[kPageBytes];  // stands_in_for_closed()'s: a handler's stack is small
  bool resync_needed_ = true;
  std::uint64_t repairs_seen_ = 0;
  // a page lost its guard while it had a version: the log since synced_ tells
  bool follow_needed_ = false;
  std::uint32_t fork_generation_ = platform::fork_generation();
  SegmentSet known_;  // segments that there were at the begin, as of the domain's generation
  std::uint32_t known_generation_ = 0;
};

}  // namespace tmh::page
