// levels/page/views/evictor.h -- the page cache: which own copies of pages stay in the views after
// an instance under snapshot isolation.
// Shape:     a clock hand goes round the kept pages. A copy that it passes gets a mark, a store to
//            the copy takes the mark away, and at its next pass the hand evicts what has one. Which
//            copies were replayed too often, Replay tells.
// Invariant: an end evicts no more pages than its instance has added and kPagesPerEnd, and the hand
//            looks at no more than in proportion: no end is long because views are large.
// Contexts:  ends of instances. Not in handlers.
// Source:    EXCITE-VM, sections 3.2 and 4.2 (page cache, Scan). We differ: an unprivileged process
//            cannot clear the bits that say that a page was accessed, so stores count alone
//            (docs/isolation.md, "The page cache").
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <tmh/policies.hpp>

#include "levels/page/views/instance.h"
#include "levels/page/views/kept_pages.h"
#include "levels/page/views/local_pages.h"
#include "levels/page/views/segment_views.h"

namespace tmh::page {

class Evictor {
 public:
  // All outlive it.
  Evictor(Views &views, KeptPages &kept, Twins &twins, Instance &instance) noexcept
      : views_(views), kept_(kept), twins_(twins), instance_(instance) {}
  // Address space.
  [[nodiscard]] Errc reserve() noexcept { return evicted_.reserve(); }

  // Before an instance begins.
  void use(const PageCache &policy) noexcept;
  // REQUIRES: what the instance has written is settled or rolled back.
  void evict() noexcept;
  // For tools: the memory that the views' own copies take.
  void publish_size() noexcept {
    const auto pages = static_cast<std::uint32_t>(own_pages());
    std::atomic<std::uint32_t> &shown = instance_.own.shown.page_cache_pages;
    // relaxed: its only writer
    if (shown.load(std::memory_order_relaxed) != pages)
      shown.store(pages, std::memory_order_relaxed);
  }

 private:
  // 0.3 to 0.5 ms of dropping single pages.
  static constexpr std::size_t kPagesPerEnd = 256;
  // Of kept pages most may be mapped from home.
  static constexpr std::size_t kLooksPerPage = 16;
  // 256 MiB.
  static constexpr std::size_t kAdaptivePagesMax = 1u << 16;
  // In LocalPage::unchanged_compares, until the end of evict().
  static constexpr std::uint8_t kTaken = 0xff;
  static constexpr std::size_t kPagesPerMebibyte = (1u << 20) / kPageBytes;

  [[nodiscard]] std::size_t pages_max() const noexcept;
  // Of memory, for copies and twins.
  [[nodiscard]] std::size_t own_pages() const noexcept { return kept_.copies() + twins_.in_use(); }
  void take_replayed() noexcept;
  void turn_hand() noexcept;
  [[nodiscard]] bool is_over() const noexcept { return held_ > pages_max(); }
  [[nodiscard]] bool has_passed(LocalPage *page) const noexcept;
  [[nodiscard]] static bool is_taken(const LocalPage &page) noexcept {
    return page.unchanged_compares == kTaken;
  }
  void take(PageId page) noexcept;
  void drop_taken() noexcept;
  void forget_dead() noexcept;

  Views &views_;
  KeptPages &kept_;
  Twins &twins_;
  Instance &instance_;
  PageCache policy_;
  // Pages that this end may still evict.
  std::size_t budget_ = 0;
  // Own copies and twins, without those that are about to be dropped.
  std::size_t held_ = 0;
  std::size_t held_before_ = 0;
  // That this end is about to drop.
  PageList evicted_;
  // Next in KeptPages::pages().
  std::size_t hand_ = 0;
  // Pages that the running scan has to pass.
  std::size_t left_to_scan_ = 0;
  std::uint32_t ends_since_scan_ = 0;
  // In a row, without one that went.
  std::size_t looks_in_vain_ = 0;
  // About so many of KeptPages::pages() have been evicted.
  std::size_t dead_ = 0;
};

}  // namespace tmh::page
