// levels/process/turns.cpp -- mprotect(2) of everything.
#include "levels/process/turns.h"

#include <sys/mman.h>

#include <algorithm>

#include "levels/process/copied_regions.h"
#include "levels/process/ground/ground.h"
#include "levels/process/keys.h"
#include "levels/process/mappings.h"

namespace tmh::itm::pages {

// The task's own stack is home always.
void Turns::put_rights(PageNumber first, PageNumber end, int rights) noexcept {
  TMH_ASSERT(first < end);
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
  TMH_ASSERT(!has_keys());
  if (is_to_copies == is_to_copies_) return;
  is_to_copies_ = is_to_copies;
  pages::count(Count::kTurns);
  for (const auto &[first, end] : CopiedRegions::all())
    put_rights(first, end, is_to_copies ? PROT_READ | PROT_WRITE : PROT_NONE);
  // Behind these: mappings of home may lie among copies.
  for (std::uint32_t i = 0; i < Mappings::runs_count(); ++i) {
    const Mappings::Run run = Mappings::runs()[i];
    for (PageNumber page = run.first; page < run.first + run.count;) {
      const Mapped now = Mappings::mapped(page);
      PageNumber last = page + 1;
      while (last < run.first + run.count && Mappings::mapped(last) == now) ++last;
      if (now == Mapped::kHeld || now == Mapped::kShared)
        put_rights(page, last,
                   is_to_copies ? PROT_NONE : PROT_READ | (now == Mapped::kHeld ? PROT_WRITE : 0));
      page = last;
    }
  }
  if (is_to_copies) return;  // its own pages have all rights, as copies
  for (std::uint32_t i = 0, left = Mappings::owned_count(); left != 0; ++i) {
    const PageNumber page = Mappings::written()[i].page;
    if (Mappings::mapped(page) != Mapped::kOwned) continue;
    --left;
    put_rights(page, page + 1, PROT_READ | PROT_WRITE);
  }
}

}  // namespace tmh::itm::pages
