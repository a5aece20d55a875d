#include "compat/libitm/tasks/undertaker.h"

#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "compat/libitm/tasks/task_records.h"
#include "levels/process/ground/ground.h"
#include "levels/process/process.h"
#include "platform/futex.h"

namespace tmh::itm::pages {

namespace {

// Data of this library, not of the program: the undertaker runs on it.
alignas(64) char stack[64 * 1024];
static_assert(sizeof stack % kPageBytes == 0);

[[noreturn]] void end_program(int status) noexcept {
  if (!WIFSIGNALED(status)) _exit(WEXITSTATUS(status));
  // As the task, whatever main does with this signal.
  const int signal = WTERMSIG(status);
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  sigaction(signal, &action, nullptr);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &set, nullptr, 8);
  syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), signal);
  _exit(128 + signal);
}

void bury(TaskRecord &record, int status) noexcept {
  TMH_ASSERT(slot_of(record) != 0 && (WIFEXITED(status) || WIFSIGNALED(status)));
  const Life life = record.life();
  if (life != Life::kEnded) {
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) end_program(status);
    record.value = TMH_ITM_THREAD_DIED;
    record.signal.store(SIGKILL, std::memory_order_relaxed);
  }
  forget_dead(static_cast<int>(slot_of(record)));
  record.set_life(Life::kGone);
  tasks->gone.fetch_add(1, std::memory_order_release);
  platform::futex_wake(tasks->gone);
}

// Threads that a dead creator was about to make, and has not.
void bury_unborn(std::int32_t creator) noexcept {
  for (TaskRecord &each : tasks->records)
    if (each.life() == Life::kCreating && each.creator.load(std::memory_order_relaxed) == creator &&
        each.pid.load(std::memory_order_relaxed) == 0) {
      TMH_ASSERT(slot_of(each) != 0);
      each.claim.store(Claim::kDone, std::memory_order_relaxed);
      each.set_life(Life::kGone);
    }
}

void *wait_for_ends(void *) {
  for (;;) {
    // acquire: before the look at children, so that a later child wakes the wait below
    const std::uint32_t created = tasks->created.load(std::memory_order_acquire);
    int status = 0;
    const pid_t pid = waitpid(-1, &status, static_cast<int>(__WCLONE));
    if (pid < 0) {
      if (errno == ECHILD) platform::futex_wait(tasks->created, created, 1'000'000'000);
      continue;
    }
    for (TaskRecord &each : tasks->records)
      if (each.pid.load(std::memory_order_relaxed) == pid) {
        each.pid.store(0, std::memory_order_relaxed);
        bury(each, status);
        bury_unborn(pid);
        break;
      }
  }
  return nullptr;
}

}  // namespace

bool start_undertaker() noexcept {
  sigset_t all, before;
  sigfillset(&all);
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const bool is_started =
      pthread_attr_setstack(&attributes, stack, sizeof stack) == 0 &&
      pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0 &&
      TMH_REAL(pthread_create)(&thread, &attributes, wait_for_ends, nullptr) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  return is_started;
}

void tell_undertaker() noexcept {
  tasks->created.fetch_add(1, std::memory_order_release);
  platform::futex_wake(tasks->created);
}

}  // namespace tmh::itm::pages
