// levels/process/copied_regions.cpp -- a list without order.
#include "levels/process/copied_regions.h"

#include "levels/process/ground/ground.h"

namespace tmh::itm::pages {

void CopiedRegions::note(PageNumber page) noexcept {
  for (std::uint32_t i = 0; i < count_; ++i)
    if (page - regions_[i].first < regions_[i].end - regions_[i].first) return;
  const Region &region = Memory::region_of(page);
  if (count_ == kRegions) die("too many regions");
  TMH_ASSERT(page - region.first < region.pages());
  regions_[count_++] = {region.first, region.page_end()};
}

void CopiedRegions::forget(PageNumber first) noexcept {
  for (std::uint32_t i = 0; i < count_; ++i)
    if (regions_[i].first == first) {
      regions_[i] = regions_[--count_];
      return;
    }
}

}  // namespace tmh::itm::pages
