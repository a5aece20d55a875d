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
#include "levels/page/versions/versions.h"
#include "levels/page/views/views.h"
#include "platform/assert.h"

namespace tmh::page {

class PageMaker {
 public:
  // All outlive it.
  PageMaker(Ours &ours, Mine &mine, StandIns &stand_ins, Snapshot &snapshot) noexcept
      : ours_(ours), mine_(mine), stand_ins_(stand_ins), snapshot_(snapshot) {}

  // True when home is not what the snapshot reads: *twin then holds the page, unless there is no
  // twin left. With a level below the page is taken from it.
  [[nodiscard]] bool make(PageId page, std::uint32_t *twin) noexcept;
  // Is home perhaps not what the snapshot reads, so that make() must look?
  [[nodiscard]] bool may_differ(PageId page) const noexcept {
    return mine_.instance.reads_past() || mine_.views.is_closed(mine_.views.local(page)) ||
           ours_.tree.may_have_version(page);
  }
  // The page becomes this process's own copy of state(snapshot), which `twin`, of make(), holds.
  // REQUIRES: writable mapping.
  void install(PageId page, std::uint32_t twin) noexcept;

 private:
  [[nodiscard]] bool take_from_below(const DomainLock::Held &held, PageId page) noexcept;
  [[nodiscard]] bool differs(const DomainLock::Held &held, PageId page) const noexcept;
  void read_snapshot(const DomainLock::Held &held, PageId page, std::byte *to) noexcept;

  Ours &ours_;
  Mine &mine_;
  StandIns &stand_ins_;
  Snapshot &snapshot_;
};

}  // namespace tmh::page
