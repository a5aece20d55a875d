// compat/libitm/exceptions.cpp -- exceptions in transactions: the C++ runtime's calls, noted.
#include "compat/libitm/exceptions.h"

#include <cxxabi.h>
#include <unwind.h>

#include <cstring>
#include <new>

#include "compat/libitm/thread.h"

extern "C" {
// As libstdc++ exports them.
void *__cxa_allocate_exception(std::size_t bytes) noexcept;
void *__cxa_begin_catch(void *unwinding) noexcept;
void __cxa_end_catch();
// By another name: the compilers know this one, each with other types.
[[noreturn]] void runtime_throw(void *object, void *type,
                                void (*destroy)(void *)) __asm__("__cxa_throw");
void __cxa_tm_cleanup(void *unthrown, void *unwinding, unsigned int caught) noexcept;

void *_ITM_cxa_allocate_exception(std::size_t bytes) noexcept;
void _ITM_cxa_free_exception(void *object) noexcept;
void _ITM_cxa_throw(void *object, void *type, void (*destroy)(void *));
void *_ITM_cxa_begin_catch(void *unwinding) noexcept;
void _ITM_cxa_end_catch();
}

namespace tmh::itm {

namespace {

// What the runtime keeps for a thread (Itanium C++ ABI, 2.2.2).
struct ExceptionGlobals {
  void *caught;
  unsigned int uncaught;
};

// The object lies directly behind the unwinder's header.
void *object_of(void *unwinding) noexcept {
  return static_cast<_Unwind_Exception *>(unwinding) + 1;
}
void *header_of(void *object) noexcept { return static_cast<_Unwind_Exception *>(object) - 1; }

}  // namespace

unsigned int *uncaught_exceptions() noexcept {
  return &reinterpret_cast<ExceptionGlobals *>(abi::__cxa_get_globals())->uncaught;
}

void free_exception(void *object) { __cxa_tm_cleanup(object, nullptr, 0); }
void delete_thrown(void *object) noexcept { __cxa_tm_cleanup(nullptr, header_of(object), 0); }
// It holds the object's address, and nothing else.
static_assert(sizeof(std::exception_ptr) == sizeof(void *));
void drop_exception(std::exception_ptr &kept) noexcept {
  void *object = nullptr;
  std::memcpy(&object, &kept, sizeof object);
  if (object == nullptr) return;
  delete_thrown(object);  // one reference less; no destructor runs
  new (&kept) std::exception_ptr();
}
void end_catches(unsigned int count) noexcept { __cxa_tm_cleanup(nullptr, nullptr, count); }

}  // namespace tmh::itm

using tmh::itm::Thread;

void *_ITM_cxa_allocate_exception(std::size_t bytes) noexcept {
  void *const object = __cxa_allocate_exception(bytes);
  Thread::self().note_exception(object, bytes);
  return object;
}

void _ITM_cxa_free_exception(void *object) noexcept { Thread::self().note_exception_freed(object); }

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
