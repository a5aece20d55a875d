// compat/libitm/runtime_calls.cpp -- the C++ runtime's calls of exceptions, as compiled code of
// transactions makes them: each is noted in the thread's transaction.
#include <cstddef>

#include "compat/libitm/exceptions.h"
#include "compat/libitm/thread.h"

extern "C" {
// As libstdc++ exports them.
void *__cxa_allocate_exception(std::size_t bytes) noexcept;
void *__cxa_begin_catch(void *unwinding) noexcept;
void __cxa_end_catch();
// By another name: the compilers know this one, each with other types.
[[noreturn]] void runtime_throw(void *object, void *type,
                                void (*destroy)(void *)) __asm__("__cxa_throw");

void *_ITM_cxa_allocate_exception(std::size_t bytes) noexcept;
void _ITM_cxa_free_exception(void *object) noexcept;
void _ITM_cxa_throw(void *object, void *type, void (*destroy)(void *));
void *_ITM_cxa_begin_catch(void *unwinding) noexcept;
void _ITM_cxa_end_catch();
}

using tmh::itm::Thread;

void *_ITM_cxa_allocate_exception(std::size_t bytes) noexcept {
  void *const object = __cxa_allocate_exception(bytes);
  Thread::self().note_exception(object, bytes);
  return object;
}

void _ITM_cxa_free_exception(void *object) noexcept {
  Thread::self().note_freed(object, tmh::itm::free_exception);
}

void _ITM_cxa_throw(void *object, void *type, void (*destroy)(void *)) {
  Thread::self().note_thrown(object);
  runtime_throw(object, type, destroy);
}

void *_ITM_cxa_begin_catch(void *unwinding) noexcept {
  Thread::self().note_caught(tmh::itm::object_of(unwinding));
  void *const caught = __cxa_begin_catch(unwinding);
  Thread::self().keep_caught();
  return caught;
}

void _ITM_cxa_end_catch() {
  Thread::self().note_end_of_catch();
  __cxa_end_catch();
}
