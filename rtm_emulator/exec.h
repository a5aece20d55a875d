// rtm_emulator/exec.h -- runs one transaction from its outermost XBEGIN to XEND or abort.
// Shape:     a dispatcher over decoded blocks. The general registers and the flags are kept in
//            memory; vector and x87 state stays in the processor from the begin to the end, so that
//            nothing here may touch it (compiled with -mgeneral-regs-only).
// Contexts:  on the emulator's own stack, signals blocked but those of faults.
#pragma once

#include <cstdint>

#include "rtm_emulator/decode.h"
#include "rtm_emulator/txmem.h"

namespace tmh::rtm {

class Executor {
 public:
  [[nodiscard]] bool allocate() noexcept;

  // State at the outermost XBEGIN; what runs is changed in place.
  [[nodiscard]] Registers &registers() noexcept { return *registers_; }

  struct Outcome {
    bool committed;
    std::uint32_t status;  // of the abort
    std::uint64_t rip;     // behind XEND
  };
  // vector_mask: the parts of the extended state that are in use. Vector registers may still
  // change.
  void begin(std::uint64_t rip, const Knobs &knobs, std::uint32_t slot,
             std::uint64_t vector_mask) noexcept;
  // From here on they are the program's.
  [[nodiscard]] Outcome run() noexcept;

  // The program's instruction faulted in a thunk: where the handler must go on, with which stack
  // pointer. 0: the fault was somewhere else.
  [[nodiscard]] std::uint64_t recover_thunk(std::uint64_t rip, std::uint64_t *rsp) noexcept;

 private:
  enum class Step : std::uint8_t { kNext, kLeft, kCommitted, kAborted };  // kLeft: to another block

  [[nodiscard]] const Block *find_block(std::uint64_t rip) noexcept;
  [[nodiscard]] Step run_block(const Block &block) noexcept;
  [[nodiscard]] Step execute(const Op &op) noexcept;
  [[nodiscard]] Step run_thunk(const Op &op) noexcept;
  [[nodiscard]] Step run_thunk_with_memory(const Op &op) noexcept;
  [[nodiscard]] Step transfer(const Op &op) noexcept;
  [[nodiscard]] Step stack(const Op &op) noexcept;
  [[nodiscard]] Step string(const Op &op) noexcept;
  [[nodiscard]] Step string_once(const Op &op, bool *stop) noexcept;
  [[nodiscard]] Step bit_string(const Op &op) noexcept;
  [[nodiscard]] Step nest(const Op &op) noexcept;
  [[nodiscard]] Step abort(Cause cause, std::uint8_t code = 0) noexcept;
  [[nodiscard]] Step memory_failed() noexcept { return abort(memory_.cause()); }
  [[nodiscard]] bool value_of(const Op &op, std::uint64_t *value) noexcept;
  [[nodiscard]] std::uint64_t effective(const Op &op) const noexcept;
  [[nodiscard]] bool push(std::uint64_t value) noexcept;
  [[nodiscard]] bool pop(std::uint64_t *value) noexcept;
  [[nodiscard]] bool pass_time(std::uint32_t instructions) noexcept;

  Registers *registers_ = nullptr;
  std::uint8_t *code_ = nullptr;
  CodeRoom room_{};
  std::uint8_t *first_thunk_ = nullptr;
  std::uint64_t entry_ = 0;
  std::uint64_t fault_ = 0;
  Block *blocks_ = nullptr;            // kBlocks of them
  std::uint32_t *block_of_ = nullptr;  // direct-mapped by address: index + 1
  std::uint32_t blocks_used_ = 0;
  std::uint8_t *vectors_ = nullptr;  // while Zydis runs
  std::uint64_t vector_mask_ = 0;

  TxMemory memory_;
  Dice dice_;
  bool dice_seeded_ = false;
  std::uint64_t seed_ = 0;
  Knobs knobs_{};
  std::uint64_t rip_ = 0;
  std::uint32_t depth_ = 0;
  std::uint32_t executed_ = 0;
  std::uint32_t until_yield_ = 0;
  std::uint32_t status_ = 0;
};

}  // namespace tmh::rtm
