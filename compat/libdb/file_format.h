// compat/libdb/file_format.h -- what a file of dbopen() begins with, but for texts of recno(3).
// Shape:     0 magic "tmhdb", 0, 0, 0; 8 version u32; 12 page's bytes u32; 16 pages u32; 20 first
//            free page u32; 24 the access method's own, Store::kOwnBytes; then the stamp, u64: what
//            an environment has written last, 0 once a program has stored without one; the owner,
//            u64: of the environment that has newer pages, 0: the file is whole. The rest of page 0
//            is zero, the other pages follow. All little-endian.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

#include "compat/libdb/store.h"

namespace tmh::db {

static_assert(std::endian::native == std::endian::little);

struct FileHead {
  char magic[8];
  std::uint32_t version, page_bytes, page_end, free;
  std::byte own[Store::kOwnBytes];
  std::uint64_t stamp, owner;
};
static_assert(sizeof(FileHead) == 24 + Store::kOwnBytes + 16);
static_assert(sizeof(FileHead) <= kPageBytesMin);

inline constexpr char kFileMagic[8] = "tmhdb";
inline constexpr std::uint32_t kFileVersion = 1;

// Of a file of so many bytes: whether its numbers may be believed.
[[nodiscard]] inline bool is_sound(const FileHead &head, std::uint64_t file_bytes) noexcept {
  return std::memcmp(head.magic, kFileMagic, sizeof kFileMagic) == 0 &&
         head.version == kFileVersion && head.page_bytes >= kPageBytesMin &&
         head.page_bytes <= kPageBytesMax && head.page_bytes % 2 == 0 && head.page_end != 0 &&
         head.free < head.page_end && std::uint64_t{head.page_end} * head.page_bytes <= file_bytes;
}

}  // namespace tmh::db
