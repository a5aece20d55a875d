// hierarchy/exchange/page_waits.h -- how long an instance of level 1 waits for a page of level 2.
// Shape:     pure constexpr functions on small values; the clock stays with the caller.
// Source:    docs/design.md 4.
#pragma once

#include <cstdint>

#include "levels/line/releaser.h"

namespace tmh::hierarchy {

// How long an instance of level 1 waits for a page that instances of level 2 use, before it goes
// there, where it needs no participant's answer. One of them with a dozen first touches takes 0.1
// to 0.2 ms; waiting longer than for a few such costs more than being one. Unless they are large
// updates, of milliseconds: a small one that goes up commits first and undoes them, and its pages
// are taken from the instances that would find them at level 1.
inline constexpr std::uint64_t kPageWaitNs = 500'000, kLargePageWaitNs = 10'000'000,
                               kPageWaitNsMax = 100'000'000;

// waited_ns: in all; for_same_ns: for the same instance; by_update: of an update, which ends soon
// as a rule: no instance makes a query begin again, and it may last for minutes.
[[nodiscard]] constexpr bool waits_for_page(line::Insists insists, bool by_update,
                                            std::uint64_t waited_ns,
                                            std::uint64_t for_same_ns) noexcept {
  if (insists != line::Insists::kLong || !by_update)
    return insists != line::Insists::kNo && waited_ns < kPageWaitNs;
  return for_same_ns < kLargePageWaitNs && waited_ns < kPageWaitNsMax;
}

}  // namespace tmh::hierarchy
