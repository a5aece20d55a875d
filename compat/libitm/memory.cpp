// compat/libitm/memory.cpp -- malloc, free, new and delete in transactions: what was allocated is
// given back when the transaction rolls back, what was freed is given back when it has committed.
#include <dlfcn.h>

#include <cstdlib>
#include <new>

#include "compat/libitm/thread.h"

namespace tmh::itm {

namespace {

// operator new or delete of the program, which may have its own; the library's own are private to
// it (own_new.cpp).
template <class Function>
Function *of_program(const char *name) noexcept {
  void *const found = dlsym(RTLD_DEFAULT, name);
  if (found == nullptr) die("the program has no operator new or delete");
  return reinterpret_cast<Function *>(found);
}

void release_malloc(void *memory) { std::free(memory); }
void release_new(void *memory) {
  static auto *const operator_delete = of_program<void(void *)>("_ZdlPv");
  operator_delete(memory);
}
void release_new_array(void *memory) {
  static auto *const operator_delete = of_program<void(void *)>("_ZdaPv");
  operator_delete(memory);
}

void *noted(void *memory, std::size_t bytes, Action release) {
  Thread::self().note_allocated(memory, bytes, release);
  return memory;
}

using New = void *(std::size_t);
using NothrowNew = void *(std::size_t, const std::nothrow_t &);

}  // namespace

}  // namespace tmh::itm

using tmh::itm::New;
using tmh::itm::noted;
using tmh::itm::NothrowNew;
using tmh::itm::of_program;
using tmh::itm::Thread;

extern "C" {

void *_ITM_malloc(std::size_t bytes) {
  return noted(std::malloc(bytes), bytes, tmh::itm::release_malloc);
}
void *_ITM_calloc(std::size_t count, std::size_t bytes) {
  return noted(std::calloc(count, bytes), count * bytes, tmh::itm::release_malloc);
}
void _ITM_free(void *memory) { Thread::self().note_freed(memory, tmh::itm::release_malloc); }

// The clones' names are those of operator new and delete, with the prefix of clones.
void *_ZGTtnwm(std::size_t bytes) {
  static auto *const operator_new = of_program<New>("_Znwm");
  return noted(operator_new(bytes), bytes, tmh::itm::release_new);
}
void *_ZGTtnam(std::size_t bytes) {
  static auto *const operator_new = of_program<New>("_Znam");
  return noted(operator_new(bytes), bytes, tmh::itm::release_new_array);
}
void *_ZGTtnwmRKSt9nothrow_t(std::size_t bytes, const std::nothrow_t *) {
  static auto *const operator_new = of_program<NothrowNew>("_ZnwmRKSt9nothrow_t");
  return noted(operator_new(bytes, std::nothrow), bytes, tmh::itm::release_new);
}
void *_ZGTtnamRKSt9nothrow_t(std::size_t bytes, const std::nothrow_t *) {
  static auto *const operator_new = of_program<NothrowNew>("_ZnamRKSt9nothrow_t");
  return noted(operator_new(bytes, std::nothrow), bytes, tmh::itm::release_new_array);
}
void _ZGTtdlPv(void *memory) { Thread::self().note_freed(memory, tmh::itm::release_new); }
void _ZGTtdaPv(void *memory) { Thread::self().note_freed(memory, tmh::itm::release_new_array); }
void _ZGTtdlPvRKSt9nothrow_t(void *memory, const std::nothrow_t *) { _ZGTtdlPv(memory); }
void _ZGTtdaPvRKSt9nothrow_t(void *memory, const std::nothrow_t *) { _ZGTtdaPv(memory); }
void _ZGTtdlPvm(void *memory, std::size_t) { _ZGTtdlPv(memory); }
void _ZGTtdlPvmRKSt9nothrow_t(void *memory, std::size_t, const std::nothrow_t *) {
  _ZGTtdlPv(memory);
}
}
