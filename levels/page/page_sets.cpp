// levels/page/page_sets.cpp -- finding an instance's writes, settling them, rolling back.
#include "levels/page/page_sets.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "levels/page/shared/shared.h"
#include "levels/page/views/views.h"
#include "observe/planted.h"
#include "observe/steps.h"
#include "platform/assert.h"
#include "platform/bit_count.h"
#include "platform/page_tables.h"
#include "platform/try.h"

namespace tmh::page {

namespace {
// Disk blocks come in so many pages.
constexpr std::uint64_t kSmallBlockPages = 16;

// What a page reads that has no block and gets none.
alignas(kPageBytes) constexpr std::byte kZeros[kPageBytes]{};
}  // namespace

using observe::Step;
using observe::step;
using storage::Count;

const std::byte *PageSets::clean_copy(PageId page, const LocalPage &l) const noexcept {
  TMH_ASSERT(mine_.views.is_mapped(page));
  if (l.twin != 0) return mine_.twins.data(l.twin);
  // Without a twin it is home, which cannot have changed since under our pin: see make_twin().
  if ((l.lists & kHasBlocks) == 0) [[unlikely]]
    return clean_copy_of_hole(page);
  return ours_.memory.home(page);
}

// It may be none.
const std::byte *PageSets::clean_copy_of_hole(PageId page) const noexcept {
  return is_home_loadable(ours_.memory, page) ? ours_.memory.home(page) : kZeros;
}

// A large instance's take megabytes of the heap, which may be used up.
Errc PageSets::find_all() noexcept try {
  compare_all();
  if (has_promotions()) add_promotions();
  return Errc::kOk;
} catch (const std::bad_alloc &) {
  return Errc::kOutOfMemory;
}

void PageSets::compare_all() {
  for (const PageId page : mine_.kept.privates()) {
    LocalPage &l = mine_.views.local(page);
    TMH_ASSERT((l.lists & kInPrivate) != 0);
    if (l.state != PageState::kPrivate || (l.lists & kStandsIn) != 0) continue;
    if (l.twin == 0 && ours_.tree.may_have_version(page)) make_twin(page, &l);
    if (l.twin == 0 && (l.lists & kHasBlocks) == 0) [[unlikely]]
      ask_ahead(page);
    const LineMask lines = differing_lines(mine_.views.address_of(page), clean_copy(page, l));
    if (lines != 0) {
      writes_.push_back(Write{page, lines, 0});
      l.unchanged_compares = 0;
    } else if (l.unchanged_compares < 255) {
      ++l.unchanged_compares;
    }
  }
}

// For what a commit would ask for anyway; it saves asking for home of each page.
void PageSets::ask_ahead(PageId page) noexcept {
  if (!mine_.instance.is_query && !mine_.instance.has_failed() &&
      ours_.memory.segment(storage::segment_number(page)).home.loads_take_blocks())
    (void)allocate_around(page, kSmallBlockPages);
}

// A page that was kClean may have versions that its snapshot reads and home does not hold.
void PageSets::make_twin(PageId page, LocalPage *l) noexcept {
  const DomainLock::Held held = ours_.lock.take();
  if (!ours_.tree.has_version(held, page, snapshot_.at())) return;
  if ((l->twin = mine_.twins.take()) != 0)
    ours_.tree.read(held, page, snapshot_.at(), ~LineMask{0}, mine_.twins.data(l->twin));
  else if (!mine_.instance.has_failed())
    mine_.instance.fail(AbortCause::kNoSpace, Errc::kOutOfMemory);
}

Errc PageSets::promote(PageId page, LineMask lines) noexcept try {
  if (!has_promotions()) promotions_.clear();
  if (!promotions_.empty() && promotions_.back().page == page)
    promotions_.back().lines |= lines;
  else
    promotions_.push_back(Write{page, lines, 0});
  promotions_of_ = mine_.instance.number;
  return Errc::kOk;
} catch (const std::bad_alloc &) {
  return Errc::kOutOfMemory;
}

// They are published with the content that they have.
void PageSets::add_promotions() {
  if (observe::is_planted(observe::Planted::kPromotionNotPublished)) return;
  std::sort(promotions_.begin(), promotions_.end(),
            [](const Write &a, const Write &b) { return a.page < b.page; });
  std::size_t kept = 0;
  for (std::size_t i = 1; i < promotions_.size(); ++i) {
    if (promotions_[i].page == promotions_[kept].page)
      promotions_[kept].lines |= promotions_[i].lines;
    else
      promotions_[++kept] = promotions_[i];
  }
  promotions_.resize(kept + 1);
  std::vector<bool> is_added(promotions_.size());
  for (Write &write : writes_) {
    const auto found = std::lower_bound(promotions_.begin(), promotions_.end(), write.page,
                                        [](const Write &a, PageId page) { return a.page < page; });
    if (found == promotions_.end() || found->page != write.page) continue;
    write.lines |= found->lines;
    is_added[static_cast<std::size_t>(found - promotions_.begin())] = true;
  }
  for (std::size_t i = 0; i < promotions_.size(); ++i) {
    const bool stands_in = (mine_.views.local(promotions_[i].page).lists & kStandsIn) != 0;
    if (!is_added[i] && !stands_in) writes_.push_back(promotions_[i]);
  }
}

// Where a file is cut, the kernel drops copies, too: a page without one has not been stored to.
std::uintptr_t PageSets::first_written() const noexcept {
  TMH_ASSERT(!writes_.empty());
  platform::PageMap page_map;
  const bool is_told = page_map.open() == Errc::kOk;
  for (const Write &write : writes_) {
    const std::byte *now = mine_.views.address_of(write.page);
    platform::PageKind kind{};
    if (is_told && page_map.read(reinterpret_cast<std::uintptr_t>(now), 1, &kind) &&
        kind != platform::PageKind::kPrivate)
      continue;
    const std::byte *at = std::mismatch(now, now + kPageBytes, clean_copy(write.page)).first;
    return reinterpret_cast<std::uintptr_t>(at);
  }
  return 0;
}

// In a block of so many pages, where there is room for it.
Errc PageSets::allocate_around(PageId page, std::uint64_t block) noexcept {
  const std::uint32_t segment = storage::segment_number(page);
  const auto index = static_cast<std::uint64_t>(storage::page_index(page));
  const std::uint64_t usable =
      ours_.memory.segment_size(segment).load(std::memory_order_acquire) / kPageBytes;
  if (index >= usable) return ours_.memory.fail_behind_end(page);
  const std::uint64_t first = index / block * block;
  std::uint64_t count = std::min(block, usable - first);
  TMH_ASSERT(count > 0 && index - first < count);
  PageId first_page = storage::page_id(segment, storage::PageIndex{first});
  Errc error = ours_.memory.allocate_blocks(first_page, count);
  if (error == Errc::kDiskFull) {  // the page alone may fit, or have its block already
    first_page = page;
    count = 1;
    error = ours_.memory.allocate_blocks(first_page, count);
  }
  if (error != Errc::kOk) return error;
  for (std::uint64_t j = 0; j < count; ++j)
    mine_.views.local(PageId{static_cast<std::uint64_t>(first_page) + j}).lists |= kHasBlocks;
  return Errc::kOk;
}

// Before anything is promised: a store to home or metadata must not raise SIGBUS because the disk
// is full. Asking costs 3 to 50 us each time, hence blocks of 64 KiB, and of 2 MiB where an eighth
// of it is written: a segment written at single far-apart pages takes up to 16 times its pages on
// disk.
Errc PageSets::allocate_blocks() noexcept {
  constexpr std::uint64_t kLargeBlockPages = 512;
  for (std::size_t i = 0; i < writes_.size(); ++i) {
    if ((mine_.views.local(writes_[i].page).lists & kHasBlocks) != 0) continue;
    const std::uint32_t segment = storage::segment_number(writes_[i].page);
    const auto index = static_cast<std::uint64_t>(storage::page_index(writes_[i].page));
    const std::uint64_t large_end = index / kLargeBlockPages * kLargeBlockPages + kLargeBlockPages;
    const std::size_t dense = i + kLargeBlockPages / 8;  // writes are almost sorted by page
    const bool is_dense =
        dense < writes_.size() && writes_[dense].page > writes_[i].page &&
        writes_[dense].page < storage::page_id(segment, storage::PageIndex{large_end});
    TMH_TRY(allocate_around(writes_[i].page, is_dense ? kLargeBlockPages : kSmallBlockPages));
  }
  return Errc::kOk;
}

void PageSets::settle_committed(std::uint64_t instance) noexcept {
  std::uint64_t lines = 0;
  for (const Write &write : writes_) {
    TMH_ASSERT(write.lines != 0);
    lines += platform::bit_count(write.lines);
    if (!mine_.tracking.keeps()) continue;
    LocalPage &l = mine_.views.local(write.page);
    if (l.state != PageState::kPrivate) continue;  // it was promoted
    const std::uint8_t epoch = KeepPolicy::epoch(instance);
    const bool hot = KeepPolicy::is_hot(l.written_epoch, epoch);
    l.written_epoch = epoch;
    if (l.twin != 0) {
      copy_lines(mine_.twins.data(l.twin), mine_.views.address_of(write.page), write.lines);
      continue;
    }
    // Written twice in a short time: from here on it stays writable. One written once is dropped
    // (settle): keeping it would cost a twin, and a comparison in every instance to come.
    // But not before its version is home: dropping it would mean to guard it, and the next touch a
    // signal and two copies.
    const bool pending = !mine_.touches.keeps_copies() &&
                         ours_.memory.meta(write.page).newest.load(std::memory_order_relaxed) != 0;
    if ((!hot && !pending) || (l.twin = mine_.twins.take()) == 0) continue;
    std::memcpy(mine_.twins.data(l.twin), mine_.views.address_of(write.page), kPageBytes);
    if (!hot) l.unchanged_compares = KeepPolicy::kUselessComparesMax - KeepPolicy::kPendingCompares;
  }
  mine_.instance.own.add(Count::kPagesWritten, writes_.size());
  mine_.instance.own.add(Count::kLinesWritten, lines);
  settle();
}

// Where an instance stores to one page after another, as a heap does that grows, the next ones of
// the block are copied at once. One by one each costs three faults, of the view and of home read
// and written, and a look at the page table. Versions that are linked meanwhile are replayed:
// state(s) is home here.
void PageSets::copy_ahead() noexcept {
  for (const PageId page : mine_.touches.copied()) {
    const std::uint32_t segment = storage::segment_number(page);
    const auto index = static_cast<std::uint64_t>(storage::page_index(page));
    const auto at = [&](std::uint64_t i) {
      return storage::page_id(segment, storage::PageIndex{i});
    };
    if (index == 0) continue;
    const PageState before = mine_.views.local(at(index - 1)).state;
    if (before != PageState::kPrivate && before != PageState::kClean) continue;
    const std::uint64_t end = (index / kSmallBlockPages + 1) * kSmallBlockPages;
    std::uint64_t i = index + 1;
    for (; i < end; ++i) {
      const LocalPage &l = mine_.views.local(at(i));
      if (l.state != PageState::kAbsent || (l.lists & kHasBlocks) == 0 ||
          mine_.views.is_closed(l) || ours_.tree.may_have_version(at(i)))
        break;
    }
    const std::uint64_t count = i - index - 1;
    if (count != 0) mine_.views.copy_clean(at(index + 1), count);
  }
  mine_.touches.forget_copied();
}

// Private pages must have a twin to stay: home may move on while they do not.
bool PageSets::stays_private(PageId page) noexcept {
  const LocalPage &l = mine_.views.local(page);
  return l.state == PageState::kPrivate && l.twin != 0 &&
         l.unchanged_compares <= (mine_.touches.keeps_copies() ? KeepPolicy::kUselessComparesClean
                                                               : KeepPolicy::kUselessComparesMax);
}

// What stays private; the rest is dropped, or becomes kClean, run by run.
void PageSets::settle_privates(bool is_clean) noexcept {
  enum class Fate : std::uint8_t { kStays, kGone, kDropped, kClean };
  const auto fate_of = [&](PageId page) {
    if (stays_private(page)) return Fate::kStays;
    const LocalPage &l = mine_.views.local(page);
    if (l.state != PageState::kPrivate || (l.lists & kStandsIn) != 0) return Fate::kGone;
    return mine_.touches.keeps_copies() && (is_clean || l.twin != 0) ? Fate::kClean
                                                                     : Fate::kDropped;
  };
  mine_.kept.settle_privates(
      Fate::kStays, fate_of, [&](PageId first, std::uint64_t count, Fate fate) {
        for (std::uint64_t i = 0; i < count; ++i) {
          LocalPage &l = mine_.views.local(PageId{static_cast<std::uint64_t>(first) + i});
          l.lists &= static_cast<std::uint8_t>(~kInPrivate);
          if (fate != Fate::kClean) continue;
          mine_.twins.give_back(l.twin);
          l.twin = 0;
          l.unchanged_compares = 0;
          l.state = PageState::kClean;
        }
        if (fate == Fate::kDropped) mine_.views.drop_run(first, count);
        if (fate == Fate::kClean) mine_.views.arm(first, count);
      });
}

void PageSets::roll_back() noexcept {
  step(Step::kAbortStart);
  if (!mine_.tracking.keeps()) return;
  mine_.views.set_access(platform::KeyAccess::kOpen);
  for (const PageId page : mine_.kept.privates()) {
    LocalPage &l = mine_.views.local(page);
    if (l.state != PageState::kPrivate) continue;
    if (l.twin == 0) continue;  // dropped by settle()
    copy_lines(mine_.views.address_of(page), mine_.twins.data(l.twin),
               differing_lines(mine_.views.address_of(page), mine_.twins.data(l.twin)));
  }
  if (!mine_.kept.privates().empty()) settle_privates(false);
  mine_.touches.forget_copied();
}

}  // namespace tmh::page
