// levels/page/views/kept_pages.h -- the pages that stay mapped in one engine's views: the read set
// of its instance, a superset where pages are kept between instances; which of them hold stores;
// how many are copies of this process's own.
// Shape:     LocalPage::lists says in which of the lists a page is.
// Contexts:  async-signal-safe: the fault handler appends.
#pragma once

#include <cstddef>
#include <cstdint>

#include "levels/page/views/local_pages.h"
#include "platform/assert.h"
#include "platform/try.h"

namespace tmh::page {

class KeptPages {
 public:
  // Address space.
  [[nodiscard]] Errc reserve() noexcept {
    TMH_TRY(pages_.reserve());
    TMH_TRY(privates_.reserve());
    TMH_TRY(useless_.reserve());
    return blocks_.reserve();
  }

  // Those that are, or were since the last clear(), kFile, kPrivate, kReadOnly or kClean.
  [[nodiscard]] const PageList &pages() const noexcept { return pages_; }
  // Of these, kPrivate.
  [[nodiscard]] const PageList &privates() const noexcept { return privates_; }
  // Pages for which is_own_copy() holds.
  [[nodiscard]] std::size_t copies() const noexcept { return copies_; }

  // The page, `local`, is in this state from here on.
  void note(storage::PageId page, LocalPage *local, PageState state) noexcept {
    TMH_ASSERT(state != PageState::kAbsent && state != PageState::kGuarded);
    if (is_own_copy(state) && !is_own_copy(local->state)) ++copies_;
    local->state = state;
    if ((local->lists & kInKept) == 0) pages_.push(page);
    local->lists |= kInKept;
    if (state != PageState::kPrivate) return;
    if ((local->lists & kInPrivate) == 0) privates_.push(page);
    local->lists |= kInPrivate;
  }
  // A copy of this process's own goes; it stays listed.
  void note_dropped_copy() noexcept {
    TMH_ASSERT(copies_ != 0);
    --copies_;
  }
  // Of pages in pages(): only those stay listed for which stays(index, page) holds, in order.
  template <class Stays>
  void retain(Stays stays) noexcept {
    std::size_t still = 0;
    for (std::size_t i = 0; i < pages_.size(); ++i)
      if (stays(i, pages_[i])) pages_[still++] = pages_[i];
    pages_.truncate(still);
  }
  // The end of an instance. fate_of(page) says what becomes of a private page. Those of Fate
  // `stays` stay listed; the others leave, in runs of neighbours with one fate: leave(first, count,
  // fate) of each run.
  template <class Fate, class FateOf, class Leave>
  void settle_privates(Fate stays, FateOf fate_of, Leave leave) noexcept {
    std::size_t still = 0;
    for (std::size_t i = 0; i < privates_.size();) {
      const storage::PageId first = privates_[i];
      const Fate fate = fate_of(first);
      if (fate == stays) {
        privates_[still++] = first;
        ++i;
        continue;
      }
      std::uint64_t count = 1;
      while (++i < privates_.size() &&
             static_cast<std::uint64_t>(privates_[i]) ==
                 static_cast<std::uint64_t>(first) + count &&
             fate_of(privates_[i]) == fate)
        ++count;
      leave(first, count, fate);
    }
    privates_.truncate(still);
  }

  // A kClean page has been replayed so often since its last own store that keeping it costs more
  // than it saves.
  void note_useless(storage::PageId page) noexcept { useless_.push(page); }
  // The last one that was noted. False: there is none.
  [[nodiscard]] bool take_useless(storage::PageId *page) noexcept {
    if (useless_.empty()) return false;
    *page = useless_[useless_.size() - 1];
    useless_.truncate(useless_.size() - 1);
    return true;
  }

  void forget_useless() noexcept { useless_.clear(); }

  // Escalated signal tracking: so many pages from this one on are open for writing. Each of the
  // instance's stores there is found at its end only.
  void note_block(storage::PageId first, std::uint64_t page_count) noexcept {
    blocks_.push(first);
    blocks_.push(storage::PageId{page_count});
  }
  [[nodiscard]] bool has_blocks() const noexcept { return !blocks_.empty(); }
  template <class Visit>
  void visit_blocks(Visit visit) const noexcept {
    TMH_ASSERT(blocks_.size() % 2 == 0);
    for (std::size_t i = 0; i + 1 < blocks_.size(); i += 2)
      visit(blocks_[i], static_cast<std::uint64_t>(blocks_[i + 1]));
  }

  // All pages of all views are absent or guarded.
  void clear() noexcept {
    pages_.clear();
    privates_.clear();
    useless_.clear();
    blocks_.clear();
    copies_ = 0;
  }

 private:
  PageList pages_;
  PageList privates_;
  PageList useless_;
  // First pages, each with its number of pages.
  PageList blocks_;
  std::size_t copies_ = 0;
};

}  // namespace tmh::page
