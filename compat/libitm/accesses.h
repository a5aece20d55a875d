// compat/libitm/accesses.h -- what a thread's transaction does with memory, by the method that it
// runs on.
// Shape:     an object of each method, of which one runs. by_method() alone asks which: a switch,
//            behind which the method's functions are inline or direct calls. Barriers come here
//            where they leave the short ways of level 1.
// Invariant: (1) on any method but lines, level 1 takes no short way: no attempt runs there, or it
//            is shut. (2) what a rollback must restore of a byte is kept by level 1, which has
//            locked the byte's line, or by PrivateMemory, not by both.
// Contexts:  the thread's own. NOT async-signal-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "compat/libitm/alone_method.h"
#include "compat/libitm/hardware_method.h"
#include "compat/libitm/lines_method.h"
#include "compat/libitm/pages_method.h"
#include "compat/libitm/private_memory.h"
#include "platform/assert.h"

namespace tmh::itm {

class Accesses {
  enum class Running : std::uint8_t { kNone, kLines, kHardware, kPages, kAlone };

  // What `call` returns for the method that runs.
  template <class Call>
  [[gnu::always_inline]] decltype(auto) by_method(const Call &call) {
    if (running_ == Running::kLines) [[likely]]
      return call(lines_);
    switch (running_) {
      case Running::kHardware:
        return call(hardware_);
      case Running::kPages:
        return call(pages_);
      case Running::kAlone:
        return call(alone_);
      default:
        return call(none_);
    }
  }
  template <class Call>
  [[gnu::always_inline]] decltype(auto) by_method(const Call &call) const {
    return const_cast<Accesses *>(this)->by_method(
        [&](const auto &method) -> decltype(auto) { return call(method); });
  }

 public:
  using Place = LinesMethod::Place;
  // A begin that can be undone alone.
  struct Mark {
    PrivateMemory::Mark memory;
    NoMethod::Mark method;
  };

  Accesses(Process &process, Gate::Slot *slot, line::SoftwareThread::Leave way_out)
      : lines_(process, slot, way_out),
        hardware_(process, lines_),
        pages_(process),
        alone_(process) {}

  [[nodiscard]] line::ProcessThread &level_1() noexcept { return lines_.level_1; }
  // Of which the thread attaches; and transactions begin.
  [[nodiscard]] LinesMethod &lines() noexcept { return lines_; }
  [[nodiscard]] const LinesMethod &lines() const noexcept { return lines_; }

  // load(): 1, 2, 4 or 8 bytes.
  [[nodiscard]] std::uint64_t load(std::uintptr_t from, std::uint32_t bytes);
  void load_block(void *to, std::uintptr_t from, std::size_t bytes);
  void store(std::uintptr_t to, const void *from, std::size_t bytes);
  // As LinesMethod::place_of_store().
  [[nodiscard, gnu::always_inline]] Place place_of_store(std::uintptr_t at, std::size_t bytes) {
    if (running_ != Running::kLines) [[unlikely]]
      return Place::kAnywhere;
    return lines_.place_of_store(memory_, at, bytes);
  }
  // As NoMethod.
  [[nodiscard]] bool copy(std::uintptr_t to, std::uintptr_t from, std::size_t bytes);
  // Leaves traces, which forget() takes away.
  void log_local(const void *at, std::size_t bytes);
  // Where stores are kept: nobody else knows this memory.
  void note_private(const void *memory, std::size_t bytes);

  // The outermost begin. stack: Registers::stack. attempt: earlier ones that failed.
  // REQUIRES: lines().try_enter().
  [[gnu::always_inline]] void begin_lines_inside(std::uintptr_t stack) noexcept {
    TMH_ASSERT(running_ == Running::kNone);
    memory_.begin(stack);
    lines_.begin_inside(0);
    running_ = Running::kLines;
  }
  void begin_lines(std::uintptr_t stack, std::uint32_t attempt) noexcept;
  // As HardwareMethod::begin().
  [[nodiscard]] std::uint32_t begin_hardware(std::uintptr_t stack, std::uint32_t properties);
  void begin_pages(std::uintptr_t stack, std::uint32_t attempt, std::uint32_t properties,
                   bool wants_alone) noexcept;
  // As PagesMethod, before begin_pages().
  void check_stack(std::uintptr_t stack) const noexcept { pages_.check_stack(stack); }
  // is_for_good: nothing of it is undone.
  void begin_alone(std::uintptr_t stack, bool is_for_good) noexcept;

  // A nested begin with these properties.
  void open(std::uint32_t properties) noexcept;
  // It may be undone alone.
  [[nodiscard]] Mark mark(std::uintptr_t stack);
  // around: of the next begin around it that may be undone alone; 0: the outermost one.
  void drop_mark(const Mark &mark, std::uintptr_t around) noexcept;
  // stack: of the mark's begin.
  void roll_back_to(const Mark &mark, std::uintptr_t stack, std::uintptr_t around) noexcept;
  // No begin that may be undone is open any more. REQUIRES: it is alone.
  void keep_no_more() noexcept;

  // The outermost transaction. False: it is still there, and must begin again.
  [[nodiscard, gnu::always_inline]] bool commit() {
    TMH_ASSERT(running_ != Running::kNone && !memory_.is_nested());
    if (!by_method([](auto &method) { return method.commit(); })) [[unlikely]]
      return false;
    running_ = Running::kNone;
    return true;
  }
  // Undoes all of it. The thread is in the transaction still, for others, until leave().
  void roll_back(std::uintptr_t stack) noexcept;
  void leave() noexcept;
  // What the transaction knew of memory is of no use any more.
  void forget() noexcept { memory_.forget(); }
  // The engine of method pages has ended the transaction.
  void forget_pages() noexcept;
  void abort_hardware(line::AbortCode code) noexcept;
  // From here on it is alone, and what was stored so far stays. is_nested: begins are open that
  // may be undone alone. False: it must begin again.
  [[nodiscard]] bool go_alone(bool is_nested);

  // As NoMethod, of the one that runs.
  [[nodiscard]] bool keeps_stores() const noexcept;
  [[nodiscard]] bool frees_at_once() const noexcept;
  [[nodiscard]] bool restores_runtime() const noexcept;
  [[nodiscard]] bool undoes_plain_code() const noexcept;
  [[nodiscard]] bool may_run_plain(std::uint32_t properties) const noexcept;
  [[nodiscard]] std::uint32_t attempts_max() const noexcept;
  // What the gate knows this thread by while it is alone; else null.
  [[nodiscard]] const void *lone() const noexcept {
    return running_ == Running::kAlone ? &alone_ : nullptr;
  }

 private:
  // First: barriers find level 1 there.
  LinesMethod lines_;
  Running running_ = Running::kNone;
  PrivateMemory memory_;
  HardwareMethod hardware_;
  PagesMethod pages_;
  AloneMethod alone_;
  NoMethod none_;

  static_assert(!std::is_polymorphic_v<LinesMethod> && !std::is_polymorphic_v<HardwareMethod> &&
                !std::is_polymorphic_v<PagesMethod> && !std::is_polymorphic_v<AloneMethod>);
};

}  // namespace tmh::itm
