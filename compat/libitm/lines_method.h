// compat/libitm/lines_method.h -- method lines: a thread's transactions on level 1 in software,
// over all memory of the process.
// Invariant: while a transaction runs, the thread's slot of the gate has its snapshot.
// Contexts:  as NoMethod. A load or store that cannot go on leaves by `way_out`.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compat/libitm/gate.h"
#include "compat/libitm/method.h"
#include "compat/libitm/private_memory.h"
#include "compat/libitm/process.h"
#include "levels/line/process_inline.h"
#include "levels/line/process_thread.h"
#include "platform/assert.h"

namespace tmh::itm {

class LinesMethod : public NoMethod {
 public:
  // What a store that lies in one line meets there.
  enum class Place : std::uint8_t {
    kNewestLine,  // which is opened now
    kOwn,         // memory that nobody else knows, and that no rollback restores
    kAnywhere,    // store() must do it
  };
  // Level 1 lets one that fails so often as line::kPriorityAttempts commit first; what still fails
  // meets plain stores of the program, or more threads than processors.
  static constexpr std::uint32_t kAttemptsMax = 64;
  static_assert(kAttemptsMax > line::kPriorityAttempts);

  // slot: null: there is no room for this thread. Throws std::bad_alloc.
  LinesMethod(Process &process, Gate::Slot *slot, line::SoftwareThread::Leave way_out)
      : level_1(process.memory, process.releaser, way_out), process_(process), slot_(slot) {}

  // First: barriers find it there.
  line::ProcessThread level_1;

  // For the calling thread, until detach(). owner: its Thread, which the slot keeps.
  void attach(void *owner) noexcept;
  // The slot serves the next thread. False: there is none.
  [[nodiscard]] bool detach() noexcept;
  [[nodiscard]] bool is_usable() const noexcept { return is_usable_; }
  [[nodiscard]] const Gate::Slot *slot() const noexcept { return slot_; }
  [[nodiscard]] bool has_context(std::uint32_t number) const noexcept {
    return is_usable_ && level_1.context_number() == number;
  }

  // Of a first attempt: false: another thread is alone.
  [[nodiscard, gnu::always_inline]] bool try_enter() noexcept {
    TMH_ASSERT(is_usable_);
    level_1.let_go_first_briefly();
    return process_.gate.try_enter(*slot_, process_.memory.state().clock);
  }
  // REQUIRES: try_enter().
  [[gnu::always_inline]] void begin_inside(std::uint32_t attempt) noexcept {
    level_1.begin_at_once(attempt);
    if (slot_->snapshot.load(std::memory_order_relaxed) != level_1.rv)  // this thread's
      Gate::move_on(*slot_, level_1.rv);
  }
  // Waits until it may. attempt: earlier ones that failed.
  void begin(std::uint32_t attempt) noexcept;
  [[nodiscard, gnu::always_inline]] bool commit() {
    if (!level_1.try_commit()) [[unlikely]]
      return false;
    leave();
    level_1.has_stored() ? process_.gate.wait_for_readers(slot_, level_1.rv)
                         : process_.gate.wait_for_older(slot_, level_1.rv);
    return true;
  }
  void abandon() noexcept;
  [[gnu::always_inline]] void leave() noexcept {
    Gate::leave(*slot_);
    if (process_.method == Method::kRtm) [[unlikely]]
      process_.gate.leave_software();
  }
  [[nodiscard]] bool go_alone(AloneMethod &alone);

  [[nodiscard]] static constexpr bool keeps_stores() noexcept { return true; }
  [[nodiscard]] static constexpr bool frees_at_once() noexcept { return false; }
  [[nodiscard]] Mark mark(std::uintptr_t) noexcept { return level_1.mark(); }
  void drop_mark(const Mark &mark) noexcept { level_1.drop_mark(mark); }
  void roll_back_to(const Mark &mark) noexcept { level_1.roll_back_to(mark); }

  [[nodiscard, gnu::always_inline]] std::uint64_t load(std::uintptr_t from, std::uint32_t bytes) {
    if (from % bytes == 0) [[likely]]
      return level_1.load_word(from, bytes);
    std::uint64_t value = 0;
    load_block(&value, from, bytes);
    return value;
  }
  void load_block(void *to, std::uintptr_t from, std::size_t bytes);
  void store(PrivateMemory &memory, std::uintptr_t to, const void *from, std::size_t bytes);
  [[nodiscard]] bool copy(PrivateMemory &memory, std::uintptr_t to, std::uintptr_t from,
                          std::size_t bytes);
  void log_local(PrivateMemory &memory, std::uintptr_t at, std::size_t bytes);
  // Stores to these bytes need no lock. Their lines, which may have others, are never the newest.
  void note_private(PrivateMemory &memory, std::uintptr_t begin, std::size_t bytes) {
    if (bytes == 0) return;
    memory.add(begin, bytes);
    level_1.leave_newest();
  }
  // What a barrier's first store to a line needs. REQUIRES: the bytes lie in one line.
  [[nodiscard, gnu::always_inline]] Place place_of_store(PrivateMemory &memory, std::uintptr_t at,
                                                         std::size_t bytes) {
    TMH_ASSERT(at % kLineBytes + bytes <= kLineBytes);
    if (at >= line::kProcessBytes) [[unlikely]]
      return Place::kAnywhere;
    const std::uintptr_t line = at / kLineBytes * kLineBytes;
    if (memory.may_meet_line(line)) [[unlikely]] {
      if (!memory.is_nested() && memory.has(at, bytes)) return Place::kOwn;
      if (memory.meets_line(line)) return Place::kAnywhere;
    }
    level_1.open_process_line(at);
    return Place::kNewestLine;
  }

 private:
  Process &process_;
  Gate::Slot *const slot_;
  bool is_usable_ = false;
};

}  // namespace tmh::itm
