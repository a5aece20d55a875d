// levels/line/turn.h -- the right to commit alone: for an instance that has failed too often, or
// that the caller knows to be long.
// Invariant: a courtesy on which no isolation depends: an instance that loses it, or commits
//            without it, is only less likely to succeed.
// Ordering:  LineStateV1::turn is taken with acquire and given with release.
// Owner death: suspected by those who wait, given back by recovery.cpp; at most 100 ms.
// Contexts:  one thread's. wait() and take() REQUIRE that the thread holds no line word.
#pragma once

#include <cstdint>

#include "levels/line/line_memory.h"
#include "levels/line/rivals.h"

namespace tmh::line {

class Turn {
 public:
  Turn(LineMemory &memory, Rivals &rivals) noexcept : memory_(memory), rivals_(rivals) {}

  [[nodiscard]] bool is_mine() const noexcept { return is_mine_; }
  // Waits for others. Without effect when they were quicker for 200 ms.
  void take(std::uint32_t context) noexcept;
  // REQUIRES: is_mine().
  void give(std::uint32_t context) noexcept;
  // A committer lets the instance that has the turn go first.
  void let_go_first(std::uint32_t context) noexcept {
    // acquire: pairs with give()
    if (memory_.state().turn.load(std::memory_order_acquire) != 0 && !is_mine_) [[unlikely]]
      wait(context);
  }

 private:
  void wait(std::uint32_t context) noexcept;

  LineMemory &memory_;
  Rivals &rivals_;
  bool is_mine_ = false;
};

}  // namespace tmh::line
