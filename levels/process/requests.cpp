// levels/process/requests.cpp -- counts, and the order of what waits.
#include "levels/process/requests.h"

#include <signal.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstring>

#include "levels/process/control.h"
#include "levels/process/ground/ground.h"
#include "levels/process/holds.h"
#include "levels/process/rights.h"

namespace tmh::itm::pages {

namespace {

// A request waits until the task is not busy; some of its pages until a call is over.
volatile sig_atomic_t busy = 0, has_request = 0, has_owed_pages = 0;
volatile std::uint32_t requests = 0;
// The program's handlers that have run, and those without SA_RESTART.
volatile std::uint32_t handlers_run = 0, ending_handlers_run = 0;
std::uint64_t waiting = 0;  // bits of signals that wait in this task
using CallKind = CallInProgress::Kind;
volatile CallKind call = CallKind::kNone;

// REQUIRES: no other request is answered meanwhile.
void answer_requests(bool is_in_call) noexcept {
  TMH_ASSERT(has_view);
  has_request = 0;
  has_owed_pages = is_in_call;
  Holds::give_up(true, is_in_call);
}

[[nodiscard]] bool is_system_call(const std::uint8_t *code) noexcept {
  constexpr std::uint8_t kSystemCall[2] = {0x0f, 0x05};
  return std::memcmp(code, kSystemCall, sizeof kSystemCall) == 0;
}

// Does the call in progress still need its memory? One that the kernel does not have now, and that
// is made again, ends with EINTR.
[[nodiscard]] bool needs_memory(ucontext_t *context) noexcept {
  if (call != CallKind::kRepeated) return call != CallKind::kNone;
  auto &registers = context->uc_mcontext.gregs;
  const auto *const code = reinterpret_cast<const std::uint8_t *>(registers[REG_RIP]);
  if (is_system_call(code - 2)) return false;
  if (!is_system_call(code)) return true;
  registers[REG_RIP] += 2;
  registers[REG_RAX] = -EINTR;
  return false;
}

void send_waiting_signals() noexcept {
  if (waiting == 0 || is_running_inside || busy != 0) return;
  const std::uint64_t all = waiting;
  waiting = 0;
  const long self = kernel_call(SYS_gettid, 0, 0, 0, 0, 0, 0);
  for (int signal = 1; signal < NSIG; ++signal)
    if ((all >> (signal - 1) & 1) != 0) kernel_call(SYS_tkill, self, signal, 0, 0, 0, 0);
}

}  // namespace

int recall_signal() noexcept { return SIGRTMAX - 5; }

void note_request(ucontext_t *context) noexcept {
  const int saved_errno = errno;
  requests = requests + 1;
  if (busy != 0) {
    has_request = 1;
  } else {
    const OwnRights rights;
    answer_requests(needs_memory(context));
  }
  errno = saved_errno;
}

void answer_if_wanted() noexcept {
  if (self().is_wanted.load(std::memory_order_relaxed) == 0) return;
  self().is_wanted.store(0, std::memory_order_seq_cst);
  const Busy busy_meanwhile;
  answer_requests(call != CallKind::kNone);
}

Interruptions interruptions() noexcept { return {requests, handlers_run, ending_handlers_run}; }

void note_unseen_signal() noexcept { requests = requests + 1; }

void note_handler(bool is_restarting) noexcept {
  handlers_run = handlers_run + 1;
  if (!is_restarting) ending_handlers_run = ending_handlers_run + 1;
}

void put_off_signal(int signal) noexcept {
  TMH_ASSERT(0 < signal && signal < NSIG);
  waiting |= 1ull << (signal - 1);
}

bool Busy::is_any() noexcept { return busy != 0; }
Busy::Busy() noexcept { busy = busy + 1; }
Busy::~Busy() {
  TMH_ASSERT(busy > 0);
  for (;;) {
    // Still busy: the handler does not come in between.
    while (busy == 1 && has_request != 0) answer_requests(call != CallKind::kNone);
    busy = busy - 1;
    if (busy != 0) return;
    if (has_request == 0) break;
    busy = 1;
  }
  send_waiting_signals();
}

// Inside, a system call has the transaction begin again, say, and the caller is left by a jump.
CallInProgress::CallInProgress(Kind kind) noexcept : before_(call) {
  if (before_ == Kind::kNone && !Busy::is_any()) Holds::forget_call_uses();
  call = is_running_inside ? Kind::kNone : kind;
}
CallInProgress::~CallInProgress() {
  call = before_;
  if (call != Kind::kNone || has_owed_pages == 0 || Busy::is_any()) return;
  const Busy answered_behind;
  has_request = 1;
}

}  // namespace tmh::itm::pages
