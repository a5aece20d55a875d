// platform/rtm_emulation/publish.cpp -- the helper process.
#include "platform/rtm_emulation/publish.h"

#include <sched.h>
#include <sys/wait.h>

#include "platform/rtm_emulation/domain.h"
#include "platform/rtm_emulation/system.h"

namespace tmh::rtm {

namespace {

struct Job {
  void (*publish)(void *);
  void *argument;
  std::uint32_t slot;
  std::atomic<std::uint32_t> result;  // 0: not yet; 1: published; 2: the lock was lost
};

}  // namespace

// Runs in the helper. Its own stack; shares everything else with the thread that waits for it.
extern "C" __attribute__((used, visibility("hidden"))) void tmh_rtm_helper(Job *job) noexcept {
  const auto pid = static_cast<std::uint64_t>(system_call(Call::kGetpid));
  std::uint64_t expected = job->slot + 1;
  if (shared().lock.compare_exchange_strong(expected, kPublisher | pid)) {
    job->publish(job->argument);
    job->result.store(1);
    end_publication();
  } else {
    job->result.store(2);
  }
  for (;;) (void)system_call(Call::kExit, 0);
}

namespace {

constexpr std::size_t kHelperStackBytes = 64 * 1024;

// clone(2) by hand: libc's wrapper would touch its own state. The child jumps to its function with an empty stack.
long start_helper(std::uint64_t flags, std::uint64_t stack_top, Job *job) noexcept {
  long result = 0;
  register Job *kept asm("r12") = job;
  asm volatile(
      "syscall\n\t"
      "testq %%rax, %%rax\n\t"
      "jnz 1f\n\t"
      "xorl %%ebp, %%ebp\n\t"
      "movq %%r12, %%rdi\n\t"
      "call tmh_rtm_helper\n\t"
      "hlt\n\t"
      "1:"
      : "=a"(result)
      : "a"(static_cast<long>(Call::kClone)), "D"(flags), "S"(stack_top), "d"(0), "r"(kept)
      : "rcx", "r8", "r10", "r11", "memory");
  return result;
}

}  // namespace

bool publish_and_unlock(std::uint32_t slot, void (*publish)(void *), void *argument) noexcept {
  if (!several_processes(slot)) {
    publish(argument);
    end_publication();
    return true;
  }
  auto *stack = static_cast<std::uint8_t *>(map_memory(kHelperStackBytes, Sharing::kPrivate));
  Job job{publish, argument, slot, 0};
  const long pid = stack == nullptr ? -1 : start_helper(CLONE_VM | CLONE_FILES | CLONE_FS, address_of(stack) + kHelperStackBytes, &job);
  if (is_error(pid)) {  // no process to be had: what a kill would cut is still better than no commit ever
    publish(argument);
    end_publication();
  } else {
    int status = 0;
    // __WCLONE: a child without an exit signal, which the program's own wait() does not see.
    (void)system_call(Call::kWait4, static_cast<std::uint64_t>(pid), address_of(&status), __WCLONE, 0);
  }
  if (stack != nullptr) (void)system_call(Call::kMunmap, address_of(stack), kHelperStackBytes);
  return is_error(pid) || job.result.load() == 1;
}

}  // namespace tmh::rtm
