// compat/libitm/actions.h -- what is called when a thread's transaction commits or rolls back: the
// program's actions, and memory that is given back.
// Shape:     lists in the order in which calls were added. A rollback to a begin takes those that
//            came behind it.
// Contexts:  one thread's. NOT async-signal-safe. The calls run when the transaction is over: they
//            may run others, which add to the same lists.
#pragma once

#include <cstddef>
#include <vector>

namespace tmh::itm {

using Action = void (*)(void *argument);

class Actions {
 public:
  struct Call {
    Action action;
    void *argument;
  };
  // The calls of a begin that can be undone alone.
  struct Mark {
    std::size_t allocated = 0, freed = 0, on_commit = 0, on_undo = 0;
  };
  // Of a transaction that has committed.
  struct Effects {
    std::vector<Call> freed, on_commit;
  };

  // All throw std::bad_alloc. release: gives `memory` back.
  void add_allocated(void *memory, Action release) { allocated_.push_back({release, memory}); }
  void add_freed(void *memory, Action release) { freed_.push_back({release, memory}); }
  void add_on_commit(Action action, void *argument) { on_commit_.push_back({action, argument}); }
  void add_on_undo(Action action, void *argument) { on_undo_.push_back({action, argument}); }

  [[nodiscard]] Mark mark() const noexcept {
    return {allocated_.size(), freed_.size(), on_commit_.size(), on_undo_.size()};
  }
  // The calls of a rollback to the mark, newest first: undo actions, then memory given back. All
  // that came behind the mark is forgotten. Throws std::bad_alloc.
  [[nodiscard]] std::vector<Call> take_undone(const Mark &mark);
  // Nothing is left in the lists.
  [[nodiscard]] Effects take_effects() noexcept;
  // Gives memory back, then calls the program's actions, in order.
  void run(Effects *effects);
  // The transaction became irrevocable.
  void forget_on_undo() noexcept { on_undo_.clear(); }
  // The engine of method pages has ended the transaction: it gives memory back.
  void forget_actions() noexcept {
    on_commit_.clear();
    on_undo_.clear();
  }

 private:
  std::vector<Call> allocated_, freed_, on_commit_, on_undo_;
};

}  // namespace tmh::itm
