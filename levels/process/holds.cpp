// levels/process/holds.cpp -- giving up, by runs.
#include "levels/process/holds.h"

#include <algorithm>

#include "levels/process/ground/ground.h"
#include "levels/process/keys.h"
#include "levels/process/own_pages.h"

namespace tmh::itm::pages {

namespace {

// Mappings of home that turn() changes one by one, 1 us each, rather than that they go.
constexpr std::uint32_t kRunsTurned = 32;
// And all go now and then: those that are in use come back.
constexpr std::uint32_t kBeginsTurned = 64;

}  // namespace

void Holds::note_call_use(std::uintptr_t at, std::size_t bytes) noexcept {
  TMH_ASSERT(bytes != 0);
  const PageNumber first = Memory::page_of(at);
  if (first == kNoPage) return;
  call_uses_[call_use_++ % kCallUses] = {
      first, static_cast<std::uint32_t>((at % kPageBytes + bytes + kPageBytes - 1) / kPageBytes)};
}

bool Holds::is_in_call_use(PageNumber page) noexcept {
  return std::any_of(call_uses_, call_uses_ + std::min(call_use_, kCallUses),
                     [page](const Mappings::Run &each) { return page - each.first < each.count; });
}

void Holds::give_up(bool touched_only, bool is_in_call) noexcept {
  touched_only ? OwnPages::give_away_wanted() : OwnPages::give_away_all();
  give_up_runs(touched_only, !touched_only && Mappings::runs_count() >= Mappings::kRunsMax / 2,
               is_in_call);
}

void Holds::give_up_many() noexcept {
  if (has_keys()) return;
  static std::uint32_t begins = 0;
  if (Mappings::runs_count() > kRunsTurned || ++begins % kBeginsTurned == 0)
    give_up_runs(false, true, false);
}

void Holds::give_up_runs(bool touched_only, bool shared_too, bool is_in_call) noexcept {
  const std::uint64_t now = control->clock.load(std::memory_order_acquire);
  std::uint32_t kept = 0;
  for (std::uint32_t i = 0; i < Mappings::runs_count(); ++i) {
    const Mappings::Run run = Mappings::runs()[i];
    TMH_ASSERT(run.count != 0);
    bool is_kept = false;
    const auto goes = [&](PageNumber each) {
      if (is_in_call && is_in_call_use(each)) return false;
      if (Mappings::mapped(each) == Mapped::kShared) return shared_too;
      return Mappings::mapped(each) == Mapped::kHeld &&
             (!touched_only ||
              (page_states[each].newest.load(std::memory_order_relaxed) & kTouched) != 0);
    };
    for (PageNumber page = run.first; page < run.first + run.count;) {
      if (!goes(page)) {
        is_kept = is_kept || Mappings::mapped(page) == Mapped::kHeld ||
                  Mappings::mapped(page) == Mapped::kShared;
        ++page;
        continue;
      }
      PageNumber last = page;
      while (last < run.first + run.count && goes(last)) ++last;
      if (!Mappings::put_base(page, last - page)) die("a page cannot be mapped");
      for (; page < last; ++page) {
        if (Mappings::mapped(page) == Mapped::kHeld) {
          let_go(&page_states[page], self_slot, now);
        } else {
          page_states[page].sharers.remove(self_slot);
        }
        Mappings::set(page, Mapped::kNothing);
      }
    }
    TMH_ASSERT(kept <= i);
    if (is_kept) Mappings::runs()[kept++] = run;
  }
  Mappings::keep_runs(kept);
}

}  // namespace tmh::itm::pages
