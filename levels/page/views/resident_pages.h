// levels/page/views/resident_pages.h -- with a level below: the pages that this process may map,
// because it has taken them from there.
// Shape:     LocalPage::lists says whether a page is one (kResident), and whether it is listed.
// Contexts:  async-signal-safe: the fault handler appends.
#pragma once

#include <cstddef>

#include "levels/page/views/local_pages.h"
#include "platform/assert.h"

namespace tmh::page {

class ResidentPages {
 public:
  // Address space.
  [[nodiscard]] Errc reserve() noexcept { return pages_.reserve(); }
  // That are residents, or were since they were listed; in the order in which they became so.
  [[nodiscard]] const PageList &pages() const noexcept { return pages_; }

  // The page, `local`, has been taken from the level below.
  void add(storage::PageId page, LocalPage *local) noexcept {
    if ((local->lists & kInResident) == 0) pages_.push(page);
    local->lists |= kResident | kInResident;
  }
  // Only those stay listed for which stays(page) holds, in order.
  template <class Stays>
  void retain(Stays stays) noexcept {
    std::size_t still = 0;
    for (std::size_t i = 0; i < pages_.size(); ++i)
      if (stays(pages_[i])) pages_[still++] = pages_[i];
    pages_.truncate(still);
  }
  // None is a resident any more.
  void clear() noexcept { pages_.clear(); }

 private:
  PageList pages_;
};

}  // namespace tmh::page
