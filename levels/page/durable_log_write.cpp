// levels/page/durable_log_write.cpp -- what the writer of the redo log does: which commits, in
// which order, as which records.
#include <algorithm>
#include <cstring>
#include <new>

#include "levels/page/durable_log.h"
#include "levels/storage/log_record.h"
#include "observe/planted.h"
#include "platform/failure.h"
#include "platform/process.h"
#include "platform/steps.h"

namespace tmh::page {

using platform::fail;
using platform::Step;
using platform::step;
using storage::LogState;
using storage::RecordHeaderV1;
using storage::RecordKind;

namespace {
// A batch is published in pieces of this size, so that the first of a long queue are acknowledged
// early.
constexpr std::uint64_t kBatchBytes = 4u << 20;
}  // namespace

Errc DurableLog::fail_log(Errc error) noexcept {
  const std::string detail = platform::failure_detail();
  // This process's own trouble: what it did not write others will. As the code of an end
  // kOutOfMemory would say that the instance has aborted.
  if (error == Errc::kOutOfMemory) {
    static_cast<void>(platform::fail_for_memory("no memory to write the redo log"));
    return Errc::kIo;
  }
  if (writer_.is_own_trouble() || cannot_note_) return error;
  state().error.store(static_cast<std::uint32_t>(error), std::memory_order_release);
  return fail(error, detail);
}

// What a dead writer had begun has a cut of its own; what was published after that needs another
// one.
Errc DurableLog::write_alone() noexcept {
  const std::uint64_t cuts = state().cuts;
  if (const Errc error = write_published(); error != Errc::kOk) return error;
  return lower_ != nullptr && state().cuts == cuts ? write_published() : Errc::kOk;
}

// Tells followers when it began and how long it is likely to take.
Errc DurableLog::timed_write() noexcept {
  LogState &s = state();
  const std::uint32_t cpu = storage::LogHandover::this_cpu();
  s.write_ns.store(handover_.expected_ns(cpu), std::memory_order_relaxed);
  const std::uint64_t began = platform::monotonic_ns();
  s.write_began_ns.store(began, std::memory_order_relaxed);
  const Errc error = writer_.write();
  handover_.note_write(cpu, platform::monotonic_ns() - began);
  return error;
}

// REQUIRES LogState::lock, or to be alone.
Errc DurableLog::write_published() noexcept {
  LogState &s = state();
  step(Step::kLogStart);
  storage::FlushPoint at = point();
  if (at.clock != s.durable_clock.load(std::memory_order_relaxed) ||
      at.line != s.durable_line.load(std::memory_order_relaxed)) {
    writer_.announce();  // its writer died first
    if (lower_ != nullptr) lower_->forget(at.line);
  }
  if (lower_ != nullptr) s.give_back_batch();
  storage::LogCut cut{};
  if (const Errc error = plan_cut(at, &cut); error != Errc::kOk) return fail_log(error);
  if (at.clock == cut.clock && at.line >= cut.line) return Errc::kOk;
  writer_.start();
  batch_start_ = writer_.end();
  batch_commits_ = batch_bytes_ = 0;
  cannot_note_ = false;
  while (has_upper(at, cut) || next_lower_ < lower_commits_.size()) {
    if (const Errc error = append_next(cut, &at); error != Errc::kOk) return fail_log(error);
    if (writer_.end() - batch_start_ < kBatchBytes) continue;
    if (const Errc error = finish_batch(at); error != Errc::kOk) return fail_log(error);
  }
  at.line = std::max(at.line, cut.line);
  const Errc error = finish_batch(at);
  return error == Errc::kOk ? error : fail_log(error);
}

// What was done under the domain lock before a commit was published comes before what the caller
// does with its slots. For whoever acquires the clock that is so anyway: that of another process by
// way of that one, of which ThreadSanitizer knows nothing. The lock is on the clock's line.
std::uint64_t DurableLog::acquire_published() const noexcept {
  const DomainState &s = memory_.state();
  // Entries and slots of these commits are there.
  const std::uint64_t clock = s.clock.load(std::memory_order_acquire);
  s.lock.acquire_only();
  return clock;
}

// What is to be written now. With a level below: everything stamped up to the clock below as it is
// now, and what of our own was published before the look at our clock that follows. What the former
// depends on of the latter is there: it was published before a page went below, hence before the
// stamp. What is left of a dead writer's cut comes first: the same set makes the same bytes.
Errc DurableLog::plan_cut(const storage::FlushPoint &at, storage::LogCut *cut) noexcept {
  lower_commits_.clear();
  next_lower_ = 0;
  if (lower_ == nullptr) {
    *cut = {at.line, acquire_published()};
    return Errc::kOk;
  }
  LogState &s = state();
  static_cast<void>(acquire_published());  // what is left of another process's cut
  *cut = s.cut[s.cuts & 1];
  if (at.line >= cut->line && !has_upper(at, *cut)) {
    cut->line = lower_->clock();
    lower_->settle(cut->line);
    cut->clock = acquire_published();
    s.cut[(s.cuts + 1) & 1] = *cut;
    // Death in between: the cut before still counts, and is done.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    ++s.cuts;
  }
  step(Step::kLogCut);
  return lower_->gather(at.line, cut->line, &lower_commits_);
}

// Is the next commit of this level in the cut? Those that follow the cut's line on the clock below
// come later.
bool DurableLog::has_upper(const storage::FlushPoint &at,
                           const storage::LogCut &cut) const noexcept {
  return at.clock < cut.clock &&
         (lower_ == nullptr || memory_.log_entry(at.position).line <= cut.line);
}

Errc DurableLog::append_next(const storage::LogCut &cut, storage::FlushPoint *at) noexcept {
  const bool is_lower = next_lower_ < lower_commits_.size() &&
                        (!has_upper(*at, cut) ||
                         lower_commits_[next_lower_].stamp <= memory_.log_entry(at->position).line);
  return is_lower ? append_lower(lower_commits_[next_lower_++], at) : append_commit(at);
}

Errc DurableLog::finish_batch(const storage::FlushPoint &at) noexcept {
  if (observe::is_planted(observe::Planted::kAcknowledgeBeforeSync)) {
    state().durable_line.store(at.line, std::memory_order_release);
    state().durable_clock.store(at.clock, std::memory_order_release);
  }
  if (writer_.end() != batch_start_)
    if (const Errc error = timed_write(); error != Errc::kOk) return error;
  writer_.publish(at, batch_commits_, batch_bytes_);
  if (lower_ != nullptr) {
    state().give_back_batch();  // after durable_lsn: see reserve()
    lower_->forget(at.line);
  }
  batch_start_ = writer_.end();
  batch_commits_ = batch_bytes_ = 0;
  return Errc::kOk;
}

void DurableLog::begin_record(std::uint64_t stamp, std::uint64_t time_ns) noexcept {
  record_.clear();
  part_ = 0;
  commit_bytes_ = 0;
  stamp_ = stamp;
  time_ns_ = time_ns;
}

// Moves *at behind the commit.
Errc DurableLog::append_commit(storage::FlushPoint *at) noexcept {
  const CommitLogEntry &first = memory_.log_entry(at->position);
  if (first.stamp.load(std::memory_order_relaxed) != at->clock + 1)
    return fail(Errc::kCorrupt, "tmh.commits does not follow the commit order");
  ++at->clock;
  if (first.slot == 0) {  // a page went below: no commit
    ++at->position;
    return Errc::kOk;
  }
  begin_record(at->stamp(), first.time_ns);
  if (first.page == kWideCommit) {
    if (const Errc error = append_wide(first); error != Errc::kOk) return error;
    at->position += kLogEntries + 1;
  } else {
    for (std::uint32_t i = 0; i < first.pages; ++i) {
      const CommitLogEntry &entry = memory_.log_entry(at->position + i);
      if (const Errc error = append_page(entry.slot, PageId{entry.page}, entry.lines);
          error != Errc::kOk)
        return error;
    }
    at->position += first.pages;
  }
  const Errc error = finish_record(RecordKind::kCommit);
  ++batch_commits_;
  batch_bytes_ += commit_bytes_;
  return error;
}

// A commit of the level below has made its differences itself; they are cut into records as
// everybody's.
Errc DurableLog::append_lower(const LowerCommit &commit, storage::FlushPoint *at) noexcept {
  at->line = commit.stamp;
  begin_record(at->stamp(), commit.time_ns);
  storage::DeltaCursor cursor(commit.deltas, commit.bytes);
  storage::PageDelta delta;
  while (cursor.next(&delta)) {
    std::byte data[kPageBytes];
    std::uint8_t words[storage::kLinesPerPage] = {};
    storage::unpack_delta(delta, words, data);
    if (const Errc error = append_difference(delta.page, delta.lines, words, data);
        error != Errc::kOk)
      return error;
  }
  if (cursor.is_malformed())
    return fail(Errc::kCorrupt, "tmh.contexts holds a damaged redo record");
  const Errc error = finish_record(RecordKind::kCommit);
  ++batch_commits_;
  batch_bytes_ += commit.reserved_bytes;
  return error;
}

// The ring does not list its pages: they are found by their stamp. Sorted by page, as plan() had
// them.
Errc DurableLog::append_wide(const CommitLogEntry &first) noexcept try {
  const std::uint64_t stamp = first.stamp.load(std::memory_order_relaxed);
  std::vector<std::pair<std::uint64_t, Slot>> versions;
  versions.reserve(first.pages);
  // relaxed: the clock has been acquired, and these slots were there before it
  const Slot end = memory_.state().version_capacity.load(std::memory_order_relaxed);
  for (Slot slot = 1; slot < end && versions.size() < first.pages; ++slot) {
    const VersionHead &head = memory_.version(slot);
    if (head.stamp.load(std::memory_order_acquire) == stamp) versions.emplace_back(head.page, slot);
  }
  if (versions.size() != first.pages)
    return fail(Errc::kCorrupt, "versions of a wide commit are missing");
  std::sort(versions.begin(), versions.end());
  for (const auto &[page, slot] : versions) {
    // acquire: pairs with ConsistencyTree::fold_into()
    const LineMask lines =
        std::atomic_ref(memory_.version(slot).lines).load(std::memory_order_acquire);
    if (const Errc error = append_page(slot, PageId{page}, lines); error != Errc::kOk) return error;
  }
  return Errc::kOk;
} catch (const std::bad_alloc &) {
  return platform::fail_for_memory("the redo log's record of a large commit");
}

Errc DurableLog::append_page(Slot slot, PageId page, LineMask lines) noexcept {
  return append_difference(page, lines, memory_.version(slot).words, memory_.version_data(slot));
}

// Cuts a transaction into records where RecordPlan::add() does.
Errc DurableLog::append_difference(PageId page, LineMask lines, const std::uint8_t *words,
                                   const std::byte *data) noexcept {
  if (memory_.has_separate_homes()) {
    if (const Errc error = changed_.note(page); error != Errc::kOk) {
      cannot_note_ = error != Errc::kCorrupt;
      return error;
    }
  }
  if (record_.add(page, lines, words, data)) return Errc::kOk;
  if (const Errc error = finish_record(RecordKind::kPart); error != Errc::kOk) return error;
  return record_.add(page, lines, words, data)
             ? Errc::kOk
             : fail(Errc::kCorrupt, "a page outgrows a log record");
}

Errc DurableLog::finish_record(RecordKind kind) noexcept {
  commit_bytes_ += record_.bytes();
  RecordHeaderV1 fields{};
  fields.kind = static_cast<std::uint16_t>(kind);
  fields.stamp = stamp_;
  fields.time_ns = time_ns_;
  fields.part = part_++;
  fields.total_bytes = kind == RecordKind::kCommit ? commit_bytes_ : 0;
  const Errc error = writer_.append(&record_, fields);
  record_.clear();
  return error;
}

Errc DurableLog::write_open(const storage::OpenPayloadV1 &open) noexcept {
  const storage::FlushPoint at = point();
  writer_.start();
  if (const Errc error = writer_.append_open(at.stamp(), platform::wall_clock_ns(), open);
      error != Errc::kOk)
    return error;
  if (const Errc error = writer_.write(); error != Errc::kOk) return error;
  writer_.publish(at, 0, 0);
  return Errc::kOk;
}

}  // namespace tmh::page
