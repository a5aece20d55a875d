// compat/libitm/own_new.cpp -- operator new and delete of this library: libitm.map hides them.
// Why:       the program may have its own, which counts, or runs transactions itself. What the
//            library keeps is none of its business. In method pages the program's malloc() is that of
//            the engine, whose memory takes part in transactions: this is the C library's.
#include <cstddef>
#include <new>

extern "C" {
void *__libc_malloc(std::size_t bytes);
void *__libc_memalign(std::size_t alignment, std::size_t bytes);
void __libc_free(void *memory);
}

void *operator new(std::size_t bytes) {
  void *const memory = __libc_malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void *operator new[](std::size_t bytes) { return operator new(bytes); }
void *operator new(std::size_t bytes, const std::nothrow_t &) noexcept {
  return __libc_malloc(bytes == 0 ? 1 : bytes);
}
void operator delete(void *memory) noexcept { __libc_free(memory); }
void operator delete[](void *memory) noexcept { __libc_free(memory); }
void operator delete(void *memory, std::size_t) noexcept { __libc_free(memory); }
void operator delete[](void *memory, std::size_t) noexcept { __libc_free(memory); }

// SoftwareThread is aligned to a cache line.
void *operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t &) noexcept {
  return __libc_memalign(static_cast<std::size_t>(alignment), bytes);
}
void operator delete(void *memory, std::align_val_t) noexcept { __libc_free(memory); }
void operator delete(void *memory, std::size_t, std::align_val_t) noexcept { __libc_free(memory); }
