// levels/page/shared/log_lock.h -- the lock of the redo log's writer, and the proof that a thread
// holds it.
// Shape:     a function that needs the lock takes `const LogLock::Held &`.
// Ordering:  the domain lock may be taken inside, never the other way round.
// Sharing:   between processes. A dead holder's lock is inherited, and needs no repair: the last
//            point that it has stored counts, and its records are encoded again.
// Contexts:  not in handlers.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>

#include "levels/page/shared/shared_state.h"
#include "platform/assert.h"
#include "platform/futex.h"
#include "storage/log/log_state.h"

namespace tmh::page {

class LogLock {
 public:
  class [[nodiscard]] Held {
   public:
    Held(Held &&other) noexcept
        : state_(std::exchange(other.state_, nullptr)),
          is_alone_(std::exchange(other.is_alone_, false)) {}
    Held(const Held &) = delete;
    Held &operator=(const Held &) = delete;
    Held &operator=(Held &&) = delete;
    ~Held() {
      if (state_ != nullptr) release();
    }

    // Gives the lock back early, and wakes those that wait for what was written. This object proves
    // nothing afterwards.
    void release() noexcept {
      is_alone_ = false;
      if (state_ != nullptr) give_back(*std::exchange(state_, nullptr));
    }
    // The same where nothing was written: that is no event.
    void give_away() noexcept {
      TMH_ASSERT(state_ != nullptr);
      std::exchange(state_, nullptr)->lock.unlock();
    }
    // For asserts: has nothing released or moved it yet?
    [[nodiscard]] bool is_valid() const noexcept { return state_ != nullptr || is_alone_; }

   private:
    friend class LogLock;
    Held(storage::LogState *state, bool is_alone) noexcept : state_(state), is_alone_(is_alone) {}

    // seq_cst with CommitGroup::follow(): either the follower finds the event changed, or this
    // thread finds it among the sleepers.
    static void give_back(storage::LogState &state) noexcept {
      state.lock.unlock();
      state.event.fetch_add(1, std::memory_order_seq_cst);
      if (state.sleepers.load(std::memory_order_seq_cst) != 0) platform::futex_wake(state.event);
    }

    // Null: nothing to give back.
    storage::LogState *state_;
    bool is_alone_;
  };

  // memory outlives it. REQUIRES its log state when the lock is taken.
  LogLock(SharedState &memory, platform::LockTag tag) noexcept : memory_(memory), tag_(tag) {}
  LogLock(const LogLock &) = delete;
  LogLock &operator=(const LogLock &) = delete;

  // Also from the dead.
  Held take() noexcept {
    (void)state().lock.lock(tag_, SharedState::holder_alive, &memory_);
    return {&state(), false};
  }
  // Empty: another participant has it, or has died with it.
  [[nodiscard]] std::optional<Held> try_take() noexcept {
    if (!state().lock.try_lock(tag_)) return std::nullopt;
    return Held{&state(), false};
  }
  // REQUIRES: no other participant is attached, so that no other process can hold the lock.
  [[nodiscard]] static Held alone() noexcept { return {nullptr, true}; }

 private:
  [[nodiscard]] storage::LogState &state() const noexcept { return *memory_.log_state(); }

  SharedState &memory_;
  const platform::LockTag tag_;
};

}  // namespace tmh::page
