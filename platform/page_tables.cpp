// platform/page_tables.cpp -- userfaultfd, pagemap and madvise wrappers. Constants that Debian 12's
// headers lack are given here with their kernel version; each is tried at run time before anything
// relies on it.
#include "platform/page_tables.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "platform/assert.h"
#include "platform/failure.h"

namespace tmh::platform {

namespace {

constexpr int kMadvGuardInstall = 102;               // Linux 6.13
constexpr int kMadvGuardRemove = 103;                // Linux 6.13
constexpr std::uint64_t kFeatureWpAsync = 1u << 15;  // Linux 6.7
// UFFD_USER_MODE_ONLY, Linux 5.11: needs no privilege
constexpr int kUserModeOnly = 1;
constexpr std::uint64_t kPageBytes = 4096;

// struct pm_scan_arg and struct page_region of linux/fs.h, Linux 6.7.
struct ScanRegion {
  std::uint64_t start, end, categories;
};
struct ScanArguments {
  std::uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
  std::uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
static_assert(sizeof(ScanArguments) == 96);
constexpr std::uint64_t kScanIsFile = 1u << 2, kScanIsPresent = 1u << 3, kScanIsSwapped = 1u << 4;
#define TMH_PAGEMAP_SCAN _IOWR('f', 16, ScanArguments)

}  // namespace

StoreFaults::~StoreFaults() {
  if (fd_ >= 0) close(fd_);
}

Errc StoreFaults::open() noexcept {
  TMH_ASSERT(fd_ < 0);
  fd_ = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | kUserModeOnly));
  if (fd_ < 0) return fail_errno(Errc::kTrackingUnavailable, "userfaultfd");
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = kFeatureWpAsync;
  if (ioctl(fd_, UFFDIO_API, &api) != 0)
    return fail_errno(Errc::kTrackingUnavailable, "userfaultfd WP_ASYNC (Linux 6.7)");
  return Errc::kOk;
}

Errc StoreFaults::add(void *begin, std::uint64_t bytes) noexcept {
  TMH_ASSERT(fd_ >= 0);
  TMH_ASSERT((reinterpret_cast<std::uintptr_t>(begin) | bytes) % kPageBytes == 0);
  uffdio_register range{};
  range.range.start = reinterpret_cast<std::uintptr_t>(begin);
  range.range.len = bytes;
  range.mode = UFFDIO_REGISTER_MODE_WP;
  if (ioctl(fd_, UFFDIO_REGISTER, &range) != 0)
    return fail_errno(Errc::kTrackingUnavailable, "UFFDIO_REGISTER");
  return Errc::kOk;
}

bool StoreFaults::protect(void *begin, std::uint64_t bytes, std::uint64_t mode) noexcept {
  TMH_ASSERT((reinterpret_cast<std::uintptr_t>(begin) | bytes) % kPageBytes == 0);
  uffdio_writeprotect range{};
  range.range.start = reinterpret_cast<std::uintptr_t>(begin);
  range.range.len = bytes;
  range.mode = mode;
  return ioctl(fd_, UFFDIO_WRITEPROTECT, &range) == 0;
}

bool StoreFaults::arm(void *begin, std::uint64_t bytes) noexcept {
  return protect(begin, bytes, UFFDIO_WRITEPROTECT_MODE_WP);
}

bool StoreFaults::disarm(void *begin, std::uint64_t bytes) noexcept {
  return protect(begin, bytes, 0);
}

// Locking brings nothing in that is inaccessible.
void *map_when_touched(void *at, std::uint64_t bytes, int protection, int flags, int fd,
                       std::int64_t offset, int key) noexcept {
  TMH_ASSERT(bytes != 0 && offset >= 0);
  void *const mapped = mmap(at, bytes, PROT_NONE, flags, fd, offset);
  if (mapped == MAP_FAILED) return MAP_FAILED;
  munlock(mapped, bytes);
  if (key != kNoKey && pkey_mprotect(mapped, bytes, protection, key) == 0) return mapped;
  if (protection == PROT_NONE || mprotect(mapped, bytes, protection) == 0) return mapped;
  const int why = errno;
  munmap(mapped, bytes);
  errno = why;
  return MAP_FAILED;
}

bool guard_install(void *begin, std::uint64_t bytes) noexcept {
  TMH_ASSERT(reinterpret_cast<std::uintptr_t>(begin) % kPageBytes == 0);
  return madvise(begin, bytes, kMadvGuardInstall) == 0;
}
bool guard_remove(void *begin, std::uint64_t bytes) noexcept {
  return madvise(begin, bytes, kMadvGuardRemove) == 0;
}
bool populate(void *begin, std::uint64_t bytes, bool for_writing) noexcept {
  constexpr int kMadvPopulateRead = 22, kMadvPopulateWrite = 23;  // Linux 5.14
  return madvise(begin, bytes, for_writing ? kMadvPopulateWrite : kMadvPopulateRead) == 0;
}
void read_in(void *begin, std::uint64_t bytes) noexcept { madvise(begin, bytes, MADV_WILLNEED); }
bool drop(void *begin, std::uint64_t bytes) noexcept {
  TMH_ASSERT(reinterpret_cast<std::uintptr_t>(begin) % kPageBytes == 0);
  constexpr int kMadvDontneedLocked = 24;  // Linux 5.18
  return madvise(begin, bytes, MADV_DONTNEED) == 0 ||
         madvise(begin, bytes, kMadvDontneedLocked) == 0;
}

PageMap::~PageMap() {
  if (fd_ >= 0) close(fd_);
}

Errc PageMap::open() noexcept {
  if (fd_ >= 0) return Errc::kOk;  // for the tracking that was tried first
  fd_ = ::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  return fd_ >= 0 ? Errc::kOk : fail_errno(Errc::kTrackingUnavailable, "/proc/self/pagemap");
}

bool PageMap::read(std::uintptr_t begin, std::size_t page_count, PageKind *out) const noexcept {
  TMH_ASSERT(fd_ >= 0 && begin % kPageBytes == 0 && (out != nullptr || page_count == 0));
  constexpr std::size_t kBatch = 512;
  // A guard is a swap-like marker: bit 58 (Linux 6.15) tells it from a swapped page.
  constexpr std::uint64_t kGuardBit = 1ull << 58, kFileBit = 1ull << 61, kSwapBit = 1ull << 62,
                          kPresentBit = 1ull << 63;
  std::uint64_t entries[kBatch];
  while (page_count > 0) {
    const std::size_t count = page_count < kBatch ? page_count : kBatch;
    const auto want = static_cast<ssize_t>(count * sizeof entries[0]);
    if (pread(fd_, entries, static_cast<std::size_t>(want),
              static_cast<off_t>(begin / kPageBytes * 8)) != want)
      return false;
    for (std::size_t i = 0; i < count; ++i) {
      if ((entries[i] & (kPresentBit | kSwapBit)) == 0 || (entries[i] & kGuardBit) != 0)
        *out++ = PageKind::kAbsent;
      else
        *out++ = (entries[i] & kFileBit) != 0 ? PageKind::kFile : PageKind::kPrivate;
    }
    begin += count * kPageBytes;
    page_count -= count;
  }
  return true;
}

bool PageMap::scan(std::uintptr_t begin, std::uint64_t bytes, VisitRun visit,
                   void *context) const noexcept {
  TMH_ASSERT(fd_ >= 0 && (begin | bytes) % kPageBytes == 0 && visit != nullptr);
  constexpr std::size_t kRegions = 256;
  ScanRegion regions[kRegions];
  ScanArguments arguments{};
  arguments.size = sizeof arguments;
  arguments.start = begin;
  arguments.end = begin + bytes;
  arguments.vec = reinterpret_cast<std::uintptr_t>(regions);
  arguments.vec_len = kRegions;
  arguments.category_anyof_mask = kScanIsPresent | kScanIsSwapped;
  arguments.return_mask = kScanIsFile | kScanIsPresent | kScanIsSwapped;
  while (arguments.start < arguments.end) {
    const int found = ioctl(fd_, TMH_PAGEMAP_SCAN, &arguments);
    if (found < 0) {
      if (errno == EINTR) continue;
      return false;
    }
    for (int i = 0; i < found; ++i) {
      const PageKind kind =
          (regions[i].categories & kScanIsFile) != 0 ? PageKind::kFile : PageKind::kPrivate;
      visit(context,
            Run{regions[i].start,
                static_cast<std::size_t>((regions[i].end - regions[i].start) / kPageBytes), kind});
    }
    if (arguments.walk_end <= arguments.start) break;
    arguments.start = arguments.walk_end;
  }
  return true;
}

}  // namespace tmh::platform
