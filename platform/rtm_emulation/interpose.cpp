// platform/rtm_emulation/interpose.cpp -- the few libc functions that the emulator stands before: pthread_create (threads are known before
// their first instruction), sigaction and signal (fault signals pass through us), and sleeps that a stop signal would end.
// Contexts:  as the functions of these names.
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <cerrno>
#include <cstdlib>
#include <new>

#include "platform/rtm_emulation/control.h"
#include "platform/rtm_emulation/trap.h"

namespace tmh::rtm {

namespace {

template <class Function>
Function *real(const char *name) noexcept {
  return reinterpret_cast<Function *>(::dlsym(RTLD_NEXT, name));
}

struct Start {
  void *(*routine)(void *);
  void *argument;
};

void *run_registered(void *pointer) noexcept(false) {
  const Start start = *static_cast<Start *>(pointer);
  delete static_cast<Start *>(pointer);
  (void)register_thread();
  return start.routine(start.argument);
}

}  // namespace

}  // namespace tmh::rtm

using namespace tmh::rtm;

extern "C" {

__attribute__((visibility("default"))) int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*routine)(void *),
                                                          void *argument) {
  static auto *const next = real<int(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *)>("pthread_create");
  if (!is_running()) return next(thread, attributes, routine, argument);
  auto *start = new (std::nothrow) Start{routine, argument};
  if (start == nullptr) return EAGAIN;
  const int result = next(thread, attributes, run_registered, start);
  if (result != 0) delete start;
  install_stop_handler();  // glibc sets its handler for this signal at the first thread
  return result;
}

__attribute__((visibility("default"))) int sigaction(int signal, const struct sigaction *action, struct sigaction *old) noexcept {
  static auto *const next = real<int(int, const struct sigaction *, struct sigaction *)>("sigaction");
  int result = 0;
  if (is_running() && chain_action(signal, action, old, &result)) return result;
  return next(signal, action, old);
}

__attribute__((visibility("default"))) sighandler_t signal(int number, sighandler_t handler) noexcept {
  struct sigaction action = {}, old = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  return sigaction(number, &action, &old) == 0 ? old.sa_handler : SIG_ERR;
}

}  // extern "C"
