// levels/process/faults.cpp -- SIGSEGV and SIGBUS of accesses without the right mapping; other
// faults in transactions; the signal that asks for pages.
#include "levels/process/faults.h"

#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "levels/process/control.h"
#include "levels/process/copies.h"
#include "levels/process/ground/ground.h"
#include "levels/process/plain_pages.h"
#include "levels/process/recalls.h"
#include "levels/process/requests.h"
#include "levels/process/rights.h"
#include "levels/process/task_functions.h"
#include "levels/process/transaction.h"

// rt_sigreturn(2), as the C library's, but here.
extern "C" void tmh_itm_return_from_handler();
asm(".text\n"
    ".type tmh_itm_return_from_handler, @function\n"
    "tmh_itm_return_from_handler:\n"
    "  movq $15, %rax\n"
    "  syscall\n");

namespace tmh::itm::pages {

namespace {

constexpr int kUserDispatch = 2;  // si_code of SIGSYS: SYS_USER_DISPATCH
struct sigaction previous[NSIG];

extern "C" [[noreturn]] void tmh_itm_pages_restart() { Transaction::restart(); }

// The handler returns into restart(), on the stack below the begin's frame.
void return_to_restart(ucontext_t *context) noexcept {
  TMH_ASSERT(is_running_inside && Transaction::stack() != 0);
  auto &registers = context->uc_mcontext.gregs;
  registers[REG_EFL] &= ~greg_t{0x400};  // functions expect the direction flag clear
  registers[REG_RSP] = static_cast<greg_t>(((Transaction::stack() - 1024) & ~15ull) - 8);
  registers[REG_RIP] = reinterpret_cast<greg_t>(&tmh_itm_pages_restart);
}

// As the kernel takes it: the return from handlers is this library's own code, which may always
// call the system.
struct KernelAction {
  void (*handler)(int, siginfo_t *, void *);
  unsigned long flags;
  void (*restorer)();
  std::uint64_t mask;
};

// The program's own handler, or the end.
void pass_on(int signal, siginfo_t *info, void *context) noexcept {
  const struct sigaction &action = previous[signal];
  const CallInProgress none(CallInProgress::Kind::kNone);  // the handler may leave by a jump
  // It may wait for another task, which waits for a page of this one.
  const std::uint64_t recall = 1ull << (recall_signal() - 1);
  kernel_call(SYS_rt_sigprocmask, SIG_UNBLOCK, reinterpret_cast<long>(&recall), 0, sizeof recall, 0,
              0);
  if ((action.sa_flags & SA_SIGINFO) != 0) return action.sa_sigaction(signal, info, context);
  if (action.sa_handler == SIG_IGN && info->si_code <= 0) return;
  if (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN)
    return action.sa_handler(signal);
  KernelAction standard{};
  kernel_call(SYS_rt_sigaction, signal, reinterpret_cast<long>(&standard), 0, 8, 0, 0);
  // A fault comes again behind the return; what was sent is sent again.
  if (info->si_code <= 0)
    kernel_call(SYS_tkill, kernel_call(SYS_gettid, 0, 0, 0, 0, 0, 0), signal, 0, 0, 0, 0);
}

void on_program_fault(int signal, siginfo_t *info, void *context) {
  if (!is_running_inside) return pass_on(signal, info, context);
  set_rights(Rights::kBoth);
  Transaction::die(signal);
  sigset_t mask = static_cast<ucontext_t *>(context)->uc_sigmask;
  pthread_sigmask(SIG_SETMASK, &mask, nullptr);  // the program's code may follow
  task_functions.die(signal);
}

// The interrupted code does what cannot be undone: it does so behind a commit of what was done so
// far, alone. Or the transaction begins again, alone from its begin.
void go_irrevocable_here(ucontext_t *context) {
  sigset_t mask = context->uc_sigmask;
  pthread_sigmask(SIG_SETMASK, &mask, nullptr);  // it may begin again from here
  Transaction::go_irrevocable();
  set_rights_of(context, Rights::kPlain);
}

void on_system_call(int signal, siginfo_t *info, void *handed) {
  auto *const context = static_cast<ucontext_t *>(handed);
  if (info->si_code != kUserDispatch) return on_program_fault(signal, info, handed);
  set_rights(Rights::kBoth);
  context->uc_mcontext.gregs[REG_RIP] -= 2;  // the system call comes again
  // A signal handler of the program returns.
  if (context->uc_mcontext.gregs[REG_RAX] == SYS_rt_sigreturn || !is_running_inside) return;
  go_irrevocable_here(context);
}

void on_access(int signal, siginfo_t *info, void *handed) {
  const int saved_errno = errno;
  auto *const context = static_cast<ucontext_t *>(handed);
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  const bool is_store = (context->uc_mcontext.gregs[REG_ERR] & 2) != 0;
  constexpr greg_t kFetch = 16;  // of an instruction: nothing that the engine maps can be run
  if ((context->uc_mcontext.gregs[REG_ERR] & kFetch) != 0)
    return on_program_fault(signal, info, handed);
  const PageNumber page = info->si_code > 0 && are_rights_on() ? Memory::page_of(address) : kNoPage;
  if (page == kNoPage && is_runtime_data(address)) {
    set_rights(Rights::kBoth);
    is_running_inside ? go_irrevocable_here(context) : set_rights_of(context, Rights::kPlain);
    errno = saved_errno;
    return;
  }
  if (page == kNoPage || Memory::stack_slot_of(page) == self_slot)
    return on_program_fault(signal, info, handed);
  set_rights(Rights::kBoth);
  if (!is_running_inside) {
    // A handler of the program's begins without rights.
    if (!PlainPages::is_open(page, is_store)) PlainPages::open(page, is_store);
    set_rights_of(context, Rights::kPlain);
  } else {
    const Made made = Copies::open(page, is_store);
    if (made == Made::kUnclear) recall(page);
    if (made == Made::kUnclear || made == Made::kTooOld) {
      Transaction::note_failure(made == Made::kTooOld ? Failure::kTooOld : Failure::kPlain);
      return_to_restart(context);
    } else {
      set_rights_of(context, Rights::kTransaction);
    }
  }
  errno = saved_errno;
}

void on_request(int, siginfo_t *, void *handed) { note_request(static_cast<ucontext_t *>(handed)); }

}  // namespace

struct sigaction previous_action(int signal) noexcept {
  TMH_ASSERT(0 < signal && signal < NSIG);
  return previous[signal];
}
void set_previous_action(int signal, const struct sigaction &action) noexcept {
  TMH_ASSERT(0 < signal && signal < NSIG);
  previous[signal] = action;
}

namespace {

constexpr unsigned long kRestorer = 0x04000000;

bool handle(int signal, void (*handler)(int, siginfo_t *, void *), std::uint64_t mask,
            unsigned long flags) noexcept {
  if (sigaction(signal, nullptr, &previous[signal]) != 0) return false;  // not started yet
  const KernelAction action{handler, flags | SA_SIGINFO | kRestorer, tmh_itm_return_from_handler,
                            mask};
  return kernel_call(SYS_rt_sigaction, signal, reinterpret_cast<long>(&action), 0, 8, 0, 0) == 0;
}

}  // namespace

void die_inside(int signal) noexcept {
  TMH_ASSERT(is_running_inside);
  set_rights(Rights::kBoth);
  {
    const BlockedSignals blocked;
    Transaction::die(signal);
  }
  task_functions.die(signal);
  __builtin_unreachable();
}

sigset_t without_engines(const sigset_t *set) noexcept {
  sigset_t out = *set;
  for (const int signal : {SIGSEGV, SIGBUS, SIGSYS, recall_signal()}) sigdelset(&out, signal);
  return out;
}

bool start_faults() noexcept {
  // A program may be started with a mask.
  std::uint64_t own = 1ull << (recall_signal() - 1);
  for (const int each : {SIGSEGV, SIGBUS, SIGSYS}) own |= 1ull << (each - 1);
  kernel_call(SYS_rt_sigprocmask, SIG_UNBLOCK, reinterpret_cast<long>(&own), 0, sizeof own, 0, 0);
  constexpr std::uint64_t kAll = ~0ull;
  // A fault of the handler itself ends the task.
  constexpr std::uint64_t kAccesses = 1ull << (SIGSEGV - 1) | 1ull << (SIGBUS - 1);
  return handle(SIGSEGV, on_access, kAll & ~kAccesses, 0) &&
         handle(SIGBUS, on_access, kAll & ~kAccesses, 0) &&
         handle(SIGFPE, on_program_fault, kAll & ~kAccesses, 0) &&
         handle(SIGABRT, on_program_fault, kAll & ~kAccesses, 0) &&
         handle(SIGILL, on_program_fault, kAll & ~kAccesses, 0) &&
         handle(SIGSYS, on_system_call, kAll, 0) &&
         handle(recall_signal(), on_request, kAll, SA_RESTART);
}

}  // namespace tmh::itm::pages
