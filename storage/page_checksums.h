// storage/page_checksums.h -- tmh.checksums: a CRC32C of each page of the data files, as
// they lie in a closed domain or in a copy.
// Shape:     ChecksumsHeaderV1, then ChecksumsBlockV1: the pages of a segment by
//            kChecksumsPerBlock, rising by segment and page. A block whose pages are all zeros is
//            left out. Each block has a checksum of its own.
// Invariant: a table names the checkpoint that is stored after it. It says something only while
//            that one is the newest: of a clean checkpoint, or of a copy that no participant has
//            opened. An open stores another checkpoint before it stores to a data file, so a table
//            that a death, a power cut or a later commit has left behind is never taken for a
//            present one. A table gets its name when it is whole and durable. While the domain is
//            open the file is the setting: the last participant that closes writes a table where
//            there is one.
// Sharing:   written under the folder lock, or in a folder that no other process uses yet.
// Source:    docs/design.md D8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include <tmh/error.hpp>

#include "platform/disk.h"
#include "storage/checkpoint_file.h"
#include "storage/control.h"
#include "storage/page_id.h"

namespace tmh::storage {

// "TMHSUM01" in the file
inline constexpr std::uint64_t kChecksumsMagic = 0x3130'4d55'5348'4d54ull;
inline constexpr std::uint32_t kChecksumsVersion = 1;

enum class ChecksumsKind : std::uint32_t {
  // No page is in it: the domain has been opened with the option, and not been closed since.
  kNone = 0,
  kOfClose = 1,  // of a closed domain
  kOfCopy = 2,   // of a hot backup's data files, as they were copied
};

struct ChecksumsHeaderV1 {                  // offset
  std::uint64_t magic;                      //    0
  std::uint32_t format_version;             //    8
  std::uint32_t header_bytes;               //   12  4096
  std::uint64_t domain_id[2];               //   16  as in tmh.control
  std::uint64_t sequence;                   //   32  of the checkpoint that it belongs to
  std::uint64_t block_count;                //   40
  std::uint32_t kind;                       //   48  ChecksumsKind
  std::uint32_t is_wanted;                  //   52  1: the domain has the option; 0: only a copy's
  std::uint64_t time_ns;                    //   56  CLOCK_REALTIME
  std::uint64_t page_counts[kSegmentsMax];  //   64  by segment
  std::uint8_t reserved_zero[1980];         // 2112
  std::uint32_t crc;                        // 4092  CRC32C of bytes [0, 4092)
};
static_assert(sizeof(ChecksumsHeaderV1) == 4096 && offsetof(ChecksumsHeaderV1, crc) == 4092);
static_assert(offsetof(ChecksumsHeaderV1, sequence) == 32 &&
              offsetof(ChecksumsHeaderV1, kind) == 48);
static_assert(offsetof(ChecksumsHeaderV1, page_counts) == 64 &&
              offsetof(ChecksumsHeaderV1, reserved_zero) == 2112);
static_assert(std::has_unique_object_representations_v<ChecksumsHeaderV1>);

inline constexpr std::size_t kChecksumsPerBlock = 1015;

struct ChecksumsBlockV1 {                  // offset
  std::uint32_t segment;                   //    0
  std::uint32_t count;                     //    4  pages
  std::uint64_t first_page;                //    8  multiple of kChecksumsPerBlock
  std::uint64_t sequence;                  //   16  the header's
  std::uint64_t index;                     //   24  of this block
  std::uint32_t crcs[kChecksumsPerBlock];  //   32  CRC32C of each page; behind count: 0
  std::uint32_t crc;                       // 4092  CRC32C of bytes [0, 4092)
};
static_assert(sizeof(ChecksumsBlockV1) == 4096 && offsetof(ChecksumsBlockV1, crc) == 4092);
static_assert(offsetof(ChecksumsBlockV1, crcs) == 32);
static_assert(std::has_unique_object_representations_v<ChecksumsBlockV1>);

[[nodiscard]] std::string checksums_path(const std::string &folder);

// What a table is to say of itself.
struct ChecksumsTitle {
  ChecksumsKind kind = ChecksumsKind::kNone;
  bool is_wanted = true;
  std::uint64_t sequence = 0;
};

// Of every page of every segment, but kNone: of none. Durable when it returns; the table that was
// there before stays until then. base: the sequence of the table in `folder` that says what pages
// were that `is_changed` denies: these are not read. 0: all are read. kDiskFull, kFileShrunk,
// kOutOfMemory, kIo.
[[nodiscard]] Errc write_checksums(const std::string &folder, const ControlFile &control,
                                   const ChecksumsTitle &title, std::uint64_t base,
                                   const std::function<bool(PageId)> &is_changed) noexcept;

// The header of the table in `folder`. kNotADomain: there is none, or of another domain;
// kForeignVersion, kCorrupt; *why says what.
[[nodiscard]] Errc read_checksums_header(const std::string &folder,
                                         const std::uint64_t (&domain_id)[2],
                                         ChecksumsHeaderV1 *header, std::string *why);
// Do the data files have to be what the table says? `checkpoint`: the newest slot.
[[nodiscard]] bool is_current(const ChecksumsHeaderV1 &header, const CheckpointV1 &checkpoint,
                              const ControlHeaderV1 &control) noexcept;

struct ChecksumsVerdict {
  enum class State : std::uint8_t {
    kNoTable,
    kNotCurrent,
    kSound,
    kPagesDiffer,
    kTableDamaged,
    kUnreadable
  };
  static constexpr std::size_t kNamedMax = 1000;
  struct Page {
    std::uint32_t segment;
    std::uint64_t page;
  };
  State state = State::kNoTable;
  std::string why;               // of kTableDamaged and kUnreadable
  std::uint64_t page_count = 0;  // looked at
  std::uint64_t differing_count = 0;
  std::vector<Page> differing;  // the first kNamedMax
};
// Reads every page of a current table. Writes nothing. `control`: verified.
[[nodiscard]] ChecksumsVerdict verify_checksums(const std::string &folder,
                                                const ControlFile &control,
                                                const CheckpointV1 &checkpoint);

}  // namespace tmh::storage
