// levels/page/views/page_lists.h -- the pages that one engine has touched, listed by what must be
// done with them, and the twins of its private copies.
// Shape:     LocalPage::lists says in which of them a page is.
// Contexts:  async-signal-safe: the fault handler appends.
#pragma once

#include "levels/page/views/local_pages.h"

namespace tmh::page {

struct PageLists {
  // Pages that are kFile, kPrivate, kReadOnly or kClean: the read set (a superset when pages are
  // kept).
  PageList kept;
  // Of these, kPrivate.
  PageList privates;
  // Touched silently in this instance, not yet classified.
  PageList fresh;
  // Under snapshot isolation: that the kernel has copied from home for this instance.
  PageList copied;
  // kClean, and brought up to date: to be armed again.
  PageList replayed;
  // kClean, and replayed so often since their last own store that keeping them costs more than it
  // saves.
  PageList useless;
  // That an end is about to drop.
  PageList evicted;
  // Escalated signal tracking: first pages of blocks opened for writing, each with its number of
  // pages.
  PageList blocks;
  // Made private as of before what the level below has changed: no log entry will ever bring them
  // up to date.
  PageList undone;
  // No disk block for the page: anonymous memory stands there until the instance ends.
  PageList standing_in;
  // With a level below: pages that are or were kResident.
  PageList resident;
  Twins twins;
  // Pages for which is_own_copy() holds.
  std::size_t copies = 0;

  // Pages of memory.
  [[nodiscard]] std::size_t own_pages() const noexcept { return copies + twins.in_use(); }
  // Address space for all of it.
  [[nodiscard]] Errc reserve() noexcept {
    for (PageList *list : {&kept, &privates, &fresh, &copied, &replayed, &useless, &evicted,
                           &blocks, &undone, &standing_in, &resident}) {
      if (const Errc error = list->reserve(); error != Errc::kOk) return error;
    }
    return twins.reserve();
  }
};

}  // namespace tmh::page
