// platform/doorbell.h -- one thread that waits; others of the process wake it.
// Sharing:   wait_for() by one thread, ring() by any.
// Contexts:  ring() costs a system call when the thread waits; NOT async-signal-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

namespace tmh::platform {

class Doorbell {
 public:
  void ring() noexcept {
    {
      const std::scoped_lock guard(mutex_);
      is_rung_ = true;
    }
    rung_.notify_one();
  }
  // Until it is rung, or has been since the last call; at most so long. True: it was.
  [[nodiscard]] bool wait_for(std::chrono::milliseconds at_most) noexcept {
    std::unique_lock guard(mutex_);
    rung_.wait_for(guard, at_most, [this] { return is_rung_; });
    return std::exchange(is_rung_, false);
  }

 private:
  std::mutex mutex_;
  std::condition_variable rung_;
  bool is_rung_ = false;
};

}  // namespace tmh::platform
