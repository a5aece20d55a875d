// levels/page/views/open_blocks.h -- with a level below, a view is opened block by block: of an
// open block the guards alone keep pages inaccessible. Blocks, because the number of areas is
// limited.
// Shape:     View::open_blocks has a byte for each block; pages are Views'.
// Contexts:  the handler. Reaches: mprotect, madvise; write where the kernel refuses a page.
#pragma once

#include <cstdint>

#include "levels/page/shared/shared.h"
#include "levels/page/views/segment_views.h"

namespace tmh::page {

class OpenBlocks {
 public:
  // All outlive it.
  OpenBlocks(const SharedState &memory, Views &views) noexcept : memory_(memory), views_(views) {}

  // The pages become accessible. REQUIRES: they lie in one block.
  void open_pages(View &view, PageId first, std::uint64_t page_count) noexcept;
  // All of a view is open: the pages behind the segment's end, at page `usable`, are closed. False:
  // they stay open.
  [[nodiscard]] bool close_tail(const View &view, std::uint64_t usable) const noexcept;

 private:
  [[nodiscard]] bool open(View &view, std::uint64_t first, std::uint64_t behind) noexcept;
  [[nodiscard]] bool open_without_area(View &view, std::uint64_t block) noexcept;
  [[nodiscard]] bool is_in_use(const View &view, std::uint64_t index) const noexcept;
  [[nodiscard]] std::uint64_t end_of_unused(const View &view, std::uint64_t first,
                                            std::uint64_t end) const noexcept;

  const SharedState &memory_;
  Views &views_;
};

}  // namespace tmh::page
