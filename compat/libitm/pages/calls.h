// compat/libitm/pages/calls.h -- how libitm.so.1 reaches the engine of method pages, which is a
// library of its own (it is loaded first, because it has the program's malloc() and threads).
// Contexts:  the calling thread's transaction. NOT async-signal-safe.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tmh::itm::pages {

inline constexpr std::uint32_t kCallsVersion = 2;

// The program's symbol `tmh_itm_pages`.
struct Calls {
  std::uint32_t version;
  // The program was linked with a libitm: the engine starts, or has started.
  bool (*is_wanted)();
  // The engine calls these inside. restart: never returns; calls roll_back() first. irrevocable:
  // the thread's transaction is going to do what cannot be undone; may not return either. died:
  // the transaction is over, rolled back; what the thread knew of it is to be forgotten.
  void (*set_functions)(void (*restart)(), void (*irrevocable)(), void (*died)());
  // True: transactions of this thread must run alone: others use its stack.
  bool (*must_be_alone)();
  // False: the thread runs on a stack that the program has made, where no transaction can begin:
  // the engine changes the mappings of all memory but a thread's own stack.
  bool (*is_on_own_stack)(std::uintptr_t stack);
  // stack: where the frames of the transaction's callers begin. A rollback restores from there on.
  // may_be_cancelled: it cannot go irrevocable; system calls in it are its pure functions' affair.
  void (*begin)(std::uintptr_t stack, std::uint32_t attempt, bool may_be_cancelled);
  // False: it must be rolled back and begun again.
  bool (*commit)();
  void (*roll_back)();
  // No other transaction runs until end_alone(): begin() after it cannot fail for one; without
  // begin() the thread runs as plain code.
  void (*be_alone)();
  void (*end_alone)();
  // Inside: publishes what was done so far; from here on it is alone, as plain code. False: it must
  // be rolled back and begun again.
  bool (*go_alone)();
  // Closed nesting.
  void (*mark)(std::uintptr_t stack);
  void (*drop_mark)();
  void (*roll_back_to_mark)();
  void (*count_cancel)();
  // Code without barriers may run: the engine finds out by itself what cannot be undone.
  bool (*finds_effects)();
  // What libitm.so.1 does in between is no part of the transaction. close takes what open gave.
  int (*open_own_work)();
  void (*close_own_work)(int before);
  // Appends the members of a JSON object; the number of characters.
  int (*statistics)(char *text, std::size_t bytes);
};

static_assert(offsetof(Calls, version) == 0);  // whatever follows it, libitm.so.1 reads that first

// Of libitm.so.1, for its operator new; null in other methods.
inline constinit const Calls *engine = nullptr;

}  // namespace tmh::itm::pages
