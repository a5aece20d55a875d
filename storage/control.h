// storage/control.h -- the domain's control file: identity, detection mode and the segment
// table.
// Shape:     tmh.control = ControlHeaderV1 (4096 bytes), then kSegmentsMax x SegmentRecordV1 (256
//            bytes each). Durable, little-endian; everything else in the folder is rebuildable
//            (storage/log/FORMAT.md).
// Invariant: (1) a checksum covers every field that stays as it is. (2) A free record is all
//            zeros, and none lies before a used one. (3) size_bytes of a segment only grows.
//            Beside it lies the size that was promised, with a checksum of its own, which is
//            stored first: where the two differ, a growth was cut short or size_bytes is
//            damaged, and the file's length tells.
// Sharing:   written only under the folder lock (flock), which the kernel releases at death.
//            size_bytes, state of a segment; life, open_mark: atomic.
// Source:    docs/design.md D8; docs/style.md 7. Numbers in these structs are never reused. The
//            names end in V1 until a layout is released; kControlVersion counts every change.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>

#include <tmh/error.hpp>

#include "storage/page_id.h"

namespace tmh::storage {

// Of the folder lock.
[[nodiscard]] inline std::string lock_path(const std::string &folder) {
  return folder + "/tmh.lock";
}

inline constexpr std::uint64_t kControlMagic = 0x3130'4c54'4348'4d54ull;  // "TMHCTL01" in the file
inline constexpr std::uint32_t kControlVersion = 2;

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
  std::uint32_t checksum;            //   64  CRC32C of bytes [0, 64)
  std::uint32_t detection;           //   68  Detection; the first participant stores it
  std::uint64_t life;                //   72  new_life() of the shared files of this one; 0: of none
  std::uint32_t segment_generation;  //   80  changes with every new segment; atomic
  std::uint32_t acknowledged_early;  //   84  1: shared memory may have commits that no log has
  std::uint64_t open_mark;           //   88  open_mark(), file_table.h; 0: no shared memory is left
  std::uint8_t reserved_zero[4000];  //   96
};
static_assert(sizeof(ControlHeaderV1) == 4096 && offsetof(ControlHeaderV1, checksum) == 64);
static_assert(offsetof(ControlHeaderV1, segment_generation) == 80 &&
              offsetof(ControlHeaderV1, life) == 72 && offsetof(ControlHeaderV1, open_mark) == 88);
static_assert(std::is_trivially_copyable_v<ControlHeaderV1> &&
              std::is_standard_layout_v<ControlHeaderV1>);
static_assert(std::has_unique_object_representations_v<ControlHeaderV1>);

// Each byte of one differs from that of the others: no damage to a single byte makes one another.
enum class RecordState : std::uint32_t {
  // All zeros.
  kFree = 0,
  // "MAKE": whatever else is in the record counts for nothing. Its maker is at it, or died.
  kMaking = 0x454b'414d,
  // "used": the rest is there.
  kUsed = 0x6465'7375,
};

struct SegmentRecordV1 {       // offset
  std::uint32_t state;         //   0  RecordState; atomic
  std::uint32_t layout;        //   4  Layout
  std::uint64_t offset_bytes;  //   8  in the file
  std::uint64_t max_bytes;     //  16  address space reserved
  std::uint64_t address;       //  24  fixed address of the view; 0: relocatable
  //  32  path of the file, relative to the folder or absolute; zero-filled
  char name[176];
  std::uint32_t checksum;          // 208  CRC32C of bytes [0, 208) with state kUsed
  std::uint32_t zero;              // 212
  std::uint64_t size_bytes;        // 216  usable now; atomic, only grows
  std::uint64_t size_promised;     // 224  sealed_size() of the size that is, or comes next; atomic
  std::uint8_t reserved_zero[24];  // 232
};
static_assert(sizeof(SegmentRecordV1) == 256 && offsetof(SegmentRecordV1, checksum) == 208);
static_assert(offsetof(SegmentRecordV1, size_bytes) == 216 &&
              offsetof(SegmentRecordV1, size_promised) == 224);
static_assert(std::is_trivially_copyable_v<SegmentRecordV1> &&
              std::is_standard_layout_v<SegmentRecordV1>);
static_assert(std::has_unique_object_representations_v<SegmentRecordV1>);

inline constexpr std::size_t kControlBytes =
    sizeof(ControlHeaderV1) + kSegmentsMax * sizeof(SegmentRecordV1);
inline constexpr std::size_t kSegmentNameBytesMax = sizeof(SegmentRecordV1::name) - 1;

struct ControlFile {
  ControlHeaderV1 header;
  SegmentRecordV1 segments[kSegmentsMax];
};
static_assert(sizeof(ControlFile) == kControlBytes);

// Guards against damage, not against attack.
[[nodiscard]] std::uint32_t control_checksum(const void *data, std::size_t bytes) noexcept;
void seal(ControlHeaderV1 *header) noexcept;
void seal(SegmentRecordV1 *record) noexcept;

[[nodiscard]] inline bool is_used(const SegmentRecordV1 &record) noexcept {
  auto &state = const_cast<std::uint32_t &>(record.state);
  // Acquire: pairs with store_record(). A process without the folder lock looks at nothing else of
  // a record before.
  return std::atomic_ref<std::uint32_t>(state).load(std::memory_order_acquire) ==
         static_cast<std::uint32_t>(RecordState::kUsed);
}

// Two steps make a record that is not used a used one, beside others that look at it. Death or a
// power cut in between leaves a record that the next segment takes. In a durable domain the first
// step is on disk before the second begins: no write-back of a part of the record can leave fields
// behind a state that says "free". REQUIRES: the folder lock.
void begin_record(SegmentRecordV1 *entry) noexcept;
// REQUIRES: begin_record(). `record`: sealed, its state kUsed. Who sees that state sees the rest.
void store_record(SegmentRecordV1 *entry, const SegmentRecordV1 &record) noexcept;

// Where the next segment with a fixed address lies: behind all others, and a page more, so that
// running over one's end is a fault and not the next one's data. REQUIRES: the folder lock.
[[nodiscard]] std::uint64_t next_address(const ControlFile &control) noexcept;

// The segment's size, in a record that others may be reading. REQUIRES: the folder lock; the file
// is long enough. In a durable domain promise_size() first, and that on disk: others use a size as
// soon as they see it, and the log must not name pages that a power cut takes.
void promise_size(SegmentRecordV1 *record, std::uint64_t size_bytes) noexcept;
void store_size(SegmentRecordV1 *record, std::uint64_t size_bytes) noexcept;
// Pages in the lower half, their CRC32C in the upper one: one store changes both. A multiple of
// kPageBytes.
[[nodiscard]] std::uint64_t sealed_size(std::uint64_t size_bytes) noexcept;
// The size that was promised last. REQUIRES: verify_control() took the record, or it is of this
// process's own domain.
[[nodiscard]] std::uint64_t promised_size(const SegmentRecordV1 &record) noexcept;
// Decides a record whose size and promise differ, by the length of its file (0: there is none).
// Only the size can become larger.
// kCorrupt: no growth that was cut short looks like this. REQUIRES: verify_control() took it; the
// folder lock.
[[nodiscard]] Errc settle_size(SegmentRecordV1 *record, std::uint64_t file_bytes, std::string *why);

// Checks every byte that open() relies on, before any is used. Never reads beyond `bytes`; safe on
// hostile input. kShortFile, kNotADomain, kForeignVersion, kUnsupportedFeature, kCorrupt; *why
// names the field, and the segment by its number and name.
[[nodiscard]] Errc verify_control(const void *data, std::size_t bytes, std::string *why);

// Random, and made together with the files that participants share: what those hold is of the
// control file that names the same one, and not of an older copy of it. The lower half is the
// complement of the upper one, so that damage is seen; never 0.
[[nodiscard]] std::uint64_t new_life() noexcept;
// relaxed: stored under the folder lock, when no participant is there
[[nodiscard]] inline std::uint64_t life_of(const ControlHeaderV1 &header) noexcept {
  return std::atomic_ref<std::uint64_t>(const_cast<std::uint64_t &>(header.life))
      .load(std::memory_order_relaxed);
}
inline void store_life(ControlHeaderV1 *header, std::uint64_t life) noexcept {
  std::atomic_ref<std::uint64_t>(header->life).store(life, std::memory_order_relaxed);
}
// The same, of its mark.
[[nodiscard]] inline std::uint64_t open_mark_of(const ControlHeaderV1 &header) noexcept {
  return std::atomic_ref<std::uint64_t>(const_cast<std::uint64_t &>(header.open_mark))
      .load(std::memory_order_relaxed);
}
inline void store_open_mark(ControlHeaderV1 *header, std::uint64_t mark) noexcept {
  // Shared memory goes, and what it had is in the log, or was given up.
  if (mark == 0)
    std::atomic_ref<std::uint32_t>(header->acknowledged_early).store(0, std::memory_order_relaxed);
  std::atomic_ref<std::uint64_t>(header->open_mark).store(mark, std::memory_order_relaxed);
}

// An instance of a durable domain is acknowledged before its record is durable: it asked so.
inline void note_early_acknowledgement(ControlHeaderV1 *header) noexcept {
  const std::atomic_ref<std::uint32_t> word(header->acknowledged_early);
  if (word.load(std::memory_order_relaxed) == 0) word.store(1, std::memory_order_relaxed);
}

// A folder without tmh.control: does it hold what only a durable domain leaves, a checkpoint or log
// files? A new domain there would hide what is in the log, and its own files would get their names.
// kControlMissing: yes; the detail says what is there and how to go on. kIo.
[[nodiscard]] Errc refuse_remains(const std::string &folder) noexcept;

// Not on a stack: 68 KiB.
[[nodiscard]] std::unique_ptr<ControlFile> new_control(std::uint32_t owner_uid,
                                                       std::uint64_t address_base,
                                                       std::uint32_t durability = 0);

}  // namespace tmh::storage
