// levels/page/touch/run_ahead.h -- pages that are taken from the level below ahead of their first
// touch, where an instance touches one closed page after another and pays a signal for each.
// Shape:     remembers the last touch of a closed page. When the next one follows it in memory it
//            takes a run of pages at once, which doubles as long as they do.
// Contexts:  the handler. Reaches: Recaller, OpenBlocks.
#pragma once

#include <cstdint>

#include "levels/page/shared/shared.h"
#include "levels/page/touch/snapshot.h"
#include "levels/page/versions/versions.h"
#include "levels/page/views/views.h"
#include "platform/assert.h"

namespace tmh::page {

class RunAhead {
 public:
  // All outlive it.
  RunAhead(Ours &ours, Mine &mine, Snapshot &snapshot) noexcept
      : ours_(ours), mine_(mine), snapshot_(snapshot) {}

  // A closed page has been touched first, and taken; home is what the snapshot reads there.
  void follow(View &view, PageId page) noexcept;
  // The views are as if never used.
  void forget() noexcept { length_ = 0; }

 private:
  // At most 32: about 50 us under the domain lock.
  static constexpr std::uint64_t kLengthMin = 4, kLengthMax = 32;
  // So far apart they still follow each other: pages in between are open already, or were not free.
  static constexpr std::uint64_t kGap = 16;

  void prepare(const View &view, PageId page) noexcept;
  void take(const DomainLock::Held &held, View &view, PageId page) noexcept;
  [[nodiscard]] bool take_one(const DomainLock::Held &held, PageId page) noexcept;

  Ours &ours_;
  Mine &mine_;
  Snapshot &snapshot_;
  // The first touch of a closed page before.
  PageId last_{0};
  // Behind the pages that were looked at then.
  PageId end_{0};
  // Pages to take ahead.
  std::uint64_t length_ = 0;
};

}  // namespace tmh::page
