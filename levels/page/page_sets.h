// levels/page/page_sets.h -- what an instance has written: found by comparing private copies with
// clean ones, given disk blocks, settled or rolled back at its end. What it has promoted counts as
// written.
// Shape:     over the engine's kept pages and views. A clean copy is the page's twin, or home.
// Contexts:  not in handlers.
// Source:    EXCITE-VM, sections 3 and 4 (line differences against a clean copy);
//            docs/mechanisms.md, "What every load rests on".
#pragma once

#include <cstdint>
#include <vector>

#include "levels/page/shared/shared.h"
#include "levels/page/touch/touch.h"
#include "levels/page/versions/versions.h"
#include "levels/page/views/views.h"

namespace tmh::page {

class PageSets {
 public:
  // All outlive it.
  PageSets(Ours &ours, Mine &mine, const Snapshot &snapshot) noexcept
      : ours_(ours), mine_(mine), snapshot_(snapshot) {}

  // kOutOfMemory: not all of them. REQUIRES: first touches are classified.
  [[nodiscard]] Errc find_writes() noexcept {
    writes_.clear();
    return mine_.kept.privates().empty() && !has_promotions() ? Errc::kOk : find_all();
  }
  // These lines of the page count as written by the running instance: others that write or promote
  // one of them conflict with it. kOutOfMemory. REQUIRES: it has touched the page.
  [[nodiscard]] Errc promote(PageId page, LineMask lines) noexcept;
  [[nodiscard]] bool has_promotions() const noexcept {
    return promotions_of_ == mine_.instance.number;
  }
  // REQUIRES has_promotions().
  [[nodiscard]] const std::vector<Write> &promotions() const noexcept { return promotions_; }
  // As find_writes() found them; commits give them slots.
  [[nodiscard]] std::vector<Write> &writes() noexcept { return writes_; }
  // Address of the first byte that differs. REQUIRES: there are writes.
  [[nodiscard]] std::uintptr_t first_written() const noexcept;
  // The page's content as the instance found it.
  [[nodiscard]] const std::byte *clean_copy(PageId page) const noexcept {
    return clean_copy(page, mine_.views.local(page));
  }
  // Disk blocks for the home and metadata of every page in writes(). kDiskFull, kIo, kNotMapped.
  [[nodiscard]] Errc allocate_blocks() noexcept;

  // The writes are published.
  void settle_committed(std::uint64_t instance) noexcept;
  // What stays private; the rest is dropped.
  void settle() noexcept {
    // Exact tracking drops everything at the end.
    if (mine_.tracking.keeps() && !mine_.kept.privates().empty()) settle_privates(true);
    if (!mine_.touches.copied().empty()) copy_ahead();
  }
  // Private pages have their clean content again.
  void roll_back() noexcept;

 private:
  [[nodiscard]] Errc find_all() noexcept;
  void compare_all();
  void add_promotions();
  // is_clean: pages without a twin hold the content that the instance leaves.
  void settle_privates(bool is_clean) noexcept;
  [[nodiscard]] bool stays_private(PageId page) noexcept;
  void copy_ahead() noexcept;
  void make_twin(PageId page, LocalPage *local) noexcept;
  [[nodiscard]] Errc allocate_around(PageId page, std::uint64_t block) noexcept;
  [[nodiscard]] const std::byte *clean_copy(PageId page, const LocalPage &local) const noexcept;
  [[gnu::noinline, nodiscard]] const std::byte *clean_copy_of_hole(PageId page) const noexcept;
  [[gnu::noinline]] void ask_ahead(PageId page) noexcept;

  Ours &ours_;
  Mine &mine_;
  const Snapshot &snapshot_;
  std::vector<Write> writes_;
  // Of the instance with this number, other ones have none. Sorted by page when they are added to
  // writes_; no slots.
  std::vector<Write> promotions_;
  std::uint64_t promotions_of_ = 0;
};

}  // namespace tmh::page
