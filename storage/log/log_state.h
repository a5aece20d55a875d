// storage/log/log_state.h -- the redo log as all participants share it: which one writes, how
// far it is durable, where it ends.
// Shape:     tmh.log.state: LogState (one block), then two tail blocks. Rebuildable: made anew at
//            each recovery.
// Invariant: point[flushes & 1] is the last durable state; a flush fills the other one and its tail
//            block, then counts. The heir of a dead writer's lock starts again from
//            there: the same commits give the same bytes.
// Ordering:  durable_clock, durable_line and durable_position are stored (release) after the point
//            they tell of; readers acquire.
// Sharing:   points, tails, passed: under `lock`; ready_lsn: stored under files_lock. append_lsn:
//            under the domain lock; [t & 1] belongs to the commit with timestamp t, so that it
//            changes together with the commit clock.
// Source:    docs/design.md D1, D5; LIBTP, section 3.2.1 (log manager).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "platform/shared_lock.h"
#include "storage/data_syncs.h"
#include "storage/log/log_format.h"

namespace tmh::storage {

inline constexpr std::uint64_t kLogStateMagic = 0x3130'5453'474f'4c54ull;  // "TLOGST01"
inline constexpr std::uint32_t kLogStateVersion = 11;
inline constexpr std::uint32_t kLogCpus = 64;  // processors told apart; more share entries

// Everything before it is durable.
struct FlushPoint {
  std::uint64_t position;  // in the commit log ring
  Lsn lsn;
  std::uint64_t clock;  // commit timestamp
  std::uint64_t line;   // with a level below: the same on its clock; else 0
  // Of the last record: rises with each commit of either level.
  [[nodiscard]] std::uint64_t stamp() const noexcept { return clock + line; }
};

// With a level below: what the writer is about to write, of both clocks. It is kept until that is
// done, so that the heir of a dead writer puts the same records in the same order.
struct LogCut {
  std::uint64_t line, clock;
};
static_assert(std::is_trivially_copyable_v<FlushPoint> && std::is_trivially_copyable_v<LogCut>,
              "shared by processes, and read with pread(2)");

// Of everything up to a FlushPoint; published with it, so a death counts a write wholly or not at
// all.
struct LogTotals {
  std::atomic<std::uint64_t> bytes, commits;
  // Nothing to write, the clocks had moved without commits.
  std::atomic<std::uint64_t> empty_flushes;
};

struct alignas(64) LogState {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t generation;
  std::uint64_t file_bytes;
  // Sequence of the table of page checksums (page_checksums.h) that said what the data files were
  // when the domain was opened. 0: none.
  std::uint64_t checksums_base;
  // Whose log it is, and in which life of the domain: for readers of the log that do not join it.
  std::uint64_t domain_id[2], life;
  std::uint64_t reserved_zero;
  alignas(64) platform::SharedLock lock;  // the writer's
  std::atomic<std::uint32_t> error;       // Errc of a write that failed; never taken back
  // The same of syncing tmh.control: what it says may not be on disk.
  std::atomic<std::uint32_t> control_error;
  alignas(64) std::atomic<std::uint64_t> durable_clock;
  std::atomic<std::uint64_t> durable_line;
  std::atomic<Lsn> durable_lsn;
  std::atomic<std::uint32_t> event;  // futex: changes with every flush
  // On `event`; a dead sleeper costs a system call per flush, no more.
  std::atomic<std::uint32_t> sleepers;
  // When the last write began (monotonic_ns()) and how long it was expected to take: when a
  // follower had better be awake. Hints.
  std::atomic<std::uint64_t> write_began_ns, write_ns;
  alignas(64) std::atomic<std::uint64_t> flushes;
  FlushPoint point[2];
  std::atomic<Lsn> ready_lsn;                   // log files exist up to here
  std::atomic<std::uint64_t> durable_position;  // of the last point; read without the lock
  LogCut cut[2];                                // [cuts & 1] is the last one
  std::uint64_t cuts;                           // ever
  // atomic: the housekeeper reads them without the lock
  alignas(64) std::atomic<Lsn> append_lsn[2];
  // Points passed, an eighth of a file apart: where a checkpoint may start although a reader keeps
  // later versions from going home.
  alignas(64) FlushPoint passed[32];
  std::uint64_t passed_count;  // ever
  alignas(64) platform::SharedLock checkpoint_lock;
  // Of the participant that makes, recycles or archives log files.
  platform::SharedLock files_lock;
  std::atomic<std::uint64_t> checkpoint_lsn;  // of tmh.checkpoint
  std::atomic<std::uint64_t> checkpoint_ns;   // coarse_ns() of the last one, or of the last attempt
  // Log files with a smaller index may be made into new ones.
  std::atomic<std::uint64_t> reusable_below;
  // With a level below, instead of append_lsn: bytes of commits that are, or are about to be,
  // published and are not in the log. Too many cost log files that come earlier; too few, a log
  // without room. So what is taken out is first said to be without an owner, and a death in between
  // leaves it there.
  alignas(64) std::atomic<std::uint64_t> pending_bytes;
  // Under the domain lock: those of the commit that its holder is about to publish with this
  // timestamp of the level above.
  std::uint64_t upper_stamp, upper_bytes;
  // Under `lock`: those of the commits in a write, as `point`; and of which write they were taken
  // out last.
  std::uint64_t batch_bytes[2], taken_out;
  alignas(64) LogTotals totals[2];  // as `point`
  std::atomic<std::uint64_t> checkpoints, files_made;
  alignas(64) std::atomic<std::uint32_t> handover;  // log_handover.h, as what follows: hints
  // How long writes take that begin on a processor; 0: not known.
  std::atomic<std::uint32_t> write_ns_on[kLogCpus];
  alignas(64) std::atomic<std::uint64_t> handovers;  // a total
  alignas(64) DataSyncs data_syncs;

  // REQUIRE the domain lock. The room of the commit that its holder is about to publish; who
  // inherits the lock gives back what he finds not published. Each store comes before the next also
  // where death is in between.
  void keep_upper(std::uint64_t bytes, std::uint64_t stamp) noexcept {
    upper_bytes = 0;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    upper_stamp = stamp;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    upper_bytes = bytes;
  }
  void give_back_upper() noexcept {
    const std::uint64_t bytes = upper_bytes;
    upper_bytes = 0;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    pending_bytes.fetch_sub(bytes, std::memory_order_release);
  }
  void give_back_of_dead(std::uint64_t clock) noexcept {
    if (clock < upper_stamp) give_back_upper();
  }

  // REQUIRES `lock`. Of the write that counts, also for a writer that died before it did.
  void give_back_batch() noexcept {
    const std::uint64_t now = flushes.load(std::memory_order_relaxed);
    if (taken_out == now) return;
    taken_out = now;
    std::atomic_signal_fence(std::memory_order_seq_cst);  // death in between: they stay reserved
    // release: a reader of it sees durable_lsn behind these commits
    pending_bytes.fetch_sub(batch_bytes[now & 1], std::memory_order_release);
  }

  [[nodiscard]] std::uint64_t commits_written() const noexcept {
    // acquire: pairs with the release in LogWriter::publish(), as for the heir of the lock
    return totals[flushes.load(std::memory_order_acquire) & 1].commits.load(
        std::memory_order_relaxed);
  }
};
// Behind it in its file: two blocks, for the block in which the log ends (LogWriter::attach()).
inline constexpr std::uint64_t kLogTailsAt = 2 * kLogBlockBytes;
static_assert(sizeof(LogState) <= kLogTailsAt && std::is_standard_layout_v<LogState>);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
              std::atomic<std::uint32_t>::is_always_lock_free);
static_assert(sizeof(std::atomic<Lsn>) == sizeof(Lsn),
              "a reader that does not join reads it plainly");

inline constexpr std::uint64_t kLogStateBytes = kLogTailsAt + 2 * kLogBlockBytes;

}  // namespace tmh::storage
