// hierarchy/transaction/beyond_capacity.h -- where the updates of an adaptive site run that exceed
// the capacity model of level 1.
// Why:       an update of instrumented code fits into software lines without the model, as an HTM's
//            software fallback would run it. That takes some 20 ns a line; level 2 takes 0.2 to 0.6
//            us a page, and 4 to 9 us more where level 1 has the page before and after
//            (docs/measurements.md, "Both levels together"). So it stays at level 1 while that
//            succeeds: beside others first; when they make it fail, no other instance commits.
// Sharing:   threads. Races lose a step of learning, nothing else: relaxed.
// Source:    thesis, section 6.2 ("transactions may be moved up ... or even down", left open
//            there); docs/design.md 4.
#pragma once

#include <atomic>
#include <bit>
#include <cstdint>

#include "hierarchy/transaction/escalation.h"

namespace tmh::hierarchy {

class BeyondCapacity {
 public:
  // Was the site's last escalation one for capacity? Then its next instances exceed it, as a rule.
  [[nodiscard]] bool is_expected() const noexcept {
    return is_expected_.load(std::memory_order_relaxed);
  }
  void escalated_from_model(bool over_capacity) noexcept {
    if (over_capacity != is_expected())
      is_expected_.store(over_capacity, std::memory_order_relaxed);
  }

  // Of the next instance: it begins at level 2, because others had to go there without the model,
  // too.
  [[nodiscard]] bool begins_at_pages() noexcept { return take_run(&pages_); }
  // It begins at level 1, and no other instance commits: earlier ones have failed beside others.
  [[nodiscard]] bool begins_alone() noexcept { return take_run(&alone_); }

  void escalated() noexcept { store(&pages_, after_escalation(load(pages_))); }
  void failed_beside_others() noexcept { store(&alone_, after_escalation(load(alone_))); }
  void committed_at_lines(bool alone) noexcept {
    store(&pages_, after_line_commit(load(pages_)));
    if (!alone) store(&alone_, after_line_commit(load(alone_)));
  }

 private:
  // of a SiteState, whose alignment would make clang call a library for it
  using Word = std::atomic<std::uint32_t>;
  static_assert(sizeof(SiteState) == sizeof(std::uint32_t));
  static SiteState load(const Word &word) noexcept {
    return std::bit_cast<SiteState>(word.load(std::memory_order_relaxed));
  }
  static void store(Word *word, SiteState state) noexcept {
    word->store(std::bit_cast<std::uint32_t>(state), std::memory_order_relaxed);
  }
  static bool take_run(Word *word) noexcept {
    SiteState next = load(*word);
    if (next.page_runs == 0) return false;
    --next.page_runs;
    store(word, next);
    return true;
  }
  std::atomic<bool> is_expected_{false};
  Word pages_{0}, alone_{0};
};

}  // namespace tmh::hierarchy
