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
  const bool was_closed = views_.is_closed(views_.local(page));
  const bool versioned = maker_.make(page, &twin);
  if (views_.has_lower()) {
    blocks_.open_pages(view, page, 1);
    if (was_closed && !versioned) ahead_.follow(view, page);
  } else {
    views_.unguard(page, 1);
  }
  if (versioned)
    maker_.install(page, twin);
  else
    // home is right: the kernel maps it and lists the fault
    views_.local(page).state = PageState::kAbsent;
}

bool PageOpener::open(View &view, PageId page, bool is_write) noexcept {
  if (views_.block_pages() > 1) return open_block(view, page);
  claimer_.claim(page, 1, is_write);
  return open_page(view, page, is_write);
}

bool PageOpener::open_page(View &view, PageId page, bool is_write) noexcept {
  TMH_ASSERT(view.base != nullptr && storage::segment_number(page) == view.segment);
  if (stand_ins_.put_for_closed(page)) return true;
  LocalPage &l = views_.local(page);
  std::byte *at = views_.address_of(page);
  bool refused = false;
  std::uint32_t twin = 0;
  if (l.state == PageState::kAbsent && maker_.may_differ(page) && maker_.make(page, &twin)) {
    refused = !views_.protect(at, kPageBytes, PROT_READ | PROT_WRITE);
    if (!refused) {
      maker_.install(page, twin);
      if (claimer_.registers_touches() && !is_write) {  // the first store must still be seen
        refused = !views_.protect(at, kPageBytes, PROT_READ);
        l.state = PageState::kReadOnly;
      }
    } else {
      lists_.twins.give_back(twin);
    }
  }
  if (l.state == PageState::kAbsent || (is_write && l.state != PageState::kPrivate)) {
    if (!views_.protect(at, kPageBytes, is_write ? PROT_READ | PROT_WRITE : PROT_READ))
      refused = true;
    if (!refused) touches_.list(page, is_write ? PageState::kPrivate : PageState::kFile);
  }
  if (!refused) return true;
  // vm.max_map_count is nearer than we thought: larger blocks from here on
  views_.use_large_blocks();
  return open_block(view, page);
}

// False: not even the whole view can be opened.
bool PageOpener::open_block(View &view, PageId page) noexcept {
  TMH_ASSERT(view.base != nullptr && storage::segment_number(page) == view.segment);
  const std::uint64_t usable =
      memory_.segment_size(view.segment).load(std::memory_order_acquire) / kPageBytes;
  std::uint64_t count_max = views_.block_pages(), first = 0, count = 0;
  bool is_whole = false, is_tail_open = false;
  for (;; count_max *= 16) {
    is_whole = count_max * kPageBytes >= view.bytes;
    TMH_ASSERT((count_max & (count_max - 1)) == 0);
    first = is_whole ? 0 : static_cast<std::uint64_t>(page_index(page)) & ~(count_max - 1);
    count = std::max<std::uint64_t>(1, std::min(count_max, usable > first ? usable - first : 1));
    // Whole views have no borders inside an area, so that opening one needs none.
    const bool is_open =
        views_.protect(view.base + first * kPageBytes, is_whole ? view.bytes : count * kPageBytes,
                       PROT_READ | PROT_WRITE);
    is_tail_open = is_open && is_whole && usable * kPageBytes < view.bytes &&
                   !blocks_.close_tail(view, usable);
    if (is_open) break;
    if (!is_whole) continue;
    platform::write_sentence(
        "tmh: the kernel lets no page be opened, for want of areas (vm.max_map_count) or memory "
        "(vm.overcommit_memory) at",
        reinterpret_cast<std::uintptr_t>(views_.address_of(page)));
    return false;
  }
  if (is_tail_open)
    // No touch of what the segment grows by is seen then.
    instance_.has_read_everything = true;
  const PageId first_page = page_id(view.segment, PageIndex{first});
  if (instance_.is_query)
    stand_ins_.protect(first_page, is_whole ? view.bytes / kPageBytes : count);
  claimer_.claim(first_page, count, true);  // stores inside the block will not be seen one by one
  for (std::uint64_t i = 0; i < count; ++i) {
    const PageId each = page_id(view.segment, PageIndex{first + i});
    LocalPage &l = views_.local(each);
    std::uint32_t twin = 0;
    if (stand_ins_.put_for_closed(each)) continue;
    if (l.state == PageState::kAbsent && maker_.may_differ(each) && maker_.make(each, &twin))
      maker_.install(each, twin);
    if (l.state == PageState::kReadOnly) touches_.list(each, PageState::kPrivate);
    if (l.state == PageState::kAbsent) touches_.list(each, PageState::kFile);
  }
  lists_.blocks.push(first_page);
  lists_.blocks.push(PageId{is_tail_open ? view.bytes / kPageBytes : count});
  return true;
}

}  // namespace tmh::page
