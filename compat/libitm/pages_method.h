// compat/libitm/pages_method.h -- methods pages: the engine, a library of its own, does what
// concerns memory. Code without barriers runs where there is some; barriers do nothing.
// Contexts:  as NoMethod.
#pragma once

#include <cstdint>

#include "compat/libitm/abi.h"
#include "compat/libitm/method.h"
#include "compat/libitm/process.h"

namespace tmh::itm {

class PagesMethod : public NoMethod {
 public:
  static constexpr std::uint32_t kAttemptsMax = 16;  // one costs more than an attempt on lines

  explicit PagesMethod(Process &process) noexcept : process_(process) {}

  // Ends the process where no transaction can begin on this stack. stack: Registers::stack.
  void check_stack(std::uintptr_t stack) const noexcept;
  // Waits until the thread is alone, where it wants or must be.
  void prepare(bool wants_alone) noexcept;
  void begin(std::uintptr_t stack, std::uint32_t attempt, std::uint32_t properties) noexcept {
    process_.pages->begin(stack, attempt, (properties & kHasNoAbort) == 0);
  }
  [[nodiscard]] bool commit() {
    if (!process_.pages->commit()) return false;
    leave();
    return true;
  }
  void abandon() noexcept { process_.pages->roll_back(); }
  void leave() noexcept;
  // The engine has ended the transaction.
  void forget() noexcept { is_alone_ = false; }
  // From there on the transaction is AloneMethod's.
  [[nodiscard]] bool go_alone(AloneMethod &) noexcept {
    if (!process_.pages->go_alone()) return false;
    is_alone_ = false;
    return true;
  }

  [[nodiscard]] static constexpr bool restores_runtime() noexcept { return true; }
  [[nodiscard]] static constexpr bool undoes_plain_code() noexcept { return true; }
  [[nodiscard]] bool may_run_plain(std::uint32_t) const noexcept {
    return process_.pages->finds_effects();
  }
  [[nodiscard]] Mark mark(std::uintptr_t stack) noexcept {
    process_.pages->mark(stack);
    return {};
  }
  void drop_mark(const Mark &) noexcept { process_.pages->drop_mark(); }
  void roll_back_to(const Mark &) noexcept { process_.pages->roll_back_to_mark(); }

 private:
  Process &process_;
  bool is_alone_ = false;  // no other transaction runs beside
};

}  // namespace tmh::itm
