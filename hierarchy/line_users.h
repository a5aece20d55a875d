// hierarchy/line_users.h -- which threads of this process are at level 1 of a domain, so that unmap() and close() can wait for them.
// Shape:     a word per thread says where it is; a LineUsers per DomainImpl, which outlives level 1's memory. Threads enter and leave at each
//            instance, hence by plain stores; who bars them pays.
// Invariant: between enter() and leave() no segment is unmapped and level 1's memory stays. A thread is in one domain at a time: an instance of
//            another domain inside it goes on at level 2.
// Sharing:   threads. Who is inside may wait for any lock of the domain: a Barred takes none before it has waited. After a fork nobody is inside.
// Contexts:  NOT async-signal-safe. leave(): also where the thread is not inside.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

namespace tmh::detail {

class LineUsers {
 public:
  LineUsers() noexcept;
  LineUsers(const LineUsers &) = delete;
  LineUsers &operator=(const LineUsers &) = delete;

  // Waits while they are barred. REQUIRES: this thread is inside nowhere.
  void enter();
  static void leave() noexcept;
  [[nodiscard]] bool is_inside() const noexcept;  // this thread

  // Waits until nobody is inside; until its end nobody gets in. REQUIRES: this thread is not inside.
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

  std::atomic<bool> barred_{false};
  std::mutex barring_;  // of who bars
  const std::uint64_t serial_;
};

}  // namespace tmh::detail
