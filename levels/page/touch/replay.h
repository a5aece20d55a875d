// levels/page/touch/replay.h -- brings this process's watched copies (PageState::kClean) to the
// present: what others have committed to them is copied into them, line by line, and no page table
// entry moves.
// Shape:     under the domain lock the lines are gathered in memory of the engine's own; behind it
//            they are stored to the views. A store to a watched page faults inside the kernel, so
//            the pages are armed again.
// Contexts:  begins, and an instance that moves to the present; not the handler.
// Source:    EXCITE-VM, sections 3.2 and 4.2 (logs of differences replayed into a page cache). We
//            differ: what is copied are bytes, where it adds differences of words.
#pragma once

#include <array>
#include <cstdint>

#include <tmh/error.hpp>

#include "levels/page/shared/shared.h"
#include "levels/page/versions/versions.h"
#include "levels/page/views/views.h"
#include "platform/try.h"

namespace tmh::page {

class Replay {
 public:
  // All outlive it.
  Replay(const ConsistencyTree &tree, Mine &mine) noexcept : tree_(tree), mine_(mine) {}

  // Address space.
  [[nodiscard]] Errc reserve() noexcept {
    TMH_TRY(replayed_.reserve());
    return gathered_.reserve(kPagesMax * kPageBytes);
  }
  // The page's copy shall have these lines as they are committed now.
  void gather(const DomainLock::Held &held, PageId page, LineMask lines) noexcept;
  // Before an instance reads them. REQUIRES: what the running instance has touched is collected;
  // the views are open to the engine.
  void finish() noexcept {
    if (count_ != 0 || !replayed_.empty()) store_and_arm();
  }

 private:
  // Begins that follow more than so many commits store the rest under the lock.
  static constexpr std::size_t kPagesMax = 64;

  void store_and_arm() noexcept;
  void count(PageId page) noexcept;

  const ConsistencyTree &tree_;
  Mine &mine_;
  // kClean, and brought up to date: to be armed again.
  PageList replayed_;
  ReservedArray gathered_;
  std::size_t count_ = 0;
  std::array<PageId, kPagesMax> pages_;
  std::array<LineMask, kPagesMax> lines_;
};

}  // namespace tmh::page
