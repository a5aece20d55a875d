// levels/line/layout.h -- every structure that level 1 keeps in shared memory. All of it is
// rebuildable: after a reboot, or when the last participant has gone, the files are made anew.
// Shape:     tmh.line.state (one LineStateV1), tmh.lines.N (one word per 64-byte line of segment N,
//            sparse), tmh.contexts (one LineContextV1 per thread, sparse). Everything names memory
//            by (segment, offset), never by an address.
// Invariant: a locked word names a context that is between line-lock and line-unlock, or whose
//            owner has died there; `writes[0 .. lines)` of that context then lists the line, with
//            the word that it had before (hierarchy/exchange/PROTOCOL.md, "Level 1").
// Sharing:   LineStateV1: each word on a cache line of its own, except what is written rarely. A
//            context is written by its thread; others only move its status from PENDING to FAILED.
//            Owner death: levels/line/recovery.h.
// Source:    hierarchy/exchange/PROTOCOL.md; docs/design.md 5 and 8.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <tmh/instance.hpp>
#include <tmh/options.hpp>

#include <tmh/detail/line_access.hpp>

#include "observe/counting.h"
#include "platform/event_count.h"
#include "storage/page_id.h"

namespace tmh::line {

using LineWord = detail::LineWord;

inline constexpr std::uint64_t kLineStateMagic = 0x3130'454e'4c48'4d54ull;  // "TMHLNE01"
// Changes with every change of what is in these files.
inline constexpr std::uint32_t kLineStateVersion = 12;

// A line word: unlocked(version), or one of these two bits. So `word <= rv` says unlocked, not U
// and not newer than rv.
// context number in the lower 32 bits, number of the line's entry in that context's writes above
inline constexpr std::uint64_t kLocked = 1ull << 63;
// U: level 2 owns the line; the version stays below
inline constexpr std::uint64_t kUpper = 1ull << 62;
inline constexpr std::uint64_t kVersionMask = kUpper - 1;
[[nodiscard]] constexpr bool is_locked(std::uint64_t word) noexcept {
  return (word & kLocked) != 0;
}
[[nodiscard]] constexpr bool is_upper(std::uint64_t word) noexcept {
  return (word & (kLocked | kUpper)) == kUpper;
}
[[nodiscard]] constexpr bool is_free(std::uint64_t word) noexcept {  // neither of them
  return word <= kVersionMask;
}
[[nodiscard]] constexpr std::uint64_t locked_by(std::uint32_t context,
                                                std::uint32_t entry) noexcept {
  return kLocked | std::uint64_t{entry} << 32 | context;
}
[[nodiscard]] constexpr std::uint32_t context_of(std::uint64_t word) noexcept {
  return static_cast<std::uint32_t>(word);
}
// REQUIRES: is_locked(word). Bytes of shared memory are not believed.
[[nodiscard]] constexpr std::uint32_t entry_of(std::uint64_t word) noexcept {
  return static_cast<std::uint32_t>((word & kVersionMask) >> 32);
}

// Where something lies: segment number in the upper 16 bits, byte offset below.
enum class Where : std::uint64_t {};
[[nodiscard]] constexpr Where where(std::uint32_t segment, std::uint64_t offset_bytes) noexcept {
  return Where{(std::uint64_t{segment} << 48) | offset_bytes};
}
[[nodiscard]] constexpr std::uint32_t segment_of(Where at) noexcept {
  return static_cast<std::uint32_t>(static_cast<std::uint64_t>(at) >> 48);
}
[[nodiscard]] constexpr std::uint64_t offset_of(Where at) noexcept {
  return static_cast<std::uint64_t>(at) & ((1ull << 48) - 1);
}
[[nodiscard]] constexpr storage::PageId page_of(Where at) noexcept {
  return storage::page_id(segment_of(at), storage::PageIndex{offset_of(at) / kPageBytes});
}

inline constexpr std::uint64_t kNoPage = ~0ull;  // LineStateV1::moving
// LineWrite::at of a dead context: its line is free
inline constexpr Where kSettled{~0ull};

inline constexpr std::size_t kHardwareCountsMax = 16;

struct alignas(64) LineStateV1 {
  std::uint64_t magic;          //   0
  std::uint32_t version;        //   8
  std::uint32_t state_bytes;    //  12
  char boot_id[40];             //  16
  std::uint64_t reserved_zero;  //  56
  alignas(64) LineWord clock;   //  64  fetch_add by committers and releases
  // 128  PageId that is being moved between the levels, or kNoPage; domain lock
  alignas(64) LineWord moving;
  // 192  context number + 1 that the others let commit first; 0: none
  alignas(64) LineWord priority;
  // 200  for threads that sleep until a line that they have read changes; every commit reads it
  platform::EventCount changed;
  std::uint32_t reserved3_zero[13];    // 204
  alignas(64) LineWord contexts_high;  // 256  contexts ever used
  LineWord recovered;                  // 264  contexts of dead threads that were recovered
  LineWord recovered_commits;          // 272  of these, past their commit point
  std::uint64_t domain_id[2];          // 280  of tmh.control; 0: unused
  std::uint64_t life;                  // 296  the same
  std::uint64_t reserved2_zero[2];     // 304
  // hierarchy/exchange/hardware_pages.h. hardware_epoch: moves of pages to or from the hardware
  // level; every RTM transaction has read it. Totals below.
  alignas(64) LineWord hardware_epoch;                       // 320  domain lock
  alignas(64) LineWord hardware_counts[kHardwareCountsMax];  // 384  fetch_add, relaxed
};
static_assert(sizeof(LineStateV1) == 512 && offsetof(LineStateV1, hardware_epoch) == 320 &&
              offsetof(LineStateV1, hardware_counts) == 384 &&
              std::is_standard_layout_v<LineStateV1>);
static_assert(offsetof(LineStateV1, boot_id) == 16 && offsetof(LineStateV1, clock) == 64 &&
              offsetof(LineStateV1, moving) == 128 && offsetof(LineStateV1, priority) == 192 &&
              offsetof(LineStateV1, changed) == 200 &&
              offsetof(LineStateV1, contexts_high) == 256 &&
              offsetof(LineStateV1, domain_id) == 280 && offsetof(LineStateV1, life) == 296 &&
              offsetof(LineStateV1, reserved2_zero) == 304);

// A byte mask (bit i: byte i) of an 8-byte word as a bit mask.
[[nodiscard]] constexpr std::uint64_t spread_byte_mask(std::uint64_t byte_mask) noexcept {
  std::uint64_t bits = 0;
  for (unsigned i = 0; i < 8; ++i) bits |= (byte_mask >> i & 1) * (0xffull << (8 * i));
  return bits;
}

// Bytes of a line, as LineWrite::mask has them. REQUIRES: they lie in one line, and are some.
[[nodiscard]] constexpr std::uint64_t byte_mask(std::uint64_t offset,
                                                std::uint32_t bytes) noexcept {
  return (~0ull >> (kLineBytes - bytes)) << (offset % kLineBytes);
}

// A line in an instance's redo log.
struct alignas(64) LineWrite {
  Where at;  //  0  of the line's first byte; kSettled
  //  8  the word that the line had before it was locked; itself a lock: another entry, to whose
  //     line the word belongs, too, has it
  std::atomic<std::uint64_t> before;
  std::uint64_t mask;  // 16  bit i: byte i of the line is written
  // 24  what data has where the mask does not say so: the snapshot's bytes, or no matter what
  detail::Kept kept;
  std::uint64_t reserved_zero[4];                  // 32
  alignas(64) std::uint64_t data[kLineBytes / 8];  // 64  new bytes, where the mask says so
};
static_assert(sizeof(LineWrite) == 128 && offsetof(LineWrite, data) == 64 &&
              offsetof(LineWrite, mask) == offsetof(LineWrite, data) - detail::kMaskBefore &&
              offsetof(LineWrite, kept) == offsetof(LineWrite, data) - detail::kKeptBefore);

// A word as it was before the commit stamped `stamp`: for level 2's snapshots. stamp is stored last
// (release) and is 0 meanwhile.
struct UndoWord {
  std::atomic<std::uint64_t> stamp;  //  0
  std::atomic<Where> at;             //  8  of the 8-byte word
  std::atomic<std::uint64_t> value;  // 16
  // 24  number + 1 of the word before it in the ring whose page is of the same list; 0: none
  std::atomic<std::uint64_t> before;
};
static_assert(sizeof(UndoWord) == 32);

enum class State : std::uint64_t { kIdle = 0, kPending = 1, kFailed = 2, kCommitted = 3 };
// The instance's number is in the status, so that a FAIL meant for one instance cannot hit a later
// one of the same context.
[[nodiscard]] constexpr std::uint64_t status_word(std::uint64_t number, State state) noexcept {
  return number << 2 | static_cast<std::uint64_t>(state);
}
[[nodiscard]] constexpr State state_of(std::uint64_t status) noexcept {
  return static_cast<State>(status & 3);
}
[[nodiscard]] constexpr std::uint64_t number_of(std::uint64_t status) noexcept {
  return status >> 2;
}

// 2 MiB of redo log. What writes more lines than an L2 cache holds (1 to 2 MiB here) belongs to
// level 2, which copies pages.
inline constexpr std::uint32_t kWritesMax = 1u << 14;
// 8 MiB: 130 ms of a thread that stores 2 million words a second beside a snapshot. A commit that
// overflows it escalates.
inline constexpr std::uint32_t kUndoWords = 1u << 18;
static_assert(kUndoWords >= kWritesMax * (kLineBytes / 8));  // what one commit may have
// Lists of the words of a ring, by page: a snapshot reads a page's words, and few of others.
inline constexpr std::uint32_t kUndoLists = 1u << 10;
[[nodiscard]] constexpr std::uint32_t undo_list_of(Where at) noexcept {
  // Fibonacci hashing; neighbours spread
  return static_cast<std::uint32_t>(
      (static_cast<std::uint64_t>(at) / kPageBytes * 0x9e37'79b9'7f4a'7c15ull) >> 54);
}
static_assert(1u << (64 - 54) == kUndoLists);
// Threads of a domain at one time; 44 GiB of address space.
inline constexpr std::uint32_t kContextsMax = 1u << 12;
// Durable domains: committed and not yet in the log. 4,000 commits of a line or two; one that needs
// more than half of it escalates.
inline constexpr std::uint64_t kRedoBytes = 1u << 20;
// What fits into an empty ring wherever that begins: behind the rest, which may be too small by the
// header that would skip what is left of it.
inline constexpr std::uint64_t kRedoRecordBytesMax = kRedoBytes / 2 - 32;
// LineContextV1::in_flight between the announcement and the stamp.
inline constexpr std::uint64_t kStamping = ~0ull;

// Owner of a context: participant slot + 1 below, its incarnation above; 0: free.
enum class Owner : std::uint64_t {};
[[nodiscard]] constexpr Owner owner_of(std::uint32_t slot, std::uint64_t incarnation) noexcept {
  return Owner{incarnation << 17 | (slot + 1)};
}
[[nodiscard]] constexpr std::uint32_t slot_of(Owner owner) noexcept {
  return static_cast<std::uint32_t>(static_cast<std::uint64_t>(owner) & 0x1ffff) - 1;
}
[[nodiscard]] constexpr std::uint64_t incarnation_of(Owner owner) noexcept {
  return static_cast<std::uint64_t>(owner) >> 17;
}

// Totals of a context, whichever thread has it: they only grow. Order is part of the layout. An
// attempt in software is counted as begun by one store and as ended by one more; who died in
// between is counted by its recovery. In RTM the commit is counted inside the transaction.
enum class LineCount : std::uint32_t {
  kBegins,
  kCommits,
  kAborts0,
  kAbortsLast = kAborts0 + kAbortCauseCount - 1,
  kHardwareCommits,
  kForCapacity,  // instances that went one level up, by what decided
  kForAttempts,
  kDeEscalations,
  kUnlimitedCommits,  // of kCommits
  kForNeed0,          // as kForCapacity, because it did what only level 2 can: by Need
  kForNeedLast = kForNeed0 + kNeedCount - 1,
  kEnd
};
inline constexpr std::size_t kLineCountsMax = 64;
static_assert(static_cast<std::size_t>(LineCount::kEnd) <= kLineCountsMax);
[[nodiscard]] constexpr LineCount line_abort_count(AbortCause cause) noexcept {
  return static_cast<LineCount>(static_cast<std::uint32_t>(LineCount::kAborts0) +
                                static_cast<std::uint32_t>(cause));
}
[[nodiscard]] constexpr LineCount line_need_count(Need need) noexcept {
  return static_cast<LineCount>(static_cast<std::uint32_t>(LineCount::kForNeed0) +
                                static_cast<std::uint32_t>(need));
}

struct alignas(4096) LineContextV1 {
  std::atomic<Owner> owner;        //    0  CAS from 0 to take it
  std::uint64_t reserved_zero[7];  //    8
  alignas(64) LineWord status;     //   64  status_word(); others: PENDING -> FAILED
  //   72  of the instance, see Rivals::age(). Stored before status.
  std::atomic<std::uint64_t> age;
  std::atomic<std::uint64_t> stamp;  //   80  line clock at line-stamp; stored before COMMITTED
  std::atomic<std::uint64_t> lines;  //   88  entries of writes; stored before PENDING
  // Durable domains (redo.h). in_flight: 0: nothing stamped and undecided or not home; kStamping;
  // else the stamp.
  LineWord in_flight;  //   96
  //  104  redo_head if this commit succeeds; stored before COMMITTED
  LineWord redo_next;
  //  112  bytes of the redo ring ever filled with committed records
  LineWord redo_head;
  //  120  room in the log of an attempt that is not among the commits, or kept for RTM; else 0
  LineWord redo_reserved;
  //  128  undo words ever stored; the next one goes to undo[undo_head % kUndoWords]
  alignas(64) LineWord undo_head;
  std::uint64_t reserved3_zero[7];  //  136
  alignas(64) LineWord redo_tail;   //  192  of these, in the log; moved by the log's writer
  std::uint64_t reserved4_zero[7];  //  200
  //  256  by LineCount; written by the context's thread, and by its recovery
  alignas(64) LineWord counts[kLineCountsMax];
  std::uint64_t counts_before[kLineCountsMax];  // 768  as they were when the present owner came
  std::uint64_t reserved5_zero[352];            // 1280
  LineWrite writes[kWritesMax];                 // 4096
  // By undo_list_of(): number + 1 of the last word; 0: none.
  LineWord undo_last[kUndoLists];
  UndoWord undo[kUndoWords];
  std::byte redo[kRedoBytes];

  void add(LineCount which, std::uint64_t amount) noexcept {
    if constexpr (!observe::kCounts) return;
    LineWord &cell = counts[static_cast<std::size_t>(which)];
    // Single writer.
    cell.store(cell.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t count(LineCount which) const noexcept {
    return counts[static_cast<std::size_t>(which)].load(std::memory_order_relaxed);
  }
};
static_assert(offsetof(LineContextV1, status) == 64 && offsetof(LineContextV1, in_flight) == 96 &&
              offsetof(LineContextV1, redo_reserved) == 120 &&
              offsetof(LineContextV1, undo_head) == 128 &&
              offsetof(LineContextV1, redo_tail) == 192 && offsetof(LineContextV1, counts) == 256 &&
              offsetof(LineContextV1, counts_before) == 768 &&
              offsetof(LineContextV1, writes) == 4096 &&
              offsetof(LineContextV1, undo_last) == 4096 + 128 * kWritesMax &&
              offsetof(LineContextV1, undo) == 4096 + 128 * kWritesMax + 8 * kUndoLists &&
              offsetof(LineContextV1, redo) ==
                  4096 + 128 * kWritesMax + 8 * kUndoLists + 32 * kUndoWords);
static_assert(sizeof(LineContextV1) == offsetof(LineContextV1, redo) + kRedoBytes &&
              std::is_standard_layout_v<LineContextV1>);

// Adds a context's totals. count_of(LineCount): one of them.
template <class CountOf>
void add_line_counts(const CountOf &count_of, Counters *to) {
  to->line_begins += count_of(LineCount::kBegins);
  to->line_commits += count_of(LineCount::kCommits);
  for (std::uint32_t i = 0; i < kAbortCauseCount; ++i)
    to->line_aborts[i] += count_of(line_abort_count(static_cast<AbortCause>(i)));
  to->hardware_commits += count_of(LineCount::kHardwareCommits);
  to->escalations_capacity += count_of(LineCount::kForCapacity);
  for (std::uint32_t i = 0; i < kNeedCount; ++i) {
    const std::uint64_t escalations = count_of(line_need_count(static_cast<Need>(i)));
    to->escalations_by_need[i] += escalations;
    to->escalations_needs_pages += escalations;
  }
  to->escalations_attempts += count_of(LineCount::kForAttempts);
  to->de_escalations += count_of(LineCount::kDeEscalations);
  to->unlimited_commits += count_of(LineCount::kUnlimitedCommits);
}

}  // namespace tmh::line
