// levels/process/engine.h -- what the heap, the threads and the C library's calls of method
// pages need of its engine.
// Contexts:  none of these is async-signal-safe unless it says so.
#pragma once

#include <signal.h>

#include <cstddef>
#include <cstdint>

namespace tmh::itm::pages {

// Threads that live at one time, the main one included.
inline constexpr std::uint32_t kTasksMax = 128;
inline constexpr std::uint64_t kStackSlot = 16ull << 20;
inline constexpr std::size_t kPageBytes = 4096;

struct Range {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;
};

// The engine runs; before that, memory is the C library's.
[[nodiscard]] bool is_started() noexcept;
// The calling task runs a transaction that can be undone.
[[nodiscard]] bool is_inside() noexcept;

// Zeroed memory for metadata, which all tasks have at this address; never versioned, never given
// back. Null: there is none left. REQUIRES: no task was created yet.
[[nodiscard]] void *reserve_shared(std::size_t bytes) noexcept;
[[nodiscard]] Range heap_range() noexcept;
// Slot i of a task's stack is [begin + i * kStackSlot, + kStackSlot). Slot 0, the main thread's, is
// not used: its stack is the program's.
[[nodiscard]] Range stacks_range() noexcept;

// A system call is going to use this memory outside of transactions: without a mapping for plain
// code the kernel would answer EFAULT. Does nothing inside, and for memory that is not covered.
void make_plain(const void *at, std::size_t bytes, bool is_store) noexcept;

// Of the heap. allocated: a rollback releases the block. freed: heap_release() is called once no
// snapshot can need it, and the transaction, if there is one, has committed.
void note_allocated(void *block) noexcept;
void note_freed(void *block) noexcept;

// Inside: from here on nothing is undone, and no other transaction runs; may begin the transaction
// again instead of returning. Outside: nothing.
void go_irrevocable();

// A descriptor of the engine's, of any task.
[[nodiscard]] bool is_own_file(int file) noexcept;

// The loader has loaded libraries, or taken some away.
void cover_libraries() noexcept;

// Before a call that may block for long: others may have the pages that this task alone may write.
void give_up_holds() noexcept;
// The same for a call that is made again when a request for pages interrupts it: only pages that
// transactions have touched already.
void give_up_touched() noexcept;
// What has interrupted this task: requests for pages, and the program's handlers; of these, those
// without SA_RESTART.
struct Interruptions {
  std::uint32_t requests, handlers, ending_handlers;
};
[[nodiscard]] Interruptions interruptions() noexcept;

// While it lives, a request for pages leaves the memory alone that make_plain() has been told of
// since: a call uses it.
class CallInProgress {
 public:
  enum class Kind : std::uint8_t {
    kNone,
    // The caller makes it again when it says EINTR. A request that finds the call before the
    // kernel, or about to be started again by it, has it say so, and takes all pages.
    kRepeated,
    kOnce,
  };
  explicit CallInProgress(Kind kind) noexcept;
  ~CallInProgress();
  CallInProgress(const CallInProgress &) = delete;
  CallInProgress &operator=(const CallInProgress &) = delete;

 private:
  [[maybe_unused]] const Kind before_;
};

// A mask that the program gives to a call, without the engine's signals.
[[nodiscard]] sigset_t without_engines(const sigset_t *set) noexcept;
// The slot of the calling task.
[[nodiscard]] std::uint32_t own_slot() noexcept;

// Tasks. The creator takes a slot; -1: all are taken.
[[nodiscard]] int take_slot() noexcept;
// No task uses the slot: its task was not created, has left, or died. Gives back what a dead one
// held.
void free_slot(int slot) noexcept;
// The slot's task is dead; free_slot() comes later. Others do not wait for it any more, and its
// last commit is whole. REQUIRES: signals are blocked.
void forget_dead(int slot) noexcept;
// In the creator, before and after it clones: it has the slot's stack mapped shared, and no copies
// that the new task would inherit.
void before_clone(int slot) noexcept;
void after_clone(int slot) noexcept;
// In the new task, first thing: maps its own view of the covered memory.
void enter_task(int slot) noexcept;
// In the task, last thing. It touches covered memory no more, but its stack.
void leave_task() noexcept;

}  // namespace tmh::itm::pages
