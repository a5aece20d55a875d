// hierarchy/threads/open_state.h -- may this process use a domain, and how a thread keeps it open.
// Shape:     one per domain and process, closed at first. A child that fork() makes has the object,
//            and may use nothing.
// Sharing:   threads: usable() and keep_open() by any; the rest by the one that opens or closes.
// Contexts:  usable() where it says kOk: anywhere. The rest NOT async-signal-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <shared_mutex>

#include <tmh/error.hpp>

#include "platform/process.h"

namespace tmh::detail {

class OpenState {
 public:
  OpenState() = default;
  OpenState(const OpenState &) = delete;
  OpenState &operator=(const OpenState &) = delete;

  // kDetached after fork, kNotInitialized after close
  [[nodiscard]] Errc usable() const noexcept {
    const bool is_usable = is_of_this_process() && is_open();
    return is_usable ? Errc::kOk : why_unusable();
  }
  // A close() by another thread waits until the lock is gone.
  [[nodiscard]] std::shared_lock<std::shared_mutex> keep_open() const {
    return std::shared_lock(use_mutex_);
  }

  // False in a forked child.
  [[nodiscard]] bool is_of_this_process() const noexcept {
    return platform::fork_generation() == fork_generation_;
  }
  [[nodiscard]] bool is_open() const noexcept { return open_.load(std::memory_order_acquire); }
  // release: a thread that finds the domain open finds all that opening has made.
  void say_open() noexcept { open_.store(true, std::memory_order_release); }
  void say_closed() noexcept { open_.store(false, std::memory_order_release); }
  // Waits for those that keep the domain open; until its end no thread begins to.
  [[nodiscard]] std::unique_lock<std::shared_mutex> exclude_users() const {
    return std::unique_lock(use_mutex_);
  }

 private:
  [[nodiscard]] Errc why_unusable() const noexcept;

  const std::uint32_t fork_generation_ = platform::fork_generation();
  std::atomic<bool> open_{false};
  // Shared: uses what is made at open without a runner's mutex. On a line of its own: each durable
  // commit stores to it, each begin loads open_.
  alignas(64) mutable std::shared_mutex use_mutex_;
};

}  // namespace tmh::detail
