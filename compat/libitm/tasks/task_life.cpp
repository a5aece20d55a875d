#include "compat/libitm/tasks/task_life.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <unwind.h>

#include <atomic>
#include <cerrno>
#include <csetjmp>
#include <cstdlib>

#include "compat/libitm/tasks/program_streams.h"
#include "compat/libitm/tasks/std_streams.h"
#include "compat/libitm/tasks/task_records.h"
#include "compat/libitm/tasks/task_start.h"
#include "compat/libitm/tasks/thread_images.h"
#include "compat/libitm/tasks/thread_keys.h"
#include "compat/libitm/tasks/undertaker.h"
#include "levels/process/ground/ground.h"
#include "levels/process/process.h"
#include "platform/futex.h"

// The C library's, which <pthread.h> declares for C alone: the thread unwinds to the buffer.
extern "C" {
void __pthread_register_cancel(__pthread_unwind_buf_t *buffer);
void __pthread_unregister_cancel(__pthread_unwind_buf_t *buffer);
}

namespace tmh::itm::pages {

namespace {

// How often a waiter looks again, should a wake-up be lost with its task.
constexpr long kLookAgainNs = 20'000'000;

void (*call_tls_destructors)() = nullptr;
bool is_ready = false;  // images and the undertaker

[[noreturn]] void leave_process() noexcept {
  for (;;) syscall(SYS_exit_group, 0);
}

// Images and the undertaker are real threads of main, so they come before the first task.
[[nodiscard]] bool get_ready() noexcept {
  TMH_ASSERT(tasks != nullptr);
  if (is_ready) return true;
  const BlockedSignals blocked;
  is_ready = make_thread_images() && start_undertaker();
  if (is_ready) write_streams_by_lines();
  return is_ready;
}

void free_what_is_over() noexcept {
  for (TaskRecord &each : tasks->records) free_if_over(each);
}

[[nodiscard]] bool is_any_leaving() noexcept {
  for (TaskRecord &each : tasks->records)
    if (each.life() == Life::kEnded && each.claim.load(std::memory_order_acquire) == Claim::kDone)
      return true;
  return false;
}

// A slot whose task has ended, and is about to leave it, is worth waiting for.
[[nodiscard]] int take_free_slot() noexcept {
  for (;;) {
    const std::uint32_t gone = tasks->gone.load(std::memory_order_acquire);
    free_what_is_over();
    const int slot = take_slot();
    if (slot >= 0) return slot;
    if (!is_any_leaving()) {
      free_what_is_over();
      return take_slot();
    }
    platform::futex_wait(tasks->gone, gone, kLookAgainNs);
  }
}

// Everything that the thread itself destroys.
void destroy_thread_locals() {
  call_tls_destructors();
  end_thread_keys();
}

// The last of a task: its joiner goes on.
[[noreturn]] void leave(TaskRecord &record, void *value) noexcept {
  flush_streams();  // may wait, for a task that wants a page of this one
  const BlockedSignals blocked;
  TMH_ASSERT(slot_of(record) == own_slot() && record.life() == Life::kRunning);
  leave_task();
  record.value = value;
  record.set_life(Life::kEnded);
  leave_process();
}

// The C library's way of leaving a thread's frames ends at this frame.
void *run_routine(TaskRecord &record) {
  __pthread_unwind_buf_t buffer;
  // Only the first part of a jmp_buf is there, and used.
  if (__sigsetjmp(reinterpret_cast<__jmp_buf_tag *>(buffer.__cancel_jmp_buf), 0) != 0)
    return record.value;
  __pthread_register_cancel(&buffer);
  void *const value = record.routine(record.argument);
  __pthread_unregister_cancel(&buffer);
  return value;
}

void begin_task(long slot) {
  TMH_ASSERT(0 < slot && slot < static_cast<long>(kTasksMax));
  adopt_thread_image(static_cast<std::uint32_t>(slot));
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // Main may have ended before that call.
  if (syscall(SYS_getppid) != tasks->main_pid.load(std::memory_order_relaxed)) leave_process();
  // own_pid is the creator's until then: the engine asks for the kernel's number by getpid().
  enter_task(static_cast<int>(slot));
  own_pid = kernel_pid();
  enter_streams();
  TaskRecord &record = tasks->records[slot];
  record.set_life(Life::kRunning);
  BlockedSignals::set(record.mask);
  void *const value = run_routine(record);
  destroy_thread_locals();
  leave(record, value);
}

[[nodiscard]] bool is_any_alive() noexcept {
  for (std::uint32_t slot = 1; slot < kTasksMax; ++slot) {
    const Life life = tasks->records[slot].life();
    if (life != Life::kFree && life != Life::kGone) return true;
  }
  return false;
}

[[noreturn]] void end_main() {
  TMH_ASSERT(own_slot() == 0);
  destroy_thread_locals();
  flush_streams();
  give_up_holds();
  for (;;) {
    // acquire: before the look, so that a later end wakes the wait
    const std::uint32_t gone = tasks->gone.load(std::memory_order_acquire);
    if (!is_any_alive()) break;
    platform::futex_wait(tasks->gone, gone, kLookAgainNs);
  }
  std::exit(0);
}

_Unwind_Reason_Code unwind_main(int, _Unwind_Action actions, _Unwind_Exception_Class,
                                _Unwind_Exception *, _Unwind_Context *, void *) {
  if ((actions & _UA_END_OF_STACK) != 0) end_main();
  return _URC_NO_REASON;
}

}  // namespace

bool tasks_start() noexcept {
  TMH_ASSERT(tasks == nullptr && own_pid == 0);
  tasks = static_cast<TaskShared *>(reserve_shared(sizeof(TaskShared)));
  if (tasks == nullptr || !find_thread_number() || !start_thread_keys() || !start_program_streams())
    return false;
  own_pid = kernel_pid();
  call_tls_destructors = reinterpret_cast<void (*)()>(find_real("__call_tls_dtors"));
  tasks->main_pid.store(own_pid, std::memory_order_relaxed);
  tasks->main_parent = static_cast<pid_t>(syscall(SYS_getppid));
  tasks->main_thread = pthread_self();
  pthread_attr_t attributes;
  void *begin = nullptr;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0 ||
      pthread_attr_getstack(&attributes, &begin, &tasks->main_stack.bytes) != 0)
    return false;
  tasks->main_stack.begin = reinterpret_cast<std::uintptr_t>(begin);
  pthread_attr_destroy(&attributes);
  TaskRecord &main = tasks->records[0];
  main.pid.store(own_pid, std::memory_order_relaxed);
  main.set_life(Life::kRunning);
  start_streams();
  return true;
}

Range stack_of(std::uint32_t slot) noexcept {
  TMH_ASSERT(slot < kTasksMax);
  if (slot == 0) return tasks->main_stack;
  return {stacks_range().begin + slot * kStackSlot + kGuardBytes, kStackSlot - kGuardBytes};
}

pid_t parent_of_main() noexcept {
  return own_slot() == 0 ? static_cast<pid_t>(syscall(SYS_getppid)) : tasks->main_parent;
}

bool tasks_prepare() noexcept { return get_ready(); }

namespace {

// The C library's default may be larger, too (ulimit -s): no thread has asked for that.
[[nodiscard]] bool wants_larger_stack(const pthread_attr_t *attributes) noexcept {
  std::size_t bytes = 0, usual = 0;
  pthread_attr_t standard;
  if (attributes == nullptr || pthread_attr_getstacksize(attributes, &bytes) != 0 ||
      bytes <= kStackSlot || pthread_getattr_default_np(&standard) != 0)
    return false;
  pthread_attr_getstacksize(&standard, &usual);
  pthread_attr_destroy(&standard);
  return bytes != usual;
}

}  // namespace

int create_task(pthread_t *thread, const pthread_attr_t *attributes, void *(*routine)(void *),
                void *argument) noexcept {
  go_irrevocable();
  TMH_ASSERT(!is_inside());
  if (wants_larger_stack(attributes) || !get_ready()) return EAGAIN;
  const int slot = take_free_slot();
  if (slot < 0) return EAGAIN;
  int is_detached = PTHREAD_CREATE_JOINABLE;
  if (attributes != nullptr) pthread_attr_getdetachstate(attributes, &is_detached);
  flush_streams();
  const BlockedSignals blocked;
  TaskRecord &record = tasks->records[slot];
  TMH_ASSERT(slot != 0 && record.life() == Life::kFree && own_pid == kernel_pid());
  record.pid.store(0, std::memory_order_relaxed);
  record.creator.store(own_pid, std::memory_order_relaxed);
  record.claim.store(is_detached == PTHREAD_CREATE_DETACHED ? Claim::kDone : Claim::kJoinable,
                     std::memory_order_relaxed);
  record.joins.store(0, std::memory_order_relaxed);
  record.signal.store(0, std::memory_order_relaxed);
  record.value = nullptr;
  record.routine = routine;
  record.argument = argument;
  record.mask = blocked.before();
  // release: the undertaker looks at creator and pid
  record.set_life(Life::kCreating);
  before_clone(slot);
  restore_thread_image(static_cast<std::uint32_t>(slot));
  clear_thread_keys(static_cast<std::uint32_t>(slot));
  *thread = thread_of(static_cast<std::uint32_t>(slot));
  // All tasks are main's children.
  const unsigned long parent = own_slot() == 0 ? 0 : CLONE_PARENT;
  leave_restartable_sequences();
  const long pid = tmh_itm_clone(
      CLONE_FILES | CLONE_FS | CLONE_SYSVSEM | CLONE_SETTLS | CLONE_PARENT_SETTID | parent,
      stack_top_of(static_cast<std::uint32_t>(slot)), &record.pid,
      thread_pointer_of(static_cast<std::uint32_t>(slot)), begin_task, slot);
  enter_restartable_sequences();
  after_clone(slot);
  if (pid < 0) {
    record.claim.store(Claim::kDone, std::memory_order_relaxed);
    record.set_life(Life::kGone);
    free_if_over(record);
    return EAGAIN;
  }
  tell_undertaker();
  return 0;
}

void end_task(void *value) {
  TMH_ASSERT(is_task());
  if (own_slot() == 0) {
    static _Unwind_Exception unwinding;
    _Unwind_ForcedUnwind(&unwinding, unwind_main, nullptr);
    end_main();
  }
  tasks->records[own_slot()].value = value;
  TMH_REAL(pthread_exit)(value);
  __builtin_unreachable();
}

void tasks_die(int signal) noexcept {
  const std::uint32_t slot = own_slot();
  TMH_ASSERT(!is_inside() && 0 < signal && signal < NSIG);
  if (slot == 0) {
    struct sigaction action {};
    action.sa_handler = SIG_DFL;
    sigaction(signal, &action, nullptr);
    sigset_t none;
    sigemptyset(&none);
    BlockedSignals::set(none);
    syscall(SYS_tgkill, kernel_pid(), syscall(SYS_gettid), signal);
    _exit(128 + signal);
  }
  TaskRecord &record = tasks->records[slot];
  record.signal.store(signal, std::memory_order_relaxed);
  record.value = TMH_ITM_THREAD_DIED;
  record.set_life(Life::kEnded);
  // acquire: the argument belongs to it
  const tmh_itm_thread_death callback = tasks->on_death.load(std::memory_order_acquire);
  if (callback != nullptr) {
    callback(thread_of(slot), signal, tasks->on_death_argument.load(std::memory_order_relaxed));
  } else {
    char text[96];
    const int bytes = std::snprintf(
        text, sizeof text, "libitm (tmh): a thread died of signal %d in a transaction\n", signal);
    kernel_call(SYS_write, STDERR_FILENO, reinterpret_cast<long>(text), bytes, 0, 0, 0);
  }
  leave_task();
  leave_process();
}

}  // namespace tmh::itm::pages

extern "C" TMH_EXPORTED int tmh_itm_on_thread_death(tmh_itm_thread_death callback, void *argument) {
  using tmh::itm::pages::tasks;
  if (!tmh::itm::pages::is_started()) return ENOSYS;
  tasks->on_death_argument.store(argument, std::memory_order_relaxed);
  tasks->on_death.store(callback, std::memory_order_release);
  return 0;
}
