// rtm_emulator/trap.cpp -- the handlers.
#include "rtm_emulator/trap.h"

#include <ucontext.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <new>
#include <type_traits>

#include "rtm_emulator/assert.h"
#include "rtm_emulator/control.h"
#include "rtm_emulator/exec.h"
#include "rtm_emulator/flags.h"
#include "rtm_emulator/patch.h"

namespace tmh::rtm {

namespace {

constexpr std::size_t kStackBytes = 128 * 1024;
constexpr std::size_t kVectorBytesMax = 16 * 1024;  // AVX-512, PKRU and AMX together take 11,008
// AMX tiles stay what the frame says; the emulator runs without. The rights of protection keys (bit
// 9) are restored, because the emulator loads and stores for the program.
constexpr std::uint64_t kVectorsLeftAlone = std::uint64_t{3} << 17;

// The kernel's struct ucontext: glibc's is longer behind the mask.
constexpr std::size_t kKernelContextBytes = 8 + 8 + 24 + 256 + 8;
static_assert(offsetof(ucontext_t, uc_mcontext) == 40 &&
              offsetof(ucontext_t, uc_sigmask) == 40 + 256);
static_assert(kKernelContextBytes == offsetof(ucontext_t, uc_sigmask) + 8);
static_assert(kStopSignal > 31 && kStopSignal < 64, "queued, with a value");

struct alignas(64) Thread {
  Executor executor;
  std::uint32_t slot;
  std::uint64_t stops;
  std::uint64_t begin, fallback;
  // What rt_sigreturn reads: it takes the frame to begin 8 bytes below rsp.
  alignas(64) std::uint64_t return_address;
  alignas(8) std::uint8_t context[kKernelContextBytes];
  alignas(64) std::uint8_t vectors[kVectorBytesMax];
};
static_assert(std::is_standard_layout_v<Thread> &&
              offsetof(Thread, context) == offsetof(Thread, return_address) + 8);

// initial-exec: an access must not call into the loader.
thread_local Thread *t_thread __attribute__((tls_model("initial-exec"))) = nullptr;
thread_local bool t_refused __attribute__((tls_model("initial-exec"))) = false;
// By slot: a thread's memory outlives it, for the next one of this process that gets its slot.
// Whoever has the slot alone looks there.
Thread *g_memory_of_slot[kSlots];

ucontext_t &context_of(Thread &thread) noexcept {
  return *reinterpret_cast<ucontext_t *>(thread.context);
}
greg_t &rip_of(ucontext_t &context) noexcept { return context.uc_mcontext.gregs[REG_RIP]; }

// Encoding numbers to the kernel's.
constexpr int kGregs[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                            REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};

// fpx_sw_bytes, in the legacy area's last 48 bytes.
struct VectorFormat {
  std::uint32_t magic, extended_bytes;
  std::uint64_t features;
};
static_assert(sizeof(VectorFormat) == 16 && offsetof(VectorFormat, features) == 8);
const VectorFormat &format_of(const void *vectors) noexcept {
  return *reinterpret_cast<const VectorFormat *>(static_cast<const std::uint8_t *>(vectors) + 464);
}

// --- one transaction, on the thread's own stack ---

// The program is on its alternate stack itself, with its frames in use: a fault's frame must not
// begin at that stack's top again. Not while the handler's own stack is that one; sigreturn sets it
// again as the frame says.
void put_alternate_stack_aside(const ucontext_t &context) noexcept {
  const auto rsp = static_cast<std::uint64_t>(context.uc_mcontext.gregs[REG_RSP]);
  const std::uint64_t begin = address_of(context.uc_stack.ss_sp);
  if (rsp < begin || rsp - begin > context.uc_stack.ss_size) return;
  stack_t none{};
  none.ss_flags = SS_DISABLE;
  (void)system_call(Call::kSigaltstack, address_of(&none), 0);
}

[[noreturn]] void leave(Thread &thread) noexcept {
  enter_native(thread.slot);
  asm volatile(
      "movq %0, %%rsp\n\t"
      "movl $15, %%eax\n\t"  // rt_sigreturn
      "syscall\n\t"
      "hlt"
      :
      : "r"(thread.context)
      : "memory");
  __builtin_unreachable();
}

}  // namespace

extern "C" __attribute__((used, visibility("hidden"))) void tmh_rtm_run(
    Thread *thread_pointer) noexcept {
  Thread &thread = *thread_pointer;
  ucontext_t &context = context_of(thread);
  const std::uint64_t mask = format_of(thread.vectors).features & ~kVectorsLeftAlone;
  Registers &registers = thread.executor.registers();
  for (int i = 0; i < 16; ++i)
    registers.gpr[i] = static_cast<std::uint64_t>(context.uc_mcontext.gregs[kGregs[i]]);
  auto &flags = context.uc_mcontext.gregs[REG_EFL];
  flags &= ~static_cast<greg_t>(kResumeFlag);
  registers.flags = static_cast<std::uint64_t>(flags) & ~kTrapFlag;
  put_alternate_stack_aside(context);
  thread.executor.begin(thread.begin, current_knobs(), thread.slot, mask);
  restore_vectors(thread.vectors, mask);  // the kernel has cleared them for the handler
  const Executor::Outcome outcome = thread.executor.run();
  if (outcome.committed) {
    save_vectors(thread.vectors, mask);
    for (int i = 0; i < 16; ++i)
      context.uc_mcontext.gregs[kGregs[i]] = static_cast<greg_t>(registers.gpr[i]);
    flags = static_cast<greg_t>((static_cast<std::uint64_t>(flags) & ~kUserFlags) |
                                (registers.flags & kUserFlags));
    rip_of(context) = static_cast<greg_t>(outcome.rip);
  } else {  // everything as it was at XBEGIN, but for the status
    context.uc_mcontext.gregs[REG_RAX] = outcome.status;
    rip_of(context) = static_cast<greg_t>(thread.fallback);
  }
  leave(thread);
}

namespace {

// False: the frame has a form that is not known.
bool copy_frame(Thread *thread, const ucontext_t &found) noexcept {
  TMH_ASSERT(thread != nullptr);
  const void *vectors = found.uc_mcontext.fpregs;
  constexpr std::uint32_t kMagic = 0x4650'5853;  // FP_XSTATE_MAGIC1
  if (vectors == nullptr || format_of(vectors).magic != kMagic ||
      format_of(vectors).extended_bytes > kVectorBytesMax)
    return false;
  copy_bytes(thread->context, &found, kKernelContextBytes);
  copy_bytes(thread->vectors, vectors, format_of(vectors).extended_bytes);
  ucontext_t &context = context_of(*thread);
  context.uc_mcontext.fpregs = reinterpret_cast<fpregset_t>(thread->vectors);
  // A stack that was never set is saved as size 0 without flags, which sigreturn takes for a wrong
  // wish.
  if (context.uc_stack.ss_size == 0) context.uc_stack.ss_flags = SS_DISABLE;
  return true;
}

constexpr int kOurSignals[] = {SIGILL, SIGSEGV, SIGBUS, SIGFPE, SIGTRAP};

std::uint64_t all_but_faults() noexcept {
  std::uint64_t mask = ~std::uint64_t{0};
  for (const int signal : kOurSignals) mask &= ~(std::uint64_t{1} << (signal - 1));
  return mask;
}

enum class Found : std::uint8_t { kOther, kBegin, kTest, kAbort };

// 16-bit XBEGIN (66 C7 F8) and XEND outside stay what they are: illegal.
Found instruction_at(std::uint64_t rip) noexcept {
  std::uint8_t bytes[3] = {};
  if (!try_copy_bytes(bytes, reinterpret_cast<const void *>(rip), 3)) return Found::kOther;
  if (bytes[0] == kXbeginBytes[0] && bytes[1] == kXbeginBytes[1]) return Found::kBegin;
  // It was one when it trapped: another thread has replaced it since. Asked after the bytes were
  // read, so that one of both says so.
  if (bytes[0] == kHlt && is_patched(rip)) return Found::kBegin;
  if (bytes[0] == 0x0F && bytes[1] == 0x01 && bytes[2] == 0xD6) return Found::kTest;
  return bytes[0] == 0xC6 && bytes[1] == 0xF8 ? Found::kAbort : Found::kOther;
}

void set_mask(std::uint64_t mask) noexcept {
  (void)system_call(Call::kRtSigprocmask, SIG_SETMASK, address_of(&mask), 0, 8);
}

void begin_transaction(ucontext_t *found) noexcept {
  // Whichever signal it was, and whichever handler of the program's it struck: everything but
  // faults waits until the transaction is over.
  set_mask(all_but_faults());
  const auto rip = static_cast<std::uint64_t>(rip_of(*found));
  std::int32_t displacement = 0;
  (void)try_copy_bytes(&displacement, reinterpret_cast<const void *>(rip + 2), sizeof displacement);
  const std::uint64_t behind = rip + kXbeginLength;
  const std::uint64_t fallback =
      behind + static_cast<std::uint64_t>(static_cast<std::int64_t>(displacement));
  const bool is_known = t_thread != nullptr || register_thread();
  if (!is_known || !copy_frame(t_thread, *found)) {
    found->uc_mcontext.gregs[REG_RAX] = 0;
    rip_of(*found) = static_cast<greg_t>(fallback);
    return;
  }
  Thread &thread = *t_thread;
  leave_native(thread.slot);
  thread.begin = behind;
  thread.fallback = fallback;
  // From here on nothing may use the stack that the handler was called on.
  const std::uint64_t top = address_of(&thread) - 64;  // allocated below its Thread
  asm volatile(
      "movq %0, %%rsp\n\t"
      "movq %1, %%rdi\n\t"
      "xorl %%ebp, %%ebp\n\t"
      "call tmh_rtm_run\n\t"
      "hlt"
      :
      : "r"(top), "r"(&thread)
      : "memory", "rdi");
  __builtin_unreachable();
}

// --- the handlers; what the program wants of these signals is called by them ---

struct Chained {
  struct sigaction action;
};
Chained g_chained[32];
static_assert(std::all_of(std::begin(kOurSignals), std::end(kOurSignals),
                          [](int signal) { return signal > 0 && signal < 32; }));
struct sigaction g_glibc_stop;

void on_fault(int signal, siginfo_t *info, void *frame) noexcept;
void on_stop(int signal, siginfo_t *info, void *frame) noexcept;

bool is_ours(int signal) noexcept {
  for (const int ours : kOurSignals)
    if (ours == signal) return true;
  return false;
}

// struct sigaction of the kernel.
struct KernelAction {
  void (*handler)(int, siginfo_t *, void *);
  std::uint64_t flags;
  void (*restorer)();
  std::uint64_t mask;
};

extern "C" void tmh_rtm_restorer();
asm(R"(
  .text
  .globl tmh_rtm_restorer
  .hidden tmh_rtm_restorer
  .type tmh_rtm_restorer, @function
tmh_rtm_restorer:
  movl $15, %eax
  syscall
  .size tmh_rtm_restorer, .-tmh_rtm_restorer
)");

constexpr unsigned kResetHand = 0x8000'0000;  // SA_RESETHAND, unsigned
constexpr std::uint64_t kRestorerFlag = 0x0400'0000;
static_assert(kResetHand == static_cast<unsigned>(SA_RESETHAND));
static_assert(sizeof(KernelAction) == 32 && offsetof(KernelAction, mask) == 24);

bool set_kernel_action(int signal, const KernelAction &action) noexcept {
  return system_call(Call::kRtSigaction, static_cast<std::uint64_t>(signal), address_of(&action), 0,
                     8) == 0;
}

// As the program asked, but through us. An XBEGIN may come in a handler of SIGSEGV, and raise it.
bool install(int signal) noexcept {
  TMH_ASSERT(is_ours(signal));
  const struct sigaction &wanted = g_chained[signal].action;
  const bool has_handler = wanted.sa_handler != SIG_DFL && wanted.sa_handler != SIG_IGN;
  KernelAction action{on_fault, SA_SIGINFO | SA_NODEFER | SA_ONSTACK | kRestorerFlag,
                      tmh_rtm_restorer, all_but_faults()};
  if (signal != SIGILL) {
    action.flags =
        SA_SIGINFO | kRestorerFlag |
        (has_handler ? static_cast<unsigned>(wanted.sa_flags) & ~kResetHand : SA_ONSTACK);
    if (signal == SIGSEGV) action.flags |= SA_NODEFER;
    action.mask = 0;
    if (has_handler) copy_bytes(&action.mask, &wanted.sa_mask, 8);
    action.mask &= all_but_faults();
  }
  return set_kernel_action(signal, action);
}

void call_chained(int signal, siginfo_t *info, void *frame) noexcept {
  TMH_ASSERT(is_ours(signal) && info != nullptr);
  const struct sigaction action = g_chained[signal].action;
  if (action.sa_handler == SIG_IGN && info->si_code <= 0) return;  // sent, not a fault
  if (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN) {
    // The instruction faults again and the program dies there; what was sent is sent again.
    const KernelAction none{nullptr, kRestorerFlag, tmh_rtm_restorer, 0};
    (void)set_kernel_action(signal, none);
    if (info->si_code <= 0)
      (void)system_call(Call::kTgkill, pid_and_tid() >> 32, pid_and_tid() & 0xFFFF'FFFF,
                        static_cast<std::uint64_t>(signal));
    return;
  }
  if ((static_cast<unsigned>(action.sa_flags) & kResetHand) != 0)
    g_chained[signal].action.sa_handler = SIG_DFL;
  // SIGILL was installed with a mask of ours: the program's handler runs with its own.
  if (signal == SIGILL) {
    std::uint64_t mask = 0, wanted = 0;
    copy_bytes(&mask, &static_cast<ucontext_t *>(frame)->uc_sigmask, 8);
    copy_bytes(&wanted, &action.sa_mask, 8);
    mask |= wanted & all_but_faults();
    if ((action.sa_flags & SA_NODEFER) == 0) mask |= std::uint64_t{1} << (signal - 1);
    set_mask(mask);
  }
  if ((action.sa_flags & SA_SIGINFO) != 0)
    action.sa_sigaction(signal, info, frame);
  else
    action.sa_handler(signal);
}

// A fault of the emulator's own making: a thunk, or an access to the program's memory.
bool recover(ucontext_t *frame) noexcept {
  if (t_thread == nullptr) return false;
  const auto rip = static_cast<std::uint64_t>(rip_of(*frame));
  if (const std::uint64_t next = recover_access(rip); next != 0) {
    rip_of(*frame) = static_cast<greg_t>(next);
    return true;
  }
  std::uint64_t rsp = 0;
  const std::uint64_t next = t_thread->executor.recover_thunk(rip, &rsp);
  if (next == 0) return false;
  rip_of(*frame) = static_cast<greg_t>(next);
  frame->uc_mcontext.gregs[REG_RSP] = static_cast<greg_t>(rsp);
  return true;
}

void on_fault(int signal, siginfo_t *info, void *frame) noexcept {
  auto *context = static_cast<ucontext_t *>(frame);
  const bool is_fault = info->si_code > 0;
  if (is_fault && recover(context)) return;
  if (is_fault && signal == SIGSEGV && is_patched(static_cast<std::uint64_t>(rip_of(*context))))
    return begin_transaction(context);
  if (is_fault && signal == SIGILL) {
    auto &flags = context->uc_mcontext.gregs[REG_EFL];
    switch (instruction_at(static_cast<std::uint64_t>(rip_of(*context)))) {
      case Found::kBegin:
        if (!is_patched(static_cast<std::uint64_t>(rip_of(*context))))
          replace_trapped(static_cast<std::uint64_t>(rip_of(*context)));
        return begin_transaction(context);
      case Found::kTest:
        flags = (flags & ~static_cast<greg_t>(kArithmeticFlags)) | static_cast<greg_t>(kZeroFlag);
        rip_of(*context) += 3;
        return;
      case Found::kAbort:  // does nothing outside
        rip_of(*context) += 3;
        return;
      case Found::kOther:
        break;
    }
  }
  call_chained(signal, info, frame);
}

void on_stop(int signal, siginfo_t *info, void *frame) noexcept {
  std::uint64_t mark = 0;
  copy_bytes(&mark, &info->si_value, 8);
  if (info->si_code != SI_QUEUE || mark != kStopMark) {
    if (g_glibc_stop.sa_sigaction != nullptr) g_glibc_stop.sa_sigaction(signal, info, frame);
    return;
  }
  if (t_thread == nullptr) return;
  ++t_thread->stops;
  leave_native(t_thread->slot);
  enter_native(t_thread->slot);
}

}  // namespace

void install_stop_handler() noexcept {
  KernelAction old{};
  (void)system_call(Call::kRtSigaction, kStopSignal, 0, address_of(&old), 8);
  if (old.handler != on_stop) g_glibc_stop.sa_sigaction = old.handler;
  // All signals wait meanwhile: a handler of the program is native code.
  const KernelAction action{on_stop, SA_SIGINFO | SA_RESTART | SA_ONSTACK | kRestorerFlag,
                            tmh_rtm_restorer, all_but_faults()};
  (void)set_kernel_action(kStopSignal, action);
}

namespace {
// Not in a child of vfork(), which runs in its parent's memory.
bool is_own_slot() noexcept {
  return t_thread != nullptr && shared().slots[t_thread->slot].owner.load() == pid_and_tid();
}
}  // namespace

void step_aside() noexcept {
  if (!is_own_slot()) return;
  const Slot &mine = shared().slots[t_thread->slot];
  do {  // a stop signal makes the slot native again
    leave_native(t_thread->slot);
    (void)even_seq();                      // who saw it native has sent its signal,
    (void)system_call(Call::kSchedYield);  // which is delivered here
  } while (mine.running.load(std::memory_order_seq_cst) == Running::kNative);
}

void step_back() noexcept {
  if (is_own_slot()) enter_native(t_thread->slot);
}

bool leave_native_here() noexcept {
  if (!is_own_slot() ||
      shared().slots[t_thread->slot].running.load(std::memory_order_relaxed) != Running::kNative)
    return false;  // relaxed: nobody else stores there
  leave_native(t_thread->slot);
  return true;
}

void enter_native_here() noexcept {
  TMH_ASSERT(t_thread != nullptr);  // leave_native_here() said true
  enter_native(t_thread->slot);
}

bool install_handlers() noexcept {
  bool done = true;
  for (const int signal : kOurSignals) {
    KernelAction old{};
    (void)system_call(Call::kRtSigaction, static_cast<std::uint64_t>(signal), 0, address_of(&old),
                      8);
    struct sigaction &chained = g_chained[signal].action;
    chained.sa_sigaction = old.handler;
    chained.sa_flags = static_cast<int>(old.flags);
    copy_bytes(&chained.sa_mask, &old.mask, 8);
    done = install(signal) && done;
  }
  install_stop_handler();
  return done;
}

void keep_deliverable(sigset_t *mask) noexcept {
  TMH_ASSERT(mask != nullptr);
  std::uint64_t bits = 0;
  copy_bytes(&bits, mask, sizeof bits);
  bits &= all_but_faults();
  copy_bytes(mask, &bits, sizeof bits);
}

bool chain_action(int signal, const struct sigaction *action, struct sigaction *old,
                  int *result) noexcept {
  TMH_ASSERT(result != nullptr);
  if (!is_ours(signal)) return false;
  const struct sigaction before = g_chained[signal].action;
  *result = 0;
  if (action != nullptr) {
    g_chained[signal].action = *action;
    if (!install(signal)) {
      errno = EINVAL;
      *result = -1;
    }
  }
  if (old != nullptr) *old = before;
  return true;
}

namespace {
Thread *make_memory(std::uint32_t slot) noexcept {
  TMH_ASSERT(slot < kSlots);
  auto *memory =
      static_cast<std::uint8_t *>(map_memory(kStackBytes + sizeof(Thread), Sharing::kPrivate));
  Thread *thread = memory == nullptr ? nullptr : new (memory + kStackBytes) Thread;
  if (thread == nullptr || !thread->executor.allocate()) return nullptr;
  thread->slot = slot;
  return thread;
}
}  // namespace

bool register_thread() noexcept {
  if (t_thread != nullptr || t_refused) return t_thread != nullptr;
  const std::uint32_t slot = join();
  if (slot != kSlots) {
    Thread *&memory = g_memory_of_slot[slot];
    if (memory == nullptr) memory = make_memory(slot);
    t_thread = memory;
    if (memory == nullptr)
      quit(slot);
    else
      enter_native(slot);
  }
  t_refused = t_thread == nullptr;
  return !t_refused;
}

// The parent's threads may have been in transactions, and their memory is as they left it: lost to
// this child, once per fork.
void forget_thread() noexcept {
  for (Thread *&memory : g_memory_of_slot) memory = nullptr;
  t_thread = nullptr;
  t_refused = false;
}

std::uint64_t stops_of_thread() noexcept { return t_thread == nullptr ? 0 : t_thread->stops; }

}  // namespace tmh::rtm
