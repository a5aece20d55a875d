// levels/page/shared/domain_lock.h -- the domain's lock, and the proof that the calling thread
// holds it.
// Shape:     DomainState::lock, taken with the tag of one participant. Held is the proof: it gives
//            the lock back when it ends. Functions that need the lock take a `const Held &`.
// Invariant: a Held comes from take(), or from alone() where no other participant is attached.
// Sharing:   between processes. One DomainLock per participant and kind of heir; any thread of the
//            process may take it. Owner death: the next holder inherits the lock, and its heir
//            mends what the dead one left before take() returns.
// Contexts:  async-signal-safe, provided that the interrupted code of this thread does not hold the
//            lock.
#pragma once

#include <cstdint>
#include <utility>

#include "levels/page/shared/layout.h"
#include "platform/assert.h"
#include "platform/shared_lock.h"

namespace tmh::page {

class SharedState;

class DomainLock {
 public:
  // kHandler: in the fault handler, or where another thread of the process may run an instance. No
  // file is opened there.
  enum class Context : std::uint8_t { kNormal, kHandler };

  class [[nodiscard]] Held {
   public:
    Held(Held &&other) noexcept
        : state_(std::exchange(other.state_, nullptr)), clock_(std::exchange(other.clock_, 0)) {}
    Held(const Held &) = delete;
    Held &operator=(const Held &) = delete;
    Held &operator=(Held &&) = delete;
    ~Held() {
      if (state_ != nullptr) release();
    }

    // Gives the lock back early, and wakes the threads that sleep until the clock moves, when it
    // has. This object proves nothing afterwards.
    void release() noexcept {
      const std::uint64_t clock = std::exchange(clock_, 0);
      if (state_ != nullptr) give_back(*std::exchange(state_, nullptr), clock);
    }
    // For asserts: has nothing released or moved it yet?
    [[nodiscard]] bool is_valid() const noexcept { return state_ != nullptr || clock_ == kAlone; }

   private:
    friend class DomainLock;
    // No clock gets there: it counts commits.
    static constexpr std::uint64_t kAlone = ~1ull;
    static constexpr std::uint64_t kMoved = ~0ull;

    Held(DomainState *state, std::uint64_t clock) noexcept : state_(state), clock_(clock) {}
    static void give_back(DomainState &state, std::uint64_t clock) noexcept {
      const bool has_moved = state.clock.load(std::memory_order_relaxed) != clock;
      state.lock.unlock();
      if (has_moved) state.changed.notify();
    }

    // Null: nothing to give back.
    DomainState *state_;
    // The clock when the lock was taken.
    std::uint64_t clock_;
  };

  // Mends what a dead holder left half done.
  class Heir {
   public:
    virtual ~Heir() = default;
    // kInherited: the last holder died with the lock. kClean: an earlier heir left something
    // (DomainState::repair_again), because it did not know a segment.
    virtual void mend(const Held &held, Context context, platform::Locked how) noexcept = 0;
  };

  // memory and heir outlive it.
  DomainLock(SharedState &memory, platform::LockTag tag, Heir &heir) noexcept
      : memory_(memory), tag_(tag), heir_(heir) {}
  DomainLock(const DomainLock &) = delete;
  DomainLock &operator=(const DomainLock &) = delete;

  Held take(Context context = Context::kNormal) noexcept;
  // REQUIRES: no other participant is attached, so that no other process can hold the lock.
  [[nodiscard]] static Held alone() noexcept { return {nullptr, Held::kAlone}; }

 private:
  SharedState &memory_;
  const platform::LockTag tag_;
  Heir &heir_;
};

}  // namespace tmh::page
