// levels/page/engine_open.cpp -- making pages of a view accessible: one by one, in blocks that
// follow the kernel's limit of areas, ahead of their touch.
// Contexts:  the handler, as engine_touch.cpp's head says.
// Source:    thesis, appendix A.1 item 4 (escalation to larger ranges).
#include <sys/mman.h>

#include <algorithm>

#include "levels/page/engine.h"

namespace tmh::page {

using storage::page_id;
using storage::page_index;
using storage::PageIndex;

// The last page that take_ahead() will look at: blocks come in larger pieces than it takes pages.
// Where there is no room it takes fewer.
void Engine::prepare_ahead(const View &view, PageId page) noexcept {
  const std::uint64_t usable =
      memory_.segment_size(view.segment).load(std::memory_order_acquire) / kPageBytes;
  const std::uint64_t last = static_cast<std::uint64_t>(page_index(page)) + 2 * ahead_;
  if (ahead_ != 0 && last < usable) (void)lower_->prepare(page_id(view.segment, PageIndex{last}));
}

// An instance that touches one closed page after another pays a signal for each.
// When they follow each other in memory it takes a run of pages at once, which doubles as long as
// they do; only such as the snapshot reads in home. They are not in the read set before they are
// touched: the kernel lists that.
void Engine::take_ahead(const DomainLock::Held &held, View &view, PageId page) noexcept {
  const auto number = [](PageId of) { return static_cast<std::uint64_t>(of); };
  const bool follows = page > ahead_last_ && number(page) <= number(ahead_end_) + kAheadGap;
  ahead_ = follows ? std::clamp(2 * ahead_, kAheadMin, kAheadMax) : 0;
  const auto index = static_cast<std::uint64_t>(page_index(page));
  const std::uint64_t usable =
      memory_.segment_size(view.segment).load(std::memory_order_acquire) / kPageBytes;
  const std::uint64_t end =
      std::min({index + 1 + ahead_, usable, (index / Views::kBlockPages + 1) * Views::kBlockPages});
  ahead_last_ = page;
  ahead_end_ = PageId{number(page) + std::max(end, index + 1) - index};
  std::uint64_t run = 0;  // pages in front of `each` that are taken and not open yet
  const auto open_run = [&](std::uint64_t each) {
    if (run != 0) views_.open_closed(view, page_id(view.segment, PageIndex{each - run}), run);
    run = 0;
  };
  for (std::uint64_t i = index + 1; i < end && !instance_.is_failed; ++i) {
    const PageId each = page_id(view.segment, PageIndex{i});
    LocalPage &l = views_.local(each);
    const bool is_free = views_.is_closed(l) &&
                         (l.state == PageState::kAbsent || l.state == PageState::kGuarded) &&
                         !tree_.has_version(held, each, snapshot_.at()) &&
                         lower_->take_ahead(held, each, snapshot_.line());
    if (!is_free) {
      open_run(i);
      continue;
    }
    if ((l.lists & kInResident) == 0) lists_.resident.push(each);
    l.lists |= kResident | kInResident;
    l.state = PageState::kAbsent;
    // As in read_versions(): its newer versions need not be the first ones that it has had since
    // the snapshot.
    if (memory_.meta_to_read(each).newest.load(std::memory_order_relaxed) != 0)
      snapshot_.must_follow();
    ++run;
  }
  open_run(end);
}

void Engine::touch_guarded(View &view, PageId page) noexcept {
  if (stand_ins_.put_for_closed(page)) return;
  std::uint32_t twin = 0;
  const bool was_closed = views_.is_closed(views_.local(page));
  const bool versioned = read_versions(page, &twin);
  if (has_lower_) {
    views_.open_closed(view, page, 1);
    if (was_closed && !versioned) {
      prepare_ahead(view, page);
      const DomainLock::Held held = lock_.take(DomainLock::Context::kHandler);
      take_ahead(held, view, page);
    }
  } else {
    views_.unguard(page);
  }
  if (versioned)
    make_private(page, twin);
  else
    // home is right: the kernel maps it and lists the fault
    views_.local(page).state = PageState::kAbsent;
}

bool Engine::open_page(View &view, PageId page, bool is_write) noexcept {
  if (stand_ins_.put_for_closed(page)) return true;
  LocalPage &l = views_.local(page);
  std::byte *at = views_.address_of(page);
  bool refused = false;
  std::uint32_t twin = 0;
  if (l.state == PageState::kAbsent && (views_.is_closed(l) || tree_.may_have_version(page)) &&
      read_versions(page, &twin)) {
    refused = !views_.protect(at, kPageBytes, PROT_READ | PROT_WRITE);
    if (!refused) {
      make_private(page, twin);
      if (eager() && !is_write) {  // the first store must still be seen
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
bool Engine::open_block(View &view, PageId page) noexcept {
  const std::uint64_t usable =
      memory_.segment_size(view.segment).load(std::memory_order_acquire) / kPageBytes;
  std::uint64_t count_max = views_.block_pages(), first = 0, count = 0;
  bool is_whole = false, is_tail_open = false;
  for (;; count_max *= 16) {
    is_whole = count_max * kPageBytes >= view.bytes;
    first = is_whole ? 0 : static_cast<std::uint64_t>(page_index(page)) & ~(count_max - 1);
    count = std::max<std::uint64_t>(1, std::min(count_max, usable > first ? usable - first : 1));
    // Whole views have no borders inside an area, so that nobody can run out of areas.
    const bool is_open =
        views_.protect(view.base + first * kPageBytes, is_whole ? view.bytes : count * kPageBytes,
                       PROT_READ | PROT_WRITE);
    is_tail_open =
        is_open && is_whole && usable * kPageBytes < view.bytes && !views_.close_tail(view, usable);
    if (is_open) break;
    if (!is_whole) continue;
    platform::write_sentence(
        "tmh: the kernel lets no page be opened, for want of areas (vm.max_map_count) or memory "
        "(vm.overcommit_memory) "
        "at",
        reinterpret_cast<std::uintptr_t>(views_.address_of(page)));
    return false;
  }
  if (is_tail_open)
    instance_.has_read_everything = true;  // what the segment grows by is seen by nobody then
  if (instance_.is_query) stand_ins_.protect();
  const PageId first_page = page_id(view.segment, PageIndex{first});
  register_access(first_page, count, true);  // stores inside the block will not be seen one by one
  for (std::uint64_t i = 0; i < count; ++i) {
    const PageId each = page_id(view.segment, PageIndex{first + i});
    LocalPage &l = views_.local(each);
    std::uint32_t twin = 0;
    if (stand_ins_.put_for_closed(each)) continue;
    if (l.state == PageState::kAbsent && (views_.is_closed(l) || tree_.may_have_version(each)) &&
        read_versions(each, &twin))
      make_private(each, twin);
    if (l.state == PageState::kReadOnly) touches_.list(each, PageState::kPrivate);
    if (l.state == PageState::kAbsent) touches_.list(each, PageState::kFile);
  }
  lists_.blocks.push(first_page);
  lists_.blocks.push(PageId{is_tail_open ? view.bytes / kPageBytes : count});
  return true;
}

}  // namespace tmh::page
