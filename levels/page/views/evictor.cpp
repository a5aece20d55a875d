// levels/page/views/evictor.cpp -- the hand, and the copies that are replayed in vain.
#include "levels/page/views/evictor.h"

#include <algorithm>

#include "levels/page/views/keep_policy.h"
#include "platform/assert.h"

namespace tmh::page {

using storage::Count;

void Evictor::use(const PageCache &policy) noexcept {
  if (policy == policy_) return;
  policy_ = policy;
  left_to_scan_ = 0;
  ends_since_scan_ = 0;
}

std::size_t Evictor::pages_max() const noexcept {
  switch (policy_.kind) {
    case PageCacheKind::kAdaptive:
      return kAdaptivePagesMax;
    case PageCacheKind::kBytes:
      return std::size_t{policy_.limit} * kPagesPerMebibyte;
    case PageCacheKind::kScan:
    case PageCacheKind::kAll:
      break;
  }
  return ~std::size_t{0};
}

void Evictor::evict() noexcept {
  held_ = own_pages();
  const std::size_t added = held_ > held_before_ ? held_ - held_before_ : 0;
  budget_ = kPagesPerEnd + added;
  TMH_ASSERT(evicted_.empty());
  if (policy_.kind == PageCacheKind::kAdaptive)
    take_replayed();
  else
    kept_.forget_useless();
  if (policy_.kind == PageCacheKind::kScan && ++ends_since_scan_ >= policy_.limit) {
    ends_since_scan_ = 0;
    left_to_scan_ = kept_.pages().size();
  }
  if (left_to_scan_ != 0 || is_over()) turn_hand();
  if (!is_over()) looks_in_vain_ = 0;
  if (!evicted_.empty()) drop_taken();
  held_before_ = own_pages();
}

void Evictor::take_replayed() noexcept {
  PageId page{};
  while (budget_ != 0 && kept_.take_useless(&page)) {
    if (!views_.is_mapped(page)) continue;
    const LocalPage &l = views_.local(page);
    const bool is_useless = l.state == PageState::kClean && !is_taken(l) &&
                            KeepPolicy::replays(l.unchanged_compares) >= KeepPolicy::kReplaysMax;
    if (is_useless) take(page);
  }
}

void Evictor::turn_hand() noexcept {
  for (std::size_t looks = budget_ * kLooksPerPage;
       looks != 0 && budget_ != 0 && !kept_.pages().empty() && (left_to_scan_ != 0 || is_over());
       --looks) {
    if (hand_ >= kept_.pages().size()) hand_ = 0;
    const PageId page = kept_.pages()[hand_++];
    if (left_to_scan_ != 0) --left_to_scan_;
    if (has_passed(&views_.local(page)))
      take(page);
    else
      ++looks_in_vain_;
  }
}

// Marks a copy that has no mark. True: the copy goes.
bool Evictor::has_passed(LocalPage *page) const noexcept {
  if (is_taken(*page) || (page->lists & kStandsIn) != 0) return false;
  if (page->state == PageState::kClean) {
    const bool has_mark = (page->unchanged_compares & KeepPolicy::kHandMark) != 0;
    page->unchanged_compares |= KeepPolicy::kHandMark;
    return has_mark;
  }
  // It has a twin, and becomes kClean when it is not stored to. Two pages of memory are too many,
  // and the hand has been round all others.
  if (page->state != PageState::kPrivate || page->twin == 0 || !is_over()) return false;
  const bool is_all_in_use = looks_in_vain_ >= kept_.pages().size();
  return page->unchanged_compares != 0 || is_all_in_use;
}

void Evictor::take(PageId page) noexcept {
  TMH_ASSERT(budget_ != 0);
  LocalPage &l = views_.local(page);
  TMH_ASSERT(l.state == PageState::kClean || l.twin != 0);
  TMH_ASSERT((l.lists & kStandsIn) == 0);
  // The hand may come by again before it is dropped.
  l.unchanged_compares = kTaken;
  held_ -= l.twin != 0 ? 2 : 1;
  --budget_;
  // When all copies are in use it stays so until there are few enough.
  if (looks_in_vain_ < kept_.pages().size()) looks_in_vain_ = 0;
  evicted_.push(page);
}

void Evictor::drop_taken() noexcept {
  std::sort(evicted_.begin(), evicted_.end());
  std::size_t count = 0;
  for (std::size_t i = 0; i < evicted_.size();) {
    const PageId first = evicted_[i];
    std::uint64_t pages = 1;
    while (++i < evicted_.size() &&
           static_cast<std::uint64_t>(evicted_[i]) == static_cast<std::uint64_t>(first) + pages)
      ++pages;
    views_.drop_run(first, pages);
    count += pages;
  }
  evicted_.clear();
  instance_.own.add(Count::kPageCacheEvictions, count);
  if (twins_.in_use() == 0) twins_.forget();
  dead_ += count;
  if (dead_ > kept_.pages().size() / 2) forget_dead();
}

// What was touched again meanwhile stays.
void Evictor::forget_dead() noexcept {
  const std::size_t count = kept_.pages().size();
  const std::size_t hand = hand_ < count ? hand_ : 0;
  std::size_t still = 0, left_to_scan = 0;
  kept_.retain([&](std::size_t i, PageId page) {
    if (i == hand) hand_ = still;
    LocalPage &l = views_.local(page);
    if (l.state == PageState::kAbsent || l.state == PageState::kGuarded) {
      l.lists &= static_cast<std::uint8_t>(~kInKept);
      return false;
    }
    // The scan goes on from the hand, round the end.
    if ((i >= hand ? i - hand : i + count - hand) < left_to_scan_) ++left_to_scan;
    ++still;
    return true;
  });
  left_to_scan_ = left_to_scan;
  dead_ = 0;
}

}  // namespace tmh::page
