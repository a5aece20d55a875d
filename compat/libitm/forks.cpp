// compat/libitm/forks.cpp -- what a fork() of the program does to transactions: those of other
// threads are held at the gate while it runs, and are gone in the child. Where the library is
// loaded, it is told of forks.
#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "compat/libitm/pages/pages.h"
#include "compat/libitm/process.h"
#include "compat/libitm/thread.h"

namespace tmh::itm {

namespace {

// A transaction that forks holds nobody up: it may be one that another fork lets go on.
[[nodiscard]] bool forks_inside() noexcept {
  const Thread *const thread = this_thread;
  return thread != nullptr && thread->is_inside();
}

void before_fork() noexcept {
  if (forks_inside()) return;
  Process *const process = Process::hold();
  if (process != nullptr) process->gate.hold(process);
}

void after_fork_in_parent() noexcept {
  if (forks_inside()) return;
  Process *const process = Process::held();
  if (process != nullptr) process->gate.let_go(process);
  Process::let_go();
}

void forget_context(line::LineMemory &memory, std::uint32_t number) noexcept {
  memory.give_back(number);
  std::atomic<std::uint64_t> &priority = memory.state().priority;
  if (priority.load(std::memory_order_relaxed) == number + 1)  // one thread
    priority.store(0, std::memory_order_relaxed);
}

void after_fork_in_child() noexcept {
  Process *const process = Process::held();
  tmh::itm::pages::engine = nullptr;
  if (process != nullptr) {
    const Thread *const thread = this_thread;
    process->pages = nullptr;  // the child's memory is its own: its transactions run one by one
    const bool is_known = thread != nullptr;
    process->gate.forget_others(is_known ? thread->accesses.lines().slot() : nullptr,
                                is_known ? thread->accesses.lone() : nullptr);
    if (process->has_lines)
      for (std::uint32_t i = 0; i < process->memory.contexts_high(); ++i)
        if (!is_known || !thread->accesses.lines().has_context(i))
          forget_context(process->memory, i);
  }
  Process::let_go();
}

// A task of method pages has a copy of main's Process, or else one of its own, and what that one
// registers ends with it (the totals' writer), or stays for ever (a key, of which all tasks have
// 1024). So main, which may never run a transaction, has one before there are tasks.
[[gnu::constructor]] void start() noexcept {
  pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  if (Process::is_pages_asked_for()) (void)Process::self();
}

}  // namespace

}  // namespace tmh::itm
