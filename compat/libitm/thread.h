// compat/libitm/thread.h -- a thread that runs transactions of a -fgnu-tm program: the running one,
// its nesting, and what is to happen when it commits or rolls back.
// Shape:     one for a thread, made at its first transaction. A transaction runs in one of the
//            modes below; barriers ask for the mode only where they leave their short ways.
//            In hardware everything here is undone by the processor, as the program's memory is.
// Invariant: (1) in mode kLines the thread's slot of the gate has a snapshot, and `lines` runs.
//            (2) in the modes kAlone and kAloneUndo it is alone, and `lines` takes no short way.
//            (3) what a rollback must restore of a byte is kept by `lines`, which has locked the
//            byte's line, or by the undo log, not by both. (4) nothing is kept of a frame that is
//            gone at each rollback: one behind the innermost begin that can be undone alone.
// Contexts:  the thread's own. NOT async-signal-safe.
// Source:    Intel's Linux TM ABI 1.1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <utility>
#include <vector>

#include "compat/libitm/abi.h"
#include "compat/libitm/gate.h"
#include "compat/libitm/private_ranges.h"
#include "compat/libitm/undo_log.h"
#include "levels/line/process_thread.h"

namespace tmh::itm {

enum class Mode : std::uint8_t {
  kOutside,
  kLines,     // level 1 in software
  kHardware,  // in RTM; the compiled code without barriers
  // In RTM, while others run in software: with barriers, which look at line words and note those of
  // stores.
  kHardwareBeside,
  kPages,      // on copies of pages, in method pages; no barrier does anything
  kAlone,      // no other transaction runs; stores go to memory, for good
  kAloneUndo,  // the same, but what they overwrite is kept: it may be cancelled
};

using Action = void (*)(void *argument);

class Process;

class Thread {
 public:
  // Throws std::bad_alloc.
  Thread(Process &process, Gate::Slot *slot);
  Thread(const Thread &) = delete;
  Thread &operator=(const Thread &) = delete;

  // First: barriers find it there.
  line::ProcessThread lines;

  [[nodiscard]] const Gate::Slot *slot() const noexcept { return slot_; }
  [[nodiscard]] bool has_context(std::uint32_t number) const noexcept {
    return has_lines_ && lines.context_number() == number;
  }
  // The operating system's thread ends. The object may serve another one, or is deleted.
  void retire() noexcept;
  // The thread's; made now if there is none.
  [[nodiscard]] static inline Thread &self();
  // Before any thread's: Process makes the key of their data.
  static void make_key() noexcept;

  [[nodiscard]] std::uint32_t begin(std::uint32_t properties, const Registers &registers);
  void commit();
  [[noreturn]] void abort(std::uint32_t reason);
  // Whatever was done is undone; it begins again. REQUIRES: it is in a transaction.
  [[noreturn]] void restart();
  // From here on nothing is undone. May restart the transaction.
  void go_irrevocable();
  // The engine of method pages has ended its transaction.
  void forget() noexcept;
  [[nodiscard]] bool is_inside() const noexcept { return depth_ != 0; }
  [[nodiscard]] bool is_irrevocable() const noexcept { return is_irrevocable_; }
  [[nodiscard]] bool is_alone() const noexcept {
    return mode_ == Mode::kAlone || mode_ == Mode::kAloneUndo;
  }
  [[nodiscard]] std::uint64_t id();

  // The long ways of barriers. Any bytes, any place. load_long(): 1, 2, 4 or 8 bytes.
  [[nodiscard]] std::uint64_t load_long(std::uintptr_t from, std::uint32_t bytes);
  void load_block(void *to, std::uintptr_t from, std::size_t bytes);
  void store_long(std::uintptr_t to, const void *from, std::size_t bytes);
  // What a store that lies in one line meets there.
  enum class Place : std::uint8_t {
    kNewestLine,  // which is opened now
    kOwn,         // memory that nobody else knows, and that no rollback restores
    kAnywhere,    // store_long() must do it
  };
  [[nodiscard]] inline Place place_of_store(std::uintptr_t at, std::size_t bytes);
  // Memory to memory, both through the transaction, where that needs no block in between. False:
  // it does, and nothing is copied.
  [[nodiscard]] bool copy_lines(std::uintptr_t to, std::uintptr_t from, std::size_t bytes);
  // The compiled code is going to store to its own local, or to memory that only it knows.
  void log_local(const void *at, std::size_t bytes);

  // Memory. release: gives `memory` back.
  void note_allocated(void *memory, std::size_t bytes, Action release);
  void note_freed(void *memory, Action release);
  void add_commit_action(Action action, void *argument) {
    has_traces_ = true;
    on_commit_.push_back({action, argument});
  }
  void add_undo_action(Action action, void *argument) {
    has_traces_ = true;
    on_undo_.push_back({action, argument});
  }

  // Exceptions. object: as __cxa_allocate_exception() gives it.
  void note_exception(void *object, std::size_t bytes);
  void note_exception_freed(void *object);
  void note_thrown(void *object) noexcept;
  void note_caught(const void *object) noexcept;
  // The exception of the innermost handler stays until the transaction has ended: its memory is
  // this transaction's so long.
  void keep_caught();
  void note_end_of_catch() noexcept {
    if (caught_ != 0) --caught_;
  }

 private:
  struct Call {
    Action action;
    void *argument;
  };
  // What rolling back to a begin needs to know.
  struct Point {
    Registers registers;
    std::uint32_t depth;
    std::size_t undo, privates, allocated, freed, on_commit, on_undo, exceptions, thrown, kept;
    std::uint32_t caught, uncaught;
    line::ProcessThread::Mark lines;
  };

  void make_private(std::uintptr_t begin, std::size_t bytes);
  [[nodiscard]] std::uint32_t begin_outer(bool is_restart);
  [[nodiscard]] std::uint32_t begin_nested(std::uint32_t properties, const Registers &registers);
  [[nodiscard]] std::uint32_t begin_alone();
  void begin_lines();
  void begin_lines_inside();
  void end_lines() noexcept;
  [[nodiscard]] std::uint32_t begin_hardware();
  [[nodiscard]] bool is_in_hardware() const noexcept {
    return mode_ == Mode::kHardware || mode_ == Mode::kHardwareBeside;
  }
  [[nodiscard]] bool keeps_stores() const noexcept {  // so that they can be undone here
    return mode_ == Mode::kLines || mode_ == Mode::kAloneUndo;
  }
  void commit_hardware();
  [[nodiscard]] std::uint32_t begin_pages(bool is_restart);
  void commit_pages();
  void be_alone();
  void note_irrevocable() noexcept;
  void end_alone();
  void look_at_words(std::uintptr_t at, std::size_t bytes, bool is_store);
  void save(std::uintptr_t at, std::size_t bytes);
  void undo_memory(const Point &point) noexcept;
  [[nodiscard]] std::vector<Call> take_undo_calls(std::size_t on_undo, std::size_t allocated);
  void roll_back();
  [[noreturn]] void leave(const Registers &registers, void (*way)(void *thread));
  [[noreturn]] static void leave_nested(void *thread);
  [[noreturn]] static void leave_cancelled(void *thread);
  [[noreturn]] static void leave_to_restart(void *thread);
  void note_failed_attempt() noexcept;
  [[nodiscard]] Registers roll_back_nested();
  void roll_back_exceptions(const Point &point) noexcept;
  static Thread &make_self();
  void attach() noexcept;
  void end_attempt() noexcept;
  void forget_traces() noexcept;
  void commit_nested();
  void run_effects();
  [[nodiscard]] bool can_run_lines() const noexcept;
  [[nodiscard]] inline bool meets_own_frames(std::uintptr_t line_begin) const noexcept;
  [[nodiscard]] inline bool is_in_own_frames(std::uintptr_t at, std::size_t bytes) const noexcept;
  [[nodiscard]] std::size_t private_part(std::uintptr_t at, std::size_t bytes,
                                         bool *is_private) const noexcept;
  [[nodiscard]] std::uint32_t path(std::uint32_t properties) const noexcept;

  Mode mode_ = Mode::kOutside;
  bool is_irrevocable_ = false;
  // Something below is not as a small transaction leaves it: nested begins, logs, memory,
  // exceptions, actions.
  bool has_traces_ = false;
  bool wants_alone_ = false;        // the next attempt runs alone,
  bool wants_irrevocable_ = false;  // and for good
  bool is_alone_on_pages_ = false;  // in mode kPages, no other runs beside
  std::uint32_t depth_ = 0;         // open begins
  std::uint32_t properties_ = 0;    // of the outermost one
  std::uint32_t attempt_ = 0;
  Process &process_;
  Gate::Slot *slot_ = nullptr;  // null: there is no room for this thread, it runs alone
  bool has_lines_ = false;
  unsigned int *uncaught_exceptions_ = nullptr;  // of the C++ runtime, this thread's
  Point outer_{};
  std::vector<Point> nested_;                // begins that may be cancelled alone
  std::size_t nested_when_irrevocable_ = 0;  // of these, what cannot be any more
  UndoLog undo_;
  std::vector<line::LineWord *> stored_words_;  // in mode kHardwareBeside
  PrivateRanges privates_;
  std::vector<Call> allocated_, freed_, on_commit_, on_undo_;
  std::vector<void *> exceptions_;  // allocated and not yet thrown
  std::vector<void *> thrown_;      // and not yet caught
  std::vector<std::exception_ptr> kept_;
  std::uint32_t caught_ = 0;
  std::uint64_t id_ = 0;
  std::vector<std::uint64_t> nested_ids_;
};

// Of the calling thread; null before its first transaction.
extern constinit thread_local Thread *this_thread __attribute__((tls_model("initial-exec")));

inline Thread &Thread::self() {
  Thread *const thread = this_thread;
  return thread != nullptr ? *thread : make_self();
}

[[noreturn]] void die(const char *sentence) noexcept;

}  // namespace tmh::itm
