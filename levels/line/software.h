// levels/line/software.h -- level 1 in software: one thread's instances on lines, opaque,
// write-back, invisible reads.
// Shape:     a SoftwareThread belongs to one thread and owns a context in shared memory. begin(),
//            loads and stores, commit(); after a LineAbort or for the user's own reasons abandon().
//            One instance at a time; nesting is the caller's.
// Invariant: (1) every load returns state(rv): what the commits stamped <= rv have written, or the
//            instance's own store. (2) Between line-lock and line-unlock the thread takes no lock
//            and waits for no other thread beyond a bounded spin. (3) After an abort every further
//            access of the attempt throws LineAbort, or leaves as it was told to.
// Ordering:  hierarchy/exchange/PROTOCOL.md, "Level 1: one instance"; each access says its partner.
// Sharing:   its context: see layout.h. Owner death: recovery.h.
// Contexts:  NOT async-signal-safe; inside RTM as rtm_update.h says.
// Source:    TL2; LSA. We differ: a line locked by a committer is waited for, locks and logs lie in
//            shared memory so that any participant can finish a dead one's commit.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include <tmh/instance.hpp>
#include <tmh/options.hpp>

#include <tmh/detail/line_access.hpp>

#include "levels/line/abort_status.h"
#include "levels/line/capacity_watch.h"
#include "levels/line/layout.h"
#include "levels/line/line_memory.h"
#include "levels/line/priority.h"
#include "levels/line/read_log.h"
#include "levels/line/releaser.h"
#include "levels/line/rivals.h"
#include "levels/line/software_commit.h"
#include "levels/line/window.h"
#include "levels/line/write_set.h"

namespace tmh::line {

struct Begin {
  Policy policy;
  bool is_query = false;
  std::uint32_t attempt = 0;            // earlier attempts of this instance that aborted
  Insists insists = Insists::kBriefly;  // kNo: it takes no priority, either
  // No other instance commits at this level until it has ended, or for 100 ms.
  bool takes_priority = false;
  // Durable domains without early release: a snapshot that moves on waits for the log.
  bool reads_durable_only = false;
  const CapacityModel *capacity = nullptr;  // null: unlimited. Outlives the instance.
  // Loads that leave the line read last; one more is kCapacity.
  std::uint32_t reads_max = kNoLimit;
  // Queries of volatile domains: reads() stays empty, and once a line is newer than the snapshot
  // the attempt fails, but for the first line that it reads.
  bool logs_reads = true;
  // Begins at the snapshot that this thread's instance before has left: it does not look at the
  // clock. Volatile domains; with a log, which moves the snapshot on where something is newer.
  bool keeps_snapshot = false;
};

// Aborted attempts after which an instance takes priority: it alone commits until it has ended. As
// hierarchy::kTurnAttempts for updates. A query stops others for no longer than it reads, and fails
// only when it is long.
inline constexpr std::uint32_t kPriorityAttempts = 8;
inline constexpr std::uint32_t kQueryPriorityAttempts = 2;

class SoftwareThread : public detail::LineAccess {
 public:
  // Leaves the body of an attempt that has been aborted. Does not return. Null: by throwing
  // LineAbort; a body that no exception may cross has another way.
  using Leave = void (*)(SoftwareThread &thread);

  // REQUIRES: memory and releaser outlive it; the participant's slot is attached.
  // redo_log: durable domains, else null. Throws std::bad_alloc.
  SoftwareThread(LineMemory &memory, Releaser &releaser, LogReserver *redo_log = nullptr,
                 Leave leave = nullptr)
      : memory_(memory),
        leave_(leave),
        window_(memory),
        rivals_(memory, releaser),
        priority_(memory, rivals_),
        commit_(memory, releaser, rivals_, redo_log) {}
  SoftwareThread(const SoftwareThread &) = delete;
  SoftwareThread &operator=(const SoftwareThread &) = delete;
  ~SoftwareThread() { detach(); }

  // Takes a context. kTooManyParticipants, kDiskFull, kIo, kOutOfMemory.
  [[nodiscard]] Errc attach(std::uint32_t slot, std::uint64_t incarnation) noexcept;
  void detach() noexcept;

  // Accesses of this thread go through the instance until it has ended. Always true. REQUIRES:
  // attached, none is running. Defined in software_inline.h, as commit() is: a smallest instance is
  // little else, and most of what `begin` says is known where it is called.
  inline bool begin(const Begin &begin) noexcept;
  // kCommitted or kAborted (cause() says why); never throws. The instance has ended.
  [[nodiscard]] inline Status commit() noexcept;
  // Ends the instance without effects: after a LineAbort (its cause is kept), or because of
  // `cause`.
  void abandon(AbortCause cause = AbortCause::kUser) noexcept;
  [[nodiscard]] bool is_running() const noexcept { return is_running_; }
  [[nodiscard]] bool is_query() const noexcept { return is_query_; }
  // Has the running attempt been aborted? Its body may not have noticed.
  [[nodiscard]] bool is_doomed() const noexcept { return is_doomed_; }

  // Whole words: 1, 2, 4 or 8 bytes, naturally aligned, in an open segment's view. Throw LineAbort.
  template <class T>
  [[nodiscard]] T load(const T *address) {
    return detail::line_load(*this, address);
  }
  template <class T>
  void store(T *address, const T &value) {
    detail::line_store(*this, address, value);
  }
  // Has the running attempt stored to the line of this address?
  [[nodiscard]] bool has_written(const void *address) const noexcept;
  // Moves the snapshot to now; false: something read has changed, or the log has failed, and the
  // instance can only abort.
  [[nodiscard]] bool extend() noexcept;
  // Aborts the running attempt in the middle of its body: throws LineAbort.
  [[noreturn]] void fail(const Ending &ending);
  // Fails the attempt if the capacity model says that so many open begins are too many.
  void nest(std::uint32_t depth);

  // Of the last attempt that was aborted, or of the one that is doomed.
  [[nodiscard]] AbortCause cause() const noexcept { return ending_.cause; }
  [[nodiscard]] AbortStatus status() const noexcept { return ending_.status; }
  // Of the last instance, if it committed: its stamp; where it has written nothing, its snapshot.
  [[nodiscard]] std::uint64_t stamp() const noexcept {
    return commit_.writes().empty() ? rv : commit_.stamp();
  }
  // Of the last instance, if it committed: once everything stamped up to here is durable, so is
  // what it wrote and read.
  [[nodiscard]] std::uint64_t durable_at() const noexcept;
  // Its redo() says why the last attempt ended with AbortCause::kNoSpace in a durable domain.
  [[nodiscard]] SoftwareCommit &committing() noexcept { return commit_; }
  [[nodiscard]] std::uint64_t age() const noexcept { return rivals_.age(); }
  [[nodiscard]] std::uint32_t context_number() const noexcept { return number_; }
  // Its totals are this thread's to add to. REQUIRES: attached.
  [[nodiscard]] LineContextV1 &context() noexcept { return *context_; }
  // Of the running attempt.
  [[nodiscard]] bool has_read() const noexcept {
    return keeps_log(*this) ? !reads().empty() : last_word != nullptr;
  }
  // What the running instance has read so far, or the last one read: retry() and durability ask
  // after its end, too. Empty where no log is kept.
  [[nodiscard]] std::span<const LineWord *const> reads() const noexcept {
    return log_.words(*this);
  }

  // How a running update does. Not long with priority: all others wait as long.
  [[nodiscard]] Insists insists() const noexcept {
    return priority_.is_mine() && insists_ == Insists::kLong ? Insists::kBriefly : insists_;
  }

  // The long way of detail::line_load_by(), and detail::line_open().
  [[nodiscard]] std::uint64_t load_long(std::uintptr_t address, std::uint32_t bytes);
  [[nodiscard]] bool open_line(std::uintptr_t address);

 private:
  [[nodiscard]] LineSegment *segment_of(std::uintptr_t address);
  // before: as find_changed().
  template <class Before>
  [[nodiscard]] inline bool extend(const Before &before) noexcept;
  template <class Load>
  void read_home(LineSegment &segment, std::uint64_t offset, const Load &load);
  void make_whole(LineSegment &segment, std::uint64_t offset, LineWrite &entry);
  [[nodiscard]] bool open_any_line(std::uintptr_t address);
  [[nodiscard]] LineWrite &write_entry(LineSegment &segment, std::uint64_t offset);
  void settle(LineSegment &segment, std::uint64_t offset, std::uint64_t seen);
  void meet_upper(storage::PageId page);
  void meet_locked(const LineWord &word, std::uint64_t seen);
  void begin_again() noexcept;
  void doom(const Ending &ending) noexcept;
  [[nodiscard]] Status commit_writes() noexcept;
  Status end_aborted(const Ending &ending) noexcept;
  void finish() noexcept {
    detail::line_access = nullptr;
    is_running_ = false;
    if (priority_.is_mine()) [[unlikely]]
      priority_.give(number_);
  }

  friend class ProcessThread;
  friend class RtmUpdate;

  LineMemory &memory_;
  const Leave leave_;
  LineContextV1 *context_ = nullptr;
  LineStateV1 *state_ = nullptr;
  // Where others see at which snapshot the running instance reads; null: no
  // committer looks.
  std::atomic<std::uint64_t> *shown_ = nullptr;
  std::uint32_t number_ = 0;
  bool is_attached_ = false;
  bool reads_durable_only_ = false;
  // The running attempt. Together, and aligned: a begin stores them at once.
  alignas(8) std::uint32_t attempt_ = 0;
  bool is_running_ = false, is_doomed_ = false, is_query_ = false;
  Insists insists_ = Insists::kBriefly;
  Ending ending_;
  Window window_;
  ReadLog log_;
  CapacityWatch capacity_;
  Rivals rivals_;
  Priority priority_;
  SoftwareCommit commit_;
};

}  // namespace tmh::line
