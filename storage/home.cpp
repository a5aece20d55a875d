// storage/home.cpp -- opening, extending and mapping data files.
#include "storage/home.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "platform/assert.h"
#include "platform/copy_data.h"
#include "platform/disk.h"
#include "platform/failure.h"
#include "platform/file_mappings.h"
#include "platform/files.h"
#include "platform/page_tables.h"
#include "platform/readahead.h"
#include "platform/try.h"

namespace tmh::storage {

using platform::DiskOp;
using platform::fail;
using platform::fail_errno;
using platform::watch_disk;

Errc Home::open(const std::string &path, std::uint64_t offset_bytes, std::uint64_t size_bytes,
                std::uint64_t max_bytes, bool may_extend) noexcept {
  close();
  path_ = path;
  if (may_extend && ::access(path.c_str(), F_OK) != 0) {
    TMH_TRY(watch_disk({DiskOp::kCreate, path_.c_str()}));
  }
  if (const Errc error = platform::open_regular(path, O_RDWR | (may_extend ? O_CREAT : 0),
                                                platform::FileRole::kSegment, &fd_);
      error != Errc::kOk)
    return error == Errc::kNotADomain ? fail(Errc::kBadArgument, path + " is not a regular file")
                                      : error;
  struct stat info {};
  if (fstat(fd_.get(), &info) != 0) return fail_errno(Errc::kIo, path);
  const std::uint64_t wanted = offset_bytes + size_bytes;
  if (static_cast<std::uint64_t>(info.st_size) < wanted) {
    if (!may_extend) return fail(Errc::kFileShrunk, path + " is shorter than its segment");
    TMH_TRY(set_length(wanted));
  }
  offset_bytes_ = offset_bytes;
  max_bytes_ = max_bytes;
  return map();
}

void *Home::map_here(void *address, int protection, int flags, int key) const noexcept {
  return platform::map_when_touched(address, max_bytes_, protection, flags, mapped_fd(),
                                    static_cast<std::int64_t>(mapped_offset()), key);
}

Errc Home::map() noexcept {
  TMH_ASSERT(base_ == nullptr && max_bytes_ > 0);
  loads_take_blocks_ = platform::loads_take_blocks(mapped_fd());
  readahead_bytes_ = platform::readahead_bytes(mapped_fd(), mapped_offset());
  void *at =
      map_here(nullptr, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, platform::kNoKey);
  if (at == MAP_FAILED) return fail_errno(Errc::kOutOfMemory, "mapping the home of " + path_);
  madvise(at, max_bytes_, MADV_DONTFORK);
  platform::keep_off_holes(at, 0, max_bytes_, readahead_bytes_);
  base_ = static_cast<std::byte *>(at);
  note(base_);
  return Errc::kOk;
}

void Home::note(const std::byte *begin) const noexcept {
  platform::note_mapping(
      {reinterpret_cast<std::uintptr_t>(begin), max_bytes_, mapped_fd(), mapped_offset()});
}

void Home::unmap() noexcept {
  if (base_ == nullptr) return;
  platform::forget_mapping(base_);
  munmap(base_, max_bytes_);
  base_ = nullptr;
}

void Home::unmap_view(std::byte *view) const noexcept {
  platform::forget_mapping(view);
  munmap(view, max_bytes_);
}

void Home::close() noexcept {
  unmap();
  fd_.reset();
  home_fd_.reset();
}

Errc Home::separate(const std::string &path) noexcept {
  TMH_ASSERT(is_open() && !home_fd_);
  struct stat info {};
  if (fstat(fd_.get(), &info) != 0) return fail_errno(Errc::kIo, path_);
  const std::uint64_t bytes = static_cast<std::uint64_t>(info.st_size) - offset_bytes_;
  if (!platform::has_entry(path)) {
    // Under another name first: there never is half a home.
    const std::string temporary = path + ".new";
    platform::FileDescriptor made;
    ::unlink(temporary.c_str());  // of one who died at it
    constexpr int kNew = O_RDWR | O_CREAT | O_EXCL;
    TMH_TRY(platform::open_regular(temporary, kNew, platform::FileRole::kOwn, &made));
    if (ftruncate(made.get(), static_cast<off_t>(bytes)) != 0)
      return fail_errno(Errc::kIo, temporary);
    TMH_TRY(platform::copy_data(fd_.get(), offset_bytes_, bytes, made.get(), temporary));
    if (::rename(temporary.c_str(), path.c_str()) != 0) return fail_errno(Errc::kIo, path);
  }
  TMH_TRY(platform::open_regular(path, O_RDWR, platform::FileRole::kOwn, &home_fd_));
  unmap();
  // Its length is right: the participant that made or grew it has seen to that. Others may be
  // growing it now, so a length of ours could cut it.
  return map();
}

Errc Home::extend(std::uint64_t size_bytes) noexcept {
  TMH_ASSERT(fd_ && size_bytes % kPageBytes == 0);
  struct stat info {};
  if (fstat(fd_.get(), &info) != 0) return fail_errno(Errc::kIo, "fstat of a data file");
  const std::uint64_t wanted = offset_bytes_ + size_bytes;
  if (static_cast<std::uint64_t>(info.st_size) < wanted) TMH_TRY(set_length(wanted));
  if (!home_fd_) return Errc::kOk;
  if (fstat(home_fd_.get(), &info) != 0) return fail_errno(Errc::kIo, "fstat of a home");
  if (static_cast<std::uint64_t>(info.st_size) >= size_bytes) return Errc::kOk;
  return ftruncate(home_fd_.get(), static_cast<off_t>(size_bytes)) == 0
             ? Errc::kOk
             : fail_errno(Errc::kIo, "extending a home");
}

Errc Home::set_length(std::uint64_t bytes) noexcept {
  TMH_TRY(watch_disk({DiskOp::kTruncate, path_.c_str(), nullptr, bytes}));
  return ftruncate(fd_.get(), static_cast<off_t>(bytes)) == 0
             ? Errc::kOk
             : fail_errno(Errc::kIo, "extending " + path_);
}

Errc Home::sync() noexcept {
  TMH_ASSERT(static_cast<bool>(fd_));
  TMH_TRY(watch_disk({DiskOp::kSync, path_.c_str()}));
  if (fdatasync(fd_.get()) != 0) return fail_errno(Errc::kIo, "fdatasync " + path_);
  return watch_disk({DiskOp::kSyncDone, path_.c_str()});
}

Errc Home::allocate_blocks(std::uint64_t offset_bytes, std::uint64_t bytes) noexcept {
  TMH_ASSERT(bytes > 0 && offset_bytes + bytes <= max_bytes_);
  const Errc error = platform::allocate_blocks(fd_.get(), offset_bytes_ + offset_bytes, bytes);
  return error != Errc::kOk || !home_fd_
             ? error
             : platform::allocate_blocks(home_fd_.get(), offset_bytes, bytes);
}

Errc Home::look_for_room(std::uintptr_t address, std::uint64_t bytes) noexcept {
  TMH_ASSERT(address % kPageBytes == 0 && bytes > 0);
  void *wanted = reinterpret_cast<void *>(address);
  void *at = mmap(wanted, bytes, PROT_NONE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (at == MAP_FAILED)
    return errno == EEXIST ? Errc::kAddressInUse
                           : fail_errno(Errc::kOutOfMemory, "looking for room");
  munmap(at, bytes);
  // A kernel before 4.17 ignores MAP_FIXED_NOREPLACE.
  return at == wanted ? Errc::kOk : Errc::kAddressInUse;
}

Errc Home::map_view(std::uintptr_t address, bool accessible, std::byte **view,
                    std::uint64_t tail_at) noexcept {
  TMH_ASSERT(is_open());
  TMH_ASSERT(address % kPageBytes == 0);
  // MAP_NORESERVE: a private writable mapping of 1 TiB must not count against memory until pages
  // are copied.
  const int flags = MAP_PRIVATE | MAP_NORESERVE | (address != 0 ? MAP_FIXED_NOREPLACE : 0);
  const int protection = accessible ? PROT_READ | PROT_WRITE : PROT_NONE;
  void *wanted = reinterpret_cast<void *>(address);
  void *at = map_here(wanted, protection, flags, key_);
  if (at == MAP_FAILED && errno == EEXIST) return Errc::kAddressInUse;
  if (at == MAP_FAILED) return fail_errno(Errc::kOutOfMemory, "mapping a view");
  if (address != 0 && at != wanted) {  // a kernel before 4.17 ignores MAP_FIXED_NOREPLACE
    munmap(at, max_bytes_);
    return Errc::kAddressInUse;
  }
  advise_view(at, 0, max_bytes_, std::min(tail_at, max_bytes_));
  *view = static_cast<std::byte *>(at);
  note(*view);
  return Errc::kOk;
}

// Of two neighbouring areas that differ in advice alone the kernel moves the border when a part of
// one is advised as the other; then the tail is protected whole.
bool Home::close_tail(std::byte *view, std::uint64_t tail_at) const noexcept {
  TMH_ASSERT(tail_at < max_bytes_ && tail_at % kPageBytes == 0);
  madvise(view, tail_at, MADV_NOHUGEPAGE);
  return mprotect(view + tail_at, max_bytes_ - tail_at, PROT_NONE) == 0;
}

void Home::advise_view(void *at, std::uint64_t offset_bytes, std::uint64_t bytes) const noexcept {
  advise_view(at, offset_bytes, bytes, bytes);
}

void Home::advise_view(void *at, std::uint64_t offset_bytes, std::uint64_t bytes,
                       std::uint64_t tail_at) const noexcept {
  // Tracking is by 4 KiB pages. A tail goes without that advice, which makes it an area of its own:
  // what is opened in it by single pages is too small for a huge one, and it is no tail
  // when more is opened at once.
  madvise(at, tail_at, MADV_NOHUGEPAGE);
  // A child is no participant; sharing would also make our stores copy.
  madvise(at, bytes, MADV_DONTFORK);
  // A core dump looks at each page, for minutes, and meanwhile its process is not dead.
  madvise(at, bytes, MADV_DONTDUMP);
  platform::keep_off_holes(at, offset_bytes, bytes, readahead_bytes_);
}

Errc Home::map_view_again(std::byte *view) noexcept {
  TMH_ASSERT(is_open() && view != nullptr);
  void *at = map_here(view, PROT_NONE, MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED, key_);
  if (at == MAP_FAILED) return fail_errno(Errc::kOutOfMemory, "mapping a view");
  advise_view(at, 0, max_bytes_);
  return Errc::kOk;
}

bool Home::map_pages_again(std::byte *at, std::uint64_t offset_bytes, std::uint64_t bytes,
                           bool accessible) const noexcept {
  TMH_ASSERT(bytes > 0 && bytes % kPageBytes == 0);
  TMH_ASSERT(offset_bytes % kPageBytes == 0 && offset_bytes + bytes <= max_bytes_);
  const int protection = accessible ? PROT_READ | PROT_WRITE : PROT_NONE;
  if (platform::map_when_touched(
          at, bytes, protection, MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED, mapped_fd(),
          static_cast<std::int64_t>(mapped_offset() + offset_bytes), key_) == MAP_FAILED)
    return false;
  advise_view(at, offset_bytes, bytes);
  return true;
}

bool Home::has_data(std::uint64_t offset_bytes, std::uint64_t bytes) const noexcept {
  return platform::has_data(mapped_fd(), mapped_offset() + offset_bytes, bytes);
}

bool Home::is_cut(std::uint64_t offset_bytes) const noexcept {
  struct stat info {};
  return fstat(mapped_fd(), &info) == 0 &&
         static_cast<std::uint64_t>(info.st_size) <= mapped_offset() + offset_bytes;
}

// On tmpfs the kernel drops a page that was loaded and never stored to, and gives its block to
// others. One that has been asked for stays. Asking takes no block where the page is there, so a
// full disk says that it has been dropped. A cut file is loaded from, which says so.
bool Home::keep_block(std::uint64_t offset_bytes) const noexcept {
  TMH_ASSERT(offset_bytes % kPageBytes == 0 && offset_bytes < max_bytes_);
  const std::uint64_t at = mapped_offset() + offset_bytes;
  const bool is_there = platform::has_data(mapped_fd(), at, kPageBytes) &&
                        platform::allocate_blocks(mapped_fd(), at, kPageBytes) != Errc::kDiskFull;
  return is_there || is_cut(offset_bytes);
}

bool Home::map_lines_again(std::byte *view) const noexcept {
  TMH_ASSERT(is_open() && view != nullptr);
  void *at = map_here(view, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, key_);
  if (at == MAP_FAILED) return false;
  advise_view(at, 0, max_bytes_);
  // Reading ahead makes large folios. Opening a page dirties every block of its folio under the
  // folio's lock, which all processes that open pages of it want: two of them inserted 0.6 to 0.8
  // times as fast (bench/README.md, "Search trees"). All over, whatever holes there are, so that it
  // is one mapping: mremap() moves no two at once.
  platform::keep_off_holes(at, 0, max_bytes_, 0);
  return true;
}

Errc Home::map_parked(std::uintptr_t view, std::byte **parked) noexcept {
  TMH_ASSERT(view % kPageBytes == 0);
  // What one entry of the page table's third level spans.
  constexpr std::uint64_t kAlign = 1ull << 30;
  const std::uint64_t bytes = max_bytes_ + kAlign;
  void *room = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED)
    return fail_errno(Errc::kOutOfMemory, "reserving addresses for line mode");
  auto *const begin = static_cast<std::byte *>(room);
  std::byte *const wanted = begin + (view - reinterpret_cast<std::uintptr_t>(room)) % kAlign;
  if (!map_lines_again(wanted)) {
    const Errc error = fail_errno(Errc::kOutOfMemory, "mapping for line mode");
    munmap(room, bytes);
    return error;
  }
  if (wanted != begin) munmap(begin, static_cast<std::uint64_t>(wanted - begin));
  if (wanted + max_bytes_ != begin + bytes)
    munmap(wanted + max_bytes_, static_cast<std::uint64_t>(begin + bytes - (wanted + max_bytes_)));
  *parked = wanted;
  return Errc::kOk;
}

}  // namespace tmh::storage
