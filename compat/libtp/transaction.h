// compat/libtp/transaction.h -- one transaction: its locker, its chain, its steps.
// Shape:     begin, then steps, each an instance of its own with its undo records; then commit,
//            which is one store (the chain is empty), or abort, which undoes the records one by
//            one. Locks go behind the commit point and before the log, so that others go on while
//            the disk works; what they then read and commit is acknowledged behind us, since
//            records become durable in the order of commits (docs/design.md D1).
// Invariant: (1) an update and its undo record are stored by one instance. (2) an undo and the end
//            of its record are, too: a record is undone once, whoever dies when. (3) the chain is
//            changed by the owner of the locker alone.
// Sharing:   one thread at a time.
// Contexts:  NOT async-signal-safe. Throws tmh::Error.
// Source:    LIBTP 3.2.5, 4.1.
#pragma once

#include <tp.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <tmh/site.hpp>

#include "compat/libtp/chain.h"
#include "compat/libtp/managers.h"
#include "compat/libtp/waiting_changes.h"
#include "levels/lock/lock.h"

// The running step of a transaction: C's name of a Transaction.
struct tp_step_s {};

namespace tmh::tp {

// A step's body has refused.
struct Refused {
  int why;
};

// A locker and a head of a chain, of one transaction after the other.
struct Slot {
  lock::LockerId locker{};
  BlockIndex head{};
};

class Transaction final : public tp_step_s {
 public:
  // managers outlive it. The slot's locker is the caller's, by that name.
  Transaction(Managers &managers, const Slot &slot, std::uint64_t id) noexcept;
  Transaction(const Transaction &) = delete;
  Transaction &operator=(const Transaction &) = delete;

  [[nodiscard]] const Slot &slot() const noexcept { return slot_; }
  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
  [[nodiscard]] tp_state state() const noexcept { return state_; }
  [[nodiscard]] int error() const noexcept { return error_; }
  void note_error(int error) noexcept { error_ = error; }
  [[nodiscard]] std::uint64_t last_lsn() const noexcept { return chain_.last_lsn(); }
  [[nodiscard]] bool is_in_step() const noexcept { return is_in_step_; }
  // It has committed, and its records are the log's.
  [[nodiscard]] bool is_kept() const noexcept { return is_kept_; }

  struct Body {
    tp_body_fn run;
    void *argument;
  };
  // site: null: the environment's. Throws Refused.
  // kYes: and commits in it.
  enum class Commits : std::uint8_t { kNo, kYes };
  void step(unsigned flags, const Site *site, const Body &body, Commits commits);
  void commit();
  // Throws Error(kBadArgument): a record's type is not known here; Refused: its undo refuses. Then
  // the rest is as it was.
  void abort();
  // The same, and it keeps its locks. How many records there were.
  std::uint64_t undo_all();
  // Records behind that LSN.
  void roll_back(std::uint64_t to_lsn);

  // REQUIRES of the adder: the transaction runs.
  [[nodiscard]] WaitingChanges &waiting() noexcept { return waiting_; }

  // In a step.
  std::uint64_t log(RecordType type, std::span<const std::byte> data);
  std::uint64_t log_bytes(const void *address, std::size_t bytes);

  // A page is pinned; the first one begins the step. In the thread that begins it.
  void pin(const void *page);
  // The last one ends it. Throws Error(kNotLocked): its stores met another's. Error(kBadArgument):
  // it is not pinned.
  void unpin(const void *page);

  [[nodiscard]] Errc lock(const lock::ObjectId &object, lock::Mode mode, lock::Patience patience);
  [[nodiscard]] Errc trade(const lock::ObjectId &object, lock::Mode from, lock::Mode to,
                           lock::Patience patience);
  [[nodiscard]] Errc unlock(const lock::ObjectId &object, lock::Mode mode);

  // Before it is detached: the chain says which locks there are, and whether it can only abort.
  void leave();
  // Of a chain that another one has begun.
  void inherit();
  // The record of that LSN; empty: none of this transaction.
  [[nodiscard]] std::optional<Record> find(std::uint64_t lsn) const;
  [[nodiscard]] bool is_known() const;
  [[nodiscard]] std::vector<NotedLock> noted_locks() const;

 private:
  void check_running() const;
  void run(unsigned flags, const Site *site, const Body &body, bool commits);
  template <class Attempt>
  void run_instance(unsigned flags, const Site *site, const Attempt &attempt);
  void undo_last();
  [[nodiscard]] Undo undo_of(const Record &record) const;
  // In the running instance.
  void run_undo(const Undo &undo, const Record &record);
  void begin_pinned();
  void end_pinned();
  // What is stored so far is a step of its own while `wait` runs; then the step begins anew, and
  // sees the newest state.
  template <class Wait>
  [[nodiscard]] Errc between_steps(const Wait &wait);
  [[nodiscard]] std::uint64_t append(RecordType type, std::span<const std::byte> first,
                                     std::span<const std::byte> second, bool is_elsewhere);
  void add(RecordType type, std::uint64_t lsn, std::span<const std::byte> first,
           std::span<const std::byte> second);
  [[nodiscard]] lock::Patience patience_here(lock::Patience wanted) const noexcept;
  // kCommittedBefore: and was told that the log could not be awaited.
  enum class Ending : std::uint8_t { kCommitted, kCommittedBefore, kAborted };
  void end(Ending how);
  // In the instance that commits.
  void end_chain();

  Managers &managers_;
  const Slot slot_;
  const std::uint64_t id_;
  Chain chain_;
  tp_state state_ = TP_RUNNING;
  int error_ = 0;
  bool is_in_step_ = false;
  // The last step: no undo records.
  bool commits_ = false;
  // A record tells of what lies outside of segments.
  bool is_elsewhere_ = false;
  bool is_kept_ = false;
  std::vector<const void *> pinned_;  // in their order; one may be pinned twice
  // It has stored what another one has stored to: it can only abort.
  bool has_lost_ = false;
  // The step's instance has noted the locks.
  bool has_noted_ = false;
  WaitingChanges waiting_;
  // Taken for writing, and in no record yet.
  std::vector<NotedLock> unnoted_;
};

// A step stores what waits.
void store_waiting(Transaction *transaction);

// Does the calling thread run a step, or another instance?
[[nodiscard]] bool is_step_here() noexcept;

}  // namespace tmh::tp
