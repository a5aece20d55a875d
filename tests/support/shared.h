// tests/support/shared.h -- memory and turns that forked processes of one test share, without the
// library under test.
// Shape:     Shared<T>: one T in anonymous shared memory, made before the fork. Turn: a number that
//            only grows; processes wait until it has reached a value, which makes an order of
//            events certain without sleeping.
// Sharing:   a Turn may be left by a killed process at any instruction: it is one atomic word.
#pragma once

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>
#include <ctime>
#include <functional>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>

#include "tests/support/slowdown.h"

namespace tmh::test {

// Zeroed, shared with children forked later, unmapped with this object.
class SharedBytes {
 public:
  explicit SharedBytes(std::size_t bytes) : bytes_(bytes) {
    address_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address_ == MAP_FAILED)
      throw std::system_error(errno, std::generic_category(), "mmap of test memory");
  }
  ~SharedBytes() { munmap(address_, bytes_); }
  SharedBytes(const SharedBytes &) = delete;
  SharedBytes &operator=(const SharedBytes &) = delete;
  [[nodiscard]] void *get() const noexcept { return address_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  std::size_t bytes_;
  void *address_ = nullptr;
};

template <class T>
class Shared {
  static_assert(std::is_trivially_destructible_v<T>,
                "no process may be the last one that knows about it");

 public:
  Shared() : bytes_(sizeof(T)), object_(::new (bytes_.get()) T()) {}
  T *operator->() const noexcept { return object_; }
  T &operator*() const noexcept { return *object_; }

 private:
  SharedBytes bytes_;
  T *object_;
};

class Turn {
 public:
  void reach(std::uint32_t turn) {
    // release: pairs with the acquire in await(); what happened before is visible to whoever saw
    // the turn
    if (value_.exchange(turn, std::memory_order_release) > turn)
      throw std::logic_error("a turn went backwards");
    syscall(SYS_futex, address(), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }

  // This process has failed: nobody need wait for its next turn.
  void give_up() {
    value_.store(kGivenUp, std::memory_order_release);
    syscall(SYS_futex, address(), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }

  [[nodiscard]] std::uint32_t now() const noexcept {
    return value_.load(std::memory_order_acquire);
  }

  // Throws when the others let it wait so long that they must be hung.
  void await(std::uint32_t turn) const {
    const auto deadline = std::chrono::steady_clock::now() + hang_deadline();
    std::uint32_t seen = now();
    for (; seen < turn; seen = now()) {
      if (std::chrono::steady_clock::now() > deadline) {
        throw std::runtime_error("hung: turn " + std::to_string(turn) +
                                 " never came, it is still " + std::to_string(seen));
      }
      const timespec limit{1, 0};  // only so that the deadline above is looked at
      syscall(SYS_futex, address(), FUTEX_WAIT, seen, &limit, nullptr, 0);
    }
    if (seen == kGivenUp) throw std::runtime_error("the other process has failed");
  }

 private:
  static constexpr std::uint32_t kGivenUp = UINT32_MAX;

  [[nodiscard]] const std::uint32_t *address() const noexcept {
    return reinterpret_cast<const std::uint32_t *>(&value_);
  }

  std::atomic<std::uint32_t> value_{0};
  static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t) &&
                std::atomic<std::uint32_t>::is_always_lock_free);
};

// A role of a play with a turn: whoever fails lets the others know.
[[nodiscard]] inline std::function<void()> role(Turn &turn, std::function<void()> body) {
  return [&turn, body = std::move(body)] {
    try {
      body();
    } catch (...) {
      turn.give_up();
      throw;
    }
  };
}

}  // namespace tmh::test
