// compat/libitm/memory.cpp -- malloc, free, new and delete in transactions: what was allocated is
// given back when the transaction rolls back, what was freed is given back when it has committed.
#include <cstdlib>
#include <new>

#include "compat/libitm/process.h"
#include "compat/libitm/thread.h"

namespace tmh::itm {

namespace {

void release_malloc(void *memory) { std::free(memory); }
void release_new(void *memory) { Process::self().operators.remove(memory); }
void release_new_array(void *memory) { Process::self().operators.remove_array(memory); }

void *noted(void *memory, std::size_t bytes, Action release) {
  Thread::self().note_allocated(memory, bytes, release);
  return memory;
}

const ProgramOperators &operators() { return Process::self().operators; }

}  // namespace

}  // namespace tmh::itm

using tmh::itm::noted;
using tmh::itm::operators;
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
  return noted(operators().make(bytes), bytes, tmh::itm::release_new);
}
void *_ZGTtnam(std::size_t bytes) {
  return noted(operators().make_array(bytes), bytes, tmh::itm::release_new_array);
}
void *_ZGTtnwmRKSt9nothrow_t(std::size_t bytes, const std::nothrow_t *) {
  return noted(operators().try_make(bytes, std::nothrow), bytes, tmh::itm::release_new);
}
void *_ZGTtnamRKSt9nothrow_t(std::size_t bytes, const std::nothrow_t *) {
  return noted(operators().try_make_array(bytes, std::nothrow), bytes, tmh::itm::release_new_array);
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
