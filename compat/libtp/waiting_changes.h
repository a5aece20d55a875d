// compat/libtp/waiting_changes.h -- the stores whose changes wait for the end of a transaction.
// Sharing:   as its transaction.
#pragma once

#include <tp.h>

#include <utility>
#include <vector>

#include "platform/assert.h"

namespace tmh::tp {

class WaitingChanges {
 public:
  void add(tp_waiting_fn store, void *context) { all_.push_back({store, context}); }
  [[nodiscard]] bool is_empty() const noexcept { return all_.empty(); }
  // In a step; not 0: why not.
  [[nodiscard]] int run(tp_step_t *step, tp_waiting what) const {
    TMH_ASSERT(what == TP_STORE_LAST || what == TP_STORE_NOW);
    for (const One &one : all_)
      if (const int why = one.store(step, what, one.context); why != 0) return why;
    return 0;
  }
  // Nothing waits any more.
  void end(tp_waiting what) {
    TMH_ASSERT(what == TP_STORED || what == TP_DROP);
    for (const One &one : std::exchange(all_, {})) (void)one.store(nullptr, what, one.context);
  }

 private:
  struct One {
    tp_waiting_fn store;
    void *context;
  };
  std::vector<One> all_;
};

}  // namespace tmh::tp
