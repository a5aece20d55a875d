// compat/libitm/own_new.cpp -- operator new and delete of this library: libitm.map hides them.
// Why:       the program may have its own, which counts, or runs transactions itself. What the
//            library keeps is none of its business. In method pages the program's malloc() is the
//            engine's, whose memory takes part in transactions: this is the C library's.
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <new>

#include "compat/libitm/pages/pages.h"

extern "C" {
void *__libc_malloc(std::size_t bytes);
void *__libc_memalign(std::size_t alignment, std::size_t bytes);
void __libc_free(void *memory);
}

namespace {

// In method pages a transaction notices stores to the C library's data.
class OwnWork {
 public:
  OwnWork() noexcept : before_(engine_ != nullptr ? engine_->open_own_work() : 0) {}
  ~OwnWork() {
    if (engine_ != nullptr) engine_->close_own_work(before_);
  }
  OwnWork(const OwnWork &) = delete;
  OwnWork &operator=(const OwnWork &) = delete;

 private:
  const tmh::itm::pages::Calls *engine_ = tmh::itm::pages::engine;
  int before_;
};

void *allocate(std::size_t bytes) noexcept {
  const OwnWork own_work;
  return __libc_malloc(bytes == 0 ? 1 : bytes);
}
void *allocate(std::size_t bytes, std::align_val_t alignment) noexcept {
  const OwnWork own_work;
  return __libc_memalign(static_cast<std::size_t>(alignment), bytes);
}
void release(void *memory) noexcept {
  const OwnWork own_work;
  __libc_free(memory);
}

// An exception that left a barrier would have the compiled code commit half of its transaction.
void *or_die(void *memory) noexcept {
  if (memory != nullptr) return memory;
  constexpr char kSentence[] = "libitm (tmh): no memory for a transaction's logs\n";
  static_cast<void>(!write(STDERR_FILENO, kSentence, sizeof kSentence - 1));
  std::abort();
}

}  // namespace

void *operator new(std::size_t bytes) { return or_die(allocate(bytes)); }
void *operator new[](std::size_t bytes) { return operator new(bytes); }
void *operator new(std::size_t bytes, const std::nothrow_t &) noexcept { return allocate(bytes); }
void *operator new[](std::size_t bytes, const std::nothrow_t &) noexcept { return allocate(bytes); }
void operator delete(void *memory) noexcept { release(memory); }
void operator delete[](void *memory) noexcept { release(memory); }
void operator delete(void *memory, std::size_t) noexcept { release(memory); }
void operator delete[](void *memory, std::size_t) noexcept { release(memory); }

// SoftwareThread and the undo log's entries are aligned to cache lines.
void *operator new(std::size_t bytes, std::align_val_t alignment) {
  return or_die(allocate(bytes, alignment));
}
void *operator new(std::size_t bytes, std::align_val_t alignment, const std::nothrow_t &) noexcept {
  return allocate(bytes, alignment);
}
void operator delete(void *memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void *memory, std::size_t, std::align_val_t) noexcept { release(memory); }
