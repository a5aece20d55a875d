// tools/run/stop_signals.cpp -- see stop_signals.h.
#include "tools/run/stop_signals.h"

#include <atomic>

#include "platform/assert.h"

namespace tmh::tools {

namespace {

// relaxed: nothing is published with them.
constexpr auto relaxed = std::memory_order_relaxed;
std::atomic<unsigned> stop_count{0};
std::atomic<int> last_signal{0};
std::atomic<bool> is_made{false};
// For the handler.
static_assert(std::atomic<unsigned>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

template <class Visit>
void visit_signals(const Visit &visit) {
  for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE, SIGALRM, SIGTERM,
                           SIGSTKFLT, SIGXCPU, SIGXFSZ, SIGVTALRM, SIGPROF, SIGIO, SIGPWR})
    visit(signal);
  for (int signal = SIGRTMIN; signal <= SIGRTMAX && signal < NSIG; ++signal) visit(signal);
}

void count_signal(int signal) {
  last_signal.store(signal, relaxed);
  stop_count.fetch_add(1, relaxed);
}

}  // namespace

StopSignals::StopSignals() {
  const bool was_made = is_made.exchange(true, relaxed);
  TMH_ASSERT(!was_made);
  stop_count.store(0, relaxed);
  last_signal.store(0, relaxed);
  struct sigaction action {};
  action.sa_handler = count_signal;
  action.sa_flags = SA_RESTART;  // nobody who waits for a lock is told of it
  visit_signals([&](int signal) {
    TMH_ASSERT(signal > 0 && static_cast<std::size_t>(signal) < before_.size());
    struct sigaction &before = before_[static_cast<std::size_t>(signal)];
    (void)sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_IGN) (void)sigaction(signal, &action, nullptr);
  });
}

StopSignals::~StopSignals() {
  visit_signals([&](int signal) {
    (void)sigaction(signal, &before_[static_cast<std::size_t>(signal)], nullptr);
  });
  is_made.store(false, relaxed);
}

unsigned StopSignals::count() noexcept { return stop_count.load(relaxed); }
int StopSignals::last() noexcept { return last_signal.load(relaxed); }

void StopSignals::leave_to_parent() noexcept {
  visit_signals([](int signal) {
    struct sigaction now {};
    (void)sigaction(signal, nullptr, &now);
    if (now.sa_handler == count_signal) (void)::signal(signal, SIG_DFL);
  });
  for (const int signal : {SIGHUP, SIGINT, SIGQUIT}) (void)::signal(signal, SIG_IGN);
}

}  // namespace tmh::tools
