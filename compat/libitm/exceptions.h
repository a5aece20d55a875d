// compat/libitm/exceptions.h -- exceptions that a thread's transaction has allocated, thrown or
// caught, and what the C++ runtime does with them when it rolls back.
// Shape:     object: what __cxa_allocate_exception() gives. No destructor of it runs: the stores
//            that made it are undone.
// Contexts:  of the thread whose exceptions they are.
// Why:       libstdc++'s __cxa_tm_cleanup is made for this.
#pragma once

#include <unwind.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <utility>
#include <vector>

namespace tmh::itm {

// unwinding: the unwinder's header, directly behind which the object lies.
[[nodiscard]] inline void *object_of(void *unwinding) noexcept {
  return static_cast<_Unwind_Exception *>(unwinding) + 1;
}
// Allocated, not thrown.
void free_exception(void *object);

class Exceptions {
 public:
  // Those of a begin that can be undone alone.
  struct Mark {
    std::size_t allocated = 0, thrown = 0, kept = 0;
    std::uint32_t caught = 0;
    std::uint32_t uncaught = 0;  // the runtime's count, see uncaught()
  };

  // The calling thread's from here on.
  void attach() noexcept;
  // The runtime's count of this thread's exceptions that are thrown and not yet caught.
  [[nodiscard]] std::uint32_t uncaught() const noexcept { return *uncaught_; }

  void add_allocated(void *object) { allocated_.push_back(object); }
  // is_kept: a rollback deletes it.
  void note_thrown(void *object, bool is_kept);
  void note_caught(const void *object) noexcept;
  void note_end_of_catch() noexcept {
    if (caught_ != 0) --caught_;
  }
  // The exception of the innermost handler stays until the transaction has ended: its memory is
  // this transaction's so long.
  void keep_caught() { kept_.push_back(std::current_exception()); }

  [[nodiscard]] Mark mark() const noexcept {
    return {allocated_.size(), thrown_.size(), kept_.size(), caught_, uncaught()};
  }
  void roll_back(const Mark &mark) noexcept;
  // Their end may run the program's code.
  [[nodiscard]] std::vector<std::exception_ptr> take_kept() noexcept {
    return std::exchange(kept_, {});
  }
  void forget() noexcept {
    allocated_.clear();
    thrown_.clear();
    kept_.clear();
    caught_ = 0;
  }

 private:
  unsigned int *uncaught_ = nullptr;  // of the C++ runtime, this thread's
  std::vector<void *> allocated_;     // and not yet thrown
  std::vector<void *> thrown_;        // and not yet caught
  std::vector<std::exception_ptr> kept_;
  std::uint32_t caught_ = 0;  // handlers that run
};

}  // namespace tmh::itm
