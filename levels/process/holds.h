// levels/process/holds.h -- what plain code of this task has mapped of home, and lets go of, by
// itself or for another task that asks.
// Contexts:  the task's own, and its handler of requests.
#pragma once

#include <cstddef>
#include <cstdint>

#include "levels/process/mappings.h"

namespace tmh::itm::pages {

class Holds {
 public:
  // Lets go of held pages; touched_only: of those that transactions have touched; is_in_call: but
  // not of what a call in progress uses. Own pages go, too; touched_only: those that are wanted.
  static void give_up(bool touched_only, bool is_in_call = false) noexcept;
  // Of many mappings: each costs time at each turn().
  static void give_up_many() noexcept;
  [[nodiscard]] static bool has_any() noexcept {
    return Mappings::runs_count() + Mappings::owned_count() != 0;
  }
  // A system call of this task is going to use this memory; a new one begins.
  static void note_call_use(std::uintptr_t at, std::size_t bytes) noexcept;
  static void forget_call_uses() noexcept { call_use_ = 0; }

 private:
  [[nodiscard]] static bool is_in_call_use(PageNumber page) noexcept;
  static void give_up_runs(bool touched_only, bool shared_too, bool is_in_call) noexcept;

  static constexpr std::uint32_t kCallUses = 16;
  static inline Mappings::Run call_uses_[kCallUses];
  static inline std::uint32_t call_use_ = 0;
};

}  // namespace tmh::itm::pages
