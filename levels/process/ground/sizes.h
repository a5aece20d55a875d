// levels/process/ground/sizes.h -- numbers of tasks, pages and stacks.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tmh::itm::pages {

// Threads that live at one time, the main one included.
inline constexpr std::uint32_t kTasksMax = 128;
inline constexpr std::uint64_t kStackSlot = 16ull << 20;
inline constexpr std::size_t kPageBytes = 4096;
static_assert(kStackSlot % kPageBytes == 0 && kTasksMax % 64 == 0);

// Of addresses.
struct Range {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;
};

}  // namespace tmh::itm::pages
