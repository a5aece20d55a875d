// storage/log/log_format.h -- the redo log on disk: files, records, items. FORMAT.md says the same
// byte by byte.
// Shape:     the log is one stream of bytes, addressed by LSN. File k holds LSNs [k F, (k+1) F), F
//            = file_bytes: a header block of 4096 bytes, then records, each aligned to 8 bytes and
//            within one file. A record that does not fit the rest of its file starts the next one;
//            a kFileEnd record says so where 64 bytes are left for it.
//            A transaction is one kCommit record, preceded by kPart records when it is larger than
//            kRecordBytesMax. Nothing lies between the parts and their commit.
// Invariant: a record counts when its LSN is where it lies, its CRC is right and its generation is
//            that of the record before it. Recycled files hold old records: their LSN differs.
//            Records beyond a torn tail, from before a recovery: their generation differs. So user
//            data, wherever it is stored, cannot pass for a record (thesis, appendix B).
// Durable, little-endian. Numbers are never reused; a reader refuses another version.
// Source:    docs/design.md D1 to D8; thesis, section 3.2 and appendix B (what its log lacked);
//            LIBTP, section 3.1.1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "platform/bit_count.h"
#include "storage/page_id.h"

namespace tmh::storage {

using Lsn = std::uint64_t;

inline constexpr std::uint64_t kLogMagic = 0x3130'474f'4c48'4d54ull;  // "TMHLOG01" in the file
// Of new files. Version 1 had page differences only: its files are read as those of version 2, and
// get a header of version 2 before anything is written to them.
inline constexpr std::uint32_t kLogVersion = 2, kLogVersionRead = 1;
inline constexpr std::uint64_t kLogBlockBytes = 4096;
inline constexpr std::uint64_t kLogFileBytesMin = 1u << 20;  // multiple of kLogBlockBytes
inline constexpr std::uint64_t kLogFileBytesDefault = 16u << 20;
inline constexpr std::uint64_t kLogFileBytesMax = 1ull << 32;
// Larger transactions are split: bounds buffers and waste at a file's end.
inline constexpr std::uint32_t kRecordBytesMax = 256u << 10;
static_assert(kLogFileBytesMin % kLogBlockBytes == 0 &&
              kLogFileBytesDefault % kLogBlockBytes == 0 && kLogFileBytesMax % kLogBlockBytes == 0);
static_assert(kLogFileBytesMin <= kLogFileBytesDefault && kLogFileBytesDefault <= kLogFileBytesMax);
static_assert(kLogVersionRead <= kLogVersion && kRecordBytesMax % 8 == 0);

struct LogFileHeaderV1 {             // offset
  std::uint64_t magic;               //    0
  std::uint32_t format_version;      //    8
  std::uint32_t header_bytes;        //   12  4096
  std::uint64_t domain_id[2];        //   16  that of tmh.control
  std::uint64_t file_index;          //   32  k: the name says the same
  std::uint64_t file_bytes;          //   40  F
  std::uint8_t reserved_zero[4044];  //   48
  std::uint32_t crc;                 // 4092  CRC32C of bytes [0, 4092)
};
static_assert(sizeof(LogFileHeaderV1) == 4096 && offsetof(LogFileHeaderV1, crc) == 4092);
static_assert(offsetof(LogFileHeaderV1, domain_id) == 16 &&
              offsetof(LogFileHeaderV1, file_bytes) == 40);
static_assert(sizeof(LogFileHeaderV1) == kLogBlockBytes, "records begin at the second block");
static_assert(std::has_unique_object_representations_v<LogFileHeaderV1>);

enum class RecordKind : std::uint16_t {
  kCommit = 1,   // items, and the end of a transaction
  kPart = 2,     // items of the kCommit that follows
  kOpen = 3,     // first record after a recovery, at a block boundary; payload OpenPayloadV1
  kFileEnd = 4,  // the next record starts the next file; header only
};

struct RecordHeaderV1 {         // offset
  std::uint32_t crc;            //  0  CRC32C of bytes [4, length)
  std::uint32_t length;         //  4  bytes, this header included, multiple of 8
  std::uint64_t lsn;            //  8  of this header
  std::uint32_t generation;     // 16  of the domain's life since its last recovery
  std::uint16_t kind;           // 20  RecordKind
  std::uint16_t reserved_zero;  // 22
  std::uint64_t stamp;          // 24  commit timestamp; kOpen, kFileEnd: of the last commit before
  // 32  CLOCK_REALTIME of the commit (kOpen: of the recovery; else 0)
  std::uint64_t time_ns;
  // 40  the log was durable up to this LSN when this record was written
  std::uint64_t durable_before;
  std::uint32_t items;        // 48  in this record
  std::uint32_t part;         // 52  kPart: 0, 1, ...; kCommit: number of parts before it
  std::uint64_t total_bytes;  // 56  kCommit: lengths of its parts and itself; else 0
};
static_assert(sizeof(RecordHeaderV1) == 64 &&
              std::has_unique_object_representations_v<RecordHeaderV1>);
static_assert(offsetof(RecordHeaderV1, lsn) == 8 && offsetof(RecordHeaderV1, stamp) == 24);
static_assert(offsetof(RecordHeaderV1, items) == 48 && offsetof(RecordHeaderV1, total_bytes) == 56);

// What the first record of a generation says about the one before, so that a reader who comes from
// further back knows where that one ended, and can tell an end from damage. RecoveryReport::open is
// what to write.
struct OpenPayloadV1 {
  std::uint64_t previous_end;         // LSN behind the last record that counts before this one
  std::uint32_t previous_generation;  // that record's; 0: there was none
  std::uint32_t reserved_zero;
};
static_assert(sizeof(OpenPayloadV1) == 16 &&
              std::has_unique_object_representations_v<OpenPayloadV1>);

// An item begins with eight bytes, of which the uppermost is its kind. It fills a multiple of eight
// bytes: its body, then zeros.
enum class ItemKind : std::uint8_t {
  kPageDifference = 0,  // PageDeltaV1 and what follows it
  kNote = 1,            // NoteV2 and its text
  kSegmentMade = 2,     // SegmentMadeV2
  kSegmentGrown = 3,    // SegmentGrownV2
  kMomentNamed = 4      // MomentNamedV2
};
inline constexpr unsigned kItemKindShift = 56;
// Of every kind but page differences: how many bytes follow, without the zeros.
inline constexpr std::uint64_t kItemHeadBytes = 8;
inline constexpr std::uint64_t kItemBodyBytesMax = 4096;
[[nodiscard]] constexpr std::uint64_t item_head(ItemKind kind, std::uint64_t body_bytes) noexcept {
  return (static_cast<std::uint64_t>(kind) << kItemKindShift) | body_bytes;
}

// For those who read the log beside the library; no recovery looks at it.
struct NoteV2 {
  std::uint64_t topic;  // whose note it is; its text follows
};
static_assert(sizeof(NoteV2) == 8 && std::has_unique_object_representations_v<NoteV2>);

// As the segment's record in tmh.control has it (storage/control.h).
struct SegmentMadeV2 {
  std::uint32_t segment;
  std::uint32_t layout;
  std::uint64_t offset_bytes;
  std::uint64_t max_bytes;
  std::uint64_t address;     // 0: relocatable
  std::uint64_t size_bytes;  // at first
  char name[176];            // zero-filled
};
static_assert(sizeof(SegmentMadeV2) == 216 &&
              std::has_unique_object_representations_v<SegmentMadeV2>);
static_assert(offsetof(SegmentMadeV2, size_bytes) == 32 && offsetof(SegmentMadeV2, name) == 40);
static_assert(sizeof(SegmentMadeV2) <= kItemBodyBytesMax, "the largest item but notes");
static_assert(kItemBodyBytesMax < std::uint64_t{1} << kItemKindShift,
              "a head holds both: how long the body is, and its kind");

struct SegmentGrownV2 {
  std::uint32_t segment;
  std::uint32_t reserved_zero;
  std::uint64_t size_bytes;  // from here on
};
static_assert(sizeof(SegmentGrownV2) == 16 &&
              std::has_unique_object_representations_v<SegmentGrownV2>);

// The moment behind the commit timestamp `clock` has got a name (storage/moments_file.h).
struct MomentNamedV2 {
  std::uint64_t clock;
  char name[48];  // zero-filled
};
static_assert(sizeof(MomentNamedV2) == 56 &&
              std::has_unique_object_representations_v<MomentNamedV2>);

// One page's difference: PageDeltaV1, one byte per line in `lines` (from the lowest) saying which
// of the line's eight 8-byte words follow, zero bytes up to a multiple of 8, then those words. A
// word holds what it is after the commit.
struct PageDeltaV1 {
  std::uint64_t page;   // PageId: its segment number leaves the uppermost byte 0, which is the kind
  std::uint64_t lines;  // not 0
};
static_assert(sizeof(PageDeltaV1) == 16 && std::has_unique_object_representations_v<PageDeltaV1>);

[[nodiscard]] constexpr std::uint64_t round_up_8(std::uint64_t bytes) noexcept {
  return (bytes + 7) & ~std::uint64_t{7};
}
[[nodiscard]] constexpr std::uint64_t item_bytes(std::uint64_t body_bytes) noexcept {
  return kItemHeadBytes + round_up_8(body_bytes);
}
// The smallest item: a kind that is all head, and one word.
inline constexpr std::uint64_t kItemBytesMin = 16;
[[nodiscard]] constexpr std::uint64_t delta_bytes(LineMask lines,
                                                  std::uint64_t word_count) noexcept {
  return sizeof(PageDeltaV1) + round_up_8(std::uint64_t{platform::bit_count(lines)}) +
         8 * word_count;
}
inline constexpr std::uint64_t kDeltaBytesMax = delta_bytes(~LineMask{0}, 512);
static_assert(kItemBytesMin == item_bytes(sizeof(NoteV2)) && kItemBytesMin < delta_bytes(1, 1));
static_assert(kDeltaBytesMax % 8 == 0 && item_bytes(kItemBodyBytesMax) <= kDeltaBytesMax,
              "where any page's difference fits, any item fits");

inline constexpr Lsn kFirstLsn = kLogBlockBytes;  // file 0, behind its header
[[nodiscard]] constexpr std::uint64_t file_of(Lsn lsn, std::uint64_t file_bytes) noexcept {
  return lsn / file_bytes;
}
// Where a record of `bytes` goes that follows what ends at `end`.
[[nodiscard]] constexpr Lsn place(Lsn end, std::uint64_t bytes, std::uint64_t file_bytes) noexcept {
  const std::uint64_t offset = end % file_bytes;
  if (offset == 0) return end + kLogBlockBytes;  // the file before is full to the last byte
  return offset + bytes <= file_bytes ? end : end - offset + file_bytes + kLogBlockBytes;
}
static_assert(place(0, sizeof(RecordHeaderV1), kLogFileBytesMin) == kFirstLsn);

// Where the kOpen record goes when the last record that counts ends at `end`: the next block that
// holds nothing of value.
[[nodiscard]] constexpr Lsn open_position(Lsn end, std::uint64_t file_bytes) noexcept {
  const Lsn block = (end + kLogBlockBytes - 1) / kLogBlockBytes * kLogBlockBytes;
  return block % file_bytes == 0 ? block + kLogBlockBytes : block;
}
static_assert(open_position(kFirstLsn, kLogFileBytesMin) == kFirstLsn,
              "a generation that wrote nothing leaves its place to the next one");

}  // namespace tmh::storage
