// levels/process/copies.cpp -- copies and twins.
#include "levels/process/copies.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "levels/process/commit_lock.h"
#include "levels/process/copied_regions.h"
#include "levels/process/ground/ground.h"
#include "levels/process/keys.h"
#include "levels/process/own_pages.h"
#include "levels/process/page_cache.h"
#include "levels/process/turns.h"

namespace tmh::itm::pages {

namespace {

// Pages made ahead, of a transaction that goes through them.
constexpr std::uint32_t kWindowMax = 32;
// Copies that turn() changes, 10 ns each and way, rather than that all are made again.
constexpr std::uint32_t kCopiesTurned = 512;
constexpr std::uint32_t kForNowMax = 1u << 20;
// Comparing costs 0.1 us, a first store 5 us; protecting again 1 us.
constexpr std::uint16_t kIdleMax = 48, kIdlePulledMax = 6;
// Useless comparisons of all pages together that are as dear as protecting one.
constexpr std::uint32_t kComparedMax = 1024;

std::byte buffer[kWindowMax * kPageBytes] __attribute__((aligned(4096)));

}  // namespace

bool Copies::start(std::uint64_t *clock) noexcept {
  TMH_ASSERT(Mappings::copies() == 0 && !is_running_inside);
  PageCache::start();
  for_now_count_ = 0;
  if (for_now_ == nullptr)  // else the creator's
    for_now_ = static_cast<PageNumber *>(private_memory(kForNowMax * sizeof(PageNumber)));
  if (for_now_ == nullptr) return false;
  const CommitLock lock;  // the end of the log and the clock fit together
  position_ = control->head.load(std::memory_order_relaxed);
  *clock = control->clock.load(std::memory_order_relaxed);
  return true;
}

Made Copies::make(PageNumber page, std::byte *out) noexcept {
  PageState &state = page_states[page];
  if ((state.newest.load(std::memory_order_relaxed) & kTouched) == 0)
    state.newest.fetch_or(kTouched, std::memory_order_seq_cst);
  const std::uint64_t pin = self().pin.load(std::memory_order_relaxed);
  TMH_ASSERT(pin != kOutside);
  std::uint64_t released = 0, newest = 0;
  bool has_holders = false;
  for (std::uint32_t tries = 0;; ++tries) {
    // Before the bits: an owner counts itself behind its bit, and before it stores in place.
    const std::uint32_t owners = state.owners.load(std::memory_order_acquire);
    newest = state.newest.load(std::memory_order_acquire);
    if ((newest & kHasOwner) != 0) return Made::kUnclear;
    if ((newest & kBusy) == 0) {
      // Before the copy: a holder from before the touched bit may store and let go while the page
      // is copied. One that comes later says so in the log.
      has_holders = state.holders.has_others(self_slot);
      std::memcpy(out, Memory::home(page), kPageBytes);
      std::atomic_thread_fence(std::memory_order_seq_cst);
      released = state.released.load(std::memory_order_acquire);
      if (state.newest.load(std::memory_order_acquire) == newest &&
          state.owners.load(std::memory_order_acquire) == owners)
        break;
    } else if (tries % 1024 == 1023) {
      const CommitLock lock;  // repairs what a dead committer left
    }
    __builtin_ia32_pause();
  }
  const Entry *oldest_image = nullptr;
  for (Position position = newest & ~kBits;
       position != 0 && position >= control->tail.load(std::memory_order_acquire);) {
    const Entry &entry = *Log::at(position);
    if (entry.stamp <= pin) break;
    undo(entry, out);
    if (entry.kind == EntryKind::kImage) oldest_image = &entry;
    position = entry.previous;
  }
  bool is_clear = true;
  if (oldest_image != nullptr) {
    is_clear = oldest_image->released <= pin && oldest_image->others == 0;
  } else {
    // A stack is stored to plainly at any time.
    is_clear = released <= pin && ((!has_holders && Memory::stack_slot_of(page) == kTasksMax) ||
                                   control->committed.load(std::memory_order_seq_cst) <= pin);
  }
  // seq_cst: pairs with trim(), which gives a chunk away behind its store
  if (control->trimmed.load(std::memory_order_seq_cst) > pin) return Made::kTooOld;
  if (!is_clear) return Made::kUnclear;
  return !has_holders && Memory::stack_slot_of(page) == kTasksMax ? Made::kKept : Made::kForNow;
}

Made Copies::open(PageNumber page, bool is_store) noexcept {
  TMH_ASSERT(is_running_inside && Memory::stack_slot_of(page) != self_slot);
  const Mapped before = Mappings::mapped(page);
  if (before == Mapped::kWritten) return Made::kKept;
  if (before == Mapped::kCopy) {
    if (!is_store) return Made::kKept;
    count(Count::kFirstStores);
    Mappings::protect(page, false);
    Mappings::add_twin(page, reinterpret_cast<const std::byte *>(Memory::address_of(page)), false);
    return Made::kKept;
  }
  if (before == Mapped::kShared || before == Mapped::kHeld) {
    if (!Mappings::put_base(page, 1)) die("a page cannot be mapped");
    // Its own plain stores were before its begin.
    if (before == Mapped::kHeld)
      let_go(&page_states[page], self_slot, self().pin.load(std::memory_order_relaxed));
    if (before == Mapped::kShared) page_states[page].sharers.remove(self_slot);
    Mappings::set(page, Mapped::kNothing);
    last_opened_ = kNoPage;
  }
  const std::uint32_t stack = Memory::stack_slot_of(page);
  if (stack != kTasksMax) {
    // Its own transactions store there in place: none may run while this one reads.
    Slot &owner = control->slots[stack];
    if (owner.is_stack_shared.load(std::memory_order_relaxed) == 0)
      owner.is_stack_shared.store(1, std::memory_order_seq_cst);
    if (owner.pin.load(std::memory_order_seq_cst) != kOutside) return Made::kUnclear;
  }
  window_ = page == last_opened_ + 1 ? std::min(2 * window_, kWindowMax) : 1;
  Made made = make(page, buffer);
  if (made != Made::kKept && made != Made::kForNow) return made;
  std::uint32_t ahead = 1;
  if (made == Made::kKept && !is_store) {
    const Region &region = Memory::region_of(page);
    const PageNumber end = region.page_end();
    while (ahead < window_ && page + ahead < end &&
           Mappings::mapped(page + ahead) == Mapped::kNothing &&
           (page_states[page + ahead].newest.load(std::memory_order_relaxed) & kTouched) != 0 &&
           make(page + ahead, buffer + ahead * kPageBytes) == Made::kKept)
      ++ahead;
  }
  TMH_ASSERT(ahead <= kWindowMax);
  last_opened_ = page + ahead - 1;
  bool is_filled = Mappings::fill(page, ahead, buffer, is_store);
  if (!is_filled && errno == ENOENT && ahead > 1) {
    // The kernel copies into one of its mappings at a time: another one begins among these pages.
    ahead = 1;
    last_opened_ = page;
    is_filled = Mappings::fill(page, ahead, buffer, is_store);
  }
  if (!is_filled) die("a page cannot be copied");
  PageCache::note_copied(page, ahead);
  if (is_store) {
    Mappings::add_twin(page, buffer, false);
  } else {
    Mappings::set(page, ahead, Mapped::kCopy);
  }
  if (made == Made::kForNow) {
    if (for_now_count_ == kForNowMax) die("too many pages are in plain use");
    for_now_[for_now_count_++] = page;
    // The holders let go of it when they begin a transaction.
    page_states[page].holders.for_each_other(self_slot, [](std::uint32_t slot) {
      control->slots[slot].is_wanted.store(1, std::memory_order_relaxed);
    });
  }
  return made;
}

void Copies::drop(PageNumber page) noexcept {
  Mappings::end_copy(page);
  raw_madvise(reinterpret_cast<void *>(Memory::address_of(page)), kPageBytes, MADV_DONTNEED);
  count(Count::kDropped);
}

void Copies::drop_all() noexcept {
  if (Mappings::copies() == 0) return;
  // Without keys: where there are no copies, there are all rights.
  const bool was_turned = Turns::is_to_copies();
  if (!has_keys()) Turns::turn(true);
  for (std::uint32_t i = 0; i < Memory::regions(); ++i) {
    const Region &region = Memory::region(i);
    const PageNumber end = region.page_end();
    for (PageNumber page = region.first; Mappings::copies() != 0;) {
      page = Mappings::next_copy(page, end);
      if (page == end) break;
      PageNumber last = page;
      while (last < end && is_copy(Mappings::mapped(last))) Mappings::end_copy(last++);
      raw_madvise(reinterpret_cast<void *>(Memory::address_of(page)),
                  static_cast<std::size_t>(last - page) * kPageBytes, MADV_DONTNEED);
      page = last;
    }
  }
  TMH_ASSERT(Mappings::copies() == 0);
  for_now_count_ = 0;
  CopiedRegions::forget_all();
  if (!has_keys()) Turns::turn(was_turned);
}

void Copies::forget() noexcept {
  drop_all();
  position_ = control->head.load(std::memory_order_acquire);
}

bool Copies::pull(std::uint64_t from, std::uint64_t clock) noexcept {
  TMH_ASSERT(from <= clock && !is_running_inside);
  const Position head = control->head.load(std::memory_order_acquire);
  for (Position at = Log::skip(position_); at < head; at = Log::skip(position_)) {
    const Entry &entry = *Log::at(at);
    const EntryKind kind = entry.kind;
    const std::uint64_t stamp = entry.stamp;
    const PageNumber page = entry.page;
    const std::uint32_t size = entry.size, slot = entry.slot;
    // Behind the loads: what was read was an entry (Log::trim()).
    if (control->trimmed.load(std::memory_order_seq_cst) > from) return false;
    if (kind != EntryKind::kSkip) {
      if (stamp > clock) break;
      const Mapped now = Mappings::mapped(page);
      if (slot != self_slot && is_copy(now)) {
        if (kind == EntryKind::kImage) {
          drop(page);
        } else {
          auto *const copy = reinterpret_cast<std::byte *>(Memory::address_of(page));
          if (now == Mapped::kCopy) {
            Mappings::protect(page, false);
            Mappings::add_twin(page, copy, true);
          }
          redo(entry, copy);
          redo(entry, Mappings::twin_of(page));
          // Otherwise another chunk's bytes may be in the copy: the caller drops all copies.
          if (control->trimmed.load(std::memory_order_seq_cst) > from) return false;
        }
      }
    }
    position_ = at + size;
  }
  return true;
}

void Copies::restore() noexcept {
  TMH_ASSERT(is_running_inside);
  for (std::uint32_t i = 0; i < Mappings::written_count(); ++i) {
    auto *const copy =
        reinterpret_cast<std::byte *>(Memory::address_of(Mappings::written()[i].page));
    if (std::memcmp(copy, Mappings::written()[i].twin, kPageBytes) != 0)
      std::memcpy(copy, Mappings::written()[i].twin, kPageBytes);
  }
}

void Copies::tidy() noexcept {
  TMH_ASSERT(!is_running_inside);
  for (std::uint32_t i = 0; i < for_now_count_; ++i) {
    if (is_copy(Mappings::mapped(for_now_[i]))) drop(for_now_[i]);
  }
  for_now_count_ = 0;
  if (has_keys()) {
    PageCache::tidy();
  } else if (Mappings::copies() > kCopiesTurned) {
    drop_all();
  }
  OwnPages::give_away_idle();
  // The more pages are compared at each commit, the sooner one goes that is not stored to.
  const std::uint32_t share = kComparedMax / (Mappings::written_count() + 1);
  const std::uint32_t idle_max = std::min<std::uint32_t>(kIdleMax, share);
  const std::uint32_t idle_pulled_max = std::min<std::uint32_t>(kIdlePulledMax, share);
  for (std::uint32_t i = 0; i < Mappings::written_count();) {
    const Mappings::Written &each = Mappings::written()[i];
    if (Mappings::mapped(each.page) == Mapped::kOwned ||
        each.idle <= (each.is_pulled ? idle_pulled_max : idle_max)) {
      ++i;
      continue;
    }
    Mappings::protect(each.page, true);
    Mappings::set(each.page, Mapped::kCopy);
    Mappings::remove_twin(each.page);
  }
}

}  // namespace tmh::itm::pages
