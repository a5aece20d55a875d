// levels/page/shared/reaper.h -- cleaning up after participants that have died, and after a holder
// of the domain lock that has.
// Shape:     walks a list of estates (estate.h), which knows what else there is to give back.
// Invariant: each death is counted once, though the participant that reaps may die: see reap().
// Sharing:   under the domain lock, by any thread of the process.
// Contexts:  mend(): async-signal-safe with Context::kHandler. Everything else: not in handlers.
#pragma once

#include <atomic>
#include <cstdint>

#include "levels/page/shared/domain_lock.h"
#include "levels/page/shared/estate.h"
#include "levels/page/shared/shared_files.h"

namespace tmh::page {

class Reaper final : public DomainLock::Heir {
 public:
  // memory outlives it.
  Reaper(SharedFiles &memory, std::uint32_t slot) noexcept : memory_(memory), slot_(slot) {}

  // Behind those that were added before. All before the first of the other calls.
  void add(Estate &estate) noexcept { estates_.add(estate); }
  [[nodiscard]] const Estates &estates() const noexcept { return estates_; }

  // Of a process that is alone: other participants' pins, entries and slots count for nothing, and
  // all links are made anew.
  void start_over(const DomainLock::Held &held) noexcept;
  // All participants that have died.
  void reap_dead(const DomainLock::Held &held) noexcept;
  // Those that seem to run an instance for suspiciously long, at most every 100 ms.
  void reap_suspects(const DomainLock::Held &held, std::uint64_t now_ns) noexcept {
    if (now_ns >= next_look_ns_.load(std::memory_order_relaxed)) look_at_suspects(held, now_ns);
  }

  // DomainLock::Heir
  void mend(const DomainLock::Held &held, DomainLock::Context context,
            platform::Locked how) noexcept override;

 private:
  void repair(const DomainLock::Held &held) noexcept;
  void look_at_suspects(const DomainLock::Held &held, std::uint64_t now_ns) noexcept;
  void reap(const DomainLock::Held &held, std::uint32_t slot) noexcept;
  void finish_reaping(const DomainLock::Held &held, std::uint32_t wanted) noexcept;
  void count_reaped(const DomainLock::Held &held, std::uint32_t slot) noexcept;

  SharedFiles &memory_;
  const std::uint32_t slot_;
  Estates estates_;
  // Under the lock; relaxed.
  std::atomic<std::uint64_t> next_look_ns_{0};
};

}  // namespace tmh::page
