// tests/support/heap_region.h -- memory that stands for a segment's view in tests of the heap
// alone, without an engine.
// Shape:     one private mapping: a guard page, the usable bytes, address space to grow into, a
//            guard page. A heap function that strays outside the usable bytes dies of SIGSEGV.
//            Several arenas share it, one thread, no instances.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <system_error>
#include <vector>

#include <tmh/options.hpp>

#include "storage/heap/heap.h"
#include "storage/heap/heap_check.h"
#include "storage/heap/heap_layout.h"

namespace tmh::test {

class HeapRegion {
 public:
  // Formatted and ready. max_bytes 0: cannot grow.
  explicit HeapRegion(std::uint64_t size_bytes, std::uint64_t max_bytes = 0)
      : size_bytes_(size_bytes),
        max_bytes_(std::max(size_bytes, max_bytes)),
        mapped_bytes_(max_bytes_ + 2 * kPageBytes) {
    address_ =
        mmap(nullptr, mapped_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address_ == MAP_FAILED)
      throw std::system_error(errno, std::generic_category(), "mmap of a test heap");
    base_ = static_cast<std::byte *>(address_) + kPageBytes;
    protect(0, size_bytes_, PROT_READ | PROT_WRITE);
    format_error = storage::heap_format(base_, size_bytes_);
  }
  ~HeapRegion() { munmap(address_, mapped_bytes_); }
  HeapRegion(const HeapRegion &) = delete;
  HeapRegion &operator=(const HeapRegion &) = delete;

  [[nodiscard]] std::byte *base() const noexcept { return base_; }
  [[nodiscard]] std::uint64_t size_bytes() const noexcept { return size_bytes_; }
  [[nodiscard]] std::uint64_t page_count() const noexcept { return size_bytes_ / kPageBytes; }
  [[nodiscard]] std::uint64_t page_of(const void *address) const noexcept {
    return static_cast<std::uint64_t>(static_cast<const std::byte *>(address) - base_) / kPageBytes;
  }
  template <class T>
  [[nodiscard]] T &at(storage::HeapPage page) const noexcept {
    return *reinterpret_cast<T *>(base_ + std::uint64_t{storage::raw(page)} * kPageBytes);
  }

  // As a participant sees it at the beginning of an instance.
  [[nodiscard]] storage::HeapContext context(std::uint32_t arena = 0) noexcept {
    return {base_,
            size_bytes_,
            max_bytes_,
            arena,
            max_bytes_ > size_bytes_ || grow_always ? &HeapRegion::grow : nullptr,
            this};
  }
  void *allocate(std::size_t bytes, std::size_t alignment = 16, std::uint32_t arena = 0) noexcept {
    auto here = context(arena);
    return storage::heap_allocate(here, bytes, alignment, &why);
  }
  Errc deallocate(void *pointer, std::size_t bytes = 0, std::uint32_t arena = 0) noexcept {
    auto here = context(arena);
    return storage::heap_deallocate(here, pointer, bytes);
  }
  void **root(std::string_view name, std::uint64_t type_bytes = 0) noexcept {
    auto here = context();
    return storage::heap_root_cell(here, name, type_bytes, &why);
  }
  [[nodiscard]] Errc check(storage::HeapCensus *census = nullptr) const noexcept {
    return storage::heap_check(base_, size_bytes_, census);
  }

  // What an instance's begin and abort do to the bytes. The size stays, as it does in a segment.
  [[nodiscard]] std::vector<std::byte> snapshot() const { return {base_, base_ + size_bytes_}; }
  void restore(const std::vector<std::byte> &bytes) noexcept {
    std::copy(bytes.begin(), bytes.end(), base_);
    std::memset(base_ + bytes.size(), 0, size_bytes_ - bytes.size());
  }
  [[nodiscard]] bool equals(const std::vector<std::byte> &bytes) const noexcept {
    return bytes.size() == size_bytes_ && std::memcmp(bytes.data(), base_, bytes.size()) == 0;
  }
  void protect(std::uint64_t from, std::uint64_t bytes, int protection) const {
    if (mprotect(base_ + from, bytes, protection) != 0) {
      throw std::system_error(errno, std::generic_category(), "mprotect of a test heap");
    }
  }

  Errc format_error = Errc::kOk;
  Errc why = Errc::kOk;  // of the last allocate() or root()
  // Give contexts the callback even at the maximum.
  bool grow_always = false;
  Errc grow_error = Errc::kOk;                       // what growth fails with
  std::uint64_t grow_bytes_max = ~std::uint64_t{0};  // growth beyond fails with grow_error
  std::vector<std::uint64_t> grow_calls;             // sizes asked for

 private:
  static bool grow(void *self, std::uint64_t new_size_bytes, Errc *why) noexcept {
    auto &region = *static_cast<HeapRegion *>(self);
    region.grow_calls.push_back(new_size_bytes);
    if (new_size_bytes > region.grow_bytes_max) {
      *why = region.grow_error;
      return false;
    }
    // Breaks the contract.
    if (new_size_bytes > region.max_bytes_ || new_size_bytes % kPageBytes != 0) std::abort();
    region.protect(region.size_bytes_, new_size_bytes - region.size_bytes_, PROT_READ | PROT_WRITE);
    region.size_bytes_ = new_size_bytes;
    return true;
  }

  std::uint64_t size_bytes_;
  std::uint64_t max_bytes_;
  std::uint64_t mapped_bytes_;
  void *address_ = nullptr;
  std::byte *base_ = nullptr;
};

}  // namespace tmh::test
