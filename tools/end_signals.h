// tools/end_signals.h -- signals that end a command which runs until it is told to end.
#pragma once

#include <signal.h>

#include <atomic>
#include <cstdint>
#include <iterator>

namespace tmh::tools {

// While it lives, signals that end the command end its wait first. SIGPIPE is an error of print().
class EndSignals {
 public:
  EndSignals();
  ~EndSignals();
  EndSignals(const EndSignals &) = delete;
  EndSignals &operator=(const EndSignals &) = delete;
  [[nodiscard]] static bool asked() noexcept { return asked_.load(std::memory_order_relaxed); }
  // Returns early when one has come, or nobody reads the output.
  static void wait(std::uint64_t ns) noexcept;

 private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP};
  static inline std::atomic<bool> asked_;
  static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler stores it");
  struct sigaction before_[std::size(kSignals)], pipe_before_;
};

// Is standard output a pipe or a socket whose other end is closed?
[[nodiscard]] bool has_no_reader() noexcept;

}  // namespace tmh::tools
