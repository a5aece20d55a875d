// levels/process/for_calls.cpp -- of the task that calls: nothing inside, or before its view.
#include "levels/process/for_calls.h"

#include "levels/process/control.h"
#include "levels/process/ground/ground.h"
#include "levels/process/holds.h"
#include "levels/process/jump_tables.h"
#include "levels/process/memory.h"
#include "levels/process/plain_pages.h"
#include "levels/process/transaction.h"
#include "levels/process/view.h"

namespace tmh::itm::pages {

bool is_started() noexcept { return has_started; }
bool is_inside() noexcept { return is_running_inside; }

bool is_own_file(int file) noexcept {
  TMH_ASSERT(has_started);
  if (file == Memory::home_file()) return true;
  const std::uint32_t high = control->high.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < high; ++i)
    if (control->slots[i].faults_file.load(std::memory_order_relaxed) == file + 1) return true;
  return false;
}

void cover_libraries() noexcept {
  if (!has_started) return;
  const Busy busy;
  move_jump_tables();
  if (has_view) {
    Memory::look_at_libraries(View::cover, View::forget_region);
  } else {
    Memory::look_at_libraries(Memory::map_home, [](const Region &) {});
  }
}

void make_plain(const void *at, std::size_t bytes, bool is_store) noexcept {
  if (!has_view || is_running_inside || bytes == 0) return;
  const auto begin = reinterpret_cast<std::uintptr_t>(at);
  const Busy busy;
  Holds::note_call_use(begin, bytes);
  TMH_ASSERT(has_started);
  for (std::uintptr_t place = begin & ~(kPageBytes - 1); place < begin + bytes;
       place += kPageBytes) {
    const PageNumber page = Memory::page_of(place);
    if (page == kNoPage || Memory::stack_slot_of(page) == self_slot) continue;
    if (!PlainPages::is_open(page, is_store)) PlainPages::open(page, is_store);
  }
}

void note_allocated(void *block) noexcept { Transaction::note_allocated(block); }
void note_freed(void *block) noexcept { Transaction::note_freed(block); }

void go_irrevocable() {
  if (is_running_inside) Transaction::go_irrevocable();
}

namespace {

void give_up(bool touched_only) noexcept {
  if (!has_view || is_running_inside || Busy::is_any() || !Holds::has_any() ||
      own_thread != __builtin_thread_pointer())
    return;
  const Busy busy;
  Holds::give_up(touched_only);
}

}  // namespace

void give_up_holds() noexcept { give_up(false); }
void give_up_touched() noexcept { give_up(true); }

}  // namespace tmh::itm::pages
