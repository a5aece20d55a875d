// storage/moments_file.h -- tmh.moments: the names that moments of a durable domain have, and which
// state of the log each of them is.
// Shape:     one record of fixed size, written whole: under another name, synced, renamed, the
//            folder synced. A folder without it has no names.
// Invariant: a name stands there once. What a name says was durable in the log before the name was.
// Errors:    kCorrupt, kShortFile, kNotADomain (of another domain, or no such file),
//            kForeignVersion; the detail names the file and what is wrong. kIo.
// Sharing:   written under the folder lock. Read without: a reader sees the old or the new one.
// Source:    docs/history.md; storage/log/FORMAT.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <tmh/error.hpp>
#include <tmh/past.hpp>

#include "storage/log/log_format.h"

namespace tmh::storage {

// "TMHMOM01" in the file
inline constexpr std::uint64_t kMomentsMagic = 0x3130'4d4f'4d48'4d54ull;
inline constexpr std::uint32_t kMomentsVersion = 1;

struct MomentV1 {                 // offset
  std::uint64_t clock;            //   0  commit timestamp; the state behind that commit
  std::uint64_t lsn;              //   8  the log was durable up to here, that commit included
  std::uint64_t time_ns;          //  16  CLOCK_REALTIME
  char name[kMomentNameMax + 1];  //  24  zero-filled
};
static_assert(sizeof(MomentV1) == 72 && offsetof(MomentV1, name) == 24);

// Durable, little-endian.
struct MomentsFileV1 {            // offset
  std::uint64_t magic;            //    0
  std::uint32_t format_version;   //    8
  std::uint32_t count;            //   12
  std::uint64_t domain_id[2];     //   16  as in tmh.control
  MomentV1 moments[kMomentsMax];  //  32  behind count: zeros
  std::uint32_t reserved_zero;    // 4640
  std::uint32_t crc;              // 4644  CRC32C of bytes [0, 4644)
};
static_assert(sizeof(MomentsFileV1) == 4648 && offsetof(MomentsFileV1, crc) == 4644);
static_assert(std::has_unique_object_representations_v<MomentsFileV1>);

struct KeptMoment {
  std::string name;
  std::uint64_t clock = 0, time_ns = 0;
  Lsn lsn = 0;
};
using KeptMoments = std::vector<KeptMoment>;

[[nodiscard]] std::string moments_path(const std::string &folder);
[[nodiscard]] const KeptMoment *find_moment(const KeptMoments &moments,
                                            std::string_view name) noexcept;

// No file: none.
[[nodiscard]] Errc read_moments(const std::string &folder, const std::uint64_t (&domain_id)[2],
                                KeptMoments *moments) noexcept;
// Durable when it returns. None: there is no file then. REQUIRES the folder lock, or a folder that
// is being made; at most kMomentsMax.
[[nodiscard]] Errc write_moments(const std::string &folder, const std::uint64_t (&domain_id)[2],
                                 const KeptMoments &moments) noexcept;

}  // namespace tmh::storage
