// tools/end_signals.cpp -- see end_signals.h.
#include "tools/end_signals.h"

#include <poll.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "platform/process.h"

namespace tmh::tools {

namespace {
// A wait ends by itself to look whether a reader of the output is left. A signal may come to
// another thread of the library's.
constexpr std::uint64_t kLookNs = 50'000'000;
}  // namespace

EndSignals::EndSignals() {
  asked_.store(false);
  struct sigaction action {};
  action.sa_handler = [](int) { asked_.store(true, std::memory_order_relaxed); };
  for (std::size_t i = 0; i < std::size(kSignals); ++i) {
    (void)::sigaction(kSignals[i], nullptr, &before_[i]);
    const bool is_ignored = before_[i].sa_handler == SIG_IGN;  // nohup(1)
    if (!is_ignored) (void)::sigaction(kSignals[i], &action, nullptr);
  }
  action.sa_handler = SIG_IGN;
  (void)::sigaction(SIGPIPE, &action, &pipe_before_);
}

EndSignals::~EndSignals() {
  for (std::size_t i = 0; i < std::size(kSignals); ++i)
    (void)::sigaction(kSignals[i], &before_[i], nullptr);
  (void)::sigaction(SIGPIPE, &pipe_before_, nullptr);
}

void EndSignals::wait(std::uint64_t ns) noexcept {
  const std::uint64_t end = platform::monotonic_ns() + ns;
  for (std::uint64_t now = platform::monotonic_ns(); now < end && !asked() && !has_no_reader();
       now = platform::monotonic_ns()) {
    const std::uint64_t part = std::min(end - now, kLookNs);
    const timespec pause{0, static_cast<long>(part)};
    (void)nanosleep(&pause, nullptr);
  }
}

bool has_no_reader() noexcept {
  pollfd output{STDOUT_FILENO, 0, 0};
  return ::poll(&output, 1, 0) > 0 && (output.revents & (POLLERR | POLLHUP)) != 0;
}

}  // namespace tmh::tools
