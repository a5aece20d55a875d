// levels/process/recalls.h -- asks other tasks for pages, and waits for them.
// Shape:     the asker says so in the page's state and the holders' slots, and sends them a signal.
//            It answers requests for its own pages while it waits: two may wait for each other.
// Contexts:  the task's own, and its fault handler.
#pragma once

#include "levels/process/memory.h"

namespace tmh::itm::pages {

// Asks others that may store plainly to the page to let go of it, and waits for a while.
void recall(PageNumber page) noexcept;
// Another task owns the page, or did. REQUIRES: this task's bit is in `sharers`.
void wait_for_owner(PageNumber page) noexcept;

}  // namespace tmh::itm::pages
