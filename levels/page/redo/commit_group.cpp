// levels/page/redo/commit_group.cpp -- leading a group of commits, following its leader.
#include "levels/page/redo/commit_group.h"

#include <immintrin.h>
#include <sched.h>

#include <algorithm>
#include <string>
#include <thread>
#include <utility>

#include "observe/steps.h"
#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/futex.h"
#include "platform/process.h"
#include "platform/try.h"

namespace tmh::page {

using observe::Step;
using observe::step;
using platform::fail;
using storage::LogState;

namespace {
// Where there is a core for it, a follower sleeps until shortly before the write is expected to
// end, and spins from there: being woken from a futex takes 30 to 60 us, and the next group would
// leave without it; spinning all the time makes the write itself slower (of a virtual disk here:
// 145 us instead of 115). Of more followers than cores the others sleep until they are woken.
// A time-out ends 22 us late here (90th percentile 30), and writes vary.
constexpr std::uint64_t kAwakeAheadNs = 50'000;
constexpr std::uint64_t kNapNsMin = 10'000;
// Beyond the expected end: as long as being woken would take.
constexpr std::uint64_t kFollowSpinNs = 60'000;
// A dead writer is found after one such wait; docs/design.md 8 allows a second.
constexpr long kDeathCheckNs = 20'000'000;
// A follower where writes are quicker has been woken by the end of the last write, or never slept:
// so long it may take to say so.
constexpr std::uint64_t kClaimNs = 10'000;
// A participant counts as active when a commit of its became durable in one of so many last writes.
constexpr std::uint64_t kActiveFlushes = 4;
}  // namespace

CommitGroup::CommitGroup(SharedFiles &memory, std::uint32_t slot, platform::LockTag tag,
                         const GroupCommit &thresholds, const LogRoom &room,
                         RedoWriter &writer) noexcept
    : memory_(memory),
      slot_(slot),
      lock_(memory, tag),
      thresholds_(thresholds),
      cores_(std::max(1u, std::thread::hardware_concurrency())),
      handover_(memory.log_state(), slot),
      room_(room),
      writer_(writer) {
  TMH_ASSERT(memory.log_state() != nullptr);
  TMH_ASSERT(slot < storage::kParticipantsMax);
}

Errc CommitGroup::wait(std::uint64_t stamp, std::uint64_t line) noexcept {
  if (is_durable(stamp, line) && self().waits_for.load(std::memory_order_relaxed) == 0)
    return memory_.in_place().look(platform::coarse_ns());
  announce(stamp);
  const Errc result = flush(stamp, line);
  self().waits_for.store(0, std::memory_order_relaxed);
  self().company.last_flush.store(state().flushes.load(std::memory_order_relaxed),
                                  std::memory_order_relaxed);
  return result;
}

Errc CommitGroup::wait_lower(std::uint64_t line) noexcept {
  if (is_durable(0, line)) return memory_.in_place().look(platform::coarse_ns());
  const LogState &s = state();
  self().line_waiters.fetch_add(1, std::memory_order_relaxed);
  self().waits_on_cpu.store(storage::LogHandover::this_cpu(), std::memory_order_relaxed);
  self().company.line_waits_for.store(line, std::memory_order_release);
  const Errc result = flush(0, line);
  self().company.line_waits_for.store(0, std::memory_order_relaxed);
  self().company.last_flush.store(s.flushes.load(std::memory_order_relaxed),
                                  std::memory_order_relaxed);
  self().line_waiters.fetch_sub(1, std::memory_order_relaxed);
  return result;
}

Errc CommitGroup::check_writable() const noexcept {
  const std::uint32_t failed = state().error.load(std::memory_order_acquire);
  if (failed == 0) return Errc::kOk;
  return fail(Errc::kLogFailed,
              std::string("an earlier write failed: ") + message(static_cast<Errc>(failed)));
}

// Who acknowledges looks, at most every 100 ms, whether the files are still the domain's.
Errc CommitGroup::flush(std::uint64_t stamp, std::uint64_t line) noexcept {
  TMH_TRY(make_durable(stamp, line));
  return memory_.in_place().look(platform::coarse_ns());
}

Errc CommitGroup::make_durable(std::uint64_t stamp, std::uint64_t line) noexcept {
  LogState &s = state();
  while (!is_durable(stamp, line)) {
    if (const Errc failed = check_writable(); failed != Errc::kOk) return failed;
    const std::uint32_t event = s.event.load(std::memory_order_seq_cst);
    std::optional<LogLock::Held> held = become_leader();
    if (!held) {
      follow(event);
      continue;
    }
    Errc error = Errc::kOk;
    if (lead(*held, stamp, line, &error) == Led::kGivenAway) {
      held->give_away();
      handover_.await_taken(is_crowded());
      continue;
    }
    held->release();
    if (error != Errc::kOk) return error;
  }
  return Errc::kOk;
}

std::optional<LogLock::Held> CommitGroup::become_leader() noexcept {
  if (std::optional<LogLock::Held> held = lock_.try_take()) return held;
  return take_over();
}

// The writing is this thread's, and so is the lock.
std::optional<LogLock::Held> CommitGroup::take_over() noexcept {
  const bool yields = is_crowded();
  std::optional<LogLock::Held> held;
  const auto try_lock = [&] {
    if (std::optional<LogLock::Held> taken = lock_.try_take()) held.emplace(std::move(*taken));
    return held.has_value();
  };
  if (!handover_.claim(yields) || !storage::LogHandover::spin_until(try_lock, yields))
    return std::nullopt;
  handover_.taken();
  return held;
}

CommitGroup::Led CommitGroup::lead(const LogLock::Held &held, std::uint64_t stamp,
                                   std::uint64_t line, Errc *error) noexcept {
  const LogState &s = state();
  if (is_durable(stamp, line)) return Led::kDone;
  if (s.error.load(std::memory_order_acquire) != 0) return Led::kDone;  // flush() reports it
  if (await_company(held) == Led::kGivenAway) return Led::kGivenAway;
  *error = writer_.write_published(held);
  return Led::kDone;
}

CommitGroup::Crowd CommitGroup::crowd() const noexcept {
  const LogState &s = state();
  const std::uint64_t flushes = s.flushes.load(std::memory_order_relaxed);
  const std::uint64_t durable = s.durable_clock.load(std::memory_order_relaxed);
  const std::uint64_t durable_line = s.durable_line.load(std::memory_order_relaxed);
  const std::uint32_t cpu = storage::LogHandover::this_cpu();
  Crowd crowd;
  for (std::uint32_t i = 0; i < memory_.participants_high(); ++i) {
    const storage::Participant &other = memory_.participant(i);
    if (other.state.load(std::memory_order_relaxed) != 1) continue;
    crowd.line_threads += other.line_waiters.load(std::memory_order_relaxed);
    const bool waits = other.waits_for.load(std::memory_order_acquire) > durable ||
                       other.company.line_waits_for.load(std::memory_order_acquire) > durable_line;
    if (waits) ++crowd.waiting;
    const std::uint32_t its_cpu = other.waits_on_cpu.load(std::memory_order_relaxed);
    if (waits && its_cpu != storage::LogHandover::kAsleep) {
      ++crowd.awake;
      crowd.has_quicker = crowd.has_quicker || handover_.is_quicker(its_cpu, cpu);
    }
    if (waits ||
        flushes - other.company.last_flush.load(std::memory_order_relaxed) < kActiveFlushes)
      ++crowd.active;
  }
  return crowd;
}

// LIBTP's three thresholds (section 4.2), and a bound in time. Meanwhile a follower that runs
// where writes are quicker may take over.
CommitGroup::Led CommitGroup::await_company(const LogLock::Held &held) noexcept {
  TMH_ASSERT(held.is_valid());
  if (thresholds_.wait_us == 0) return Led::kDone;
  const std::uint64_t deadline =
      platform::monotonic_ns() + std::uint64_t{thresholds_.wait_us} * 1000;
  std::uint64_t completed = 0;
  bool is_offered = false;
  for (;;) {
    const Crowd present = crowd();
    if (present.active < thresholds_.active_min) break;
    const std::uint64_t now = platform::monotonic_ns();
    const bool is_complete =
        present.waiting * 100 >= present.active * thresholds_.waiting_percent ||
        room_.planned_end() - state().durable_lsn.load(std::memory_order_relaxed) >=
            thresholds_.bytes;
    if (is_complete && completed == 0) completed = now;
    const std::uint64_t until = !is_complete          ? deadline
                                : present.has_quicker ? std::min(completed + kClaimNs, deadline)
                                                      : completed;
    if (now >= until) break;
    if (!is_offered) {
      handover_.offer();
      is_offered = true;
    }
    if (is_offered && handover_.is_claimed()) break;
    // Those we wait for may need this core.
    if (!is_complete && present.active > cores_) sched_yield();
    for (int i = 0; i < 10; ++i) _mm_pause();
  }
  if (!is_offered || handover_.withdraw()) return Led::kDone;
  handover_.give();
  return Led::kGivenAway;
}

// Is there a core for this follower to spin on? In a crowd of processes the first ones may; which
// of a process's threads are awake is not known.
bool CommitGroup::may_spin(const Crowd &present) const noexcept {
  if (present.has_cores(cores_)) return true;
  return present.awake <= cores_ && self().line_waiters.load(std::memory_order_relaxed) <= 1;
}

// Sleeps until shortly before the write is expected to end, and spins until a while after that.
void CommitGroup::spin_to_end(std::uint32_t event, bool yields) noexcept {
  LogState &s = state();
  const platform::PreciseTimers precise;
  const std::uint64_t now = platform::monotonic_ns(),
                      typical = s.write_ns.load(std::memory_order_relaxed);
  std::uint64_t expected = s.write_began_ns.load(std::memory_order_relaxed) + typical;
  // The writer has not begun yet.
  if (expected < now || expected > now + typical) expected = now + typical;
  if (now + kNapNsMin + kAwakeAheadNs < expected)
    (void)sleep(event, static_cast<long>(expected - kAwakeAheadNs - now));
  const std::uint64_t deadline = std::max(now, expected) + kFollowSpinNs;
  while (s.event.load(std::memory_order_acquire) == event && platform::monotonic_ns() < deadline) {
    if (yields) sched_yield();
    _mm_pause();
  }
}

// Until the writer has finished, or is dead.
void CommitGroup::follow(std::uint32_t event) noexcept {
  LogState &s = state();
  const Crowd present = crowd();
  if (may_spin(present)) spin_to_end(event, present.active > cores_);
  if (s.event.load(std::memory_order_acquire) != event) return;
  self().waits_on_cpu.store(storage::LogHandover::kAsleep, std::memory_order_relaxed);
  const bool is_silent = sleep(event, kDeathCheckNs);
  self().waits_on_cpu.store(storage::LogHandover::this_cpu(), std::memory_order_relaxed);
  if (!is_silent) return;
  lock_.take().release();  // waits for a living writer, inherits from a dead one
}

// True: nothing was written for so long.
bool CommitGroup::sleep(std::uint32_t event, long timeout_ns) noexcept {
  TMH_ASSERT(timeout_ns > 0);
  LogState &s = state();
  s.sleepers.fetch_add(1, std::memory_order_seq_cst);
  step(Step::kGapLogFollow);
  const bool timed_out = s.event.load(std::memory_order_seq_cst) == event &&
                         platform::futex_wait(s.event, event, timeout_ns);
  s.sleepers.fetch_sub(1, std::memory_order_relaxed);
  return timed_out;
}

}  // namespace tmh::page
