// compat/libitm/alone_method.h -- a transaction that runs alone, on memory itself: by the program's
// wish (irrevocable, method serial), or because it has failed too often.
// Shape:     where this library keeps what stores overwrite, the transaction may be cancelled; else
//            nothing of it is undone.
// Invariant: from begin(), try_begin() or the engine's go_alone() to leave() every other thread is
//            outside.
// Contexts:  as NoMethod.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compat/libitm/abi.h"
#include "compat/libitm/gate.h"
#include "compat/libitm/method.h"
#include "compat/libitm/process.h"
#include "platform/assert.h"

namespace tmh::itm {

class AloneMethod : public NoMethod {
 public:
  explicit AloneMethod(Process &process) noexcept : process_(process) {}

  // Waits until the thread, which is outside, is alone. The gate knows it by this object's address.
  void begin() noexcept;
  // In a transaction of method lines. False: another thread is alone, or comes first.
  [[nodiscard]] bool try_begin(Gate::Slot *own) noexcept {
    TMH_ASSERT(process_.pages == nullptr && own != nullptr);
    return process_.gate.try_be_alone(this, own);
  }
  // keeps: stores can be undone from here on.
  void set_keeps(bool keeps) noexcept { keeps_ = keeps; }
  // What was stored so far stays.
  void note_irrevocable() noexcept {
    if (process_.pages == nullptr) process_.gate.note_irrevocable(this);
  }
  [[nodiscard]] bool commit() noexcept {
    leave();
    return true;
  }
  void leave() noexcept {
    process_.pages != nullptr ? process_.pages->end_alone() : process_.gate.end_alone(this);
  }

  [[nodiscard]] bool keeps_stores() const noexcept { return keeps_; }
  [[nodiscard]] bool frees_at_once() const noexcept { return !keeps_; }
  [[nodiscard]] bool may_run_plain(std::uint32_t properties) const noexcept {
    return !keeps_ && (properties & kHasNoAbort) != 0;
  }
  [[nodiscard]] Mark mark(std::uintptr_t) noexcept {
    keeps_ = true;
    return {};
  }
  void store(PrivateMemory &memory, std::uintptr_t to, const void *from, std::size_t bytes) {
    if (keeps_) memory.save(to, bytes);
    NoMethod::store(memory, to, from, bytes);
  }
  void log_local(PrivateMemory &memory, std::uintptr_t at, std::size_t bytes) {
    if (keeps_) memory.save(at, bytes);
  }

 private:
  Process &process_;
  bool keeps_ = false;
};

}  // namespace tmh::itm
