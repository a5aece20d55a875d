// levels/process/control.h -- what all tasks of a program share beside its memory: the clock,
// the log, the state of each page, which tasks run since when.
// Shape:     one mapping of a memfd, at the same address in every task, never versioned.
// Invariant: (1) a page's `newest` names its newest entry of the log; home has that entry's
//            content, unless the busy bit says that a committer is changing it.
//            (2) while a bit of `holders` is set, that slot's task may store plainly to the page.
//            (3) a task inside has its pin in its slot; entries newer than the least pin stay,
//            or `trimmed` says that they are gone.
//            (4) while a task is alone, no other is inside.
// Ordering:  a toucher sets the touched bit, reads holders, then copies; a holder sets its bit,
//            then reads the touched bit (seq_cst, all): one of them sees the other.
// Source:    EXCITE-VM, sections 3 and 4 (snapshots from a log, copy-on-read).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "levels/process/ground/ground.h"
#include "platform/shared_lock.h"

namespace tmh::itm::pages {

inline constexpr std::uint64_t kOutside = ~0ull;

enum class Count : std::uint32_t {
  kBegins,
  kCommits,
  kReadOnly,
  kConflicts,     // another committed to the same words, or, serializable, to a page read
  kTooOld,        // the log has forgotten what the snapshot needs
  kPlain,         // plain stores of others made the snapshot of a page uncertain
  kUser,          // restarted or cancelled by the program
  kAlone,         // begun alone
  kCopies,        // pages copied for transactions
  kFirstStores,   // traps of first stores
  kPlainTouches,  // traps of plain accesses
  kImages,        // pages logged because plain code is going to store to them
  kRecalls,       // signals that asked for a page
  kDropped,       // copies dropped
  kDeaths,        // threads that died alone
  kOwned,         // pages that became a task's own
  kTurns,         // changes of mappings at begins and ends: without protection keys
  kCount_,
};
inline constexpr std::uint32_t kCounts = static_cast<std::uint32_t>(Count::kCount_);

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

struct alignas(64) Slot {
  std::atomic<std::uint64_t> pin;
  std::atomic<std::uint64_t> last_commit;  // stamp of the last commit of its task
  std::atomic<std::uint32_t> is_wanted;    // a page that it holds was touched
  // A transaction of another task has touched this task's stack: its own transactions run alone.
  std::atomic<std::uint32_t> is_stack_shared;
  alignas(64) std::atomic<std::uint32_t> is_used;
  std::atomic<std::int32_t> pid;  // 0: none yet; -1: its task is dead
  std::uint64_t start_time, stack_start;
  // Its userfaultfd, and 1; all tasks share descriptors. Between tasks another file, which keeps
  // the number free for the next one, however many files the program opens.
  std::atomic<std::int32_t> faults_file;
  std::atomic<std::uint64_t> incarnation;
  alignas(64) std::atomic<std::uint64_t> counts[kCounts];
};
// What each task stores at its begins and ends lies on a line of its own.
static_assert(offsetof(Slot, is_used) == 64 && offsetof(Slot, counts) == 128);

// A bit for each slot.
struct Slots {
  static constexpr std::uint32_t kWords = kTasksMax / 64;
  std::atomic<std::uint64_t> words[kWords];

  void add(std::uint32_t slot) noexcept {
    TMH_ASSERT(slot < kTasksMax);
    words[slot / 64].fetch_or(1ull << slot % 64, std::memory_order_seq_cst);
  }
  void remove(std::uint32_t slot) noexcept {
    TMH_ASSERT(slot < kTasksMax);
    words[slot / 64].fetch_and(~(1ull << slot % 64), std::memory_order_seq_cst);
  }
  [[nodiscard]] bool has(std::uint32_t slot) const noexcept {
    TMH_ASSERT(slot < kTasksMax);
    return (words[slot / 64].load(std::memory_order_relaxed) >> slot % 64 & 1) != 0;
  }
  // Is there any but `slot`?
  [[nodiscard]] bool has_others(std::uint32_t slot) const noexcept {
    std::uint64_t all = 0;
    for (std::uint32_t i = 0; i < kWords; ++i)
      all |= words[i].load(std::memory_order_seq_cst) & ~(i == slot / 64 ? 1ull << slot % 64 : 0);
    return all != 0;
  }
  template <class Visit>
  void for_each_other(std::uint32_t slot, Visit visit) const {
    for (std::uint32_t i = 0; i < kWords; ++i)
      for (std::uint64_t left = words[i].load(std::memory_order_seq_cst); left != 0;
           left &= left - 1)
        if (const auto each = static_cast<std::uint32_t>(
                i * 64 + static_cast<std::uint32_t>(__builtin_ctzll(left)));
            each != slot)
          visit(each);
  }
};

struct PageState {
  std::atomic<std::uint64_t> newest;    // position of an entry, and the bits below
  Slots holders;                        // tasks that may store plainly
  Slots sharers;                        // tasks that have home mapped: these, and plain readers
  std::atomic<std::uint64_t> released;  // the clock when a holder last let go of it
  std::atomic<std::uint32_t> wanted;    // its owner is to give it away
  std::atomic<std::uint32_t> owners;    // that it has had
};
static_assert(sizeof(PageState) == 56);
inline constexpr std::uint64_t kBusy = 1, kTouched = 2, kHasOwner = 4, kBits = 7;
static_assert((kBusy | kTouched | kHasOwner) == kBits);

struct Control {
  alignas(64) std::atomic<std::uint64_t> clock;  // newest stamp
  std::atomic<std::uint64_t> committed;          // newest stamp of a transaction
  std::atomic<std::uint64_t> head;               // position behind the newest entry
  alignas(64) platform::SharedLock lock;         // of commits and of the log
  // What the holder of the lock is publishing; stamp 0: nothing.
  std::uint64_t publishing, publishing_begin, publishing_end;
  alignas(64) std::atomic<std::uint64_t> tail;   // position of the oldest entry
  std::atomic<std::uint64_t> trimmed;            // newest stamp that has left the log
  alignas(64) std::atomic<std::uint32_t> alone;  // slot + 1
  std::atomic<std::uint32_t> high;               // slots ever used
  std::atomic<std::uint32_t> data_pages;         // of home, used by static data
  Slot slots[kTasksMax];
};

inline Control *control = nullptr;
inline PageState *page_states = nullptr;
// Of this task.
inline std::uint32_t self_slot = 0;
// The engine runs; before that, memory is the C library's.
inline bool has_started = false;
// From its first transaction or thread on, memory is mapped as the engine wants it.
inline bool has_view = false;
// It runs a transaction that can be undone.
inline bool is_running_inside = false;
// Its thread; main has another one, which has no view (compat/libitm/tasks/undertaker.h).
inline void *own_thread = nullptr;

[[nodiscard]] inline Slot &self() noexcept { return control->slots[self_slot]; }
inline void count(Count which, std::uint64_t n = 1) noexcept {
  TMH_ASSERT(which < Count::kCount_);
  std::atomic<std::uint64_t> &each = self().counts[static_cast<std::uint32_t>(which)];
  // relaxed: this task's
  each.store(each.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
}

// Never lowers it.
inline void raise(std::atomic<std::uint64_t> *value, std::uint64_t to) noexcept {
  std::uint64_t seen = value->load(std::memory_order_relaxed);
  while (seen < to && !value->compare_exchange_weak(seen, to, std::memory_order_seq_cst)) {
  }
}

// The slot's task, which has stored plainly to the page before `now`, has it mapped no more.
inline void let_go(PageState *state, std::uint32_t slot, std::uint64_t now) noexcept {
  // In this order: a reader that finds no holder finds when the last one let go.
  raise(&state->released, now);
  state->holders.remove(slot);
  state->sharers.remove(slot);
}

// Is the slot's task alive? A slot whose task is being created counts as alive.
[[nodiscard]] bool is_alive(std::uint32_t slot) noexcept;
// Least pin of all tasks inside; kOutside: no task is.
[[nodiscard]] std::uint64_t least_pin() noexcept;

// In the current process: makes the shared memory. False: there is none.
[[nodiscard]] bool make_control() noexcept;
// Says which process runs in the slot: this one.
void name_self(std::uint32_t slot) noexcept;

}  // namespace tmh::itm::pages
