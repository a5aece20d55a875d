// levels/page/page_content.cpp -- filling version slots, planning redo records.
#include "levels/page/page_content.h"

#include <algorithm>

#include "levels/page/shared/shared.h"
#include "observe/steps.h"
#include "platform/assert.h"
#include "platform/try.h"

namespace tmh::page {

using observe::Step;
using observe::step;

Errc PageContent::make() noexcept {
  if (ours_.tree.slots().reserved() < sets_.writes().size()) {
    const DomainLock::Held held = ours_.lock.take();
    TMH_TRY(ours_.tree.slots().reserve(
        held, std::max(sets_.writes().size(), VersionSlots::kReservedAtLeast)));
  }
  step(Step::kCommitSlotsReserved);
  TMH_TRY(sets_.allocate_blocks());
  if (has_plan_) TMH_TRY(plan_.reserve(sets_.writes().size()));
  for (Write &write : sets_.writes()) {
    TMH_ASSERT(write.lines != 0);
    write.slot = ours_.tree.slots().take();
    copy_lines(ours_.memory.version_data(write.slot), views_.address_of(write.page), write.lines);
  }
  ours_.memory.commits().prepare(snapshot_.position());
  if (has_plan_) plan_records();
  step(Step::kCommitSlotsFilled);
  return Errc::kOk;
}

void PageContent::take_back() noexcept {
  for (const Write &write : sets_.writes()) ours_.tree.slots().give_back(write.slot);
  TMH_ASSERT(ours_.tree.slots().reserved() >= sets_.writes().size());
}

void PageContent::plan_records() noexcept {
  // What the ring does not list is found by scanning, and must come out in the same order: see
  // RedoEncoder::append_wide().
  if (ConsistencyTree::is_wide(sets_.writes().size()))
    std::sort(sets_.writes().begin(), sets_.writes().end(),
              [](const Write &a, const Write &b) { return a.page < b.page; });
  plan_.begin();
  for (const Write &write : sets_.writes())
    plan_.add(write, views_.address_of(write.page), sets_.clean_copy(write.page));
}

}  // namespace tmh::page
