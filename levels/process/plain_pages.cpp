// levels/process/plain_pages.cpp -- bits first, images for the log, then the mapping.
#include "levels/process/plain_pages.h"

#include <algorithm>
#include <cstring>

#include "levels/process/commit_lock.h"
#include "levels/process/ground/ground.h"
#include "levels/process/holds.h"
#include "levels/process/log.h"
#include "levels/process/own_pages.h"
#include "levels/process/recalls.h"

namespace tmh::itm::pages {

namespace {

// Pages mapped ahead, of plain code that goes through them.
constexpr std::uint32_t kPlainWindowMax = 512;
constexpr std::uint32_t kRunsSpare = 64;  // for pages that are given away

// Copies of it exist: they end, and older snapshots find the page as it was.
void log_image(PageNumber page) noexcept {
  PageState &state = page_states[page];
  TMH_ASSERT(state.holders.has(self_slot));
  const CommitLock lock;
  constexpr std::uint32_t kBytes = sizeof(Entry) + kPageBytes;
  static_assert(kBytes % 8 == 0);
  Entry *const entry = Log::reserve(kBytes);
  const std::uint64_t stamp = control->clock.load(std::memory_order_relaxed) + 1;
  *entry = {};
  entry->stamp = stamp;
  entry->previous = state.newest.load(std::memory_order_relaxed) & ~kBits;
  entry->page = page;
  entry->size = kBytes;
  entry->kind = EntryKind::kImage;
  entry->slot = static_cast<std::uint8_t>(self_slot);
  entry->others = state.holders.has_others(self_slot);
  entry->released = state.released.load(std::memory_order_acquire);
  std::memcpy(entry->content(), Memory::home(page), kPageBytes);
  Log::publish(stamp, false);
  count(Count::kImages);
}

// Plain code is going to use the page.
void enter_home(PageNumber page, bool is_store) noexcept {
  PageState &state = page_states[page];
  TMH_ASSERT(Mappings::mapped(page) != Mapped::kHeld && Mappings::mapped(page) != Mapped::kOwned);
  Memory::note_holder(page);
  state.sharers.add(self_slot);
  if (is_store) state.holders.add(self_slot);
  if ((state.newest.load(std::memory_order_seq_cst) & kHasOwner) != 0) wait_for_owner(page);
  if (is_store && (state.newest.load(std::memory_order_seq_cst) & kTouched) != 0) log_image(page);
}

}  // namespace

void PlainPages::open(PageNumber page, bool is_store) noexcept {
  TMH_ASSERT(!is_running_inside && !is_open(page, is_store));
  TMH_ASSERT(Memory::stack_slot_of(page) != self_slot);
  count(Count::kPlainTouches);
  // Mappings are limited (vm.max_map_count).
  if (Mappings::runs_count() >= Mappings::kRunsMax - kRunsSpare) Holds::give_up(false);
  const Region &region = Memory::region_of(page);
  const PageNumber end = region.page_end();
  static PageNumber next = kNoPage;
  static std::uint32_t window = 1;
  window = page == next ? std::min(2 * window, kPlainWindowMax) : 1;
  std::uint32_t pages = 1;
  // Ahead only what no transaction uses, or what is only read.
  while (pages < window && page + pages < end &&
         Mappings::mapped(page + pages) == Mapped::kNothing &&
         Memory::stack_slot_of(page + pages) == kTasksMax &&
         (page_states[page + pages].newest.load(std::memory_order_relaxed) & kHasOwner) == 0 &&
         (!is_store ||
          (page_states[page + pages].newest.load(std::memory_order_relaxed) & kTouched) == 0))
    ++pages;
  next = page + pages;
  const Mapped before = Mappings::mapped(page);
  const bool is_candidate = is_copy(before) && OwnPages::is_candidate(page);
  is_store = is_store || is_candidate;
  if (is_candidate) next = page + (pages = 1);
  for (std::uint32_t i = 0; i < pages; ++i) enter_home(page + i, is_store);
  if (is_copy(before)) Mappings::end_copy(page);
  if (is_candidate && OwnPages::take(page)) return;
  const Mapped as = is_store ? Mapped::kHeld : Mapped::kShared;
  if (!Mappings::put_home(page, pages, as)) die("a page cannot be shared");
  Mappings::set(page, pages, as);
  Mappings::add_run(page, pages);
}

}  // namespace tmh::itm::pages
