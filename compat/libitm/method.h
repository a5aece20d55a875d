// compat/libitm/method.h -- what a method does for a transaction: the interface of the closed set
// (lines, hardware, pages, alone), and what is done where no transaction runs.
// Shape:     each method is a class that derives from this one and hides what it does otherwise.
//            Nothing is virtual: Accesses knows which one runs.
// Contexts:  the thread's own. NOT async-signal-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "compat/libitm/private_memory.h"
#include "levels/line/abort_status.h"
#include "levels/line/process_thread.h"

namespace tmh::itm {

class AloneMethod;

class NoMethod {
 public:
  using Mark = line::ProcessThread::Mark;

  // Failed attempts after which a transaction runs alone; 0: its attempts do not fail.
  static constexpr std::uint32_t kAttemptsMax = 0;

  // Does this library keep what stores overwrite, so that it can undo them?
  [[nodiscard]] static constexpr bool keeps_stores() noexcept { return false; }
  // Is memory given back where the program frees it? No rollback of this library needs it then.
  [[nodiscard]] static constexpr bool frees_at_once() noexcept { return true; }
  // Does a rollback restore what the C++ runtime knows of this thread, as it does memory?
  [[nodiscard]] static constexpr bool restores_runtime() noexcept { return false; }
  // May a begin with these properties run its code without barriers, where there is such code?
  [[nodiscard]] static constexpr bool may_run_plain(std::uint32_t) noexcept { return false; }
  // Can it undo code without barriers alone?
  [[nodiscard]] static constexpr bool undoes_plain_code() noexcept { return false; }

  // Any bytes, any place. load(): 1, 2, 4 or 8 bytes.
  [[nodiscard]] std::uint64_t load(std::uintptr_t from, std::uint32_t bytes) {
    std::uint64_t value = 0;
    std::memcpy(&value, reinterpret_cast<const void *>(from), bytes);
    return value;
  }
  void load_block(void *to, std::uintptr_t from, std::size_t bytes) {
    std::memmove(to, reinterpret_cast<const void *>(from), bytes);
  }
  void store(PrivateMemory &, std::uintptr_t to, const void *from, std::size_t bytes) {
    std::memmove(reinterpret_cast<void *>(to), from, bytes);
  }
  // Memory to memory, where that needs no block in between. False: it does; nothing is copied.
  [[nodiscard]] bool copy(PrivateMemory &, std::uintptr_t, std::uintptr_t, std::size_t) {
    return false;
  }
  // The compiled code is going to store there without a barrier.
  void log_local(PrivateMemory &, std::uintptr_t, std::size_t) {}
  // Only the transaction knows this memory.
  void note_private(PrivateMemory &, std::uintptr_t, std::size_t) {}

  // A nested transaction begins with these properties.
  void open(std::uint32_t) noexcept {}
  // It may be undone alone. stack: as Registers::stack.
  [[nodiscard]] Mark mark(std::uintptr_t) { return {}; }
  void drop_mark(const Mark &) noexcept {}
  void roll_back_to(const Mark &) noexcept {}

  // False: the transaction is still there, and must begin again. True: others know that it ended.
  [[nodiscard]] bool commit() { return true; }
  // Memory becomes what it was at the begin, but for what PrivateMemory keeps.
  void abandon() noexcept {}
  // Behind abandon(): others know that it ended.
  void leave() noexcept {}
  // In hardware the attempt ends here: control comes back in its begin.
  void abort_hardware(line::AbortCode) noexcept {}
  // Commits what was done so far; the thread is alone from here on. False: it must begin again.
  [[nodiscard]] bool go_alone(AloneMethod &) { return true; }
};

}  // namespace tmh::itm
