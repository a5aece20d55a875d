// compat/libtp/waits.h -- waits that are not for locks: for the log, and for events of the program.
// Shape:     an event is one of a few words in tmh.locks, so events share words.
// Sharing:   between processes; a waiter that dies leaves nothing.
// Contexts:  NOT async-signal-safe.
// Source:    LIBTP 3.2.4: the process manager.
#pragma once

#include <cstdint>

#include "levels/lock/lock.h"
#include "platform/process.h"

namespace tmh::tp {

class Waits {
 public:
  explicit Waits(const lock::LockFile &file) noexcept : file_(file) {}

  [[nodiscard]] std::uint32_t now(std::uint64_t event) const noexcept;
  // False: that long, and it is still `seen`.
  [[nodiscard]] bool sleep(std::uint64_t event, std::uint32_t seen,
                           lock::Patience patience) const noexcept;
  void wake(std::uint64_t event) const noexcept;

  // Counts what `wait` takes.
  template <class Wait>
  void count(lock::WaitCause cause, const Wait &wait) const {
    const std::uint64_t begin = platform::monotonic_ns();
    wait();
    add(cause, platform::monotonic_ns() - begin);
  }
  [[nodiscard]] std::uint64_t waits(lock::WaitCause cause) const noexcept;
  [[nodiscard]] std::uint64_t waited_ns(lock::WaitCause cause) const noexcept;

 private:
  [[nodiscard]] std::atomic<std::uint32_t> &word(std::uint64_t event) const noexcept;
  void add(lock::WaitCause cause, std::uint64_t ns) const noexcept;

  const lock::LockFile &file_;
};

}  // namespace tmh::tp
