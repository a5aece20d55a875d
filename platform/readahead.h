// platform/readahead.h -- mapped and copied files with holes: read-ahead must not reach the holes.
// Why:       Reading ahead makes large folios. The first store to any page of one asks for blocks
//            of all of it, also of pages that no process has reserved: such a store is SIGBUS on a
//            full disk, and takes up to 2 MiB of one that is not. (ext4 since Linux 6.16, XFS since
//            5.18; ext4_page_mkwrite(), iomap_page_mkwrite().) Without read-ahead a page that is
//            not in memory has a folio of its own.
// Contexts:  readahead_bytes(): not in handlers. keep_off_holes(): async-signal-safe.
#pragma once

#include <cstdint>
#include <limits>

namespace tmh::platform {

inline constexpr std::uint64_t kReadaheadAnywhere = std::numeric_limits<std::uint64_t>::max();

// How many bytes from `offset_bytes` on may be read ahead of: blocks are allocated for all of them,
// and so far behind them that a window of read-ahead cannot reach the first hole.
// kReadaheadAnywhere where the file system does not list a file's extents (tmpfs, NFS). Blocks that
// others allocate meanwhile are not seen; REQUIRES: no process gives any back.
[[nodiscard]] std::uint64_t readahead_bytes(int fd, std::uint64_t offset_bytes) noexcept;

// Turns read-ahead off in a mapping of [first_bytes, first_bytes + bytes) of what readahead_bytes()
// looked at, from there on.
void keep_off_holes(void *at, std::uint64_t first_bytes, std::uint64_t bytes,
                    std::uint64_t readahead_bytes) noexcept;

// The same for what is read through this descriptor.
void read_without_readahead(int fd) noexcept;

}  // namespace tmh::platform
