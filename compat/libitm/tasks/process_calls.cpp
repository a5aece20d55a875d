// compat/libitm/tasks/process_calls.cpp -- the process as the program sees it: one, main's; and
// fork().
// Shape:     fork(): the parent copies the stack that it runs on, and clones a child that begins on
//            a stack of this library; there the child maps private memory over its stack, copies
//            the content back, and returns on it.
// Limits:    other memory of the program the child shares with its parent, so it is there for what
//            may follow a fork() in a program with threads: async-signal-safe calls, exec, _exit.
//            wait() for it is its creator's, not another task's. Handlers of pthread_atfork() stay
//            after dlclose().
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <pty.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <utmp.h>

#include <csetjmp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "compat/libitm/tasks/task_life.h"
#include "compat/libitm/tasks/task_records.h"
#include "compat/libitm/tasks/task_start.h"
#include "compat/libitm/tasks/thread_images.h"
#include "levels/process/ground/ground.h"
#include "levels/process/process.h"

extern "C" int __register_atfork(void (*before)(), void (*in_parent)(), void (*in_child)(),
                                 void *library);

namespace tmh::itm::pages {

namespace {

struct ForkHandlers {
  void (*before)();
  void (*in_parent)();
  void (*in_child)();
};
constexpr int kHandlersMax = 128;
// A task has those that its creator had.
ForkHandlers handlers[kHandlersMax];
int handler_count = 0;

// Data of this library: no memory of the program.
alignas(64) char first_stack[16 * 1024];
static_assert(sizeof first_stack % 16 == 0);

struct Fork {
  std::jmp_buf to_child;
  char *bottom;       // of the stack's mapping that the child gets
  char *begin, *end;  // of what is in use, the thread's descriptor included
  char *copy;
};
Fork forking;

// The child, on first_stack. Its thread's descriptor is its parent's until its own is mapped, so it
// calls nothing that might store an errno.
void begin_child(long) {
  const auto length = static_cast<std::size_t>(forking.end - forking.bottom);
  const long mapped =
      kernel_call(SYS_mmap, reinterpret_cast<long>(forking.bottom), static_cast<long>(length),
                  PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  if (mapped < 0) kernel_call(SYS_exit_group, 127, 0, 0, 0, 0, 0);
  std::memcpy(forking.begin, forking.copy, static_cast<std::size_t>(forking.end - forking.begin));
  std::longjmp(forking.to_child, 1);  // NOLINT(cert-err52-cpp)
}

[[nodiscard]] bool copy_stack(const void *frame) noexcept {
  const Range stack = stack_of(own_slot());
  forking.bottom = reinterpret_cast<char *>(stack.begin);
  forking.end = forking.bottom + stack.bytes;
  // Frames of this call and of what it calls lie below its frame.
  const auto low = (reinterpret_cast<std::uintptr_t>(frame) - 4096) & ~std::uintptr_t{4095};
  forking.begin = reinterpret_cast<char *>(low < stack.begin ? stack.begin : low);
  const auto bytes = static_cast<std::size_t>(forking.end - forking.begin);
  void *const copy = reinterpret_cast<void *>(  // NOLINT(performance-no-int-to-ptr)
      kernel_call(SYS_mmap, 0, static_cast<long>(bytes), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (reinterpret_cast<long>(copy) < 0 && reinterpret_cast<long>(copy) > -4096) return false;
  forking.copy = static_cast<char *>(copy);
  std::memcpy(copy, forking.begin, bytes);
  return true;
}

void drop_copy() noexcept {
  TMH_ASSERT(forking.copy != nullptr);
  kernel_call(SYS_munmap, reinterpret_cast<long>(forking.copy), forking.end - forking.begin, 0, 0,
              0, 0);
}

// 0: in the child.
[[gnu::noinline]] long clone_process() noexcept {
  if (setjmp(forking.to_child) != 0) return 0;  // NOLINT(cert-err52-cpp)
  if (!copy_stack(__builtin_frame_address(0))) return -ENOMEM;
  const long pid =
      tmh_itm_clone(SIGCHLD, first_stack + sizeof first_stack, nullptr, nullptr, begin_child, 0);
  drop_copy();
  return pid;
}

// 0: in the child, whose thread is the C library's then.
[[nodiscard]] long clone_thread() noexcept {
  const BlockedSignals blocked;
  const long pid = clone_process();
  if (pid == 0) {
    drop_copy();
    adopt_forked_thread();
  }
  return pid;
}

// The handlers are the program's, and may wait for other tasks, which may wait for a page.
[[nodiscard]] int fork_task() {
  TMH_ASSERT(!is_inside() && 0 <= handler_count && handler_count <= kHandlersMax);
  for (int i = handler_count; i-- > 0;)
    if (handlers[i].before != nullptr) handlers[i].before();
  const long pid = clone_thread();
  for (int i = 0; i < handler_count; ++i) {
    void (*const after)() = pid == 0 ? handlers[i].in_child : handlers[i].in_parent;
    if (after != nullptr) after();
  }
  if (pid >= 0) return static_cast<int>(pid);
  errno = static_cast<int>(-pid);
  return -1;
}

}  // namespace

}  // namespace tmh::itm::pages

using namespace tmh::itm::pages;  // NOLINT(google-build-using-namespace)

extern "C" {

// In a child of the program's own, the kernel's answer.
TMH_EXPORTED pid_t getpid() noexcept {
  return is_task() ? tasks->main_pid.load(std::memory_order_relaxed)
                   : static_cast<pid_t>(kernel_call(SYS_getpid, 0, 0, 0, 0, 0, 0));
}

TMH_EXPORTED pid_t getppid() noexcept {
  return is_task() ? parent_of_main()
                   : static_cast<pid_t>(kernel_call(SYS_getppid, 0, 0, 0, 0, 0, 0));
}

TMH_EXPORTED pid_t fork() noexcept {
  go_irrevocable();
  return is_task() ? fork_task() : TMH_REAL(fork)();
}
TMH_EXPORTED pid_t __fork() noexcept { return fork(); }

// The C library's would fork without the calls above.
TMH_EXPORTED int daemon(int keeps_folder, int keeps_streams) noexcept {
  const pid_t child = fork();
  if (child < 0) return -1;
  if (child > 0) _exit(0);
  if (setsid() < 0 || (keeps_folder == 0 && chdir("/") != 0)) return -1;
  if (keeps_streams != 0) return 0;
  const int null = open("/dev/null", O_RDWR);
  if (null < 0) return -1;
  for (const int each : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null, each);
  if (null > STDERR_FILENO) close(null);
  return 0;
}
TMH_EXPORTED int forkpty(int *master, char *name, const termios *settings,
                         const winsize *size) noexcept {
  int ends[2];
  if (openpty(&ends[0], &ends[1], name, settings, size) != 0) return -1;
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    if (login_tty(ends[1]) != 0) _exit(1);
    return 0;
  }
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
  } else {
    *master = ends[0];
  }
  return child;
}

// What pthread_atfork() calls. Before the engine runs, the C library knows the handlers, too: its
// fork() is called where the program has no tasks.
TMH_EXPORTED int __register_atfork(void (*before)(), void (*in_parent)(), void (*in_child)(),
                                   void *library) {
  if (handler_count == kHandlersMax) return ENOMEM;
  handlers[handler_count++] = {before, in_parent, in_child};
  return TMH_REAL(__register_atfork)(before, in_parent, in_child, library);
}

}  // extern "C"
