// levels/process/plain_pages.h -- home, mapped for this task's plain code.
// Ordering:  a holder sets its bit, then reads the touched bit; a toucher sets that, then reads the
//            holders (seq_cst, all): one of them sees the other.
// Contexts:  the task's own, and its fault handler.
#pragma once

#include "levels/process/mappings.h"

namespace tmh::itm::pages {

class PlainPages {
 public:
  [[nodiscard]] static bool is_open(PageNumber page, bool is_store) noexcept {
    const Mapped now = Mappings::mapped(page);
    return now == Mapped::kHeld || now == Mapped::kOwned || (now == Mapped::kShared && !is_store);
  }
  // [handler] Outside. Waits for an owner. REQUIRES: !is_open().
  static void open(PageNumber page, bool is_store) noexcept;
};

}  // namespace tmh::itm::pages
