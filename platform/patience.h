// platform/patience.h -- pauses of a thread that waits for the next steps of another thread or
// process, which no lock tells of.
// Shape:     yields at first: the other may have been preempted and wait for this processor. Then
//            sleeps, longer each time.
// Why:       a yield lets only those of the same priority run. A real-time thread that only yields
//            keeps an ordinary one that it waits for from its processor for ever; and one that
//            waits for a stopped process would use up a whole processor.
// Contexts:  async-signal-safe; not in RTM.
#pragma once

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <cstdint>

#include "platform/assert.h"

namespace tmh::platform {

class Patience {
 public:
  // waited_ns: since this thread began to wait.
  void pause(std::uint64_t waited_ns) noexcept {
    if (waited_ns < kYieldNs) {
      sched_yield();
      return;
    }
    const timespec sleep{0, sleep_ns_};
    TMH_ASSERT(sleep_ns_ > 0 && sleep_ns_ <= kSleepNsMax);
    nanosleep(&sleep, nullptr);
    sleep_ns_ = std::min(2 * sleep_ns_, kSleepNsMax);
  }

 private:
  // A thread that was not preempted is long done.
  static constexpr std::uint64_t kYieldNs = 200'000;
  // What a wait may end later than what it waits for.
  static constexpr long kSleepNsMax = 500'000;
  long sleep_ns_ = 20'000;
};

}  // namespace tmh::platform
