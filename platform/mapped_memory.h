// platform/mapped_memory.h -- memory from the kernel for code that may run in a fault handler: what
// it has interrupted may be in the heap.
// Contexts:  async-signal-safe, but where it throws: std::bad_alloc, for want of memory.
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <memory_resource>
#include <new>

#include "platform/assert.h"

namespace tmh::platform {

// Each block is a mapping of its own: upstream of a std::pmr::monotonic_buffer_resource, or for a
// container or two.
class MappedMemory final : public std::pmr::memory_resource {
 private:
  static constexpr std::size_t kPage = 4096;
  [[nodiscard]] static std::size_t in_pages(std::size_t bytes) noexcept {
    return std::max<std::size_t>(1, (bytes + kPage - 1) / kPage) * kPage;
  }

  void *do_allocate(std::size_t bytes, std::size_t alignment) override {
    TMH_ASSERT(alignment <= kPage);
    void *const memory =
        mmap(nullptr, in_pages(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    return memory;
  }
  void do_deallocate(void *memory, std::size_t bytes, std::size_t) override {
    munmap(memory, in_pages(bytes));
  }
  [[nodiscard]] bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
    return this == &other;
  }
};

}  // namespace tmh::platform
