// include/tmh/instance.hpp -- what an instance can come to, and what is counted about it.
// Contexts:  plain values; usable everywhere, by every layer.
// Source:    thesis, sections 2.1, 2.2 and 3.1 (status of a transaction); docs/design.md 2 and 9.
#pragma once

#include <tmh/detail/cxx20.hpp>

#include <cstddef>
#include <cstdint>

namespace tmh {

enum class Status : std::uint8_t {
  kPending = 1,  // running, no conflict known
  kFailed = 2,   // running, will abort at its end; still sees a consistent snapshot
  kCommitted = 3,
  kAborted = 4,
};

// Why an instance aborted. Each cause has its own counter.
enum class AbortCause : std::uint8_t {
  kNone = 0,
  kValidation = 1,     // lazy: a page it had read was committed by another before its end
  kConflictSelf = 2,   // eager: its own policy failed it at a first access
  kConflictOther = 3,  // eager: another instance's policy failed it
  kUser = 4,           // abort() or retry(), or an exception left the body
  kQueryWrote = 5,     // a query stored into a segment
  kDied = 6,           // its process died; counted by its reaper
  // No room for its versions, or stores behind a segment's end: the error says why.
  kNoSpace = 7,
  // Level 1: more lines than the level, its capacity model or a snapshot above has room for.
  kCapacity = 8,
  // Level 1: another level holds a block, and the policy decided against this instance.
  kCrossLevel = 9,
  kSpurious = 10,  // level 1: the capacity model's chance or time limit; RTM: no reason given
  // Level 1: it did what only level 2 can do (allocation, plain code); level 2: in a view of the
  // thread's own.
  kNeedsPages = 11,
};
inline constexpr std::size_t kAbortCauseCount = 12;

// What an instance of a site did that level 1 cannot do, so that it went up to level 2 ("needs
// pages"). Numbers are in shared memory and in traces: DO NOT CHANGE THESE VALUES.
enum class Need : std::uint8_t {
  kUnknown = 0,    // RTM: the body aborted the transaction by an instruction of its own
  kPlainBody = 1,  // at software lines: a plain body of a site, inside
  kOtherDomain = 2,
  kUpdateInQuery = 3,
  kBegin = 4,       // Domain::begin(), which atomically(domain, body) calls
  kBeginQuery = 5,  // Domain::begin_query(), which query(domain, body) calls
  kAbort = 6,       // Domain::abort()
  // At software lines; in RTM where the call fails.
  kAllocate = 7,
  kDeallocate = 8,
  kRoot = 9,  // Segment::root() and what works as it does
  kGrow = 10,
  kAllocatorAllocate = 11,
  kAllocatorDeallocate = 12,
  // A block that is the heap's, or that empties a list which the instance itself has changed; or
  // the heap had nothing to fill the list with.
  kPoolAllocate = 13,
  kPoolDeallocate = 14,
  kIrrevocable = 15,
  kNoSpace = 16,  // at software lines: the disk, or the redo log, had no room
  kQueryWrote = 17,
  // The rest in RTM alone.
  kException = 18,  // it left the body
  kThreadEnd = 19,  // pthread_exit() or pthread_cancel() left the body
  kHeapGrowth = 20,
  kOnCommit = 21,
  kOnAbort = 22,
  kValidate = 23,
  kAwaitChange = 24,
  kUnmap = 25,
  kClose = 26,
  kSetPolicy = 27,
};
inline constexpr std::size_t kNeedCount = 28;

// The function as a program calls it, or a few words; "unknown" also of a number that is no Need.
[[nodiscard]] constexpr const char *to_string(Need need) noexcept {
  constexpr const char *kNames[] = {"unknown",
                                    "plain body of a site",
                                    "instance of another domain",
                                    "update in a query",
                                    "tmh::atomically(domain)",
                                    "tmh::query(domain)",
                                    "tmh::Domain::abort",
                                    "tmh::Segment::allocate",
                                    "tmh::Segment::deallocate",
                                    "tmh::Segment::root",
                                    "tmh::Segment::grow",
                                    "tmh::allocator::allocate",
                                    "tmh::allocator::deallocate",
                                    "tmh::pools::allocate",
                                    "tmh::pools::deallocate",
                                    "tmh::become_irrevocable",
                                    "no space",
                                    "store in a query",
                                    "exception",
                                    "end of the thread",
                                    "growth of the heap",
                                    "tmh::on_commit",
                                    "tmh::on_abort",
                                    "tmh::Domain::validate",
                                    "tmh::Domain::await_change",
                                    "tmh::Domain::unmap",
                                    "tmh::Domain::close",
                                    "tmh::Domain::set_policy"};
  static_assert(sizeof kNames / sizeof kNames[0] == kNeedCount);
  const auto number = static_cast<std::size_t>(need);
  return kNames[number < kNeedCount ? number : 0];
}

enum class Access : std::uint8_t { kRead = 1, kReadWrite = 2 };

// Totals since the first of the present participants opened the domain: they are rebuildable, and
// go when the last participant leaves. Units in the names.
// Begins, commits, queries, aborts by cause and escalations are exact, whichever process was killed
// when: an instance that others can see is counted once, and one that was killed before is an abort
// (kDied), once its participant has been cleaned up after. Then, with no instance running, begins
// is commits and aborts of updates, and line_begins is line_commits and line_aborts. Of the other
// totals (sizes, faults, aborts in RTM, ...) a killed process may leave out what it was doing.
struct Counters {
  // Level 2: updates, updates that committed, queries begun.
  std::uint64_t begins = 0, commits = 0, queries = 0;
  std::uint64_t aborts[kAbortCauseCount] = {};  // level 2, by AbortCause
  // Of committed instances; pages_read: superset in hot modes.
  std::uint64_t pages_read = 0, pages_written = 0;
  std::uint64_t lines_written = 0;
  std::uint64_t faults_signal = 0, faults_kernel = 0;  // first touches by mechanism
  // Now: pages held because a snapshot may read them.
  std::uint64_t versions_live = 0, versions_bytes = 0;
  // Durable domains: log bytes written, durable log writes, commits in them, data written by
  // checkpoints; writes that one thread left to another because they are quicker from the other's
  // processor
  std::uint64_t log_bytes = 0, log_flushes = 0, log_commits = 0, checkpoints = 0,
                log_files_made = 0;
  std::uint64_t log_handovers = 0;
  // Hybrid domains: pages that level 2 took from level 1, and gave back.
  std::uint64_t recalls = 0, releases = 0;
  // Hybrid domains, level 1 in software: attempts, also of sites' queries (not among `queries`),
  // and what became of them.
  std::uint64_t line_begins = 0, line_commits = 0;
  std::uint64_t line_aborts[kAbortCauseCount] = {};
  // Instances that went from level 1 to level 2, by what decided (as in SiteReport); instances that
  // committed at level 1 after their site had gone up.
  std::uint64_t escalations_capacity = 0, escalations_needs_pages = 0, escalations_attempts = 0;
  // Of escalations_needs_pages, by Need; these sum up to it.
  std::uint64_t escalations_by_need[kNeedCount] = {};
  std::uint64_t de_escalations = 0;
  // Of line_commits: those that exceeded the capacity model and ran without it.
  std::uint64_t unlimited_commits = 0;
  // Hybrid domains, level 1 in hardware (RTM): commits; aborted attempts by what the status said;
  // attempts that were not let begin, because pages had moved, level 2 ran, or the views were level
  // 2's; pages in and out.
  std::uint64_t hardware_commits = 0, hardware_conflicts = 0, hardware_capacity = 0,
                hardware_zero = 0;
  std::uint64_t hardware_explicit = 0, hardware_other = 0;
  std::uint64_t hardware_follows = 0, hardware_upper_runs = 0, hardware_page_mode = 0;
  std::uint64_t hardware_opened = 0, hardware_recalled = 0, mode_switches = 0;
  std::uint64_t lock_recoveries = 0, participants_reaped = 0, starvation_turns = 0;
  // Begun in a thread's own view; begun in the process's view instead, because the thread could get
  // none, or the body needs it.
  std::uint64_t thread_view_instances = 0, thread_view_fallbacks = 0;
  std::uint64_t irrevocables = 0;  // instances that became irrevocable
  // Of commits: updates that committed under snapshot isolation. All others, and those of level 1,
  // were serializable, whatever was asked for.
  std::uint64_t snapshot_commits = 0;
  // Now: pages of memory that present participants hold as their own copies and twins of those.
  // Copies that the page cache gave back (tmh/policies.hpp, PageCache). Copies into which a begin
  // has brought what others have committed; such a copy counts once at each of these begins, and
  // those with a twin do not count.
  std::uint64_t page_cache_pages = 0, page_cache_evictions = 0, page_cache_replays = 0;
  // Instances that were found to be slow readers (DomainOptions::on_slow_reader); once by each
  // process that watches.
  std::uint64_t slow_readers = 0;
  // retry() that did not find a change at once; how often commits woke them (in vain, too: more
  // often than that each slept on).
  std::uint64_t retry_sleeps = 0, retry_wakes = 0;
  // Now: pages held of the past (DomainOptions::history, Domain::keep()), and the commit from which
  // on each moment is held (0: there is no history).
  std::uint64_t past_pages = 0, past_bytes = 0, past_horizon = 0;
  [[nodiscard]] std::uint64_t aborts_total() const noexcept {
    std::uint64_t sum = 0;
    for (auto a : aborts) sum += a;
    return sum;
  }
  [[nodiscard]] std::uint64_t line_aborts_total() const noexcept {
    std::uint64_t sum = 0;
    for (auto a : line_aborts) sum += a;
    return sum;
  }
};

}  // namespace tmh
