// compat/libitm/exceptions.cpp -- exceptions in transactions: the C++ runtime's calls, noted.
#include "compat/libitm/exceptions.h"

#include <cxxabi.h>
#include <unwind.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "compat/libitm/thread.h"
#include "platform/assert.h"

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

// Thrown, not caught.
void delete_thrown(void *object) noexcept { __cxa_tm_cleanup(nullptr, header_of(object), 0); }

// Lets go of it; it was kept so that its memory stays.
void drop(std::exception_ptr &kept) noexcept {
  // It holds the object's address, and nothing else.
  static_assert(sizeof(std::exception_ptr) == sizeof(void *));
  void *object = nullptr;
  std::memcpy(&object, &kept, sizeof object);
  if (object == nullptr) return;
  delete_thrown(object);  // one reference less; no destructor runs
  new (&kept) std::exception_ptr();
}

}  // namespace

void free_exception(void *object) { __cxa_tm_cleanup(object, nullptr, 0); }

void Exceptions::attach() noexcept {
  uncaught_ = &reinterpret_cast<ExceptionGlobals *>(abi::__cxa_get_globals())->uncaught;
}

void Exceptions::note_thrown(void *object, bool is_kept) {
  TMH_ASSERT(object != nullptr);
  std::erase(allocated_, object);
  if (is_kept) thrown_.push_back(object);
}

void Exceptions::note_caught(const void *object) noexcept {
  thrown_.erase(std::remove(thrown_.begin(), thrown_.end(), object), thrown_.end());
  ++caught_;
}

void Exceptions::roll_back(const Mark &mark) noexcept {
  TMH_ASSERT(uncaught_ != nullptr);
  while (allocated_.size() > mark.allocated) {
    free_exception(allocated_.back());
    allocated_.pop_back();
  }
  // Ends the innermost handlers.
  if (caught_ > mark.caught) __cxa_tm_cleanup(nullptr, nullptr, caught_ - mark.caught);
  caught_ = mark.caught;
  while (kept_.size() > mark.kept) {
    drop(kept_.back());
    kept_.pop_back();
  }
  while (thrown_.size() > mark.thrown) {
    delete_thrown(thrown_.back());
    thrown_.pop_back();
  }
  *uncaught_ = mark.uncaught;
}

}  // namespace tmh::itm

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
