// compat/libitm/actions.cpp -- calls that a rollback makes, and those of a commit.
#include "compat/libitm/actions.h"

#include "platform/assert.h"

namespace tmh::itm {

std::vector<Actions::Call> Actions::take_undone(const Mark &mark) {
  TMH_ASSERT(mark.on_undo <= on_undo_.size() && mark.allocated <= allocated_.size());
  TMH_ASSERT(mark.on_commit <= on_commit_.size() && mark.freed <= freed_.size());
  std::vector<Call> calls(on_undo_.rbegin(),
                          on_undo_.rend() - static_cast<std::ptrdiff_t>(mark.on_undo));
  calls.insert(calls.end(), allocated_.rbegin(),
               allocated_.rend() - static_cast<std::ptrdiff_t>(mark.allocated));
  on_undo_.resize(mark.on_undo);
  allocated_.resize(mark.allocated);
  on_commit_.resize(mark.on_commit);
  freed_.resize(mark.freed);
  return calls;
}

Actions::Effects Actions::take_effects() noexcept {
  Effects effects;
  effects.freed.swap(freed_);
  effects.on_commit.swap(on_commit_);
  allocated_.clear();
  on_undo_.clear();
  return effects;
}

void Actions::run(Effects *effects) {
  for (const Call &each : effects->freed) each.action(each.argument);
  for (const Call &each : effects->on_commit) each.action(each.argument);
  // The room is used again, unless an action's transactions have got some.
  effects->freed.clear();
  if (freed_.capacity() == 0) freed_.swap(effects->freed);
}

}  // namespace tmh::itm
