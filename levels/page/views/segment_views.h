// levels/page/views/segment_views.h -- the segments that one engine has mapped, page by page: which
// of them may be touched unseen, which raise SIGSEGV, which hold a copy of their own.
// Shape:     view = MAP_PRIVATE over home. A guard, or protection, makes a page inaccessible.
// Invariant: engine.h's, of every page that no instance has touched: absent or guarded.
// Sharing:   one per engine; the thread that runs its instance, and its fault handler.
// Contexts:  the handler: what opens, guards and looks up. Not: add(), remove(), remap(), vacate().
// Source:    docs/mechanisms.md, "Ways to find first touches"; thesis, appendix A.1 item 4
//            (escalation to larger ranges).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "levels/page/shared/shared.h"
#include "levels/page/views/areas.h"
#include "levels/page/views/kept_pages.h"
#include "levels/page/views/local_pages.h"
#include "levels/page/views/resident_pages.h"
#include "levels/page/views/tracking_choice.h"
#include "levels/page/views/view.h"
#include "levels/page/views/view_index.h"
#include "platform/assert.h"
#include "platform/fault_handler.h"
#include "platform/protection_keys.h"

namespace tmh::page {

class Views {
 public:
  static constexpr std::uint32_t kAllSegments = ~0u;
  // kCommon: at the address that the segment has in every process; kAnywhere: where there is room.
  enum class Placement : std::uint8_t { kCommon, kAnywhere };
  // Answers faults; its context is the View.
  struct Faults {
    FirstTouch *context;
    platform::FaultFunction function;
  };

  // All outlive it.
  Views(SharedState &memory, TrackingChoice &tracking, KeptPages &kept, ResidentPages &residents,
        Twins &twins);
  ~Views();
  Views(const Views &) = delete;
  Views &operator=(const Views &) = delete;

  // Domains with a level below: before the first add().
  void use_lower() noexcept {
    TMH_ASSERT(mapped_.empty());
    has_lower_ = true;
  }
  [[nodiscard]] bool has_lower() const noexcept { return has_lower_; }

  [[nodiscard]] Errc add(std::uint32_t segment, Placement placement, const Faults &faults,
                         std::byte **base) noexcept;
  void remove(std::uint32_t segment) noexcept;
  // With a level below, for the process's other mode: the views are as if never used, whatever
  // stands at their addresses from now on.
  void vacate() noexcept;
  // They stand there again.
  [[nodiscard]] Errc remap() noexcept;
  // No page counts as guarded. REQUIRES vacate().
  void forget_guards() noexcept {
    for (const std::uint32_t segment : mapped_) views_[segment].pages_memory.forget_from(0);
  }

  // Segment numbers.
  [[nodiscard]] const std::vector<std::uint32_t> &mapped() const noexcept { return mapped_; }
  [[nodiscard]] View &of(std::uint32_t segment) const noexcept {
    TMH_ASSERT(segment < storage::kSegmentsMax);
    return views_[segment];
  }
  [[nodiscard]] bool is_mapped(PageId page) const noexcept {
    return views_[storage::segment_number(page)].base != nullptr;
  }
  // Null: the address belongs to no view.
  [[nodiscard]] const View *find(std::uintptr_t address) noexcept { return index_.find(address); }
  [[nodiscard]] LocalPage &local(PageId page) const noexcept {
    TMH_ASSERT(is_mapped(page));
    return views_[storage::segment_number(page)]
        .pages[static_cast<std::uint64_t>(storage::page_index(page))];
  }
  [[nodiscard]] std::byte *address_of(PageId page) const noexcept {
    TMH_ASSERT(is_mapped(page));
    return views_[storage::segment_number(page)].base + storage::page_offset(page);
  }
  // With a level below: has this process no right to map the page yet?
  [[nodiscard]] bool is_closed(const LocalPage &page) const noexcept {
    return has_lower_ && (page.lists & kResident) == 0;
  }
  // Of the views: open to the thread that runs an instance, to a query for loads; kNoKey: always
  // open.
  [[nodiscard]] int key() const noexcept { return key_; }
  void set_access(platform::KeyAccess access) const noexcept {
    if (key_ != platform::kNoKey) platform::set_key_access(key_, access);
  }

  // The next touch of the page comes to the engine.
  void guard(PageId page) noexcept;
  // All pages whose newest content is not home yet.
  void guard_pending(const DomainLock::Held &held, std::uint32_t segment_or_all) noexcept;
  // Pages that are this process's own copies: the kernel lists the next store to each.
  void arm(PageId first, std::uint64_t page_count) noexcept;
  // Untouched pages whose home is what the views show: copied, and armed.
  void copy_clean(PageId first, std::uint64_t page_count) noexcept;
  // The level below has the page, or may have it: the next touch must ask.
  void lose(PageId page) noexcept;
  void lose_all(std::uint32_t segment_or_all) noexcept;
  // The page is as if never touched.
  void drop_page(PageId page) noexcept { drop_run(page, 1); }
  void drop_run(PageId first, std::uint64_t page_count) noexcept;
  void drop_all() noexcept;
  // drop_all(), and nothing of a view stays accessible.
  void close_all() noexcept;
  void map_anew(PageId page) noexcept;
  [[nodiscard]] bool opens_silently(PageId page) const noexcept;
  // Signal tracking: a dropped page is accessible still, see drop_run().
  [[nodiscard]] bool is_left_open() const noexcept { return is_left_open_; }

  // False: refused, for want of areas.
  [[nodiscard]] bool protect(std::byte *begin, std::uint64_t bytes, int protection) noexcept;
  // Takes the guards away. False: refused, where a guard is protection.
  bool unguard(PageId first, std::uint64_t page_count) noexcept;
  // Some guard, or closed page, is a protected page, see guard().
  [[nodiscard]] bool any_protected() const noexcept { return any_protected_; }
  void note_protected() noexcept { any_protected_ = true; }
  // Memory stands in for some page, see StandIns.
  void note_stand_ins(bool any) noexcept { any_stands_in_ = any; }
  [[nodiscard]] bool any_stands_in() const noexcept { return any_stands_in_; }
  // That its protections have made.
  [[nodiscard]] Areas &areas() noexcept { return areas_; }

 private:
  void drop_spans() noexcept;
  void discard(PageId first, std::uint64_t page_count) noexcept;
  void disarm(PageId first, std::uint64_t page_count) noexcept;
  void remove_guards(PageId first, std::uint64_t page_count) noexcept;

  SharedState &memory_;
  TrackingChoice &tracking_;
  KeptPages &kept_;
  ResidentPages &residents_;
  Twins &twins_;
  const int key_;
  std::unique_ptr<View[]> views_;
  std::vector<std::uint32_t> mapped_;
  ViewIndex index_{storage::kSegmentsMax};
  Areas areas_;
  bool has_lower_ = false;
  bool any_protected_ = false;
  bool any_stands_in_ = false;
  // Some page is kClean, or was.
  bool any_armed_ = false;
  bool is_left_open_ = false;
};

}  // namespace tmh::page
