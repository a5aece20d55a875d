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
  held_ = lists_.own_pages();
  const std::size_t added = held_ > held_before_ ? held_ - held_before_ : 0;
  budget_ = kPagesPerEnd + added;
  TMH_ASSERT(lists_.evicted.empty());
  if (policy_.kind == PageCacheKind::kAdaptive)
    take_replayed();
  else
    lists_.useless.clear();
  if (policy_.kind == PageCacheKind::kScan && ++ends_since_scan_ >= policy_.limit) {
    ends_since_scan_ = 0;
    left_to_scan_ = lists_.kept.size();
  }
  if (left_to_scan_ != 0 || is_over()) turn_hand();
  if (!is_over()) looks_in_vain_ = 0;
  if (!lists_.evicted.empty()) drop_taken();
  held_before_ = lists_.own_pages();
}

void Evictor::take_replayed() noexcept {
  while (!lists_.useless.empty() && budget_ != 0) {
    const PageId page = lists_.useless[lists_.useless.size() - 1];
    lists_.useless.truncate(lists_.useless.size() - 1);
    if (!views_.is_mapped(page)) continue;
    const LocalPage &l = views_.local(page);
    const bool is_useless = l.state == PageState::kClean && !is_taken(l) &&
                            KeepPolicy::replays(l.unchanged_compares) >= KeepPolicy::kReplaysMax;
    if (is_useless) take(page);
  }
}

void Evictor::turn_hand() noexcept {
  for (std::size_t looks = budget_ * kLooksPerPage;
       looks != 0 && budget_ != 0 && !lists_.kept.empty() && (left_to_scan_ != 0 || is_over());
       --looks) {
    if (hand_ >= lists_.kept.size()) hand_ = 0;
    const PageId page = lists_.kept[hand_++];
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
  const bool is_all_in_use = looks_in_vain_ >= lists_.kept.size();
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
  if (looks_in_vain_ < lists_.kept.size()) looks_in_vain_ = 0;
  lists_.evicted.push(page);
}

void Evictor::drop_taken() noexcept {
  PageList &evicted = lists_.evicted;
  std::sort(evicted.begin(), evicted.end());
  std::size_t count = 0;
  for (std::size_t i = 0; i < evicted.size();) {
    const PageId first = evicted[i];
    std::uint64_t pages = 1;
    while (++i < evicted.size() &&
           static_cast<std::uint64_t>(evicted[i]) == static_cast<std::uint64_t>(first) + pages)
      ++pages;
    views_.drop_run(first, pages);
    count += pages;
  }
  evicted.clear();
  instance_.own.add(Count::kPageCacheEvictions, count);
  if (lists_.twins.in_use() == 0) lists_.twins.forget();
  dead_ += count;
  if (dead_ > lists_.kept.size() / 2) forget_dead();
}

// What was touched again meanwhile stays.
void Evictor::forget_dead() noexcept {
  const std::size_t count = lists_.kept.size();
  const std::size_t hand = hand_ < count ? hand_ : 0;
  std::size_t still = 0, left_to_scan = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (i == hand) hand_ = still;
    const PageId page = lists_.kept[i];
    LocalPage &l = views_.local(page);
    if (l.state == PageState::kAbsent || l.state == PageState::kGuarded) {
      l.lists &= static_cast<std::uint8_t>(~kInKept);
      continue;
    }
    // The scan goes on from the hand, round the end.
    if ((i >= hand ? i - hand : i + count - hand) < left_to_scan_) ++left_to_scan;
    lists_.kept[still++] = page;
  }
  lists_.kept.truncate(still);
  left_to_scan_ = left_to_scan;
  dead_ = 0;
}

}  // namespace tmh::page
