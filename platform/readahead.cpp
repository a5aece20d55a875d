// platform/readahead.cpp -- read-ahead and holes.
#include "platform/readahead.h"

#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <new>

#include "platform/assert.h"

namespace tmh::platform {

namespace {
// A window begins at most one and a quarter of its size before its end is asked for; 8 MiB is the
// largest that we have met (the kernel's default is 128 KiB).
constexpr std::uint64_t kWindowBytes = 16u << 20;
constexpr std::uint32_t kExtentsAtOnce = 128;
}  // namespace

std::uint64_t readahead_bytes(int fd, std::uint64_t offset_bytes) noexcept {
  TMH_ASSERT(fd >= 0);
  std::uint64_t end = offset_bytes;
  for (bool is_last = false; !is_last;) {
    alignas(struct fiemap)
        std::byte room[sizeof(struct fiemap) + kExtentsAtOnce * sizeof(struct fiemap_extent)]{};
    using List = struct fiemap;
    List &listed = *std::launder(reinterpret_cast<List *>(room));
    listed.fm_start = end;
    listed.fm_length = FIEMAP_MAX_OFFSET - end;
    listed.fm_extent_count = kExtentsAtOnce;
    if (ioctl(fd, FS_IOC_FIEMAP, &listed) != 0) return kReadaheadAnywhere;
    is_last = listed.fm_mapped_extents == 0;
    for (std::uint32_t i = 0; i < listed.fm_mapped_extents && !is_last; ++i) {
      const struct fiemap_extent &extent = listed.fm_extents[i];
      is_last = extent.fe_logical > end || (extent.fe_flags & FIEMAP_EXTENT_LAST) != 0;
      if (extent.fe_logical <= end)
        end = std::max<std::uint64_t>(end, extent.fe_logical + extent.fe_length);
    }
  }
  const std::uint64_t bytes = end - offset_bytes;
  return bytes > kWindowBytes ? (bytes - kWindowBytes) / 4096 * 4096 : 0;
}

void keep_off_holes(void *at, std::uint64_t first_bytes, std::uint64_t bytes,
                    std::uint64_t readahead_bytes) noexcept {
  TMH_ASSERT(at != nullptr && reinterpret_cast<std::uintptr_t>(at) % 4096 == 0);
  const std::uint64_t ahead =
      readahead_bytes > first_bytes ? std::min(readahead_bytes - first_bytes, bytes) : 0;
  if (ahead < bytes) madvise(static_cast<std::byte *>(at) + ahead, bytes - ahead, MADV_RANDOM);
}

void read_without_readahead(int fd) noexcept { (void)posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM); }

}  // namespace tmh::platform
