// levels/page/shared/layout.h -- every structure that level 2 keeps in shared memory. All of it is
// rebuildable: after a reboot, or when the last participant has gone, the files are made anew; only
// control and data files are durable.
// Shape:     tmh.state (one DomainState), tmh.versions.head / .data (slots), tmh.commits (ring),
//            tmh.accesses, tmh.pages.N (PageMeta).
// Invariant: what a lock holder may leave half done consists of links only. Links can be rebuilt
//            from slots: a slot is free (stamp 0), reserved (kReservedStamp), or a version;
//            versions newer than the clock were never committed.
// Ordering:  everything but clock, log_published, versioned_stamp, pins, PageMeta::newest and
//            ::stamp and published log entries is read and written under DomainState::lock. What a
//            commit stores comes before its clock (release); a beginner acquires the clock.
// Source:    thesis, sections 3.1 to 3.3 (control file); docs/design.md D8.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "levels/page/shared/past_layout.h"
#include "platform/event_count.h"
#include "platform/shared_lock.h"
#include "storage/file_table.h"
#include "storage/page_id.h"
#include "storage/participants.h"

namespace tmh::page {

using storage::LineMask;
using storage::PageId;

inline constexpr std::uint64_t kStateMagic = 0x3130'4154'5348'4d54ull;  // "TMHSTA01"
// Changes with every change of what is in these files.
inline constexpr std::uint32_t kStateVersion = 17;

using Slot = std::uint32_t;  // version slot, access entry or list link; 0: none
// PageMeta::newest while a repair rebuilds the links: not 0, so that readers without the lock come
// for the lock.
inline constexpr Slot kRelinking = ~Slot{0};
inline constexpr std::uint64_t kReservedStamp = ~0ull;
// A before-image's (past_layout.h).
[[nodiscard]] constexpr bool is_past(std::uint64_t stamp) noexcept {
  return stamp != kReservedStamp && (stamp & kPastBit) != 0;
}
// In DomainState::turn: its holder cannot abort, so others wait for the turn however long it
// takes, as long as the holder lives.
inline constexpr std::uint32_t kIrrevocable = 1u << 31;
[[nodiscard]] constexpr bool is_irrevocable(std::uint32_t turn) noexcept {
  return (turn & kIrrevocable) != 0;
}
// REQUIRES: turn is not 0.
[[nodiscard]] constexpr std::uint32_t holder_of(std::uint32_t turn) noexcept {
  return (turn & ~kIrrevocable) - 1;
}

// In DomainState::repair_again. Versions in segments that the repairer had not opened: they are in
// their lists and not linked to their pages, so none may go home or be folded, or an older one
// would hide a newer one.
inline constexpr std::uint64_t kRepairVersions = 1;
inline constexpr std::uint64_t kRepairRest = 2;  // accesses, or what lies below

struct alignas(64) DomainState {
  // line 0: identity, written once
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t state_bytes;
  char boot_id[40];
  std::atomic<std::uint64_t> incarnation_next;
  // Line 1: all that two processes must hand each other at a commit, on one line, which so moves
  // once (70 ns). That pays only because the lock is held for less than it takes to move a line,
  // and waiters poll seldom (SharedLock): where the holder also walked shared lists, every poll
  // took the line away from it.
  alignas(64) platform::SharedLock lock;
  // Participant slot + 1 whose turn it is to commit alone, 0: none; kIrrevocable.
  std::atomic<std::uint32_t> turn;
  std::atomic<std::uint64_t> clock;  // timestamp of the last commit; its store is the commit point
  std::atomic<std::uint64_t> log_head;  // entries ever appended to the commit log
  // Of these, entries of published commits; stored after clock, so it may lag.
  std::atomic<std::uint64_t> log_published;
  // Last commit that wrote a page of which there was no version. Stored before its clock: a
  // beginner that has accounted for it, and for all repairs, which may link a version again that
  // was home already, knows that no page has become unreadable at home since, and need not look
  // into the log.
  std::atomic<std::uint64_t> versioned_stamp;
  // The commit that its committer has counted, or is about to: counting_word(). Newer than the
  // clock: it died before it published, and repair() takes the count back.
  std::atomic<std::uint64_t> counting;
  // line 2: rarely written
  alignas(64) std::atomic<std::uint32_t> participants_high;  // slots ever used
  // Slots 1 .. capacity-1 exist; relaxed: the log writer reads it without the lock, for slots of
  // commits that it has acquired.
  std::atomic<std::uint32_t> version_capacity;
  // What a repair could not reach: kRepairVersions, kRepairRest.
  std::uint64_t repair_again;
  std::atomic<std::uint64_t> repairs;  // read without the lock by beginners
  // Durable domains: a clock value; nothing up to it is folded into what is later. 0: none.
  std::uint64_t fold_fence;
  std::uint64_t domain_id[2];  // of tmh.control; identity, as line 0
  std::uint64_t life;          // the same
  std::uint64_t reserved5_zero;
  // line 3: stores without room of their own
  alignas(64) Slot free_version;
  Slot free_access;
  std::uint32_t access_capacity;
  std::uint32_t reserved2_zero;
  std::atomic<std::uint64_t> age_next;  // eager: ages of instances
  std::uint64_t levels;                 // tmh::Levels
  // Pages that level 2 took from level 1, and gave back: under the lock.
  std::uint64_t recalls;
  std::uint64_t releases;
  std::uint64_t log_capacity;  // entries of the commit log's ring that its file has; under the lock
  std::uint64_t reserved3_zero;
  // Line 4: under the lock. Deaths are counted once, though whoever counts may die: see
  // Reaper::reap().
  alignas(64) std::uint64_t reaped;  // participants that died, and were cleaned up after
  std::uint64_t reaped_next;         // what `reaped` becomes with the one that is being reaped
  std::uint64_t reaping;             // its incarnation; 0: none is
  std::uint64_t reaping_slot;
  platform::EventCount changed;  // for who sleeps until the clock moves; every commit reads it
  std::uint32_t reserved4_zero;
  // Identity, as line 0: the place (platform::Place) of all who are in the domain.
  std::uint64_t pid_namespace;
  std::uint64_t time_namespace;
  // Of releases to the level below; for sleepers, see read_set.h.
  std::atomic<std::uint64_t> announcements;
  // Read at each collection, written seldom where no history is wanted.
  PastState past;
  // Which files the participants have open.
  alignas(64) storage::FileTable files;
};
static_assert(offsetof(DomainState, lock) == 64 && offsetof(DomainState, participants_high) == 128);
static_assert(offsetof(DomainState, domain_id) == 160 && offsetof(DomainState, life) == 176);
static_assert(offsetof(DomainState, free_version) == 192 && offsetof(DomainState, reaped) == 256);
static_assert(offsetof(DomainState, past) == 320);
static_assert(sizeof(DomainState) == 42176 && std::is_standard_layout_v<DomainState>);
inline constexpr std::uint64_t kStateBytesMax = 16 * kPageBytes;
static_assert(sizeof(DomainState) <= kStateBytesMax);

// DomainState::counting: 48 bits of the commit's timestamp, and its committer's slot.
[[nodiscard]] constexpr std::uint64_t counting_word(std::uint64_t stamp,
                                                    std::uint32_t slot) noexcept {
  return stamp << 16 | slot;
}
static_assert(storage::kParticipantsMax <= 1u << 16);

// Per page of a segment. A line each: neighbouring pages are often written by different processes.
struct alignas(64) PageMeta {
  // Timestamp of its last commit; relaxed: under the lock, or after acquiring the clock.
  std::atomic<std::uint64_t> stamp;
  // Newest version not yet home. Read without the lock: 0 means that home holds every version a
  // pinned snapshot may ask for. acquire pairs with the release of the collector that unlinked the
  // last one.
  std::atomic<Slot> newest;
  Slot accesses;  // eager: instances touching the page
  Slot past;      // its newest before-image; under the lock
  std::uint32_t reserved_zero;
  std::uint64_t reserved2_zero[5];
};
static_assert(sizeof(PageMeta) == 64);
inline constinit const PageMeta kNoMeta{};  // of a page that no instance has committed to

struct alignas(64) VersionHead {
  // 0 free, kReservedStamp, else commit timestamp; with kPastBit: a before-image
  std::atomic<std::uint64_t> stamp;
  // PageId; kept after freeing, so that a repair can find heads that still point here
  std::uint64_t page;
  LineMask lines;  // which lines of the slot's data are valid
  // Participant slot that reserved it; its versions hang in that slot's list.
  std::uint32_t owner;
  Slot older, newer;            // versions of the same page
  Slot list_older, list_newer;  // versions of the same owner, in commit order
  Slot next_free;
  std::uint64_t reserved_zero[2];
  // Second cache line, durable domains only: of each line in `lines` as committed, the 8-byte words
  // that changed.
  std::uint8_t words[storage::kLinesPerPage];
};
static_assert(sizeof(VersionHead) == 128 && offsetof(VersionHead, words) == 64);

// A line each: two committers never write one line, and no reader disturbs them.
struct alignas(64) CommitLogEntry {
  // Read without the lock, also while an entry that a repair took back is written again.
  std::atomic<std::uint64_t> stamp;
  std::uint64_t page;         // PageId; kWideCommit: of no page, see ConsistencyTree::log()
  LineMask lines;             // changed by this commit; 0: the page went to the level below
  std::uint64_t incarnation;  // of the committer
  Slot slot;                  // the version: it cannot change before its record is durable
  std::uint32_t pages;        // of this commit: so many entries in a row
  std::uint64_t time_ns;      // durable domains: CLOCK_REALTIME of the commit
  // Durable domains with a level below: its clock before the commit; 0 in a page's announcement.
  std::uint64_t line;
  std::uint64_t reserved_zero;
};
static_assert(sizeof(CommitLogEntry) == 64);
// 16 MiB: 100 ms of the fastest small commits
inline constexpr std::uint64_t kLogEntries = 1u << 18;
// Entries that are brought into memory at a time, and how far ahead.
inline constexpr std::uint64_t kLogChunk = 1024, kLogAhead = 256;
static_assert(kLogEntries % kLogChunk == 0);
inline constexpr std::uint64_t kWideCommit = ~0ull;

struct AccessEntry {  // eager: one instance touches one page
  std::uint64_t page;
  std::uint64_t instance;
  std::uint32_t owner;  // participant slot
  std::uint32_t is_write;
  Slot next_on_page;
  Slot next_of_owner;
};
static_assert(sizeof(AccessEntry) == 32);

inline constexpr std::uint64_t kVersionsMax = 1u << 26;  // 256 GiB of versions
inline constexpr std::uint64_t kAccessesMax = 1u << 28;

}  // namespace tmh::page
