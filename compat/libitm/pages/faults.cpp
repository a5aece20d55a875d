// compat/libitm/pages/faults.cpp -- SIGSEGV and SIGBUS of accesses without the right mapping; other
// faults in transactions; the signal that asks for pages.
#include "compat/libitm/pages/faults.h"

#include <cpuid.h>
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "compat/libitm/pages/tasks.h"
#include "compat/libitm/pages/transaction.h"
#include "compat/libitm/pages/view.h"
#include "platform/protection_keys.h"

namespace tmh::itm::pages {

namespace {

struct sigaction previous[NSIG];
std::uint32_t rights_offset = 0;  // of PKRU in a signal's frame
volatile sig_atomic_t busy = 0, has_request = 0;

std::uint32_t with(std::uint32_t rights, Rights wanted) noexcept {
  if (copy_key < 0) return rights;
  const std::uint32_t copies = 3u << 2 * copy_key, shared = 3u << 2 * shared_key;
  rights &= ~(copies | shared);
  if (wanted == Rights::kPlain) return rights | copies;
  if (wanted == Rights::kTransaction) return rights | shared;
  return rights;
}

// What the interrupted code has when it goes on.
void set_rights_of(ucontext_t *context, Rights wanted) noexcept {
  constexpr std::size_t kHeader = 512;  // of the extended state; bit 9 of its first word: PKRU
  auto *const state = reinterpret_cast<std::byte *>(context->uc_mcontext.fpregs);
  std::uint64_t present = 0;
  std::uint32_t rights = 0;
  std::memcpy(&present, state + kHeader, sizeof present);
  if ((present & 1u << 9) != 0) std::memcpy(&rights, state + rights_offset, sizeof rights);
  rights = with(rights, wanted);
  present |= 1u << 9;
  std::memcpy(state + kHeader, &present, sizeof present);
  std::memcpy(state + rights_offset, &rights, sizeof rights);
}

extern "C" [[noreturn]] void tmh_itm_pages_restart() { Transaction::restart(); }

// The handler returns into restart(), on the stack below the begin's frame.
void return_to_restart(ucontext_t *context) noexcept {
  auto &registers = context->uc_mcontext.gregs;
  registers[REG_RSP] = static_cast<greg_t>(((Transaction::stack() - 1024) & ~15ull) - 8);
  registers[REG_RIP] = reinterpret_cast<greg_t>(&tmh_itm_pages_restart);
}

// The program's own handler, or the end.
void pass_on(int signal, siginfo_t *info, void *context) noexcept {
  const struct sigaction &action = previous[signal];
  if ((action.sa_flags & SA_SIGINFO) != 0) return action.sa_sigaction(signal, info, context);
  if (action.sa_handler == SIG_IGN && info->si_code <= 0) return;
  if (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN)
    return action.sa_handler(signal);
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  sigaction(signal, &standard, nullptr);
  // A fault comes again behind the return; what was sent is sent again.
  if (info->si_code <= 0) kill(getpid(), signal);
}

void on_program_fault(int signal, siginfo_t *info, void *context) {
  if (!is_running_inside) return pass_on(signal, info, context);
  set_rights(Rights::kBoth);
  Transaction::die(signal);
  tasks_die(signal);
}

void on_access(int signal, siginfo_t *info, void *handed) {
  const int saved_errno = errno;
  auto *const context = static_cast<ucontext_t *>(handed);
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  const bool is_store = (context->uc_mcontext.gregs[REG_ERR] & 2) != 0;
  const PageNumber page = info->si_code > 0 && copy_key >= 0 ? Memory::page_of(address) : kNoPage;
  if (page == kNoPage || Memory::stack_slot_of(page) == self_slot)
    return on_program_fault(signal, info, handed);
  set_rights(Rights::kBoth);
  if (!is_running_inside) {
    const Mapped now = View::mapped(page);
    // A handler of the program's begins without rights.
    if (now != Mapped::kHeld && (now != Mapped::kShared || is_store))
      View::open_for_plain(page, is_store);
    set_rights_of(context, Rights::kPlain);
  } else {
    const Made made = View::open_for_transaction(page, is_store);
    if (made == Made::kUnclear) View::recall(page);
    if (made == Made::kUnclear || made == Made::kTooOld) {
      Transaction::note_failure(made == Made::kTooOld ? Failure::kTooOld : Failure::kPlain);
      return_to_restart(context);
    }
    set_rights_of(context, Rights::kTransaction);
  }
  errno = saved_errno;
}

void on_request(int, siginfo_t *, void *) {
  const int saved_errno = errno;
  if (busy != 0) {
    has_request = 1;
  } else {
    View::give_up(true);
  }
  errno = saved_errno;
}

}  // namespace

void set_rights(Rights rights) noexcept {
  if (copy_key < 0) return;
  const std::uint32_t before = platform::read_key_rights();
  const std::uint32_t after = with(before, rights);
  if (after != before) platform::write_key_rights(after);
}

int recall_signal() noexcept { return SIGRTMAX - 5; }

bool Busy::is_any() noexcept { return busy != 0; }
Busy::Busy() noexcept { busy = busy + 1; }
Busy::~Busy() {
  busy = busy - 1;
  if (busy != 0 || has_request == 0) return;
  has_request = 0;
  View::give_up(true);
}

bool start_faults() noexcept {
  std::uint32_t size = 0, unused1 = 0, unused2 = 0;
  if (__get_cpuid_count(0xd, 9, &size, &rights_offset, &unused1, &unused2) == 0 ||
      rights_offset == 0)
    return false;
  struct sigaction action {};
  sigfillset(&action.sa_mask);
  action.sa_flags = SA_SIGINFO;
  action.sa_sigaction = on_access;
  for (const int signal : {SIGSEGV, SIGBUS}) {
    sigdelset(&action.sa_mask, SIGSEGV);  // a fault of this handler ends the task
    sigdelset(&action.sa_mask, SIGBUS);
    if (sigaction(signal, &action, &previous[signal]) != 0) return false;
  }
  sigfillset(&action.sa_mask);
  action.sa_sigaction = on_program_fault;
  for (const int signal : {SIGFPE, SIGABRT, SIGILL})
    if (sigaction(signal, &action, &previous[signal]) != 0) return false;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  action.sa_sigaction = on_request;
  return sigaction(recall_signal(), &action, nullptr) == 0;
}

}  // namespace tmh::itm::pages
