// levels/process/recalls.cpp -- signals, and waits of 20 us.
#include "levels/process/recalls.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "levels/process/ground/ground.h"
#include "levels/process/mappings.h"
#include "levels/process/own_pages.h"
#include "levels/process/requests.h"

namespace tmh::itm::pages {

namespace {

void ask(PageNumber page) noexcept {
  TMH_ASSERT(page < Memory::pages());
  page_states[page].wanted.store(1, std::memory_order_seq_cst);
  page_states[page].holders.for_each_other(self_slot, [](std::uint32_t each) {
    Slot &slot = control->slots[each];
    slot.is_wanted.store(1, std::memory_order_seq_cst);
    const std::int32_t pid = slot.pid.load(std::memory_order_relaxed);
    if (pid > 0) syscall(SYS_tgkill, pid, pid, recall_signal());
    count(Count::kRecalls);
  });
}

}  // namespace

void recall(PageNumber page) noexcept {
  TMH_ASSERT(is_running_inside);
  const Slots &holders = page_states[page].holders;
  Slots asked{};
  holders.for_each_other(self_slot, [&asked](std::uint32_t each) { asked.add(each); });
  ask(page);
  const auto is_held = [&] {
    bool is_any = false;
    asked.for_each_other(self_slot,
                         [&](std::uint32_t each) { is_any = is_any || holders.has(each); });
    return is_any;
  };
  for (std::uint32_t tries = 0; tries < 200 && is_held(); ++tries) {
    answer_if_wanted();  // the other may wait for a page of this task
    const timespec pause{0, 20'000};
    kernel_call(SYS_nanosleep, reinterpret_cast<long>(&pause), 0, 0, 0, 0, 0);
  }
}

void wait_for_owner(PageNumber page) noexcept {
  PageState &state = page_states[page];
  TMH_ASSERT(state.sharers.has(self_slot) && Mappings::mapped(page) != Mapped::kOwned);
  for (std::uint32_t tries = 0; (state.newest.load(std::memory_order_seq_cst) & kHasOwner) != 0;
       ++tries) {
    // Its owner may wait for a page of this task.
    answer_if_wanted();
    if (tries % 64 == 0) ask(page);
    if (tries % 512 == 511)
      state.holders.for_each_other(self_slot, [](std::uint32_t each) {
        if (!is_alive(each)) OwnPages::forget_dead(each);
      });
    const timespec pause{0, 20'000};
    kernel_call(SYS_nanosleep, reinterpret_cast<long>(&pause), 0, 0, 0, 0, 0);
  }
}

}  // namespace tmh::itm::pages
