// storage/heap/heap_roots.h -- which chain of root pages a name belongs to. For heap_roots.cpp
// and heap_check.cpp.
#pragma once

#include <cstdint>
#include <string_view>

#include "storage/heap/heap_layout.h"

namespace tmh::storage {

// 4096 pages of 63 roots per chain, two million names in all: a bound that tells a long chain from
// a ring.
inline constexpr std::uint32_t kRootChainPagesMax = 4096;

// FNV-1a, 32 bits. Part of format 1.
[[nodiscard]] constexpr std::uint32_t root_chain_of(std::string_view name) noexcept {
  std::uint32_t hash = 0x811c'9dc5;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x0100'0193;
  return hash % kRootChainCount;
}

}  // namespace tmh::storage
