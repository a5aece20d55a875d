// levels/process/page_cache.cpp -- the bound, and who goes.
#include "levels/process/page_cache.h"

#include <sys/mman.h>

#include <algorithm>

#include "levels/process/control.h"
#include "levels/process/ground/ground.h"
#include "levels/process/mappings.h"

namespace tmh::itm::pages {

namespace {

constexpr std::uint32_t kBoundMin = 1024;           // 4 MiB
constexpr std::uint32_t kBoundMax = 1u << 20;       // 4 GiB
constexpr std::uint32_t kTransactionsPerPage = 64;  // until the bound halves
constexpr std::uint32_t kReturnedMost = 4;          // one in so many: the bound doubles

}  // namespace

void PageCache::start() noexcept {
  bound_ = kBoundMin;
  returned_ = evicted_ = 0;
  transactions_ = 0;
  hand_ = 0;
}

void PageCache::note_copied(PageNumber first, std::uint32_t count) noexcept {
  for (PageNumber page = first; page < first + count; ++page)
    if (Mappings::take_evicted(page)) ++returned_;
}

void PageCache::tidy() noexcept {
  TMH_ASSERT(!is_running_inside && bound_ != 0);
  ++transactions_;
  if (Mappings::copies() > bound_) {
    const bool is_too_small = returned_ > bound_ / kReturnedMost && bound_ < kBoundMax;
    if (is_too_small) bound_ *= 2;
    if (is_too_small || evicted_ > bound_) {
      returned_ = evicted_ = 0;
      transactions_ = 0;
    }
    if (Mappings::copies() > bound_) evict(Mappings::copies() - bound_ / 4 * 3);
  } else if (bound_ > kBoundMin && transactions_ > std::uint64_t{kTransactionsPerPage} * bound_) {
    bound_ /= 2;
    returned_ = evicted_ = 0;
    transactions_ = 0;
  }
}

std::uint32_t PageCache::evict_from(PageNumber first, PageNumber end,
                                    std::uint32_t pages) noexcept {
  std::uint32_t gone = 0;
  for (PageNumber page = first; gone < pages && (page = Mappings::next_copy(page, end)) < end;) {
    PageNumber last = page;
    for (; last < end && gone < pages && is_copy(Mappings::mapped(last)); ++last, ++gone)
      Mappings::evict(last);
    raw_madvise(reinterpret_cast<void *>(Memory::address_of(page)),
                static_cast<std::size_t>(last - page) * kPageBytes, MADV_DONTNEED);
    hand_ = page = last;
  }
  return gone;
}

void PageCache::evict(std::uint32_t pages) noexcept {
  const PageNumber from = hand_;
  std::uint32_t gone = 0;
  // Behind the hand, then before it.
  for (const bool is_behind : {true, false}) {
    for (std::uint32_t i = 0; i < Memory::regions() && gone < pages; ++i) {
      const Region &region = Memory::region(i);
      const PageNumber first = is_behind ? std::max(region.first, from) : region.first;
      const PageNumber end = is_behind ? region.page_end() : std::min(region.page_end(), from);
      if (first < end) gone += evict_from(first, end, pages - gone);
    }
  }
  evicted_ += gone;
  count(Count::kDropped, gone);
}

}  // namespace tmh::itm::pages
