// levels/process/own_pages.cpp -- taking pages, giving them away, and the images of them.
#include "levels/process/own_pages.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#include <cstddef>
#include <cstring>

#include "levels/process/commit_lock.h"
#include "levels/process/ground/ground.h"
#include "levels/process/keys.h"
#include "levels/process/log.h"
#include "levels/process/mappings.h"

namespace tmh::itm::pages {

namespace {

// A page goes to and fro so many times before it is owned; after it was given away.
constexpr std::int32_t kFlips = 3, kFlipsAgain = 64;
// Commits that have not changed it, after which it goes.
constexpr std::uint16_t kIdleOwned = 512;
constexpr std::uint32_t kOwnedMax = 32;  // each costs 0.1 us at each begin and commit

struct Owned {
  std::atomic<PageNumber> pages[kOwnedMax];  // page + 1; 0: none
  Position newest[kOwnedMax];                // the page's newest entry when the image was kept
  alignas(kPageBytes) std::byte images[kOwnedMax][kPageBytes];
};
static_assert(offsetof(Owned, images) % kPageBytes == 0 && sizeof(Owned) % kPageBytes == 0);
Owned *of_slots = nullptr;

struct Flips {
  PageNumber page;
  std::int32_t count;
} flips[64];

Flips &flips_of(PageNumber page) noexcept {
  Flips &each = flips[page % std::size(flips)];
  if (each.page != page) each = {page, 0};
  return each;
}

// By this task, too: data of a library may be another's alone.
bool is_covered(PageNumber page) noexcept {
  for (std::uint32_t i = 0; i < Memory::regions(); ++i) {
    const Region &region = Memory::region(i);
    if (page - region.first < region.pages()) return true;
  }
  return false;
}

// Words that differ: their neighbours need not be stored to.
void copy_words(std::byte *to, const std::byte *from) noexcept {
  for (std::size_t at = 0; at < kPageBytes; at += 8) {
    std::uint64_t now = 0, wanted = 0;
    std::memcpy(&now, to + at, 8);
    std::memcpy(&wanted, from + at, 8);
    if (now != wanted)
      __atomic_store_n(reinterpret_cast<std::uint64_t *>(to + at), wanted, __ATOMIC_RELAXED);
  }
}

// Of a transaction of the page's owner: does home have stores of it that are not committed?
// Without the bit others may have stored there already: home had got the image before. A commit
// has changed what is newest, and no other task commits there; the entry may have left the log.
bool is_unfinished(const Owned &all, std::uint32_t i, const PageState &state) noexcept {
  const std::uint64_t newest = state.newest.load(std::memory_order_acquire);
  return (newest & kHasOwner) != 0 && (newest & ~kBits) == all.newest[i];
}

// A task that dies in between leaves an entry, which forget_dead() removes; never the bit alone.
void take_off(std::atomic<PageNumber> *entry, PageState *state) noexcept {
  TMH_ASSERT(entry->load(std::memory_order_relaxed) != 0);
  state->wanted.store(0, std::memory_order_relaxed);
  state->newest.fetch_and(~kHasOwner, std::memory_order_seq_cst);
  entry->store(0, std::memory_order_seq_cst);
}

}  // namespace

bool OwnPages::start() noexcept {
  of_slots = static_cast<Owned *>(reserve_shared(kTasksMax * sizeof(Owned)));
  return of_slots != nullptr;
}

bool OwnPages::is_candidate(PageNumber page) noexcept {
  const PageState &state = page_states[page];
  return ++flips_of(page).count >= kFlips && Mappings::owned_count() < kOwnedMax &&
         Memory::stack_slot_of(page) == kTasksMax && !state.holders.has_others(self_slot) &&
         !state.sharers.has_others(self_slot);
}

// REQUIRES: this task is a holder, and the page is mapped nowhere here.
bool OwnPages::take(PageNumber page) noexcept {
  TMH_ASSERT(page_states[page].holders.has(self_slot) &&
             Mappings::mapped(page) == Mapped::kNothing);
  TMH_ASSERT(!is_running_inside && Mappings::owned_count() < kOwnedMax);
  Owned &all = of_slots[self_slot];
  std::uint32_t i = 0;
  while (all.pages[i].load(std::memory_order_relaxed) != 0) ++i;
  TMH_ASSERT(i < kOwnedMax);
  PageState &state = page_states[page];
  {
    const CommitLock lock;  // no committer stores to it now
    if ((state.newest.load(std::memory_order_seq_cst) & kHasOwner) != 0) return false;
    state.wanted.store(0, std::memory_order_seq_cst);
    all.pages[i].store(page + 1, std::memory_order_seq_cst);
    // In this order: a toucher that finds it counted finds the bit, too (Copies::make()).
    state.newest.fetch_or(kHasOwner, std::memory_order_seq_cst);
    state.owners.fetch_add(1, std::memory_order_seq_cst);
    if (state.holders.has_others(self_slot) || state.sharers.has_others(self_slot)) {
      pages::take_off(&all.pages[i], &state);
      return false;
    }
  }
  if (!Mappings::put_home(page, 1, Mapped::kOwned)) die("a page cannot be owned");
  Mappings::add_owned(page, all.images[i]);
  count(Count::kOwned);
  return true;
}

void OwnPages::keep_images() noexcept {
  TMH_ASSERT(!is_running_inside);
  Owned &all = of_slots[self_slot];
  for (std::uint32_t i = 0, left = Mappings::owned_count(); left != 0; ++i) {
    const Mappings::Written &each = Mappings::written()[i];
    if (Mappings::mapped(each.page) != Mapped::kOwned) continue;
    --left;
    const auto index = static_cast<std::size_t>(each.twin - all.images[0]) / kPageBytes;
    TMH_ASSERT(index < kOwnedMax &&
               all.pages[index].load(std::memory_order_relaxed) == each.page + 1);
    TMH_ASSERT((page_states[each.page].newest.load(std::memory_order_relaxed) & kHasOwner) != 0);
    all.newest[index] = page_states[each.page].newest.load(std::memory_order_relaxed) & ~kBits;
    std::memcpy(each.twin, Memory::home(each.page), kPageBytes);
  }
}

void OwnPages::take_off(PageNumber page) noexcept {
  std::atomic<PageNumber> *entry = of_slots[self_slot].pages;
  while (entry->load(std::memory_order_relaxed) != page + 1) ++entry;
  TMH_ASSERT(entry < of_slots[self_slot].pages + kOwnedMax);
  pages::take_off(entry, &page_states[page]);
}

// Outside: held, as other pages are. Inside: a copy with a twin; home has it as the begin did.
void OwnPages::give_away_page(PageNumber page) noexcept {
  TMH_ASSERT((page_states[page].newest.load(std::memory_order_relaxed) & kHasOwner) != 0);
  flips_of(page).count = kFlips - kFlipsAgain;
  std::byte *const image = Mappings::remove_owned(page);
  if (!is_running_inside) {
    if (has_keys() && raw_pkey_mprotect(reinterpret_cast<void *>(Memory::address_of(page)),
                                        kPageBytes, PROT_READ | PROT_WRITE, shared_key) != 0)
      die("a page cannot be shared");
    Mappings::set(page, Mapped::kHeld);
    Mappings::add_run(page, 1);
    take_off(page);
    return;
  }
  static std::byte now[kPageBytes] __attribute__((aligned(4096)));
  std::memcpy(now, Memory::home(page), kPageBytes);
  if (!Mappings::put_base(page, 1)) die("a page cannot be mapped");
  if (!Mappings::fill(page, 1, now, true)) die("a page cannot be copied");
  Mappings::add_twin(page, image, false);
  copy_words(Memory::home(page), image);
  take_off(page);
  // Its own plain stores were before its begin.
  let_go(&page_states[page], self_slot, self().pin.load(std::memory_order_relaxed));
}

// Its memory is gone.
void OwnPages::forget(PageNumber page) noexcept {
  Mappings::remove_owned(page);
  take_off(page);
  let_go(&page_states[page], self_slot, control->clock.load(std::memory_order_acquire));
}

void OwnPages::give_away(bool all) noexcept {
  for (std::uint32_t i = Mappings::written_count(); i-- > 0 && Mappings::owned_count() != 0;) {
    const PageNumber page = Mappings::written()[i].page;
    if (Mappings::mapped(page) == Mapped::kOwned &&
        (all || page_states[page].wanted.load(std::memory_order_seq_cst) != 0))
      give_away_page(page);
  }
}

void OwnPages::give_away_idle() noexcept {
  for (std::uint32_t i = Mappings::written_count(); i-- > 0 && Mappings::owned_count() != 0;)
    if (Mappings::mapped(Mappings::written()[i].page) == Mapped::kOwned &&
        Mappings::written()[i].idle > kIdleOwned)
      give_away_page(Mappings::written()[i].page);
}

void OwnPages::enter_forked() noexcept {
  const std::uint32_t high = control->high.load(std::memory_order_acquire);
  for (std::uint32_t slot = 0; slot < high; ++slot) {
    if (control->slots[slot].pin.load(std::memory_order_acquire) == kOutside) continue;
    for (std::uint32_t i = 0; i < kOwnedMax; ++i)
      if (const PageNumber page = of_slots[slot].pages[i].load(std::memory_order_acquire) - 1;
          page != kNoPage && is_covered(page) &&
          is_unfinished(of_slots[slot], i, page_states[page]))
        copy_words(reinterpret_cast<std::byte *>(Memory::address_of(page)),
                   of_slots[slot].images[i]);
  }
}

void OwnPages::forget_dead(std::uint32_t slot) noexcept {
  TMH_ASSERT(slot < kTasksMax && slot != self_slot);
  Owned &all = of_slots[slot];
  const auto has_any = [&all] {
    for (const auto &each : all.pages)
      if (each.load(std::memory_order_relaxed) != 0) return true;
    return false;
  };
  if (!has_any()) return;
  const CommitLock lock;  // what the dead task was publishing is published, or never will be
  if (is_alive(slot)) return;
  const std::uint64_t pin = control->slots[slot].pin.load(std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < kOwnedMax; ++i) {
    const PageNumber page = all.pages[i].load(std::memory_order_relaxed) - 1;
    if (page == kNoPage) continue;
    PageState &state = page_states[page];
    if (pin != kOutside && is_unfinished(all, i, state))
      copy_words(Memory::home(page), all.images[i]);
    pages::take_off(&all.pages[i], &state);
  }
}

}  // namespace tmh::itm::pages
