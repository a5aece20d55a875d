// levels/line/upper.h -- what level 1 asks of whatever lies above it. hierarchy/ implements it;
// NobodyAbove serves where there is nothing.
// Contexts:  ask() and suspect() are called holding no line word, and may take the domain lock;
//            any_pin() and oldest_line_pin() are called inside a commit, which holds line words:
//            they take no lock and do not wait.
// Source:    hierarchy/PROTOCOL.md, "Level 1 meets a line in U", "Snapshots that span both clocks",
//            "Death".
#pragma once

#include <cstdint>

#include "levels/storage/page_id.h"

namespace tmh::line {

enum class UpperAnswer : std::uint8_t {
  kGranted = 1,  // the page is in L now: look at the line again
  // Cross-level conflict, decided against this instance: it aborts (AbortCause::kCrossLevel).
  kBusy = 2,
  // No further try at this level makes sense: as kBusy, and the abort status says do not retry.
  kRefused = 3,
};

// What an instance does while instances above use a page that it needs.
enum class Insists : std::uint8_t {
  kNo = 0,       // it goes up at once, without failing or waiting for others
  kBriefly = 1,  // it waits no longer than for a few small ones
  kLong = 2,     // also for large ones, where going up would undo what they have done
};

class Upper {
 public:
  Upper() = default;
  Upper(const Upper &) = delete;
  Upper &operator=(const Upper &) = delete;
  virtual ~Upper() = default;
  // A line of the page is in U. Insists::kNo: kGranted or kRefused, at once.
  [[nodiscard]] virtual UpperAnswer ask(storage::PageId page, Insists insists) noexcept = 0;
  // seq_cst loads, after line-stamp: is there a snapshot above that may need undo words?
  [[nodiscard]] virtual bool any_pin() noexcept = 0;
  // The smallest line pin; ~0: none.
  [[nodiscard]] virtual std::uint64_t oldest_line_pin() noexcept = 0;
  // A context of this participant keeps a line locked, or has the turn, for longer than a living
  // and running one would: look whether it lives, and recover its contexts if not.
  virtual void suspect(std::uint32_t slot, std::uint64_t incarnation) noexcept = 0;
};

// For a domain without a level above.
class NobodyAbove : public Upper {
 public:
  UpperAnswer ask(storage::PageId, Insists) noexcept override { return UpperAnswer::kRefused; }
  bool any_pin() noexcept override { return false; }
  std::uint64_t oldest_line_pin() noexcept override { return ~0ull; }
  void suspect(std::uint32_t, std::uint64_t) noexcept override {}
};

}  // namespace tmh::line
