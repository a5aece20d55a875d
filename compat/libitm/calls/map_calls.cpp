// compat/libitm/calls/map_calls.cpp -- mmap() of private anonymous memory, from the heap of method
// pages: so that all tasks have it, at one address.
// Everything else is the kernel's: shared mappings, files, PROT_EXEC, fixed addresses but for those
// of such memory: a part of a reservation, which becomes zero.
// The heap's pages are always readable and writable: mprotect() does nothing to them, so that guard
// pages guard nothing; it refuses PROT_EXEC. A reservation (PROT_NONE) larger than the heap fails
// with ENOMEM.
// In a transaction, what gives pages back cannot be undone: the transaction becomes irrevocable.
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "levels/process/ground/ground.h"
#include "levels/process/heap/heap.h"
#include "levels/process/process.h"

namespace tmh::itm::pages {

namespace {

constexpr int kPlainFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_POPULATE | MAP_STACK |
                            MAP_LOCKED | MAP_NONBLOCK;

[[nodiscard]] std::uintptr_t address(const void *at) noexcept {
  return reinterpret_cast<std::uintptr_t>(at);
}
static_assert(kChunkBytes % kPageBytes == 0);
[[nodiscard]] std::size_t whole_pages(std::size_t bytes) noexcept {
  return (bytes + kPageBytes - 1) & ~(kPageBytes - 1);
}

// The range lies in the heap. A fork()ed child's copies of its pages are its own business.
[[nodiscard]] bool is_ours(const void *at, std::size_t bytes) noexcept {
  return is_started() && heap_owns(at) && bytes != 0 && address(at) % kPageBytes == 0 &&
         bytes - 1 <= UINTPTR_MAX - address(at) &&
         heap_owns(static_cast<const char *>(at) + (bytes - 1));
}

[[nodiscard]] void *failed(int error) noexcept {
  errno = error;
  return MAP_FAILED;
}

[[nodiscard]] void *map_zeroed(std::size_t bytes) noexcept {
  if (bytes > PTRDIFF_MAX) return failed(ENOMEM);
  char *const pages = static_cast<char *>(heap_map(bytes));
  if (pages == nullptr) return failed(ENOMEM);
  TMH_ASSERT(address(pages) % kChunkBytes == 0);
  if (is_inside())
    for (std::size_t at = 0; at < bytes; at += kChunkBytes) note_allocated(pages + at);
  if (!heap_is_zero(pages)) std::memset(pages, 0, whole_pages(bytes));
  return pages;
}

// MAP_FIXED, over what mmap() has given before.
[[nodiscard]] void *map_again(void *at, std::size_t bytes) noexcept {
  TMH_ASSERT(is_ours(at, bytes));
  if (!heap_is_mapped(address(at), whole_pages(bytes))) return failed(ENOMEM);
  if (is_inside()) go_irrevocable();
  return std::memset(at, 0, whole_pages(bytes));
}

void unmap(const void *at, std::size_t bytes) noexcept {
  TMH_ASSERT(is_ours(at, bytes));
  if (is_inside()) go_irrevocable();
  heap_unmap(address(at), whole_pages(bytes), note_freed);
}

}  // namespace

extern "C" {

void *mmap(void *at, std::size_t bytes, int protection, int flags, int file,
           off_t offset) noexcept {
  constexpr int kPrivate = MAP_PRIVATE | MAP_ANONYMOUS;
  if ((flags & MAP_FIXED) != 0 && (flags & kPrivate) == kPrivate && (protection & PROT_EXEC) == 0 &&
      is_ours(at, bytes))
    return map_again(at, bytes);
  if (!is_started() || bytes == 0 || (protection & PROT_EXEC) != 0 || (flags & ~kPlainFlags) != 0 ||
      (flags & MAP_ANONYMOUS) == 0 || (flags & MAP_PRIVATE) == 0)
    return reinterpret_cast<void *>(  // NOLINT(performance-no-int-to-ptr)
        syscall(SYS_mmap, at, bytes, protection, flags, file, offset));
  return map_zeroed(bytes);
}

void *mmap64(void *at, std::size_t bytes, int protection, int flags, int file,
             off64_t offset) noexcept {
  return mmap(at, bytes, protection, flags, file, offset);
}

int munmap(void *at, std::size_t bytes) noexcept {
  if (!is_ours(at, bytes)) return static_cast<int>(syscall(SYS_munmap, at, bytes));
  unmap(at, bytes);
  return 0;
}

void *mremap(void *at, std::size_t old_bytes, std::size_t new_bytes, int flags, ...) noexcept {
  if (!is_ours(at, std::max<std::size_t>(1, old_bytes))) {
    std::va_list arguments;
    va_start(arguments, flags);
    void *const to = (flags & MREMAP_FIXED) != 0 ? va_arg(arguments, void *) : nullptr;
    va_end(arguments);
    return reinterpret_cast<void *>(  // NOLINT(performance-no-int-to-ptr)
        syscall(SYS_mremap, at, old_bytes, new_bytes, flags, to));
  }
  if (old_bytes == 0 || new_bytes == 0 || new_bytes > PTRDIFF_MAX || (flags & ~MREMAP_MAYMOVE) != 0)
    return failed(EINVAL);
  const std::size_t before = whole_pages(old_bytes), after = whole_pages(new_bytes);
  if (!heap_is_mapped(address(at), before)) return failed(EFAULT);
  if (after <= before) {
    if (after < before) unmap(static_cast<char *>(at) + after, before - after);
    return at;
  }
  if ((flags & MREMAP_MAYMOVE) == 0) return failed(ENOMEM);
  void *const moved = map_zeroed(after);
  if (moved == MAP_FAILED) return moved;
  std::memcpy(moved, at, before);
  unmap(at, before);
  return moved;
}

int mprotect(void *at, std::size_t bytes, int protection) noexcept {
  if (is_ours(at, bytes)) {
    if ((protection & PROT_EXEC) == 0) return 0;
    errno = EACCES;
    return -1;
  }
  return static_cast<int>(syscall(SYS_mprotect, at, bytes, protection));
}

// MADV_DONTNEED of private memory: it reads as zero from then on. Other advice is none that the
// heap's pages could follow.
int madvise(void *at, std::size_t bytes, int advice) noexcept {
  if (!is_ours(at, bytes)) return static_cast<int>(syscall(SYS_madvise, at, bytes, advice));
  if (advice == MADV_DONTNEED) std::memset(at, 0, whole_pages(bytes));
  return 0;
}

}  // extern "C"

}  // namespace tmh::itm::pages
