// levels/line/software.h -- level 1 in software: one thread's instances on lines, opaque,
// write-back, invisible reads.
// Shape:     a SoftwareThread belongs to one thread and owns a context in shared memory. begin(),
//            loads and stores, commit(); after a LineAbort or for the user's own reasons abandon().
//            One instance at a time; nesting is the caller's.
// Invariant: (1) every load returns state(rv): what the commits stamped <= rv have written, or the
//            instance's own store. (2) Between line-lock and line-unlock the thread takes no lock
//            and waits for nobody beyond a bounded spin. (3) After an abort every further access of
//            the attempt throws LineAbort.
// Ordering:  hierarchy/PROTOCOL.md, "Level 1: one instance"; each access says its partner.
// Sharing:   its context: see layout.h. Owner death: recovery.h.
// Contexts:  NOT async-signal-safe; not inside RTM.
// Source:    TL2; LSA. We differ: a line locked by a committer is waited for, locks and logs lie in
//            shared memory so that any participant can finish a dead one's commit.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <tmh/instance.hpp>
#include <tmh/options.hpp>

#include <tmh/detail/line_access.hpp>

#include "levels/line/abort_status.h"
#include "levels/line/capacity.h"
#include "levels/line/layout.h"
#include "levels/line/line_memory.h"
#include "levels/line/line_table.h"
#include "levels/line/redo.h"
#include "levels/line/upper.h"

namespace tmh::line {

inline constexpr std::uint32_t kNoLimit = ~0u;

struct Begin {
  Policy policy;
  bool is_query = false;
  std::uint32_t attempt = 0;            // earlier attempts of this instance that aborted
  Insists insists = Insists::kBriefly;  // kNo: it takes no turn, either
  // Nobody else commits at this level until it has ended, or for 100 ms.
  bool takes_turn = false;
  // Durable domains without early release: a snapshot that moves on waits for the log.
  bool reads_durable_only = false;
  const CapacityModel *capacity = nullptr;  // null: unlimited. Outlives the instance.
  // Loads that leave the line read last; one more is kCapacity.
  std::uint32_t reads_max = kNoLimit;
};

// Aborted attempts after which an instance takes the turn: it alone commits until it has ended. As
// hierarchy::kTurnAttempts for updates. A query stops others for no longer than it reads, and fails
// only when it is long.
inline constexpr std::uint32_t kTurnAttempts = 8;
inline constexpr std::uint32_t kQueryTurnAttempts = 2;

class SoftwareThread : public detail::LineAccess {
 public:
  // REQUIRES: memory and upper outlive it; the participant's slot is attached.
  // redo_log: durable domains, else null. Throws std::bad_alloc.
  SoftwareThread(LineMemory &memory, Upper &upper, RedoLog *redo_log = nullptr)
      : memory_(memory), upper_(upper), redo_log_(redo_log) {}
  SoftwareThread(const SoftwareThread &) = delete;
  SoftwareThread &operator=(const SoftwareThread &) = delete;
  ~SoftwareThread() { detach(); }

  // Takes a context. kTooManyParticipants, kDiskFull, kIo, kOutOfMemory.
  [[nodiscard]] Errc attach(std::uint32_t slot, std::uint64_t incarnation) noexcept;
  void detach() noexcept;
  [[nodiscard]] bool is_attached() const noexcept { return is_attached_; }

  // Accesses of this thread go through the instance until it has ended. Always true. REQUIRES:
  // attached, none is running.
  bool begin(const Begin &begin) noexcept;
  // kCommitted or kAborted (cause() says why); never throws. The instance has ended.
  [[nodiscard]] Status commit() noexcept;
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
  // Is the address in a segment that level 1 knows here?
  [[nodiscard]] bool covers(const void *address) const noexcept {
    return memory_.find(reinterpret_cast<std::uintptr_t>(address)) != nullptr;
  }
  // Has the running attempt stored to the line of this address?
  [[nodiscard]] bool has_written(const void *address) const noexcept;
  // Moves the snapshot to now; false: something read has changed, or the log has failed, and the
  // instance can only abort.
  [[nodiscard]] bool extend() noexcept;
  // Aborts the running attempt in the middle of its body: throws LineAbort.
  [[noreturn]] void fail(AbortCause cause);
  // Fails the attempt if the capacity model says that so many open begins are too many.
  void nest(std::uint32_t depth);

  // Of the last attempt that ended, or of the one that is doomed.
  [[nodiscard]] AbortCause cause() const noexcept { return cause_; }
  [[nodiscard]] AbortStatus status() const noexcept { return status_; }
  // The stamp of the last commit that wrote; else the snapshot.
  [[nodiscard]] std::uint64_t stamp() const noexcept { return stamp_; }
  // Of the last instance, if it committed: once everything stamped up to here is durable, so is
  // what it wrote and read.
  [[nodiscard]] std::uint64_t durable_at() const noexcept;
  // Why the last attempt ended with AbortCause::kNoSpace in a durable domain; else kOk.
  [[nodiscard]] Errc error() const noexcept { return error_; }
  [[nodiscard]] std::uint64_t age() const noexcept { return age_; }
  [[nodiscard]] std::uint32_t context_number() const noexcept { return number_; }
  // Its totals are this thread's to add to. REQUIRES: attached.
  [[nodiscard]] LineContextV1 &context() noexcept { return *context_; }
  // What the running instance has read and written so far: for retry(), durability, counters.
  [[nodiscard]] std::span<const LineWord *const> reads() const noexcept {
    return {log_.data() + 1, static_cast<std::size_t>(log_top - log_.data())};
  }
  [[nodiscard]] std::span<const LineWrite> writes() const noexcept {
    return {context_->writes, writes_.size()};
  }
  // Snapshots of reads are needed after the end, too (retry()): the log stays until the next begin.

  // The long ways of detail::line_load() and line_store().
  [[nodiscard]] std::uint64_t load_long(std::uintptr_t address, std::uint32_t bytes);
  void store_long(std::uintptr_t address, std::uint64_t value, std::uint32_t bytes);

 private:
  struct LocalWrite {  // beside context_->writes
    LineWord *word;
    std::byte *home;
  };

  // software_access.cpp
  [[nodiscard]] std::uint64_t load_longest(std::uintptr_t address, std::uint32_t size);
  [[nodiscard]] LineSegment *segment_of_address(std::uintptr_t address);
  // line: its number in the segment, or in the window.
  static_assert(LineMemory::kChunkBytes % (64 * kLineBytes) == 0, "windows begin at chunks");
  [[nodiscard]] static std::uint64_t filter_bit(std::uint64_t line) noexcept {
    return 1ull << (line % 64);
  }
  [[nodiscard]] bool may_be_written(std::uint64_t line) const noexcept {
    return (write_filter_ & filter_bit(line)) != 0;
  }
  // For instances of more than a few dozen lines, whose filter says yes to all.
  [[nodiscard]] bool has_entry(const LineWord *word) const noexcept {
    return write_index_.find(reinterpret_cast<std::uintptr_t>(word)) != LineTable::kNone;
  }
  // What LineAccess may do alone in the window, and what load_long() may.
  void open_window() noexcept {
    bytes = is_limited_ || !writes_.empty() ? 0 : window_bytes_;
    bytes_beside_ = is_limited_ || writes_.empty() ? 0 : window_bytes_;
    last = detail::kNoLine;
  }
  void use(LineSegment &segment, std::uint64_t offset) noexcept;
  void use_again() noexcept;  // software.cpp, as the next two
  void begin_again() noexcept;
  void wait_for_blocker() noexcept;
  void limit(const CapacityModel &capacity) noexcept;
  void look_again() noexcept;
  void make_loadable(LineSegment &segment, std::uint64_t offset);
  [[nodiscard]] std::uint64_t load_over(LineSegment &segment, std::uint64_t offset,
                                        std::uint32_t size, LineWrite &entry);
  [[nodiscard]] std::uint64_t read_home(LineSegment &segment, std::uint64_t offset,
                                        std::uint32_t bytes);
  void note_read(const LineWord *word);
  void set_log_end() noexcept {
    log_end = log_.data() + std::min<std::size_t>(reads_max_, log_.size() - 1);
  }
  [[nodiscard]] LineWrite &write_entry(LineSegment &segment, std::uint64_t offset);
  void make_room_for_write();
  void settle(LineSegment &segment, std::uint64_t offset, std::uint64_t seen);
  void meet_upper(storage::PageId page);
  void refuse(UpperAnswer answer) noexcept;
  void meet_locked(const LineWord &word, std::uint64_t seen);
  [[nodiscard]] bool is_log_valid() const noexcept;
  void check(AbortCause verdict) {
    if (verdict != AbortCause::kNone) [[unlikely]]
      fail(verdict);
  }
  void doom(AbortCause cause) noexcept;
  [[nodiscard]] std::uint64_t model_now_ns() const noexcept;
  // Not long with the turn: all others wait as long.
  [[nodiscard]] Insists insists() const noexcept {
    return has_turn_ && insists_ == Insists::kLong ? Insists::kBriefly : insists_;
  }

  // Pauses of 40 to 140 cycles: a commit of a few lines takes 0.1 to 1 us. A committer, which
  // others wait for, spins less.
  static constexpr std::uint32_t kReadSpinRounds = 64, kCommitSpinRounds = 32;
  // Then a page that goes to and fro counts as busy.
  static constexpr std::uint32_t kAsksPerCommit = 4;

  // software_wait.cpp
  enum class Met : std::uint8_t { kGone, kFailSelf };
  [[nodiscard]] Met decide(const LineWord &word, std::uint64_t seen) noexcept;
  [[nodiscard]] static bool spin_until_changed(const LineWord &word, std::uint64_t seen,
                                               std::uint32_t rounds) noexcept;
  [[nodiscard]] bool wait_until_changed(const LineWord &word, std::uint64_t seen) noexcept;
  void wait_at_begin(const LineWord &word, std::uint64_t seen) noexcept;
  void suspect_context(std::uint32_t number) noexcept;
  void take_turn() noexcept;
  void give_turn() noexcept;
  void wait_for_turn() noexcept;

  // software_redo.cpp
  [[nodiscard]] AbortCause plan_redo() noexcept;
  [[nodiscard]] AbortCause await_redo_room(std::uint64_t record_bytes) noexcept;
  void encode_redo() noexcept;

  // software_commit.cpp
  struct NoRedo;
  struct Redo;
  [[nodiscard]] Status commit_writes() noexcept;
  template <class RedoPolicy>
  [[nodiscard]] Status commit_with(const RedoPolicy &redo, LineStateV1 &state) noexcept;
  template <class RedoPolicy>
  [[nodiscard]] AbortCause publish(const RedoPolicy &redo, LineStateV1 &state) noexcept;
  [[nodiscard]] AbortCause validate() noexcept;
  [[nodiscard]] AbortCause decide_commit() noexcept;
  void write_back() noexcept;
  void unlock_lines() noexcept;
  [[nodiscard]] AbortCause lock_lines() noexcept;
  [[nodiscard]] AbortCause lock_line(std::size_t index) noexcept;
  [[nodiscard]] AbortCause lock_line_in_use(std::size_t index, std::uint64_t seen) noexcept;
  [[nodiscard]] bool take_line(std::size_t index, std::uint64_t *seen) noexcept;
  void release_lines(std::size_t count) noexcept;
  [[nodiscard]] bool is_valid_at_commit() const noexcept;
  [[nodiscard]] AbortCause save_undo() noexcept;
  [[nodiscard]] bool has_undo_room(std::uint64_t head) const noexcept;
  Status end_aborted(AbortCause cause) noexcept;
  void finish() noexcept {
    detail::line_access = nullptr;
    is_running_ = false;
    if (has_turn_) [[unlikely]]
      give_turn();
  }

  LineMemory &memory_;
  Upper &upper_;
  RedoLog *const redo_log_;
  LineContextV1 *context_ = nullptr;
  std::uint32_t number_ = 0, slot_ = 0;
  std::uint64_t incarnation_ = 0;
  bool is_attached_ = false, is_running_ = false, is_doomed_ = false, is_query_ = false,
       has_turn_ = false;
  Insists insists_ = Insists::kBriefly;
  bool is_limited_ = false, reads_durable_only_ = false, undo_allocated_ = false,
       redo_allocated_ = false;
  AbortCause cause_ = AbortCause::kNone;
  AbortStatus status_{};
  Policy policy_;
  std::uint32_t attempt_ = 0, reads_max_ = kNoLimit;
  std::uint64_t age_ = 0, stamp_ = 0, instance_ = 0;  // instance_: number in the context's status
  // A locked line that made the commit let go, for the wait afterwards.
  const LineWord *blocked_on_ = nullptr;
  // The word as it was, and LineMemory::removals() then.
  std::uint64_t blocked_seen_ = 0, blocked_removals_ = 0;
  // Used last; LineAccess names it while `bytes` is not 0.
  LineSegment *segment_ = nullptr;
  std::uint32_t mappings_seen_ = 0;                    // of it, when it was
  std::uint64_t window_begin_ = 0, window_bytes_ = 0;  // of it, that LineAccess then names
  // As LineAccess::bytes, for an instance that has written.
  std::uint64_t bytes_beside_ = 0;
  std::vector<const LineWord *> log_;
  std::vector<LocalWrite> writes_;
  LineTable write_index_;
  std::uint64_t write_filter_ = 0;  // filter_bit() of the lines in write_index_
  // The line stored to last, in the view, and its entry: what goes on there needs no look into the
  // index. kNoLine: none, or the attempt is doomed.
  std::uintptr_t stored_line_ = detail::kNoLine;
  LineWrite *stored_ = nullptr;
  std::uint32_t writes_allocated_ = 0;  // entries of the context's redo log that have disk blocks
  std::size_t writes_room_ = 0;         // lines that need no make_room_for_write()
  // Durable domains: the running commit's record.
  std::vector<std::uint32_t> by_place_;  // writes, in the order of their places
  std::uint64_t redo_at_ = 0, redo_bytes_ = 0, redo_reserved_ = 0;
  Errc error_ = Errc::kOk;
  LineTable read_lines_;  // limited only: first touches
  std::unique_ptr<CapacityUse> use_;
};

}  // namespace tmh::line
