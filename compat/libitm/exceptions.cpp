// compat/libitm/exceptions.cpp -- exceptions in transactions, noted, and undone.
#include "compat/libitm/exceptions.h"

#include <cxxabi.h>
#include <unwind.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "platform/assert.h"

extern "C" {
// As libstdc++ exports it.
void __cxa_tm_cleanup(void *unthrown, void *unwinding, unsigned int caught) noexcept;
}

namespace tmh::itm {

namespace {

// What the runtime keeps for a thread (Itanium C++ ABI, 2.2.2).
struct ExceptionGlobals {
  void *caught;
  unsigned int uncaught;
};

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
