// hierarchy/transaction/retry.h -- what a sleeping retry() waits for.
// Shape:     at level 1 the words of the lines that it has read; at level 2 the domain's clock, the
//            timestamps of the pages, how often pages have gone back to level 1, and which segments
//            it has read; level 1's clock, too, where memory stood in for a page on a full disk.
// Sharing:   of the thread that sleeps. Other threads may unmap and close meanwhile: each look is
//            protected by itself, the sleep is not.
// Source:    Composable Memory Transactions (retry; blocked for ever is an exception there, too).
#pragma once

#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

#include <tmh/error.hpp>

#include "hierarchy/threads/threads.h"
#include "platform/assert.h"
#include "platform/event_count.h"

namespace tmh::detail {

// What a look prepares, before it looks, so that a change after it ends the sleep.
struct Awaited {
  platform::EventCount *event = nullptr;
  std::uint32_t prepared = 0;

  void prepare(platform::EventCount &of) noexcept {
    TMH_ASSERT(event == nullptr);
    event = &of;
    prepared = of.prepare();
  }
};

struct Slept {
  std::uint64_t sleeps = 0;  // 0 or 1: by how many retry() slept at all
  std::uint64_t wakes = 0;   // how often a committer woke it
};

// A change ends the sleep, but for one at the very moment of the look (EventCount, Ordering), which
// the next look finds, 20 us later at first; and one whose committer was killed before it could
// wake: ten looks per second are no load.
inline constexpr std::int64_t kSleepNsMin = 20'000, kSleepNsMax = 100'000'000;
// Where others commit all the time, each of them would pay a system call for each look in vain. So
// one that was woken in vain is not to be woken for a while: as long as that, too, is seen within a
// millisecond.
inline constexpr std::int64_t kPauseNsMax = 1'000'000;

// Sleeps until look() is true, or to the deadline. look(Awaited *): prepares that, unless it is
// null, before it looks.
template <class Look>
Slept sleep_until(Look look, std::int64_t deadline_ns = kNoDeadline,
                  std::int64_t sleep_ns_max = kSleepNsMax) {
  Slept slept;
  std::int64_t sleep_ns = kSleepNsMin, pause_ns = kSleepNsMin;
  TMH_ASSERT(sleep_ns_max >= kSleepNsMin);
  std::uint32_t prepared_before = 0;  // never prepared: even
  bool may_be_woken = true;
  for (;;) {
    Awaited awaited;
    if (look(may_be_woken ? &awaited : nullptr)) return slept;
    // Somebody woke in between, so a change at the moment of this look may have found nobody to
    // wake.
    if (may_be_woken && awaited.prepared != std::exchange(prepared_before, awaited.prepared))
      sleep_ns = kSleepNsMin;
    std::int64_t &next_ns = may_be_woken ? sleep_ns : pause_ns;
    std::int64_t wait_ns = next_ns;
    next_ns = std::min(2 * next_ns, may_be_woken ? sleep_ns_max : kPauseNsMax);
    if (deadline_ns != kNoDeadline) {
      const std::int64_t now_ns =
          std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
      if (deadline_ns <= now_ns) return slept;
      wait_ns = std::min(wait_ns, deadline_ns - now_ns);
    }
    slept.sleeps = 1;
    if (awaited.event != nullptr) {
      may_be_woken = awaited.event->wait(awaited.prepared, wait_ns);
      slept.wakes += may_be_woken ? 0 : 1;
    } else {
      const timespec pause{0, wait_ns};
      nanosleep(&pause, nullptr);
      may_be_woken = true;
    }
  }
}

void count_sleep(DomainImpl &domain, const Slept &slept) noexcept;

[[noreturn]] void raise_nothing_read();
// kNotMapped.
[[nodiscard]] Errc fail_unmapped() noexcept;

}  // namespace tmh::detail
