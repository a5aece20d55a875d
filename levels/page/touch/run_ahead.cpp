// levels/page/touch/run_ahead.cpp -- taking runs of pages from the level below ahead of their
// touch.
#include "levels/page/touch/run_ahead.h"

#include <algorithm>

#include "platform/assert.h"

namespace tmh::page {

using storage::page_id;
using storage::page_index;
using storage::PageIndex;

void RunAhead::follow(View &view, PageId page) noexcept {
  prepare(view, page);
  const DomainLock::Held held = ours_.lock.take(DomainLock::Context::kHandler);
  take(held, view, page);
}

// The last page that take() will look at: blocks come in larger pieces than it takes pages. Where
// there is no room it takes fewer.
void RunAhead::prepare(const View &view, PageId page) noexcept {
  const std::uint64_t usable =
      ours_.memory.segment_size(view.segment).load(std::memory_order_acquire) / kPageBytes;
  const std::uint64_t last = static_cast<std::uint64_t>(page_index(page)) + 2 * length_;
  if (length_ != 0 && last < usable)
    (void)ours_.recaller->prepare(page_id(view.segment, PageIndex{last}));
}

// Takes only pages that the snapshot reads in home. They are not in the read set before they are
// touched: the kernel lists that.
void RunAhead::take(const DomainLock::Held &held, View &view, PageId page) noexcept {
  TMH_ASSERT(held.is_valid());
  const auto number = [](PageId of) { return static_cast<std::uint64_t>(of); };
  const bool follows = page > last_ && number(page) <= number(end_) + kGap;
  length_ =
      follows && !mine_.instance.gives_way ? std::clamp(2 * length_, kLengthMin, kLengthMax) : 0;
  const auto index = static_cast<std::uint64_t>(page_index(page));
  const std::uint64_t usable =
      ours_.memory.segment_size(view.segment).load(std::memory_order_acquire) / kPageBytes;
  const std::uint64_t end =
      std::min({index + 1 + length_, usable, (index / View::kBlockPages + 1) * View::kBlockPages});
  last_ = page;
  end_ = PageId{number(page) + std::max(end, index + 1) - index};
  std::uint64_t run = 0;  // pages in front of `each` that are taken and not open yet
  const auto open_run = [&](std::uint64_t each) {
    if (run != 0) mine_.blocks.open_pages(view, page_id(view.segment, PageIndex{each - run}), run);
    run = 0;
  };
  for (std::uint64_t i = index + 1; i < end && !mine_.instance.has_failed(); ++i) {
    if (take_one(held, page_id(view.segment, PageIndex{i})))
      ++run;
    else
      open_run(i);
  }
  open_run(end);
}

// False: the page is not free.
bool RunAhead::take_one(const DomainLock::Held &held, PageId page) noexcept {
  TMH_ASSERT(held.is_valid());
  LocalPage &l = mine_.views.local(page);
  const bool is_free = mine_.views.is_closed(l) &&
                       (l.state == PageState::kAbsent || l.state == PageState::kGuarded) &&
                       !ours_.tree.has_version(held, page, snapshot_.at()) &&
                       ours_.recaller->take_ahead(held, page, snapshot_.line());
  if (!is_free) return false;
  mine_.residents.add(page, &l);
  l.state = PageState::kAbsent;
  // As in PageMaker::make(): its newer versions need not be the first ones that it has had since
  // the snapshot.
  if (ours_.memory.meta_to_read(page).newest.load(std::memory_order_relaxed) != 0)
    snapshot_.must_follow();
  return true;
}

}  // namespace tmh::page
