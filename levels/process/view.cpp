// levels/process/view.cpp -- the mappings of a task's life.
#include "levels/process/view.h"

#include <sys/mman.h>
#include <sys/prctl.h>

#include <algorithm>

#include "levels/process/copied_regions.h"
#include "levels/process/copies.h"
#include "levels/process/ground/ground.h"
#include "levels/process/holds.h"
#include "levels/process/mappings.h"
#include "levels/process/own_pages.h"

namespace tmh::itm::pages {

bool View::enter(std::uint64_t *clock) noexcept {
  TMH_ASSERT(!is_running_inside);
  if (!Mappings::start()) return false;
  prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
  const Range own = Memory::stack_of(self_slot);
  for (std::uint32_t i = 0; i < Memory::regions(); ++i) {
    const Region &region = Memory::region(i);
    const auto put = [&region](std::uintptr_t begin, std::uintptr_t end) {
      return begin >= end ||
             Mappings::put_base(
                 region.first + static_cast<PageNumber>((begin - region.begin) / kPageBytes),
                 static_cast<std::uint32_t>((end - begin) / kPageBytes));
    };
    const std::uintptr_t hole_begin = std::clamp(own.begin, region.begin, region.end);
    const std::uintptr_t hole_end = std::clamp(own.begin + own.bytes, region.begin, region.end);
    if (!put(region.begin, hole_begin) || !put(std::max(hole_end, region.begin), region.end))
      return false;
  }
  return Copies::start(clock);
}

bool View::cover(const Region &region) noexcept {
  return Mappings::put_base(region.first, region.pages());
}

void View::forget_region(const Region &region) noexcept {
  TMH_ASSERT(!is_running_inside);
  const std::uint64_t now = control->clock.load(std::memory_order_acquire);
  const PageNumber end = region.page_end();
  CopiedRegions::forget(region.first);
  for (PageNumber page = region.first; page < end; ++page) {
    const Mapped before = Mappings::mapped(page);
    if (is_copy(before)) Mappings::end_copy(page);
    if (before == Mapped::kHeld) let_go(&page_states[page], self_slot, now);
    if (before == Mapped::kShared) page_states[page].sharers.remove(self_slot);
    if (before == Mapped::kOwned) OwnPages::forget(page);
    Mappings::set(page, Mapped::kNothing);
  }
}

void View::open_stack(std::uint32_t slot) noexcept {
  TMH_ASSERT(slot != 0 && slot != self_slot);
  const Range stack = Memory::stack_of(slot);
  const PageNumber first = Memory::page_of(stack.begin);
  Holds::give_up(false);  // pages of it may be held
  if (raw_mmap(reinterpret_cast<void *>(stack.begin), stack.bytes, PROT_READ | PROT_WRITE,
               MAP_SHARED | MAP_FIXED | MAP_NORESERVE, Memory::home_file(),
               static_cast<off_t>(first * kPageBytes)) == MAP_FAILED)
    die("a stack cannot be mapped");
}

void View::close_stack(std::uint32_t slot) noexcept {
  TMH_ASSERT(slot != 0 && slot != self_slot);
  const Range stack = Memory::stack_of(slot);
  const PageNumber first = Memory::page_of(stack.begin);
  const auto count = static_cast<std::uint32_t>(stack.bytes / kPageBytes);
  Mappings::set(first, count, Mapped::kNothing);
  if (!Mappings::put_base(first, count)) die("a stack cannot be mapped");
}

void View::enter_forked() noexcept {
  for (std::uint32_t i = 0; i < Memory::regions(); ++i) {
    const Region &region = Memory::region(i);
    const Range own = Memory::stack_of(self_slot);
    if (region.begin <= own.begin && own.begin < region.end) continue;  // its stack stays
    raw_mmap(reinterpret_cast<void *>(region.begin), region.bytes(), PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, Memory::home_file(),
             static_cast<off_t>(region.first * kPageBytes));
  }
  OwnPages::enter_forked();
}

}  // namespace tmh::itm::pages
