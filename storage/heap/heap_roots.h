// storage/heap/heap_roots.h -- which chain of root pages a name belongs to; looking for a root in a
// heap that nobody may store to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <tmh/error.hpp>

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

// What the cell of the root `name` holds, in a heap that stands still; null: there is none, or it
// is zero. kBadArgument (name), kRootMismatch, kCorrupt. REQUIRES: heap_verify() found it right.
[[nodiscard]] Errc heap_find_root(const std::byte *base, std::uint64_t size_bytes,
                                  std::string_view name, std::uint64_t type_bytes,
                                  const void **held) noexcept;

}  // namespace tmh::storage
