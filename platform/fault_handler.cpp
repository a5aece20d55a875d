// platform/fault_handler.cpp -- SIGSEGV and SIGBUS dispatch.
// Reaches:   FaultFunction of the range (its file says why it is safe); report_missing(), also of a
//            fault inside that function; sigaction(2), write(2): POSIX list; gettid(2); errno
//            saved.
// Reads:     the range table (atomics, published before use) and a constinit thread_local flag.
#include "platform/fault_handler.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <mutex>

#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/file_mappings.h"
#include "platform/process.h"
#include "platform/process_object.h"
#include "platform/stray_access.h"
#include "platform/try.h"

namespace tmh::platform {

namespace {

struct Range {
  // 0: free; release-stored last, so that a reader that sees it sees the rest
  std::atomic<std::uintptr_t> begin{0};
  std::atomic<std::uintptr_t> end{0};
  std::atomic<FaultFunction> function{nullptr};
  std::atomic<void *> context{nullptr};
  const char *name = "";  // of the publisher; under the mutex
};

constinit Range ranges[kFaultRangesMax];
constinit std::atomic<std::uint32_t> range_count{0};
constinit bool installed = false;
constinit std::uint32_t published_in = 0;  // fork generation
struct sigaction previous_segv, previous_bus;
// Initial-exec TLS: the handler must not allocate. Static libtmh and a linked shared libtmh both
// satisfy it.
constinit thread_local bool in_handler __attribute__((tls_model("initial-exec"))) = false;

// One publishes or withdraws at a time; the handler takes no lock.
struct Publishing {
  std::mutex mutex;
};
std::mutex &publish_mutex() noexcept { return ProcessObject<Publishing>::here().mutex; }

struct Found {
  FaultFunction function = nullptr;  // null: the address is in no range
  void *context = nullptr;
};

// Other threads may publish and withdraw ranges meanwhile, not the one that is looked for.
Found find_range(std::uintptr_t address) noexcept {
  const std::uint32_t count = range_count.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < count; ++i) {
    // acquire: pairs with the release in publish_fault_range()
    const std::uintptr_t begin = ranges[i].begin.load(std::memory_order_acquire);
    if (begin == 0 || address < begin || address >= ranges[i].end.load(std::memory_order_acquire))
      continue;
    const Found found{ranges[i].function.load(std::memory_order_acquire),
                      ranges[i].context.load(std::memory_order_acquire)};
    // The entry may have become another range's since: what was read with acquire above is then not
    // older than its withdrawal.
    if (ranges[i].begin.load(std::memory_order_relaxed) == begin) return found;
  }
  return {};
}

void pass_on(int number, siginfo_t *info, void *context) noexcept {
  const struct sigaction &previous_action = number == SIGBUS ? previous_bus : previous_segv;
  if ((previous_action.sa_flags & SA_SIGINFO) != 0 && previous_action.sa_sigaction != nullptr) {
    previous_action.sa_sigaction(number, info, context);
    return;
  }
  // Sent, and ignored before us.
  if (previous_action.sa_handler == SIG_IGN && info->si_code <= 0) return;
  if (previous_action.sa_handler == SIG_DFL || previous_action.sa_handler == SIG_IGN ||
      previous_action.sa_handler == nullptr) {
    struct sigaction restore {};
    restore.sa_handler = SIG_DFL;
    sigaction(number, &restore, nullptr);
    if (info->si_code <= 0) raise(number);  // sent, not faulted: no instruction will raise it again
    // Faulted: the instruction runs again and the process dies there.
    return;
  }
  previous_action.sa_handler(number);
}

void handle(int number, siginfo_t *info, void *context) {
  const int saved_errno = errno;
  // SEGV_MAPERR, SEGV_ACCERR, ...; sent signals have si_code <= 0
  const bool faulted = info->si_code > 0;
  const bool has_no_block = faulted && number == SIGBUS && info->si_code == BUS_ADRERR;
  if (has_no_block || (faulted && number == SIGSEGV && !in_handler)) {
    const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
    const auto *machine = static_cast<const ucontext_t *>(context);
    const bool is_write = (machine->uc_mcontext.gregs[REG_ERR] & 2) != 0;  // bit 1: write access
    if (const Found found = in_handler ? Found{} : find_range(address); found.function == nullptr) {
      if (has_no_block) report_missing(address, is_write);
      if (number == SIGSEGV && info->si_code == SEGV_MAPERR) report_if_gone(address, is_write);
    } else {
      const bool has_no_right = number == SIGSEGV && info->si_code == SEGV_PKUERR;
      const Fault fault{address, has_no_block, has_no_right, is_write};
      in_handler = true;
      const FaultAnswer answer = found.function(found.context, fault);
      in_handler = false;
      if (answer == FaultAnswer::kRetry) {
        errno = saved_errno;
        return;
      }
    }
  }
  errno = saved_errno;
  pass_on(number, info, context);
}

Errc install() noexcept {
  if (installed) return Errc::kOk;
  struct sigaction action {};
  action.sa_sigaction = handle;
  // SA_ONSTACK: works with and without an alternate stack. SA_NODEFER: a fault inside the handler
  // must reach the previous action instead of killing the process silently.
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  sigemptyset(&action.sa_mask);
  if (sigaction(SIGSEGV, &action, &previous_segv) != 0)
    return fail_errno(Errc::kIo, "sigaction(SIGSEGV)");
  if (sigaction(SIGBUS, &action, &previous_bus) != 0)
    return fail_errno(Errc::kIo, "sigaction(SIGBUS)");
  installed = true;
  return Errc::kOk;
}

}  // namespace

void watch_faults() noexcept {
  const std::scoped_lock guard(publish_mutex());
  (void)install();
}

Errc publish_fault_range(std::uintptr_t begin, std::uint64_t bytes, FaultFunction function,
                         void *context, const char *name) noexcept {
  TMH_ASSERT(begin != 0 && bytes != 0 && function != nullptr && name != nullptr);
  const std::scoped_lock guard(publish_mutex());
  TMH_TRY(install());
  if (published_in != fork_generation()) {  // ranges inherited by fork are the parent's
    for (Range &range : ranges) range.begin.store(0, std::memory_order_release);
    published_in = fork_generation();
  }
  for (std::uint32_t i = 0; i < kFaultRangesMax; ++i) {
    if (ranges[i].begin.load(std::memory_order_relaxed) != 0) continue;
    // release: a reader of one of these sees that the entry's range before was withdrawn
    ranges[i].end.store(begin + bytes, std::memory_order_release);
    ranges[i].function.store(function, std::memory_order_release);
    ranges[i].context.store(context, std::memory_order_release);
    ranges[i].name = name;
    forget_gone_views(begin, bytes);
    // Pairs with the acquire in find_range().
    ranges[i].begin.store(begin, std::memory_order_release);
    if (i >= range_count.load(std::memory_order_relaxed))
      range_count.store(i + 1, std::memory_order_release);
    return Errc::kOk;
  }
  return fail(Errc::kTooManySegments, "more than 4096 views of segments in this process");
}

void withdraw_fault_range(std::uintptr_t begin) noexcept {
  const std::scoped_lock guard(publish_mutex());
  for (Range &range : ranges) {
    if (range.begin.load(std::memory_order_relaxed) != begin) continue;
    range.begin.store(0, std::memory_order_release);
    remember_gone_view(begin, range.end.load(std::memory_order_relaxed) - begin, range.name);
  }
}

void unblock_faults() noexcept {
  sigset_t faults;
  sigemptyset(&faults);
  sigaddset(&faults, SIGSEGV);
  sigaddset(&faults, SIGBUS);
  pthread_sigmask(SIG_UNBLOCK, &faults, nullptr);
}

void write_sentence(const char *text, std::uintptr_t address) noexcept {
  TMH_ASSERT(text != nullptr);
  char line[256];
  std::size_t length = 0;
  for (; text[length] != '\0' && length < 200; ++length) line[length] = text[length];
  static constexpr char kHex[] = "0123456789abcdef";
  line[length++] = ' ';
  line[length++] = '0';
  line[length++] = 'x';
  for (int shift = 60; shift >= 0; shift -= 4) line[length++] = kHex[(address >> shift) & 15];
  line[length++] = '\n';
  if (write(STDERR_FILENO, line, length) < 0) return;  // nothing to be done about it here
}

}  // namespace tmh::platform
