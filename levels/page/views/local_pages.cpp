// levels/page/views/local_pages.cpp -- reserved memory, page lists, twins.
#include "levels/page/views/local_pages.h"

#include <sys/mman.h>

#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/page_tables.h"

namespace tmh::page {

Errc ReservedArray::reserve(std::uint64_t bytes) noexcept {
  TMH_ASSERT(bytes > 0);
  release();
  void *at = platform::map_when_touched(nullptr, bytes, PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return platform::fail_errno(Errc::kOutOfMemory, "reserving address space");
  // Sparse use: a huge page per touched spot would cost 512 times the memory.
  madvise(at, bytes, MADV_NOHUGEPAGE);
  madvise(at, bytes, MADV_DONTDUMP);  // a core dump looks at each page of 10 GiB
  base_ = static_cast<std::byte *>(at);
  bytes_ = bytes;
  return Errc::kOk;
}

void ReservedArray::release() noexcept {
  if (base_ != nullptr) munmap(base_, bytes_);
  base_ = nullptr;
}

void ReservedArray::forget_from(std::uint64_t from) noexcept {
  if (base_ == nullptr || from >= bytes_ || platform::drop(base_ + from, bytes_ - from)) return;
  void *const at = mmap(base_ + from, bytes_ - from, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  if (at == MAP_FAILED) return;
  madvise(at, bytes_ - from, MADV_NOHUGEPAGE);
  madvise(at, bytes_ - from, MADV_DONTDUMP);
}

Errc Twins::reserve() noexcept {
  if (const Errc error = pages_.reserve(std::uint64_t{kMax} * kPageBytes); error != Errc::kOk)
    return error;
  return free_.reserve(std::uint64_t{kMax} * sizeof(std::uint32_t));
}

std::uint32_t Twins::take() noexcept {
  TMH_ASSERT(pages_.base() != nullptr);
  if (free_count_ > 0) return reinterpret_cast<std::uint32_t *>(free_.base())[--free_count_];
  return used_high_ < kMax ? used_high_++ : 0;
}

void Twins::give_back(std::uint32_t twin) noexcept {
  TMH_ASSERT(twin < used_high_);
  TMH_ASSERT(twin == 0 || free_count_ + 1 < used_high_);
  if (twin != 0) reinterpret_cast<std::uint32_t *>(free_.base())[free_count_++] = twin;
}

void Twins::forget() noexcept {
  // 4 MiB: the working set of the largest hot instances measured
  constexpr std::uint32_t kKeep = 1024;
  if (used_high_ <= kKeep) return;
  pages_.forget_from(std::uint64_t{kKeep} * kPageBytes);
  free_.forget_from(0);
  free_count_ = 0;
  used_high_ = 1;
}

}  // namespace tmh::page
