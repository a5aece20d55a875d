// levels/process/ground/system_calls.h -- mapping calls as the kernel has them: those of the C
// library are interposed for the program (map_calls.cpp).
#pragma once

#include <sys/mman.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>

#include "levels/process/ground/assert.h"
#include "levels/process/ground/kernel_call.h"

namespace tmh::itm::pages {

// The C library's convention: -1, and errno says why.
inline long or_minus_one(long result) noexcept {
  if (result >= 0 || result < -4095) return result;
  errno = static_cast<int>(-result);
  return -1;
}

inline void *raw_mmap(void *at, std::size_t bytes, int rights, int flags, int file,
                      off_t offset) noexcept {
  return reinterpret_cast<void *>(
      or_minus_one(kernel_call(SYS_mmap, reinterpret_cast<long>(at), static_cast<long>(bytes),
                               rights, flags, file, offset)));
}
// Zeroed, of this process alone; null: there is none.
[[nodiscard]] inline void *private_memory(std::size_t bytes) noexcept {
  TMH_ASSERT(bytes != 0);
  void *const memory = raw_mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}
inline int raw_munmap(void *at, std::size_t bytes) noexcept {
  return static_cast<int>(or_minus_one(
      kernel_call(SYS_munmap, reinterpret_cast<long>(at), static_cast<long>(bytes), 0, 0, 0, 0)));
}
inline int raw_madvise(void *at, std::size_t bytes, int advice) noexcept {
  return static_cast<int>(or_minus_one(kernel_call(SYS_madvise, reinterpret_cast<long>(at),
                                                   static_cast<long>(bytes), advice, 0, 0, 0)));
}
inline int raw_mprotect(void *at, std::size_t bytes, int rights) noexcept {
  return static_cast<int>(or_minus_one(kernel_call(SYS_mprotect, reinterpret_cast<long>(at),
                                                   static_cast<long>(bytes), rights, 0, 0, 0)));
}
inline int raw_pkey_mprotect(void *at, std::size_t bytes, int rights, int key) noexcept {
  return static_cast<int>(or_minus_one(kernel_call(SYS_pkey_mprotect, reinterpret_cast<long>(at),
                                                   static_cast<long>(bytes), rights, key, 0, 0)));
}
inline int raw_ioctl(int file, unsigned long request, void *argument) noexcept {
  return static_cast<int>(or_minus_one(kernel_call(SYS_ioctl, file, static_cast<long>(request),
                                                   reinterpret_cast<long>(argument), 0, 0, 0)));
}

}  // namespace tmh::itm::pages
