// compat/libitm/thread.h -- a thread that runs transactions of a -fgnu-tm program: nesting, user
// actions and exceptions, over a closed set of methods.
// Shape:     one for a thread, made at its first transaction. `accesses` runs the method; what
//            happens when the transaction commits or rolls back is here. In hardware everything
//            here is undone by the processor, as the program's memory is.
// Contexts:  the thread's own. NOT async-signal-safe.
// Source:    Intel's Linux TM ABI 1.1.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compat/libitm/abi.h"
#include "compat/libitm/accesses.h"
#include "compat/libitm/actions.h"
#include "compat/libitm/exceptions.h"
#include "compat/libitm/gate.h"
#include "compat/libitm/nesting.h"
#include "compat/libitm/process.h"

namespace tmh::itm {

class Thread {
 public:
  // Throws std::bad_alloc.
  Thread(Process &process, Gate::Slot *slot);
  Thread(const Thread &) = delete;
  Thread &operator=(const Thread &) = delete;

  // First: barriers find it there.
  Accesses accesses;

  // The operating system's thread ends. The object may serve another one, or is deleted.
  void retire() noexcept;
  // The thread's; made now if there is none.
  [[nodiscard]] static inline Thread &self();

  [[nodiscard]] std::uint32_t begin(std::uint32_t properties, const Registers &registers);
  void commit();
  [[noreturn]] void abort(std::uint32_t reason);
  // Whatever was done is undone; it begins again. REQUIRES: it is in a transaction.
  [[noreturn]] void restart();
  // From here on nothing is undone. May restart the transaction.
  void go_irrevocable();
  // The engine of method pages has ended its transaction.
  void forget() noexcept;
  [[nodiscard]] bool is_inside() const noexcept { return nesting_.is_inside(); }
  [[nodiscard]] bool is_irrevocable() const noexcept { return nesting_.is_irrevocable(); }
  [[nodiscard]] std::uint64_t id() { return nesting_.id(); }

  // The compiled code is going to store to its own local, or to memory that only it knows.
  void log_local(const void *at, std::size_t bytes);
  // Memory, and exceptions as memory. release: gives `memory` back.
  void note_allocated(void *memory, std::size_t bytes, Action release);
  void note_freed(void *memory, Action release);
  void add_commit_action(Action action, void *argument);
  void add_undo_action(Action action, void *argument);

  // Exceptions, as the program calls the C++ runtime. object: as exceptions.h.
  void note_exception(void *object, std::size_t bytes);
  void note_thrown(void *object);
  void note_caught(const void *object) noexcept;
  void keep_caught();
  void note_end_of_catch() noexcept { exceptions_.note_end_of_catch(); }

 private:
  // Of the transaction that runs, all attempts.
  struct Wanted {
    std::uint32_t properties = 0;  // of the outermost begin
    std::uint32_t attempt = 0;     // earlier ones that failed
    bool is_alone = false;         // the next attempt runs alone,
    bool is_irrevocable = false;   // and for good
  };

  static Thread &make_self();
  [[nodiscard]] std::uint32_t begin_outer(bool is_restart);
  [[nodiscard]] std::uint32_t begin_pages();
  [[nodiscard]] std::uint32_t begin_alone();
  [[nodiscard]] std::uint32_t begin_nested(std::uint32_t properties, const Registers &registers);
  [[nodiscard]] bool can_run_lines() const noexcept;
  [[nodiscard]] std::uint32_t path(std::uint32_t properties) const noexcept;
  void commit_nested();
  void run_effects();
  [[noreturn]] void leave(const Registers &registers, void (*way)(void *thread));
  void note_failed_attempt() noexcept;
  void roll_back();
  [[nodiscard]] Registers roll_back_nested();
  void forget_traces() noexcept;

  // Something below is not as a small transaction leaves it: nested begins, logs, memory,
  // exceptions, actions.
  bool has_traces_ = false;
  Wanted wanted_;
  Process &process_;
  Nesting nesting_;
  Exceptions exceptions_;
  Actions actions_;
};

// Of the calling thread; null before its first transaction.
extern constinit thread_local Thread *this_thread __attribute__((tls_model("initial-exec")));

inline Thread &Thread::self() {
  Thread *const thread = this_thread;
  return thread != nullptr ? *thread : make_self();
}

}  // namespace tmh::itm
