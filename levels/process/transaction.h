// levels/process/transaction.h -- the running transaction of this task: begin, commit,
// rollback, as libitm.so.1 calls them.
// Invariant: (1) inside, the slot's pin is the snapshot; copies show it (copies.h).
//            (2) a commit is the store of the clock, under the commit lock.
//            (3) a rollback restores copies, the own stack from the begin upwards, and thread_local
//            variables of the program.
// Isolation: snapshot isolation: of two transactions that overlap in time and store to the same
//            word, one aborts; so does one that would overwrite what plain code has stored since.
//            Serializable: also a committer with a copy of a page that was committed to.
// Source:    EXCITE-VM, section 3.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tmh::itm::pages {

// Why libitm.so.1 must start the transaction again.
enum class Failure : std::uint8_t { kConflict, kTooOld, kPlain };

using Function = void (*)();  // of libitm.so.1

class Transaction {
 public:
  // guard_transaction() makes it run. REQUIRES: outside; the view has started.
  static void begin(std::uintptr_t stack, std::uint32_t attempt) noexcept;
  [[nodiscard]] static bool commit() noexcept;
  static void roll_back() noexcept;
  [[nodiscard]] static bool go_alone() noexcept;
  static std::size_t mark() noexcept;
  static void drop_mark() noexcept;
  // Second part of mark(), in the begin's frame or below.
  static void save_stack_of_mark(std::uintptr_t stack) noexcept;
  static void roll_back_to_mark() noexcept;
  static void set_functions(Function restart, Function irrevocable, Function died) noexcept;
  static void go_irrevocable();

  // [handler] The fault handler finds that the transaction must start again.
  static void note_failure(Failure failure) noexcept;
  // [handler] The program's fault ended this thread: rolled back, outside.
  static void die(int signal) noexcept;
  [[nodiscard]] static std::uintptr_t stack() noexcept;
  [[noreturn]] static void restart() noexcept;

  // Blocks of the heap.
  static void note_allocated(void *block) noexcept;
  static void note_freed(void *block) noexcept;
  static void leave() noexcept;
  // This task's first: copies stand at `clock`; frames of its program lie below `stack_end`.
  static void enter(std::uint64_t clock, std::uintptr_t stack_end) noexcept;
};

inline bool is_serializable = false;

}  // namespace tmh::itm::pages
