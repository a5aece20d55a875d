// storage/log/log_handover.h -- which of those that wait for the redo log writes it: the one on
// the processor where writes are quickest.
// Why:       a device with one queue interrupts one processor. A writer that sleeps there for its
//            write is woken at once; elsewhere an idle processor has to be woken first (virtio-blk
//            on 2 processors here: 120 us against 190 for the same write).
// Shape:     one word in LogState. The writer, which holds LogState::lock and waits for company
//            anyway, offers the writing and says on which processor it runs; one for whom it would
//            be quicker claims it; the writer gives it and unlocks; the other locks and takes it.
//            Until then, or until no answer has come for kAnswerNs, the one who gave it keeps off
//            the lock, which it would get first. Each answer is a compare-and-swap of that word,
//            each wait for one is short and bounded.
// Invariant: hints only. The holder of the lock may write, whatever the word says; a death at any
//            step leaves a word that the next offer overwrites. No claimant is given the writing
//            that would not be quicker by an eighth, so it cannot go round.
// Contexts:  not in handlers.
#pragma once

#include <immintrin.h>
#include <sched.h>

#include <atomic>
#include <cstdint>

#include "platform/assert.h"
#include "platform/process.h"
#include "storage/log/log_state.h"
#include "storage/participants.h"

namespace tmh::storage {

class LogHandover {
 public:
  LogHandover(LogState *state, std::uint32_t slot) noexcept : state_(state), slot_(slot) {
    TMH_ASSERT(state != nullptr && slot < kParticipantsMax);
  }

  // Instead of a processor's number: the participant that waits sleeps until it is woken, and can
  // claim nothing.
  static constexpr std::uint32_t kAsleep = ~0u;
  static_assert(kAsleep >= kLogCpus, "no processor has this number");
  // Of the processor that this thread runs on; a hint like everything here.
  [[nodiscard]] static std::uint32_t this_cpu() noexcept;
  // How long a write from there takes, 0: not known.
  [[nodiscard]] std::uint64_t expected_ns(std::uint32_t cpu) const noexcept;
  // REQUIRES the lock. `began_on`: where this thread ran when the write began.
  void note_write(std::uint32_t began_on, std::uint64_t took_ns) noexcept;
  [[nodiscard]] bool is_quicker(std::uint32_t cpu, std::uint32_t than) const noexcept;

  // The writer's side. REQUIRES the lock for offer() to give().
  void offer() noexcept;
  [[nodiscard]] bool is_claimed() const noexcept;
  // False: it has been claimed, so give() it.
  [[nodiscard]] bool withdraw() noexcept;
  void give() noexcept;
  // Without the lock: returns when it was taken, or when it has not been for so long that this
  // thread may take the lock again. yields: this one and as claim()'s, there are fewer processors
  // than may want one, and the claimant that is to answer may need this one.
  void await_taken(bool yields) noexcept;

  // The others' side: true when it was given to this thread, which locks now.
  [[nodiscard]] bool claim(bool yields) noexcept;
  // REQUIRES the lock, claimed before.
  void taken() noexcept;

  // False: not for kAnswerNs.
  template <class Stop>
  [[nodiscard]] static bool spin_until(const Stop &stop, bool yields) noexcept {
    const std::uint64_t deadline = platform::monotonic_ns() + kAnswerNs;
    while (!stop()) {
      if (platform::monotonic_ns() > deadline) return false;
      if (yields) sched_yield();
      _mm_pause();
    }
    return true;
  }

 private:
  // The claimant that is to answer spins; a longer silence says that it lost its processor, or is
  // dead.
  static constexpr std::uint64_t kAnswerNs = 20'000;

  LogState *state_;
  std::uint32_t slot_;
};

}  // namespace tmh::storage
