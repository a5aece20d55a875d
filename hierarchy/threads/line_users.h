// hierarchy/threads/line_users.h -- which threads of this process are at level 1 of a domain, so
// that unmap() and close() can wait for them.
// Shape:     a word per thread says where it is; a LineUsers per domain, which outlives level
//            1's memory. Threads enter and leave at each instance, hence by plain stores; who bars
//            them pays.
// Invariant: between enter() and leave() no segment is unmapped and level 1's memory stays. A
//            thread is in one domain at a time: an instance of another domain inside it goes on at
//            level 2.
// Sharing:   threads. A thread inside may wait for any lock of the domain: a Barred takes none
//            before it has waited. After a fork no thread is inside.
// Contexts:  NOT async-signal-safe. leave(): also where the thread is not inside.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "hierarchy/threads/current.h"
#include "platform/assert.h"
#include "platform/asymmetric_fence.h"

namespace tmh::detail {

// Where a thread is: a LineUsers' serial, or kNowhere. On a line of its own: its thread stores to
// it at every instance.
struct alignas(64) LineUser {
  static constexpr std::uint64_t kNowhere = 0;
  std::atomic<std::uint64_t> serial;
};

class LineUsers {
 public:
  LineUsers() noexcept;
  LineUsers(const LineUsers &) = delete;
  LineUsers &operator=(const LineUsers &) = delete;

  // Of a thread that is inside nowhere. False: it is barred or shut, or the thread has never been
  // inside; it is not now.
  [[nodiscard]] bool try_enter() noexcept {
    if (current().line_user == nullptr) [[unlikely]]
      return false;
    say_inside();
    if (gate() == 0) [[likely]]
      return true;
    leave();
    return false;
  }
  void enter();  // waits while it is barred
  // From now on try_enter() says no: the domain is closed. REQUIRES a Barred.
  void shut() noexcept {
    TMH_ASSERT((gate() & kIsBarred) != 0);
    gate_.fetch_or(kIsShut, std::memory_order_relaxed);
  }
  static void leave() noexcept {
    // release: pairs with the look of a Barred
    if (current().line_user != nullptr)
      current().line_user->serial.store(LineUser::kNowhere, std::memory_order_release);
  }
  [[nodiscard]] bool is_inside() const noexcept;  // this thread

  // Waits until no thread is inside, as this one is not; until its end none gets in.
  class Barred {
   public:
    explicit Barred(LineUsers &users);
    ~Barred();
    Barred(const Barred &) = delete;
    Barred &operator=(const Barred &) = delete;

   private:
    LineUsers &users_;
    const std::scoped_lock<std::mutex> lock_;
  };

 private:
  void await_barring();
  void say_inside() const noexcept {
    TMH_ASSERT(current().line_user->serial.load(std::memory_order_relaxed) == LineUser::kNowhere);
    // relaxed: the fence orders it before gate()'s load, against Barred's store and loads.
    current().line_user->serial.store(serial_, std::memory_order_relaxed);
    platform::light_fence();
  }
  // acquire: pairs with ~Barred(); what was done meanwhile is seen.
  [[nodiscard]] std::uint32_t gate() const noexcept {
    return gate_.load(std::memory_order_acquire);
  }

  static constexpr std::uint32_t kIsBarred = 1, kIsShut = 2;
  std::atomic<std::uint32_t> gate_{0};
  const std::uint64_t serial_;
  std::mutex barring_;  // of who bars
};

}  // namespace tmh::detail
