// compat/libitm/gate.h -- which threads are in a transaction, since when; and how one thread gets
// the process for itself.
// Shape:     a slot for each thread that can run transactions. One word of it says "outside", or
//            the snapshot of the thread's transaction. It serves two that wait: a thread that wants
//            to be alone until all others are outside, and a committer until no running transaction
//            reads at a snapshot before its stamp.
// Invariant: (1) while a thread is alone, every other one is outside, and waits at its begin.
//            (2) what a commit has made private, or unreachable, no transaction reads or stores to
//            any more when wait_for_readers() has returned: a transaction that had read the way
//            there before the commit has ended, with its stores undone, or moved its snapshot on
//            and found that it must abort; one that begins later finds the way changed. The same
//            holds for a transaction that has read what such a commit has stored, behind
//            wait_for_older().
// Ordering:  begin: the slot (seq_cst exchange), then the word that names the lone thread; alone:
//            its word (seq_cst), then all slots. One of the two sees the other. A lone thread is
//            named by `alone_` or `displaced_` at any time, so its end finds itself in one.
// Contexts:  NOT async-signal-safe: waits.
// Source:    TL2 (a commit that makes memory private waits for readers).
#pragma once

#include <atomic>
#include <cstdint>

#include "levels/line/layout.h"
#include "platform/assert.h"

namespace tmh::itm {

class Gate {
 public:
  static constexpr std::uint64_t kOutside = ~0ull;

  struct alignas(64) Slot {
    std::atomic<std::uint64_t> snapshot{kOutside};
    std::atomic<bool> is_used{false};
    void *owner = nullptr;  // the used slot's to set; stays for the next user
    // Of the slot's user, or the last one: line::ask_to_move_on().
    std::atomic<std::uint64_t *> window_bytes{nullptr};
  };
  static_assert(sizeof(Slot) == kLineBytes);  // one for each line
  static_assert(std::atomic<const void *>::is_always_lock_free);

  // A slot for the calling thread; null: all are taken.
  [[nodiscard]] Slot *take_slot() noexcept;
  static void give_back(Slot &slot) noexcept;

  // A transaction begins, which reads at no earlier snapshot. Waits while another thread is alone.
  void enter(Slot &slot, const std::atomic<std::uint64_t> &clock) noexcept {
    while (!try_enter(slot, clock)) wait_until_nobody_is_alone();
  }
  // False: another thread is alone.
  [[nodiscard]] bool try_enter(Slot &slot, const std::atomic<std::uint64_t> &clock) noexcept {
    // relaxed: an older value only makes others wait longer
    slot.snapshot.exchange(clock.load(std::memory_order_relaxed), std::memory_order_seq_cst);
    if (alone_.load(std::memory_order_seq_cst) == nullptr) [[likely]]
      return true;
    leave(slot);
    return false;
  }
  // release, both: what the transaction did is seen by who finds the thread outside, or further on.
  static void leave(Slot &slot) noexcept {
    slot.snapshot.store(kOutside, std::memory_order_release);
  }
  static void move_on(Slot &slot, std::uint64_t snapshot) noexcept {
    TMH_ASSERT(snapshot != kOutside);
    slot.snapshot.store(snapshot, std::memory_order_release);
  }
  // REQUIRES: the thread is outside.
  void wait_for_readers(const Slot *own, std::uint64_t stamp) noexcept {
    TMH_ASSERT(stamp != kOutside);
    const std::uint32_t high = high_.load(std::memory_order_acquire);
    for (std::uint32_t i = 0; i < high; ++i)
      if (&slots_[i] != own && slots_[i].snapshot.load(std::memory_order_acquire) < stamp)
          [[unlikely]]
        wait_for(slots_[i], stamp);
  }

  // The same for a transaction that has only read, at `snapshot`: what it has learned to be private
  // was made so by a commit that may still wait. REQUIRES: the thread is outside.
  void wait_for_older(const Slot *own, std::uint64_t snapshot) noexcept {
    // acquire: pairs with the release below
    if (none_before_.load(std::memory_order_acquire) >= snapshot) [[likely]]
      return;
    wait_for_readers(own, snapshot);
    // release: what those did that have ended. Smaller than before it is right, too.
    none_before_.store(snapshot, std::memory_order_release);
  }

  // The calling thread, whose slot says "outside", is alone from now on. own: null where it has
  // none; its address, or that of another object of the thread's, names it.
  void be_alone(const void *owner) noexcept;
  // The same for a thread in a transaction, whose slot stays as it is: committers wait for what it
  // has stored. False: another one is, or comes first.
  [[nodiscard]] bool try_be_alone(const void *owner, Slot *own) noexcept;
  void end_alone(const void *owner) noexcept;
  // What the lone thread has stored and is going to store stays, until its end_alone().
  void note_irrevocable(const void *owner) noexcept {
    irrevocable_.store(owner, std::memory_order_seq_cst);
  }
  // For a fork, whose child has none of the other threads: as be_alone() and end_alone(), but an
  // irrevocable transaction is not waited for: it may wait for the forking thread, or for the
  // child. It goes on meanwhile, and nobody else is inside, or comes.
  void hold(const void *owner) noexcept;
  void let_go(const void *owner) noexcept;
  [[nodiscard]] bool is_alone(const void *owner) const noexcept {
    return alone_.load(std::memory_order_relaxed) == owner;  // only the owner stores its own
  }
  // Method rtm. Software transactions, running or about to: while there are any, one in hardware
  // runs the code with barriers.
  void enter_software() noexcept { software_.fetch_add(1, std::memory_order_seq_cst); }
  void leave_software() noexcept { software_.fetch_sub(1, std::memory_order_release); }
  [[nodiscard]] bool has_software() const noexcept {
    return software_.load(std::memory_order_relaxed) != 0;
  }
  [[nodiscard]] bool is_anyone_alone() const noexcept {
    return alone_.load(std::memory_order_relaxed) != nullptr;
  }
  void wait_until_nobody_is_alone() noexcept;
  // In the child of a fork: only the calling thread is left. own: may be null. lone: the thread, if
  // it is alone, whatever another fork has made of its name; else null.
  void forget_others(const Slot *own, const void *lone) noexcept;

 private:
  static void wait_for(const Slot &slot, std::uint64_t stamp) noexcept;
  void wait_for_all(const Slot *own) noexcept;

  alignas(64) std::atomic<const void *> alone_{nullptr};
  std::atomic<const void *> irrevocable_{nullptr};  // of who is alone
  std::atomic<const void *> displaced_{nullptr};    // alone, and irrevocable, beside who holds
  // Each transaction at a snapshot before this one has ended, or moved on.
  alignas(64) std::atomic<std::uint64_t> none_before_{0};
  alignas(64) std::atomic<std::uint32_t> software_{0};
  alignas(64) std::atomic<std::uint32_t> high_{0};  // slots ever used
  Slot slots_[line::kContextsMax];
};

}  // namespace tmh::itm
