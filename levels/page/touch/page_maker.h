// levels/page/touch/page_maker.h -- pages whose home is not what the snapshot reads: made of home
// and versions, or of what the level below remembers, into a private copy.
// Contexts:  the handler. Reaches: SharedLock (atomics, futex), ConsistencyTree::has_version/read,
//            Recaller; StandIns' calls; madvise.
// Source:    thesis, section 3.3, Invariant 1.
#pragma once

#include <cstddef>
#include <cstdint>

#include "levels/page/shared/shared.h"
#include "levels/page/touch/snapshot.h"
#include "levels/page/touch/stand_ins.h"
#include "levels/page/touch/touch_tracker.h"
#include "levels/page/versions/versions.h"
#include "levels/page/views/views.h"
#include "platform/assert.h"

namespace tmh::page {

class PageMaker {
 public:
  // All outlive it.
  PageMaker(SharedFiles &memory, DomainLock &lock, const ConsistencyTree &tree, Views &views,
            PageLists &lists, StandIns &stand_ins, TouchTracker &touches, Snapshot &snapshot,
            Instance &instance) noexcept
      : memory_(memory),
        lock_(lock),
        tree_(tree),
        views_(views),
        lists_(lists),
        stand_ins_(stand_ins),
        touches_(touches),
        snapshot_(snapshot),
        instance_(instance) {}

  void use_recaller(Recaller *recaller) noexcept {
    TMH_ASSERT(recaller != nullptr);
    recaller_ = recaller;
    has_lower_ = true;
  }

  // True when home is not what the snapshot reads: *twin then holds the page, unless there is no
  // twin left. With a level below the page is taken from it.
  [[nodiscard]] bool make(PageId page, std::uint32_t *twin) noexcept;
  // Is home perhaps not what the snapshot reads, so that make() must look?
  [[nodiscard]] bool may_differ(PageId page) const noexcept {
    return instance_.reads_past() || views_.is_closed(views_.local(page)) ||
           tree_.may_have_version(page);
  }
  // The page becomes this process's own copy of state(snapshot), which `twin`, of make(), holds.
  // REQUIRES: writable mapping.
  void install(PageId page, std::uint32_t twin) noexcept;

 private:
  [[nodiscard]] bool take_from_below(const DomainLock::Held &held, PageId page) noexcept;
  [[nodiscard]] bool differs(const DomainLock::Held &held, PageId page) const noexcept;
  void read_snapshot(const DomainLock::Held &held, PageId page, std::byte *to) noexcept;

  SharedFiles &memory_;
  DomainLock &lock_;
  const ConsistencyTree &tree_;
  Views &views_;
  PageLists &lists_;
  StandIns &stand_ins_;
  TouchTracker &touches_;
  Snapshot &snapshot_;
  Instance &instance_;
  Recaller *recaller_ = &NothingToRecall::here();
  // Asked where *recaller_ would otherwise be called for nothing.
  bool has_lower_ = false;
};

}  // namespace tmh::page
