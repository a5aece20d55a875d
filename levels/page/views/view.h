// levels/page/views/view.h -- one segment mapped in this process.
// Sharing:   one per engine and segment. It never moves: the fault handler holds its address.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "levels/page/views/local_pages.h"

namespace tmh::page {

class FirstTouch;

struct View {
  // One page table.
  static constexpr std::uint64_t kBlockPages = 512;
  // In open_blocks: the block is accessible but for guards; its pages are opened one by one, and
  // not guarded but inaccessible otherwise.
  static constexpr std::byte kAllOfIt{1}, kPageByPage{2};

  // Of the engine that has mapped it.
  FirstTouch *touches = nullptr;
  std::uint32_t segment = 0;
  // For messages.
  std::string name;
  std::byte *base = nullptr;
  std::uint64_t bytes = 0;
  LocalPage *pages = nullptr;
  ReservedArray pages_memory;
  // With a level below: a byte per block, 0 or one of the constants.
  ReservedArray open_blocks;
};

}  // namespace tmh::page
