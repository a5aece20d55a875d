// compat/libitm/pages/system_calls.h -- mapping calls as the kernel has them: those of the C
// library are interposed for the program (map_calls.cpp).
#pragma once

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>

namespace tmh::itm::pages {

inline void *raw_mmap(void *at, std::size_t bytes, int rights, int flags, int file,
                      off_t offset) noexcept {
  return reinterpret_cast<void *>(syscall(SYS_mmap, at, bytes, rights, flags, file, offset));
}
inline int raw_munmap(void *at, std::size_t bytes) noexcept {
  return static_cast<int>(syscall(SYS_munmap, at, bytes));
}
inline int raw_madvise(void *at, std::size_t bytes, int advice) noexcept {
  return static_cast<int>(syscall(SYS_madvise, at, bytes, advice));
}
inline int raw_pkey_mprotect(void *at, std::size_t bytes, int rights, int key) noexcept {
  return static_cast<int>(syscall(SYS_pkey_mprotect, at, bytes, rights, key));
}

inline int raw_ioctl(int file, unsigned long request, void *argument) noexcept {
  return static_cast<int>(syscall(SYS_ioctl, file, request, argument));
}

}  // namespace tmh::itm::pages
