// levels/storage/control.h -- the domain's control file: identity, detection mode and the segment table.
// Shape:     tmh.control = ControlHeaderV1 (4096 bytes), then kSegmentsMax x SegmentRecordV1 (256 bytes each). Durable,
//            little-endian; everything else in the folder is rebuildable (levels/storage/FORMAT.md).
// Invariant: every static field is covered by a checksum; size_bytes of a segment only grows and has a complement beside it, which is
//            stored first: where the two differ, a growth was cut short or one of them is damaged, and the file's length tells which.
// Sharing:   written only under the folder lock (flock), which the kernel releases at death. size_bytes, state of a segment; life: atomic.
// Source:    DESIGN D8; STYLE section 7. Numbers in these structs are never reused.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>

#include <tmh/error.hpp>

#include "levels/storage/page_id.h"

namespace tmh::storage {

inline constexpr std::uint64_t kControlMagic = 0x3130'4c54'4348'4d54ull;  // "TMHCTL01" in the file
inline constexpr std::uint32_t kControlVersion = 1;

struct ControlHeaderV1 {             // offset
  std::uint64_t magic;               //    0
  std::uint32_t format_version;      //    8
  std::uint32_t header_bytes;        //   12  4096
  std::uint32_t features_incompat;   //   16  unknown bit: kUnsupportedFeature
  std::uint32_t page_bytes;          //   20  4096
  std::uint32_t line_bytes;          //   24  64
  std::uint32_t segments_max;        //   28  kSegmentsMax
  std::uint32_t owner_uid;           //   32  who created the domain
  std::uint32_t durability;          //   36  0: none, 2: buffered, 3: strict
  std::uint64_t domain_id[2];        //   40  random
  std::uint64_t address_base;        //   56  segments' fixed addresses begin here
  std::uint64_t checksum;            //   64  of bytes [0, 64)
  std::uint64_t address_next;        //   72  first free address; only grows
  std::uint32_t detection;           //   80  Detection of the present participants
  std::uint32_t segment_generation;  //   84  changes whenever a segment is added; atomic
  std::uint64_t life;                //   88  new_life() of the shared files that belong to this one, 0: of none; atomic
  std::uint8_t reserved_zero[4000];  //   96
};
static_assert(sizeof(ControlHeaderV1) == 4096 && offsetof(ControlHeaderV1, checksum) == 64);
static_assert(offsetof(ControlHeaderV1, segment_generation) == 84 && offsetof(ControlHeaderV1, life) == 88);
static_assert(std::is_trivially_copyable_v<ControlHeaderV1> && std::is_standard_layout_v<ControlHeaderV1>);
static_assert(std::has_unique_object_representations_v<ControlHeaderV1>);

struct SegmentRecordV1 {           // offset
  std::uint32_t state;             //   0  0: free, 1: used; atomic
  std::uint32_t layout;            //   4  Layout
  std::uint64_t offset_bytes;      //   8  in the file
  std::uint64_t max_bytes;         //  16  address space reserved
  std::uint64_t address;           //  24  fixed address of the view; 0: relocatable
  char name[176];                  //  32  path of the file, relative to the folder or absolute; zero-filled
  std::uint64_t checksum;          // 208  of bytes [0, 208)
  std::uint64_t size_bytes;        // 216  usable now; atomic, only grows
  std::uint64_t size_check;        // 224  ~size_bytes
  std::uint8_t reserved_zero[24];  // 232
};
static_assert(sizeof(SegmentRecordV1) == 256 && offsetof(SegmentRecordV1, checksum) == 208);
static_assert(offsetof(SegmentRecordV1, size_bytes) == 216 && offsetof(SegmentRecordV1, size_check) == 224);
static_assert(std::is_trivially_copyable_v<SegmentRecordV1> && std::is_standard_layout_v<SegmentRecordV1>);
static_assert(std::has_unique_object_representations_v<SegmentRecordV1>);

inline constexpr std::size_t kControlBytes = sizeof(ControlHeaderV1) + kSegmentsMax * sizeof(SegmentRecordV1);
inline constexpr std::size_t kSegmentNameBytesMax = sizeof(SegmentRecordV1::name) - 1;

struct ControlFile {
  ControlHeaderV1 header;
  SegmentRecordV1 segments[kSegmentsMax];
};
static_assert(sizeof(ControlFile) == kControlBytes);

// FNV-1a over the bytes: guards against damage, not against attack. (Log records get CRC32C.)
[[nodiscard]] std::uint64_t control_checksum(const void *data, std::size_t bytes) noexcept;
void seal(ControlHeaderV1 *header) noexcept;
void seal(SegmentRecordV1 *record) noexcept;

// Makes a free record a used one, beside others that look at it: who sees state 1 sees the rest, and death before that leaves a free record.
// `record`: sealed, its state 1. REQUIRES: the folder lock.
void store_record(SegmentRecordV1 *entry, const SegmentRecordV1 &record) noexcept;
// Whoever has not got the folder lock looks at nothing else of a record before.
[[nodiscard]] inline std::uint32_t state_of(const SegmentRecordV1 &record) noexcept {
  auto &state = const_cast<std::uint32_t &>(record.state);
  return std::atomic_ref<std::uint32_t>(state).load(std::memory_order_acquire);  // pairs with store_record()
}

// The segment's size, in a record that others may be reading. REQUIRES: the folder lock; the file is long enough. In a durable domain
// promise_size() first, and that on disk: others use a size as soon as they see it, and the log must not name pages that a power cut takes.
void promise_size(SegmentRecordV1 *record, std::uint64_t size_bytes) noexcept;
void store_size(SegmentRecordV1 *record, std::uint64_t size_bytes) noexcept;
// Decides a record whose size and complement differ, by the length of its file (0: there is none). Only the size can become larger.
// kCorrupt: no growth that was cut short looks like this. REQUIRES: verify_control() took it; the folder lock.
[[nodiscard]] Errc settle_size(SegmentRecordV1 *record, std::uint64_t file_bytes, std::string *why);

// Checks every byte that open() relies on, before any is used. Never reads beyond `bytes`; safe on hostile input.
// kShortFile, kNotADomain, kForeignVersion, kUnsupportedFeature, kCorrupt; *why names the field.
[[nodiscard]] Errc verify_control(const void *data, std::size_t bytes, std::string *why);

// Random, and made together with the files that participants share: what those hold is of the control file that names the same one, and not of an
// older copy of it. The lower half is the complement of the upper one, so that damage is seen; never 0.
[[nodiscard]] std::uint64_t new_life() noexcept;
// relaxed: stored under the folder lock, when nobody is there
[[nodiscard]] inline std::uint64_t life_of(const ControlHeaderV1 &header) noexcept {
  return std::atomic_ref<std::uint64_t>(const_cast<std::uint64_t &>(header.life)).load(std::memory_order_relaxed);
}
inline void store_life(ControlHeaderV1 *header, std::uint64_t life) noexcept {
  std::atomic_ref<std::uint64_t>(header->life).store(life, std::memory_order_relaxed);
}

// Not on a stack: 68 KiB.
[[nodiscard]] std::unique_ptr<ControlFile> new_control(std::uint32_t owner_uid, std::uint64_t address_base,
                                                       std::uint32_t durability = 0);

}  // namespace tmh::storage
