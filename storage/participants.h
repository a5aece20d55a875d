// storage/participants.h -- the table of participants: processes attached to a domain, and
// their threads with views of their own.
// Shape:     tmh.participants: kParticipantsMax records of 768 bytes, sparse; a participant is
//            named by its slot. Rebuildable.
// Invariant: a slot is freed only under the domain lock, so a dead lock holder's slot keeps its
//            meaning until it is inherited.
// Ordering:  pin is the only word on which isolation depends: announced seq_cst, see
//            levels/page/versions/consistency_tree.h.
// Sharing:   line 0 is written at attach and detach; line 1 by its owner at each instance (others
//            read it when collecting); line 2 by others when they fail an instance; counters by the
//            owner only (relaxed), so they cost no shared line, and of a dead one by whoever holds
//            the domain lock; line 7 by its owner at commits, by others when they collect for it.
// Counting:  totals belong to the slot and only grow, whichever participant has it: nothing is
//            handed over at an end or a death. An instance counts as begun by one store and as
//            ended by one more, so death leaves at most one begun that has not ended, which reap()
//            ends as kDied. A commit that others can see is counted before it is published
//            (DomainState::counting), so a death leaves both or neither.
// Contexts:  reading is async-signal-safe.
// Source:    docs/design.md 8 and 9. The thesis had a fixed array of 16 (appendix A.1, item 3).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <tmh/instance.hpp>

#include "observe/counting.h"
#include "platform/fence.h"
#include "platform/process.h"

namespace tmh::storage {

// 48 MiB of address space, used memory follows the number attached.
inline constexpr std::uint32_t kParticipantsMax = 1u << 16;
inline constexpr std::uint64_t kNoPin = ~0ull;

// Owner-written totals of a slot. Order is part of the layout: what every instance writes is on one
// line.
enum class Count : std::uint32_t {
  kBegins,
  kCommits,
  kQueries,
  kQueryEnds,  // queries that ended well
  kPagesRead,
  kPagesWritten,
  kLinesWritten,
  kFaultsKernel,
  kAborts0,
  kAbortsLast = kAborts0 + kAbortCauseCount - 1,
  kFaultsSignal,
  kLockRecoveries,
  kTurns,
  kThreadViewInstances,
  kThreadViewFallbacks,
  kIrrevocables,
  kRetrySleeps,
  kRetryWakes,
  kSnapshotCommits,
  kPageCacheEvictions,
  kSlowReaders,
  kPageCacheReplays,
  kEnd
};
static_assert(static_cast<std::uint32_t>(Count::kAborts0) == 8);
inline constexpr std::size_t kCountsMax = 32;
static_assert(static_cast<std::size_t>(Count::kEnd) <= kCountsMax);
[[nodiscard]] constexpr Count abort_count(AbortCause cause) noexcept {
  return static_cast<Count>(static_cast<std::uint32_t>(Count::kAborts0) +
                            static_cast<std::uint32_t>(cause));
}

// Level 2's versions that were committed from one slot and are not home yet, in commit order
// (levels/page/versions/version_lists.h). Under the domain lock, but for the number, which may be
// read at any time.
struct VersionList {
  std::uint32_t oldest;
  std::uint32_t newest;
  std::atomic<std::uint32_t> live_count;
};

// Its owner's, for tools.
struct ShownToTools {
  // 1: its views are those of RTM
  std::atomic<std::uint32_t> in_line_mode;
  // Own copies and their twins, when the last instance ended.
  std::atomic<std::uint32_t> page_cache_pages;
};

// For group commit.
struct Company {
  // LogState::flushes when its last strict commit was acknowledged
  std::atomic<std::uint64_t> last_flush;
  // With a level below: the same as waits_for on its clock, of the thread that came last. A hint.
  std::atomic<std::uint64_t> line_waits_for;
};

struct alignas(64) Participant {
  // line 0: identity
  std::atomic<std::uint32_t> state;  // 0 free, 1 attached
  std::int32_t pid;
  std::uint64_t start_time;
  // Unique in the domain; written first at attach, see is_gone().
  std::atomic<std::uint64_t> incarnation;
  char name[40];
  // line 1: the running instance
  alignas(64) std::atomic<std::uint64_t> pin;  // snapshot, kNoPin: none
  std::atomic<std::uint64_t> instance;         // number of the running instance, 0: none
  std::atomic<std::uint64_t> age;              // eager policies
  std::atomic<std::uint64_t> begin_ns;
  std::atomic<std::uint32_t> is_query;
  // It would run at level 1, but for others at level 2; its owner's, a hint to those who wait.
  std::atomic<std::uint32_t> is_guest;
  // With a pin, in domains with level 1: nothing newer on level 1's clock is in the snapshot but
  // extensions.
  std::atomic<std::uint64_t> line_pin;
  // Line 2: what others decide about it. The number of the instance that another one has failed.
  alignas(64) std::atomic<std::uint64_t> failed_instance;
  // Eager: first entry in the access table, 0: none.
  std::atomic<std::uint32_t> accesses;
  ShownToTools shown;
  // number of the query that another has asked to end
  std::atomic<std::uint64_t> asked_instance;
  // Under the domain lock when it is set: the moment of its query of the past; 0: it runs none.
  std::atomic<std::uint64_t> past;
  // lines 3 to 6: totals
  alignas(64) std::atomic<std::uint64_t> counts[kCountsMax];
  // line 7: the list of the slot's versions, which stays when the slot changes hands; and
  // durability: its owner's, log writers read it. In domains that are not durable no participant
  // touches the latter.
  alignas(64) VersionList versions;
  // With a level below: threads that wait for durability there; a hint.
  std::atomic<std::uint32_t> line_waiters;
  std::atomic<std::uint64_t> waits_for;  // commit timestamp that must become durable, 0: none
  Company company;
  std::uint64_t stack_start;  // identity, with pid and start_time
  // Of the thread that waits for durability; LogHandover::kAsleep; a hint.
  std::atomic<std::uint32_t> waits_on_cpu;
  // lines 8 to 11: counts as they were when the participant came
  alignas(64) std::atomic<std::uint64_t> counts_before[kCountsMax];

  void add(Count which, std::uint64_t amount) noexcept {
    if constexpr (!observe::kCounts) return;
    auto &cell = counts[static_cast<std::uint32_t>(which)];
    // Single writer.
    cell.store(cell.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }
  // Of totals that the participant's threads have in common.
  void add_from_any_thread(Count which, std::uint64_t amount) noexcept {
    if constexpr (!observe::kCounts) return;
    counts[static_cast<std::uint32_t>(which)].fetch_add(amount, std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t count(Count which) const noexcept {
    return counts[static_cast<std::uint32_t>(which)].load(std::memory_order_relaxed);
  }
  // Of the participant that has the slot.
  [[nodiscard]] std::uint64_t own_count(Count which) const noexcept {
    return count(which) -
           counts_before[static_cast<std::uint32_t>(which)].load(std::memory_order_relaxed);
  }
  // Is an instance counted as begun, and not as ended? REQUIRES: one's own record, or the domain
  // lock and a dead owner.
  [[nodiscard]] bool is_counted_running() const noexcept {
    std::uint64_t ended = count(Count::kCommits) + count(Count::kQueryEnds);
    for (std::uint32_t i = 0; i < kAbortCauseCount; ++i)
      ended += count(abort_count(static_cast<AbortCause>(i)));
    return count(Count::kBegins) + count(Count::kQueries) != ended;
  }
  // REQUIRES: the slot cannot change hands meanwhile (it is one's own, or the folder lock is held).
  [[nodiscard]] bool is_alive() const noexcept {
    return platform::alive({pid, start_time, stack_start});
  }
  // Is this slot that of a process that has ended, or runs another program, without detaching?
  // Without the folder lock a process may detach and another attach while we look: the incarnation,
  // written before pid and start time, tells. Async-signal-safe.
  [[nodiscard]] bool is_gone() const noexcept {
    const std::uint64_t seen = incarnation.load(std::memory_order_acquire);
    if (state.load(std::memory_order_acquire) != 1 || is_alive()) return false;
    platform::fence(std::memory_order_acquire);  // pid and start time were read before these two
    return state.load(std::memory_order_relaxed) == 1 &&
           incarnation.load(std::memory_order_relaxed) == seen;
  }
};
static_assert(sizeof(Participant) == 768 && offsetof(Participant, pin) == 64 &&
              offsetof(Participant, failed_instance) == 128);
static_assert(offsetof(Participant, counts) == 192 && offsetof(Participant, versions) == 448 &&
              offsetof(Participant, counts_before) == 512);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

// Is the participant that `is_it(incarnation)` means in that slot, and alive? Whatever the record's
// state says: a process may die between giving its slot back and unlocking. Async-signal-safe.
template <class IsIt>
[[nodiscard]] bool is_alive_as(const Participant &record, const IsIt &is_it) noexcept {
  if (!is_it(record.incarnation.load(std::memory_order_acquire))) return false;
  const bool is_alive = record.is_alive();
  // pid and start time were read before the incarnation is read again
  platform::fence(std::memory_order_acquire);
  return is_alive && is_it(record.incarnation.load(std::memory_order_acquire));
}

// Adds a slot's totals. count_of(Count): one of them.
template <class CountOf>
void add_counts(const CountOf &count_of, Counters *to) {
  to->begins += count_of(Count::kBegins);
  to->commits += count_of(Count::kCommits);
  to->queries += count_of(Count::kQueries);
  for (std::uint32_t i = 0; i < kAbortCauseCount; ++i)
    to->aborts[i] += count_of(abort_count(static_cast<AbortCause>(i)));
  to->pages_read += count_of(Count::kPagesRead);
  to->pages_written += count_of(Count::kPagesWritten);
  to->lines_written += count_of(Count::kLinesWritten);
  to->faults_signal += count_of(Count::kFaultsSignal);
  to->faults_kernel += count_of(Count::kFaultsKernel);
  to->lock_recoveries += count_of(Count::kLockRecoveries);
  to->starvation_turns += count_of(Count::kTurns);
  to->thread_view_instances += count_of(Count::kThreadViewInstances);
  to->thread_view_fallbacks += count_of(Count::kThreadViewFallbacks);
  to->irrevocables += count_of(Count::kIrrevocables);
  to->retry_sleeps += count_of(Count::kRetrySleeps);
  to->retry_wakes += count_of(Count::kRetryWakes);
  to->snapshot_commits += count_of(Count::kSnapshotCommits);
  to->page_cache_evictions += count_of(Count::kPageCacheEvictions);
  to->page_cache_replays += count_of(Count::kPageCacheReplays);
  to->slow_readers += count_of(Count::kSlowReaders);
}

// The pins of a domain. Each commit of level 1 reads them.
struct Pins {
  // Slots ever used; null: there are no participants.
  const std::atomic<std::uint32_t> *high = nullptr;
  const Participant *participants = nullptr;

  [[nodiscard]] bool any(std::memory_order order) const noexcept {
    // acquire: pairs with the release of a participant that takes a slot for the first time
    const std::uint32_t count = high == nullptr ? 0 : high->load(std::memory_order_acquire);
    for (std::uint32_t i = 0; i < count; ++i)
      if (participants[i].pin.load(order) != kNoPin) return true;
    return false;
  }
};

}  // namespace tmh::storage
