// compat/libitm/calls/signal_calls.cpp -- the program's signal handlers and masks beside those of
// the engine.
// Shape:     a handler of the program is called by one of ours. While the engine changes mappings,
//            and inside a transaction, a signal waits until that is over: the handler would see
//            half a change, or copies, and its effects would be rolled back. SIGSEGV, SIGBUS,
//            SIGFPE, SIGABRT, SIGILL and SIGSYS come to the engine first, which calls the program's
//            handler for what is not its own. Of a terminal's signals, which come to each task,
//            main's handler runs.
// Limits:    a signal that waited comes without its siginfo_t.
#include <assert.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "levels/process/ground/ground.h"
#include "levels/process/process.h"

namespace tmh::itm::pages {

namespace {

struct sigaction of_program[NSIG];

static_assert(NSIG <= 65);  // put_off_signal(): a bit each

[[nodiscard]] bool is_engines(int signal) noexcept {
  return signal == SIGSEGV || signal == SIGBUS || signal == SIGFPE || signal == SIGABRT ||
         signal == SIGILL || signal == SIGSYS || signal == recall_signal();
}

// A terminal, and kill() with a process group, send a signal to each process of the group, so to
// each task. To one thread it is sent otherwise.
[[nodiscard]] bool is_mains(int signal, const siginfo_t &info) noexcept {
  if (own_slot() == 0) return false;
  return info.si_code == SI_USER || (info.si_code == SI_KERNEL &&
                                     (signal == SIGINT || signal == SIGQUIT || signal == SIGTSTP ||
                                      signal == SIGHUP || signal == SIGWINCH || signal == SIGCONT));
}

void call_handler(int signal, siginfo_t *info, void *context) noexcept {
  if (is_mains(signal, *info)) return note_unseen_signal();
  if (Busy::is_any() || is_inside()) return put_off_signal(signal);
  const struct sigaction &action = of_program[signal];
  note_handler((action.sa_flags & SA_RESTART) != 0);
  const CallInProgress none(CallInProgress::Kind::kNone);  // the handler may leave by a jump
  // The kernel gives a handler no rights to memory with keys.
  const Rights before = current_rights();
  set_rights(Rights::kPlain);
  if ((action.sa_flags & SA_SIGINFO) != 0) {
    action.sa_sigaction(signal, info, context);
  } else {
    action.sa_handler(signal);
  }
  set_rights(before);
}

[[nodiscard]] bool is_function(const struct sigaction &action) noexcept {
  return (action.sa_flags & SA_SIGINFO) != 0 ||
         (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
}

int change(int signal, const struct sigaction *action, struct sigaction *old) noexcept {
  if (!is_started() || signal <= 0 || signal >= NSIG)
    return TMH_REAL(sigaction)(signal, action, old);
  if (is_engines(signal)) {
    // The engine's stays; it calls this one for what is the program's.
    if (old != nullptr) *old = previous_action(signal);
    if (action != nullptr) set_previous_action(signal, *action);
    return 0;
  }
  struct sigaction ours {};
  if (action != nullptr && is_function(*action)) {
    ours = *action;
    ours.sa_mask = without_engines(&action->sa_mask);
    ours.sa_flags |= SA_SIGINFO;
    ours.sa_sigaction = call_handler;
  }
  TMH_ASSERT(0 < signal && signal < NSIG);
  const struct sigaction last = of_program[signal];
  if (action != nullptr) of_program[signal] = *action;
  struct sigaction before {};
  const int result = TMH_REAL(sigaction)(
      signal, action != nullptr && is_function(*action) ? &ours : action, &before);
  if (result != 0) {
    of_program[signal] = last;
  } else if (old != nullptr) {
    *old = is_function(before) && before.sa_sigaction == call_handler ? last : before;
  }
  return result;
}

}  // namespace

}  // namespace tmh::itm::pages

using tmh::itm::pages::die_inside;
using tmh::itm::pages::is_inside;
using tmh::itm::pages::is_started;

extern "C" {

TMH_EXPORTED int sigaction(int signal, const struct sigaction *action,
                           struct sigaction *old) noexcept {
  return tmh::itm::pages::change(signal, action, old);
}

TMH_EXPORTED sighandler_t signal(int signal, sighandler_t handler) noexcept {
  struct sigaction action {
  }, old{};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  return sigaction(signal, &action, &old) == 0 ? old.sa_handler : SIG_ERR;
}

TMH_EXPORTED int pthread_sigmask(int how, const sigset_t *set, sigset_t *old) noexcept {
  if (!is_started() || set == nullptr || how == SIG_UNBLOCK)
    return TMH_REAL(pthread_sigmask)(how, set, old);
  const sigset_t allowed = tmh::itm::pages::without_engines(set);
  return TMH_REAL(pthread_sigmask)(how, &allowed, old);
}

TMH_EXPORTED int sigprocmask(int how, const sigset_t *set, sigset_t *old) noexcept {
  const int error = pthread_sigmask(how, set, old);
  if (error == 0) return 0;
  errno = error;
  return -1;
}

// The C library's would first store to its own data and call the system, and so have a transaction
// commit what it has done so far.
[[gnu::noreturn]] TMH_EXPORTED void abort() noexcept {
  if (is_inside()) die_inside(SIGABRT);
  TMH_REAL(abort)();
  __builtin_unreachable();
}

// assert() that fails: its sentence would go through stderr's buffer.
[[gnu::noreturn]] TMH_EXPORTED void __assert_fail(const char *assertion, const char *file,
                                                  unsigned line, const char *function) noexcept {
  if (is_inside()) {
    const tmh::itm::pages::OwnRights rights;
    char text[512];
    const int length = std::snprintf(text, sizeof text, "%s:%u: %s: Assertion `%s' failed.\n", file,
                                     line, function == nullptr ? "?" : function, assertion);
    const long bytes = std::min<long>(length, sizeof text - 1);
    tmh::itm::pages::kernel_call(SYS_write, STDERR_FILENO, reinterpret_cast<long>(text), bytes, 0,
                                 0, 0);
    die_inside(SIGABRT);
  }
  TMH_REAL(__assert_fail)(assertion, file, line, function);
  __builtin_unreachable();
}

// Sent to itself, inside: the same as if its code had faulted.
TMH_EXPORTED int raise(int signal) noexcept {
  if (is_inside() && (signal == SIGABRT || signal == SIGSEGV || signal == SIGFPE ||
                      signal == SIGILL || signal == SIGBUS))
    die_inside(signal);
  return TMH_REAL(raise)(signal);
}

}  // extern "C"
