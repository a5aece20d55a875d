// storage/heap/heap_roots.cpp -- named cells that a segment's data structures hang from.
// Shape:     8 chains of root pages, by hash of the name; entries of a page are filled from the
//            front and never removed. Allocation writes none of these pages, and a lookup writes
//            nothing.
#include <algorithm>
#include <cstring>
#include <string_view>

#include "platform/try.h"
#include "storage/heap/heap.h"
#include "storage/heap/heap_arena.h"
#include "storage/heap/heap_layout.h"
#include "storage/heap/heap_page_map.h"
#include "storage/heap/heap_roots.h"

namespace tmh::storage {
namespace {

bool same_name(const RootV1 &root, std::string_view name) noexcept {
  return std::memcmp(root.name, name.data(), name.size()) == 0 && root.name[name.size()] == '\0';
}

bool is_root_name(std::string_view name) noexcept {
  return !name.empty() && name.size() <= kRootNameBytesMax &&
         name.find('\0') == std::string_view::npos;
}

// The entry of `name`, else the first unused one of the page, else null.
RootV1 *find_in(RootPageV1 &page, std::string_view name) noexcept {
  const auto end = std::find_if(
      std::begin(page.roots), std::end(page.roots),
      [&](const RootV1 &root) { return root.name[0] == '\0' || same_name(root, name); });
  return end == std::end(page.roots) ? nullptr : end;
}

// The cell is the caller's object and may be read as one of another type, so that the entry is
// written as bytes only.
void write_root(RootV1 *entry, std::string_view name, std::uint64_t type_bytes) noexcept {
  RootV1 root{};
  name.copy(root.name, kRootNameBytesMax);
  root.type_bytes = type_bytes;
  std::memcpy(entry, &root, sizeof root);
}

// Hangs an empty page behind the last one.
Errc append_page(HeapContext &context, RootPageV1 *last, HeapPage *added) noexcept {
  TMH_TRY(acquire_pages(context, 1, RunUse::kReserved, added));
  auto *page = HeapPages(context.base, context.size_bytes).at<RootPageV1>(*added);
  std::memset(static_cast<void *>(page), 0, sizeof *page);  // it may have been used before
  page->header.magic = kRunMagic + raw(*added);
  page->header.kind = RunKind::kRoots;
  page->header.page_count = 1;
  last->header.next_page = raw(*added);
  return Errc::kOk;
}

Errc find_or_add(HeapContext &context, std::string_view name, std::uint64_t type_bytes,
                 RootClaim claim, RootV1 **found) noexcept {
  HeapPage at = kFirstRootPage + root_chain_of(name);
  for (std::uint32_t depth = 0; depth < kRootChainPagesMax; ++depth) {
    const HeapPages pages(context.base, context.size_bytes);
    auto *page = pages.at<RootPageV1>(at);
    RootV1 *entry = find_in(*page, name);
    if (entry != nullptr && entry->name[0] != '\0') {
      const bool claims_differ =
          type_bytes != 0 && entry->type_bytes != 0 && entry->type_bytes != type_bytes;
      *found = entry;
      return claims_differ ? Errc::kRootMismatch : Errc::kOk;
    }
    if (entry != nullptr) {
      write_root(entry, name, claim == RootClaim::kNow ? type_bytes : 0);
      *found = entry;
      return Errc::kOk;
    }
    HeapPage next{page->header.next_page};
    if (next == kNoPage) {
      TMH_TRY(append_page(context, page, &next));
    } else if (pages.run(next, RunKind::kRoots) == nullptr) {
      return Errc::kCorrupt;
    }
    at = next;
  }
  return Errc::kSegmentFull;
}

}  // namespace

Errc heap_find_root(const std::byte *base, std::uint64_t size_bytes, std::string_view name,
                    std::uint64_t type_bytes, const void **held) noexcept {
  *held = nullptr;
  if (!is_root_name(name)) return Errc::kBadArgument;
  // Only read.
  const HeapPages pages(const_cast<std::byte *>(base), size_bytes);
  HeapPage at = kFirstRootPage + root_chain_of(name);
  for (std::uint32_t depth = 0; depth < kRootChainPagesMax; ++depth) {
    auto *const page = pages.at<RootPageV1>(at);
    const RootV1 *const entry = find_in(*page, name);
    if (entry != nullptr && entry->name[0] == '\0') return Errc::kOk;
    if (entry != nullptr) {
      if (entry->type_bytes != 0 && entry->type_bytes != type_bytes) return Errc::kRootMismatch;
      std::memcpy(held, &entry->cell, sizeof *held);
      return Errc::kOk;
    }
    at = HeapPage{page->header.next_page};
    if (at == kNoPage) return Errc::kOk;
    if (pages.run(at, RunKind::kRoots) == nullptr) return Errc::kCorrupt;
  }
  return Errc::kCorrupt;
}

void **heap_root_cell(HeapContext &context, std::string_view name, std::uint64_t type_bytes,
                      Errc *why, RootClaim claim) noexcept {
  if (!is_root_name(name)) {
    *why = Errc::kBadArgument;
    return nullptr;
  }
  RootV1 *entry = nullptr;
  *why = find_or_add(context, name, type_bytes, claim, &entry);
  return *why == Errc::kOk ? reinterpret_cast<void **>(&entry->cell) : nullptr;
}

void heap_claim_root(void **cell, std::uint64_t type_bytes) noexcept {
  constexpr std::size_t kBack = offsetof(RootV1, cell) - offsetof(RootV1, type_bytes);
  std::memcpy(reinterpret_cast<std::byte *>(cell) - kBack, &type_bytes, sizeof type_bytes);
}

}  // namespace tmh::storage
