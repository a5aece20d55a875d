// levels/process/own_pages.h -- pages that belong to this task: home, for its plain code and
// its transactions alike.
// Shape:     a page that goes to and fro between plain code and transactions of one task, while no
//            other task has it mapped, becomes that task's. The begin of a transaction keeps an
//            image of it, which is its twin; otherwise a commit and a rollback do as with a copy.
//            Images lie in shared memory: they outlive a task that dies in a transaction.
// Invariant: (1) kHasOwner is set and an owner's list has the page, or neither; the list has it
//            before the bit is set, and until behind its end. Then the task is still a holder, so
//            that no other becomes owner meanwhile.
//            (2) while kHasOwner is set, no other task has the page mapped, makes a copy of it, or
//            commits to it. It is set under the commit lock, when no other task's bit is in
//            `holders` or `sharers`; others set theirs first, then look at it and wait.
//            (3) an owner gives a page away when it is asked, in a transaction, too, and wherever
//            it waits for others.
// Contexts:  as mappings.h.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "levels/process/memory.h"

namespace tmh::itm::pages {

class OwnPages {
 public:
  [[nodiscard]] static bool start() noexcept;

  // Plain code wants a page of which this task has a copy. Is it to be owned?
  [[nodiscard]] static bool is_candidate(PageNumber page) noexcept;
  // REQUIRES: this task is a holder, and has the page mapped nowhere. False: it is not owned.
  [[nodiscard]] static bool take(PageNumber page) noexcept;
  // A transaction begins.
  static void keep_images() noexcept;

  static void give_away_all() noexcept { give_away(true); }
  static void give_away_wanted() noexcept { give_away(false); }
  // What many commits have not changed.
  static void give_away_idle() noexcept;
  // Its memory is gone.
  static void forget(PageNumber page) noexcept;
  // In a child that the program makes, which has the memory for itself: what transactions of others
  // have stored so far goes.
  static void enter_forked() noexcept;
  // Of a slot whose task is dead: what its unfinished transaction stored goes.
  static void forget_dead(std::uint32_t slot) noexcept;

 private:
  static void give_away(bool all) noexcept;
  static void give_away_page(PageNumber page) noexcept;
  static void take_off(PageNumber page) noexcept;
};

}  // namespace tmh::itm::pages
