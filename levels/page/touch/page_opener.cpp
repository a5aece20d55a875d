// levels/page/touch/page_opener.cpp -- making pages of a view accessible.
#include "levels/page/touch/page_opener.h"

#include <sys/mman.h>

#include <algorithm>

#include "platform/assert.h"
#include "platform/fault_handler.h"

namespace tmh::page {

using storage::page_id;
using storage::page_index;
using storage::PageIndex;

void PageOpener::open_guarded(View &view, PageId page) noexcept {
  TMH_ASSERT(view.base != nullptr && storage::segment_number(page) == view.segment);
  if (stand_ins_.put_for_closed(page)) return;
  std::uint32_t twin = 0;
  const bool was_closed = mine_.views.is_closed(mine_.views.local(page));
  const bool versioned = maker_.make(page, &twin);
  if (mine_.views.has_lower()) {
    mine_.blocks.open_pages(view, page, 1);
    if (was_closed && !versioned) ahead_.follow(view, page);
  } else {
    mine_.views.unguard(page, 1);
  }
  if (versioned)
    maker_.install(page, twin);
  else
    // home is right: the kernel maps it and lists the fault
    mine_.views.local(page).state = PageState::kAbsent;
}

bool PageOpener::open(View &view, PageId page, bool is_write) noexcept {
  if (mine_.views.areas().block_pages() > 1) return open_block(view, page);
  claimer_.claim(page, 1, is_write);
  return open_page(view, page, is_write);
}

bool PageOpener::open_page(View &view, PageId page, bool is_write) noexcept {
  TMH_ASSERT(view.base != nullptr && storage::segment_number(page) == view.segment);
  if (stand_ins_.put_for_closed(page)) return true;
  LocalPage &l = mine_.views.local(page);
  std::byte *at = mine_.views.address_of(page);
  bool refused = false;
  std::uint32_t twin = 0;
  if (l.state == PageState::kAbsent && maker_.may_differ(page) && maker_.make(page, &twin)) {
    refused = !mine_.views.protect(at, kPageBytes, PROT_READ | PROT_WRITE);
    if (!refused) {
      maker_.install(page, twin);
      if (claimer_.registers_touches() && !is_write) {  // the first store must still be seen
        refused = !mine_.views.protect(at, kPageBytes, PROT_READ);
        l.state = PageState::kReadOnly;
      }
    } else {
      mine_.twins.give_back(twin);
    }
  }
  if (l.state == PageState::kAbsent || (is_write && l.state != PageState::kPrivate)) {
    if (!mine_.views.protect(at, kPageBytes, is_write ? PROT_READ | PROT_WRITE : PROT_READ))
      refused = true;
    if (!refused) mine_.touches.list(page, is_write ? PageState::kPrivate : PageState::kFile);
  }
  if (!refused) return true;
  // vm.max_map_count is nearer than we thought: larger blocks from here on
  mine_.views.areas().use_large_blocks();
  return open_block(view, page);
}

// False: not even the whole view can be opened.
bool PageOpener::open_block(View &view, PageId page) noexcept {
  TMH_ASSERT(view.base != nullptr && storage::segment_number(page) == view.segment);
  const std::uint64_t usable =
      ours_.memory.segment_size(view.segment).load(std::memory_order_acquire) / kPageBytes;
  std::uint64_t count_max = mine_.views.areas().block_pages(), first = 0, count = 0;
  bool is_whole = false, is_tail_open = false;
  for (;; count_max *= 16) {
    is_whole = count_max * kPageBytes >= view.bytes;
    TMH_ASSERT((count_max & (count_max - 1)) == 0);
    first = is_whole ? 0 : static_cast<std::uint64_t>(page_index(page)) & ~(count_max - 1);
    count = std::max<std::uint64_t>(1, std::min(count_max, usable > first ? usable - first : 1));
    // Whole views have no borders inside an area, so that opening one needs none.
    const bool is_open =
        mine_.views.protect(view.base + first * kPageBytes,
                            is_whole ? view.bytes : count * kPageBytes, PROT_READ | PROT_WRITE);
    is_tail_open = is_open && is_whole && usable * kPageBytes < view.bytes &&
                   !mine_.blocks.close_tail(view, usable);
    if (is_open) break;
    if (!is_whole) continue;
    platform::write_sentence(
        "tmh: the kernel lets no page be opened, for want of areas (vm.max_map_count) or memory "
        "(vm.overcommit_memory) at",
        reinterpret_cast<std::uintptr_t>(mine_.views.address_of(page)));
    return false;
  }
  if (is_tail_open)
    // No touch of what the segment grows by is seen then.
    mine_.instance.has_read_everything = true;
  const PageId first_page = page_id(view.segment, PageIndex{first});
  if (mine_.instance.is_query)
    stand_ins_.protect(first_page, is_whole ? view.bytes / kPageBytes : count);
  claimer_.claim(first_page, count, true);  // stores inside the block will not be seen one by one
  for (std::uint64_t i = 0; i < count; ++i) {
    const PageId each = page_id(view.segment, PageIndex{first + i});
    LocalPage &l = mine_.views.local(each);
    std::uint32_t twin = 0;
    if (stand_ins_.put_for_closed(each)) continue;
    if (l.state == PageState::kAbsent && maker_.may_differ(each) && maker_.make(each, &twin))
      maker_.install(each, twin);
    if (l.state == PageState::kReadOnly) mine_.touches.list(each, PageState::kPrivate);
    if (l.state == PageState::kAbsent) mine_.touches.list(each, PageState::kFile);
  }
  mine_.kept.note_block(first_page, is_tail_open ? view.bytes / kPageBytes : count);
  return true;
}

}  // namespace tmh::page
