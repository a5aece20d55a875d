// levels/page/touch/replay.cpp -- gathering and storing.
#include "levels/page/touch/replay.h"

#include <algorithm>

#include "levels/page/shared/shared.h"
#include "levels/page/views/views.h"
#include "platform/assert.h"

namespace tmh::page {

void Replay::gather(const DomainLock::Held &held, PageId page, LineMask lines) noexcept {
  TMH_ASSERT(mine_.views.local(page).state == PageState::kClean);
  if (count_ == kPagesMax) {
    tree_.read(held, page, ~0ull, lines, mine_.views.address_of(page));
    replayed_.push(page);
    return;
  }
  tree_.read(held, page, ~0ull, lines, gathered_.base() + count_ * kPageBytes);
  pages_[count_] = page;
  lines_[count_++] = lines;
}

void Replay::count(PageId page) noexcept {
  LocalPage &l = mine_.views.local(page);
  if (l.state != PageState::kClean) return;
  const std::uint8_t before = l.unchanged_compares;
  l.unchanged_compares = KeepPolicy::replayed(before);
  if (KeepPolicy::replays(before) + 1 == KeepPolicy::kReplaysMax) mine_.kept.note_useless(page);
}

void Replay::store_and_arm() noexcept {
  for (std::size_t i = 0; i < count_; ++i) {
    // Something behind it in the log has taken the page away.
    if (mine_.views.local(pages_[i]).state != PageState::kClean) continue;
    copy_lines(mine_.views.address_of(pages_[i]), gathered_.base() + i * kPageBytes, lines_[i]);
    replayed_.push(pages_[i]);
  }
  count_ = 0;
  std::sort(replayed_.begin(), replayed_.end());
  const auto number = [&](std::size_t i) { return static_cast<std::uint64_t>(replayed_[i]); };
  std::uint64_t copies = 0;
  for (std::size_t i = 0; i < replayed_.size();) {
    const PageId first = replayed_[i];
    std::uint64_t pages = 1;
    count(first);
    for (++i; i < replayed_.size() && number(i) <= static_cast<std::uint64_t>(first) + pages; ++i) {
      if (number(i) < static_cast<std::uint64_t>(first) + pages) continue;  // it stands there twice
      count(replayed_[i]);
      ++pages;
    }
    if (mine_.views.local(first).state == PageState::kClean) mine_.views.arm(first, pages);
    copies += pages;
  }
  mine_.instance.own.add(storage::Count::kPageCacheReplays, copies);
  replayed_.clear();
  mine_.touches.forget_own();
}

}  // namespace tmh::page
