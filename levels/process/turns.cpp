// levels/process/turns.cpp -- mprotect(2) of everything.
#include "levels/process/turns.h"

#include <sys/mman.h>

#include <algorithm>

#include "levels/process/ground/system_calls.h"
#include "levels/process/view.h"

namespace tmh::itm::pages {

void Turns::note_copy(PageNumber page) noexcept {
  for (std::uint32_t i = 0; i < count_; ++i)
    if (page - regions_[i].first < regions_[i].end - regions_[i].first) return;
  const Region &region = Memory::region_of(page);
  if (count_ == kRegions) die("too many regions");
  regions_[count_++] = {region.first, region.first + static_cast<PageNumber>(
                                                         (region.end - region.begin) / kPageBytes)};
}

// The task's own stack is home always.
void Turns::put_rights(PageNumber first, PageNumber end, int rights) noexcept {
  const std::uintptr_t from = Memory::address_of(first);
  const std::uintptr_t to = from + (end - first) * kPageBytes;
  const Range own = Memory::stack_of(self_slot);
  const std::uintptr_t hole_begin = std::clamp(own.begin, from, to);
  const std::uintptr_t hole_end = std::clamp(own.begin + own.bytes, from, to);
  const auto put = [rights](std::uintptr_t begin, std::uintptr_t behind) {
    if (begin < behind &&
        raw_mprotect(reinterpret_cast<void *>(begin), behind - begin, rights) != 0)
      die("pages cannot be protected");
  };
  put(from, hole_begin);
  put(hole_end, to);
}

void Turns::turn(bool is_to_copies) noexcept {
  if (is_to_copies == is_to_copies_) return;
  is_to_copies_ = is_to_copies;
  pages::count(Count::kTurns);
  for (std::uint32_t i = 0; i < count_; ++i)
    put_rights(regions_[i].first, regions_[i].end,
               is_to_copies ? PROT_READ | PROT_WRITE : PROT_NONE);
  // Behind these: mappings of home may lie among copies.
  for (std::uint32_t i = 0; i < View::runs_count_; ++i) {
    const View::Run run = View::runs_[i];
    for (PageNumber page = run.first; page < run.first + run.count;) {
      const Mapped now = View::mapped(page);
      PageNumber last = page + 1;
      while (last < run.first + run.count && View::mapped(last) == now) ++last;
      if (now == Mapped::kHeld || now == Mapped::kShared)
        put_rights(page, last,
                   is_to_copies ? PROT_NONE : PROT_READ | (now == Mapped::kHeld ? PROT_WRITE : 0));
      page = last;
    }
  }
  if (is_to_copies) return;  // its own pages have all rights, as copies
  for (std::uint32_t i = 0, left = View::owned_count_; left != 0; ++i) {
    const PageNumber page = View::written_[i].page;
    if (View::mapped(page) != Mapped::kOwned) continue;
    --left;
    put_rights(page, page + 1, PROT_READ | PROT_WRITE);
  }
}

void Turns::forget_region(PageNumber first) noexcept {
  for (std::uint32_t i = 0; i < count_; ++i)
    if (regions_[i].first == first) {
      regions_[i] = regions_[--count_];
      return;
    }
}

}  // namespace tmh::itm::pages
