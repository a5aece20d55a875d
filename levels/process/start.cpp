// levels/process/start.cpp -- what has to be first.
#include "levels/process/start.h"

#include "levels/process/control.h"
#include "levels/process/faults.h"
#include "levels/process/ground/ground.h"
#include "levels/process/heap/heap.h"
#include "levels/process/jump_tables.h"
#include "levels/process/keys.h"
#include "levels/process/log.h"
#include "levels/process/memory.h"
#include "levels/process/own_pages.h"
#include "levels/process/rights.h"
#include "levels/process/transaction.h"
#include "levels/process/view.h"

namespace tmh::itm::pages {

void prepare_engine(const TaskFunctions &tasks, bool serializable) noexcept {
  TMH_ASSERT(!has_started && tasks.prepare != nullptr && tasks.die != nullptr);
  is_serializable = serializable;
  task_functions = tasks;
  move_jump_tables();
  if (!make_control() || !Memory::start() || !Log::start() || !OwnPages::start())
    refuse("no shared memory");
  control->slots[0].is_used.store(1, std::memory_order_relaxed);
  control->slots[0].incarnation.store(1, std::memory_order_relaxed);
  control->high.store(1, std::memory_order_relaxed);
  name_self(0);
  look_for_keys();
  if (!start_faults()) refuse("signals cannot be handled");
  if (!heap_start()) refuse("no memory for the heap");
}

void start_engine() noexcept {
  TMH_ASSERT(control != nullptr && !has_started);
  has_started = true;
}

void enter_forked() noexcept {
  TMH_ASSERT(has_started);
  has_started = false;
  View::enter_forked();
  end_rights();
}

}  // namespace tmh::itm::pages
