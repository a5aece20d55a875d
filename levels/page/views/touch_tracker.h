// levels/page/views/touch_tracker.h -- which pages the running instance has touched: found in the
// thread's fault ring and the page tables, or told by the fault handler.
// Shape:     fills KeptPages. Silent tracking: the ring lists first touches, the
//            page tables tell stores. Signal tracking: each touch is told, but in blocks that are
//            open altogether.
// Contexts:  the handler: list(). Everything else: not, but for snapshots that move on at a touch.
// Source:    thesis, sections 3.1 (figure 3-1) and 3.3.
#pragma once

#include <cstdint>

#include "levels/page/shared/shared.h"
#include "levels/page/views/engine_thread.h"
#include "levels/page/views/instance.h"
#include "levels/page/views/keep_policy.h"
#include "levels/page/views/kept_pages.h"
#include "levels/page/views/segment_views.h"
#include "levels/page/views/tracking_choice.h"
#include "platform/page_tables.h"
#include "platform/try.h"

namespace tmh::page {

class TouchTracker {
 public:
  // All outlive it.
  TouchTracker(SharedState &memory, TrackingChoice &tracking, Views &views, KeptPages &kept,
               KeepPolicy &keeping, Instance &instance) noexcept
      : memory_(memory),
        tracking_(tracking),
        views_(views),
        kept_(kept),
        keeping_(keeping),
        instance_(instance) {}

  // Address space.
  [[nodiscard]] Errc reserve() noexcept {
    TMH_TRY(fresh_.reserve());
    TMH_TRY(copied_.reserve());
    return undone_.reserve();
  }

  // The page is in this state from here on: kFile or kPrivate.
  void list(PageId page, PageState state) noexcept;
  // Lists every page that the instance has touched so far.
  void collect() noexcept {
    if (tracking_.is_silent())
      collect_new(thread_ring());
    else if (kept_.has_blocks())
      collect_blocks();
  }
  // Do pages that the running instance writes once in a while stay, as kClean? Under snapshot
  // isolation, where the kernel lists stores to them.
  [[nodiscard]] bool keeps_copies() const noexcept {
    return !instance_.is_serializable() && tracking_.is_silent() && tracking_.keeps();
  }
  // Under snapshot isolation: the pages that the kernel has copied from home for this instance.
  [[nodiscard]] const PageList &copied() const noexcept { return copied_; }
  void forget_copied() noexcept { copied_.clear(); }
  // The page has become private as of before what the level below has changed: no log entry will
  // ever bring it up to date, so it does not outlive the instance.
  void note_undone(PageId page) noexcept { undone_.push(page); }
  // The instance has ended.
  void drop_undone() noexcept {
    if (!undone_.empty()) drop_all_undone();
  }
  // What the engine itself has stored to watched pages, which are watched again, is no touch.
  // REQUIRES: what the instance has touched is collected, or none runs.
  void forget_own() noexcept;
  // Pages that this thread touched between instances: what they show belongs to no snapshot, and
  // stores to them to no instance.
  void discard_outside() noexcept;
  // Kernel tracking: one system call instead of a fault per page. The kernel does not list these
  // faults, so they are listed here.
  void populate(PageId first, std::uint64_t page_count, bool is_write) noexcept;

 private:
  void collect_new(platform::FaultRing &ring) noexcept {
    if (!ring.is_open() || !ring.empty()) collect_ring(ring);
  }
  void collect_ring(platform::FaultRing &ring) noexcept;
  void collect_blocks() noexcept;
  void drop_all_undone() noexcept;
  void classify(PageList &list) noexcept;
  void scan_views() noexcept;
  void note(PageId page, platform::PageKind kind) noexcept;

  SharedState &memory_;
  TrackingChoice &tracking_;
  Views &views_;
  KeptPages &kept_;
  KeepPolicy &keeping_;
  Instance &instance_;
  // Touched silently in this instance, not yet classified.
  PageList fresh_;
  PageList copied_;
  PageList undone_;
};

}  // namespace tmh::page
