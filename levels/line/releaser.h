// levels/line/releaser.h -- what level 1 asks of the level above it: to release a page to it, and
// to recover the dead. hierarchy/exchange/page_requests.h implements it; NoReleaser serves where no
// level is above.
// Shape:     abstract, and here: an interface lies in the level that calls it, because a level may
//            not include hierarchy/. The four are Releaser and LogReserver (level 1 calls),
//            page::Recaller and page::Gatherer (level 2 calls). There is no header of all four:
//            it would make each level know the other's. Calls are virtual, and none is on the way
//            of a begin or of a commit that meets no line in U and no pin.
// Contexts:  ask() and suspect() are called holding no line word, and may take the domain lock;
//            oldest_line_pin() is called inside a commit, which holds line words: it takes no
//            lock and waits for no other thread.
// Source:    hierarchy/exchange/PROTOCOL.md, "Level 1 meets a line in U", "Snapshots that span both
//            clocks", "Death".
#pragma once

#include <cstdint>

#include "storage/page_id.h"
#include "storage/participants.h"

namespace tmh::line {

enum class ReleaseAnswer : std::uint8_t {
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

class Releaser {
 public:
  Releaser() = default;
  Releaser(const Releaser &) = delete;
  Releaser &operator=(const Releaser &) = delete;
  virtual ~Releaser() = default;
  // A line of the page is in U. Insists::kNo: kGranted or kRefused, at once.
  [[nodiscard]] virtual ReleaseAnswer ask(storage::PageId page, Insists insists) noexcept = 0;
  // Those of snapshots above, which may need undo words. They stay where they are.
  [[nodiscard]] virtual storage::Pins pins() const noexcept = 0;
  // The smallest line pin; ~0: none.
  [[nodiscard]] virtual std::uint64_t oldest_line_pin() noexcept = 0;
  // A context of this participant keeps a line locked, or has priority, for longer than a living
  // and running one would: look whether it lives, and recover its contexts if not.
  virtual void suspect(std::uint32_t slot, std::uint64_t incarnation) noexcept = 0;
};

// For a domain without a level above.
class NoReleaser : public Releaser {
 public:
  ReleaseAnswer ask(storage::PageId, Insists) noexcept override { return ReleaseAnswer::kRefused; }
  storage::Pins pins() const noexcept override { return {}; }
  std::uint64_t oldest_line_pin() noexcept override { return ~0ull; }
  void suspect(std::uint32_t, std::uint64_t) noexcept override {}
};

}  // namespace tmh::line
