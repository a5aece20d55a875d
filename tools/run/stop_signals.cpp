// tools/run/stop_signals.cpp -- see stop_signals.h.
#include "tools/run/stop_signals.h"

#include <atomic>

namespace tmh::tools {

namespace {

// relaxed: nothing is published with them.
constexpr auto relaxed = std::memory_order_relaxed;
std::atomic<unsigned> stop_count{0};
std::atomic<int> last_signal{0};
static_assert(std::atomic<unsigned>::is_always_lock_free && std::atomic<int>::is_always_lock_free);  // for the handler

void count_signal(int signal) {
  last_signal.store(signal, relaxed);
  stop_count.fetch_add(1, relaxed);
}

}  // namespace

StopSignals::StopSignals() {
  stop_count.store(0, relaxed);
  last_signal.store(0, relaxed);
  struct sigaction action {};
  action.sa_handler = count_signal;
  action.sa_flags = SA_RESTART;  // nobody who waits for a lock is told of it
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    (void)sigaction(kSignals[i], nullptr, &before_[i]);
    if (before_[i].sa_handler != SIG_IGN) (void)sigaction(kSignals[i], &action, nullptr);
  }
}

StopSignals::~StopSignals() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) (void)sigaction(kSignals[i], &before_[i], nullptr);
}

unsigned StopSignals::count() noexcept { return stop_count.load(relaxed); }
int StopSignals::last() noexcept { return last_signal.load(relaxed); }

void StopSignals::leave_to_parent() noexcept {
  for (const int signal : kSignals) {
    struct sigaction now {};
    (void)sigaction(signal, nullptr, &now);
    if (now.sa_handler == count_signal) (void)::signal(signal, SIG_DFL);
  }
  for (const int signal : {SIGHUP, SIGINT, SIGQUIT}) (void)::signal(signal, SIG_IGN);
}

}  // namespace tmh::tools
