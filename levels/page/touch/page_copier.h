// levels/page/touch/page_copier.h -- pages as the running query's snapshot has them, copied beside
// those that use them: nothing is taken from the level below, mapped, or counted as read.
// Invariant: a copy is state(snapshot). No log tells of later commits to the page, so the snapshot
//            stands still from the first copy on.
// Contexts:  NOT the handler: a copy may load pages of files.
// Source:    thesis, section 3.3, Invariant 1; hierarchy/exchange/PROTOCOL.md, "Beside level 1".
#pragma once

#include <cstddef>
#include <cstdint>

#include <tmh/error.hpp>

#include "levels/page/shared/shared.h"
#include "levels/page/touch/snapshot.h"
#include "levels/page/versions/versions.h"
#include "levels/page/views/views.h"

namespace tmh::page {

class PageCopier {
 public:
  // All outlive it.
  PageCopier(Ours &ours, Mine &mine, const Snapshot &snapshot) noexcept
      : ours_(ours), mine_(mine), snapshot_(snapshot) {}

  // kNotMapped: the bytes do not lie in a view. REQUIRES: an instance runs. Of an update they are
  // loaded, and count as read.
  [[nodiscard]] Errc copy(std::uintptr_t from, std::uint64_t bytes, std::byte *to) noexcept;

 private:
  // False: the instance is to touch the page.
  [[nodiscard]] bool copy_page(PageId page) noexcept;
  [[nodiscard]] bool is_open(PageId page) const noexcept;

  Ours &ours_;
  Mine &mine_;
  const Snapshot &snapshot_;
  std::byte page_[kPageBytes];
};

}  // namespace tmh::page
