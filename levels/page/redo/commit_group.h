// levels/page/redo/commit_group.h -- group commit: of the participants that need durability, one
// writes the log for all.
// Shape:     a participant that needs durability and finds no writer becomes the leader: it waits
//            for company, writes all that is published, and tells the others. These follow: they
//            sleep or spin until the leader has finished, or is dead. A leader may hand the writing
//            over to one that runs where writes are quicker (LogHandover).
// Invariant: a commit t is acknowledged only when durable_clock >= t (docs/design.md D1).
// Sharing:   used by the instance's thread, the housekeeper and every thread that waits for a
//            commit of the participant; LogState::lock is the leader's.
// Contexts:  not in handlers.
// Source:    LIBTP, sections 3.1.1 and 4.2 (group commit).
#pragma once

#include <cstdint>
#include <optional>

#include <tmh/options.hpp>

#include "levels/page/redo/log_room.h"
#include "levels/page/redo/redo_writer.h"
#include "levels/page/shared/shared.h"
#include "storage/log/log_handover.h"
#include "storage/log/log_state.h"

namespace tmh::page {

class CommitGroup {
 public:
  // memory, room and writer outlive it.
  CommitGroup(SharedFiles &memory, std::uint32_t slot, platform::LockTag tag,
              const GroupCommit &thresholds, const LogRoom &room, RedoWriter &writer) noexcept;

  // The calling thread has published a commit and will wait() for it: from here on the group need
  // not be held up for it.
  void announce(std::uint64_t stamp) noexcept {
    self().waits_on_cpu.store(storage::LogHandover::this_cpu(), std::memory_order_relaxed);
    self().waits_for.store(stamp, std::memory_order_release);
  }
  // Returns when every commit up to `stamp`, and of the level below up to `line`, is durable.
  // kLogFailed or the error of the write; kFileReplaced: what is acknowledged now may not be found
  // again.
  [[nodiscard]] Errc wait(std::uint64_t stamp, std::uint64_t line = 0) noexcept;
  // The same for callers that are not to be waited for by group commits: the housekeeper.
  [[nodiscard]] Errc flush(std::uint64_t stamp, std::uint64_t line = 0) noexcept;
  // The same for a thread of the level below.
  [[nodiscard]] Errc wait_lower(std::uint64_t line) noexcept;
  // kLogFailed: a write has failed, and no instance commits until recovery.
  [[nodiscard]] Errc check_writable() const noexcept;

  // The writer's lock.
  [[nodiscard]] LogLock &lock() noexcept { return lock_; }

 private:
  [[nodiscard]] bool is_durable(std::uint64_t stamp, std::uint64_t line) const noexcept {
    const storage::LogState &s = state();
    return s.durable_clock.load(std::memory_order_acquire) >= stamp &&
           (line == 0 || s.durable_line.load(std::memory_order_acquire) >= line);
  }
  enum class Led : std::uint8_t { kDone, kGivenAway };
  [[nodiscard]] Errc make_durable(std::uint64_t stamp, std::uint64_t line) noexcept;
  [[nodiscard]] Led lead(const LogLock::Held &held, std::uint64_t stamp, std::uint64_t line,
                         Errc *error) noexcept;
  [[nodiscard]] Led await_company(const LogLock::Held &held) noexcept;
  // Empty: another participant leads.
  [[nodiscard]] std::optional<LogLock::Held> become_leader() noexcept;
  [[nodiscard]] std::optional<LogLock::Held> take_over() noexcept;
  void follow(std::uint32_t event) noexcept;
  void spin_to_end(std::uint32_t event, bool yields) noexcept;
  [[nodiscard]] bool sleep(std::uint32_t event, long timeout_ns) noexcept;
  struct Crowd {
    std::uint32_t active = 0, waiting = 0;
    // Of those that wait, the asker included.
    std::uint32_t awake = 0;
    // That wait at the level below; those of a dead participant until it is reaped.
    std::uint32_t line_threads = 0;
    // One of those who wait is awake, where writes are quicker.
    bool has_quicker = false;
    // Those who wait spin: a process with threads at the level below counts once among the active.
    [[nodiscard]] bool has_cores(unsigned cores) const noexcept {
      return active <= cores && line_threads <= cores;
    }
  };
  [[nodiscard]] Crowd crowd() const noexcept;
  [[nodiscard]] bool is_crowded() const noexcept { return crowd().active > cores_; }
  [[nodiscard]] bool may_spin(const Crowd &present) const noexcept;
  [[nodiscard]] storage::LogState &state() const noexcept { return *memory_.log_state(); }
  [[nodiscard]] storage::Participant &self() const noexcept { return memory_.participant(slot_); }

  SharedFiles &memory_;
  const std::uint32_t slot_;
  LogLock lock_;
  const GroupCommit thresholds_;
  const unsigned cores_;
  storage::LogHandover handover_;
  const LogRoom &room_;
  RedoWriter &writer_;
};

}  // namespace tmh::page
