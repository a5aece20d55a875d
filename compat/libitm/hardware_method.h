// compat/libitm/hardware_method.h -- method rtm: a transaction between XBEGIN and XEND. The
// processor undoes all of it, what this library has noted as well.
// Shape:     while others run in software it runs the code with barriers, which look at the words
//            of lines and note those of stores; else the code without.
// Contexts:  as NoMethod. Nothing of an attempt is undone by calls: an abort comes back in begin().
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compat/libitm/lines_method.h"
#include "compat/libitm/method.h"
#include "compat/libitm/process.h"

namespace tmh::itm {

class HardwareMethod : public NoMethod {
 public:
  HardwareMethod(Process &process, LinesMethod &lines) noexcept
      : process_(process), lines_(lines) {}

  // Inside: what _ITM_beginTransaction returns. 0: it must run in software. Returns twice: after an
  // abort memory is as it was, the frames too. REQUIRES: lines.is_usable(), and code with barriers.
  [[nodiscard]] std::uint32_t begin(std::uint32_t properties);
  [[nodiscard]] bool commit();
  void abort_hardware(line::AbortCode code) noexcept;
  [[nodiscard]] bool go_alone(AloneMethod &) noexcept;

  [[nodiscard]] static constexpr bool frees_at_once() noexcept { return false; }
  [[nodiscard]] bool may_run_plain(std::uint32_t) const noexcept { return !is_beside_; }
  // What may be cancelled alone it cannot undo, nor run without barriers code that has only those.
  void open(std::uint32_t properties) noexcept;

  [[nodiscard]] std::uint64_t load(std::uintptr_t from, std::uint32_t bytes) {
    look_at_words(from, bytes, false);
    return NoMethod::load(from, bytes);
  }
  void load_block(void *to, std::uintptr_t from, std::size_t bytes) {
    look_at_words(from, bytes, false);
    NoMethod::load_block(to, from, bytes);
  }
  void store(PrivateMemory &memory, std::uintptr_t to, const void *from, std::size_t bytes) {
    look_at_words(to, bytes, true);
    NoMethod::store(memory, to, from, bytes);
  }

 private:
  void look_at_words(std::uintptr_t at, std::size_t bytes, bool is_store);

  Process &process_;
  LinesMethod &lines_;
  bool is_beside_ = false;  // transactions in software
  std::vector<line::LineWord *> stored_words_;
};

}  // namespace tmh::itm
