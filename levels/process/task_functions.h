// levels/process/task_functions.h -- what the engine asks of the tasks, which stand on it: given to
// it when it starts.
#pragma once

namespace tmh::itm::pages {

struct TaskFunctions {
  // In main, before its covered memory is shared no more: makes what its tasks need. False: no
  // memory, or no threads.
  bool (*prepare)() noexcept;
  // The calling thread dies alone, of a signal inside of a transaction that was rolled back. Does
  // not return.
  void (*die)(int signal) noexcept;
};
inline TaskFunctions task_functions{};

}  // namespace tmh::itm::pages
