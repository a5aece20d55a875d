// levels/page/redo/redo_writer.cpp -- writing what is published to the redo log.
#include "levels/page/redo/redo_writer.h"

#include <algorithm>

#include "observe/planted.h"
#include "observe/steps.h"
#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/process.h"
#include "platform/try.h"

namespace tmh::page {

using observe::Step;
using observe::step;
using platform::fail;
using storage::LogState;

namespace {
// A batch is published in pieces of this size, so that the first of a long queue are acknowledged
// early.
constexpr std::uint64_t kBatchBytes = 4u << 20;
}  // namespace

RedoWriter::RedoWriter(SharedState &memory, std::uint32_t slot)
    : memory_(memory), handover_(memory.log_state(), slot), encoder_(memory, writer_) {
  writer_.attach(memory.folder(), memory.control().header.domain_id, memory.log_state(),
                 memory.log_tails());
}

void RedoWriter::start_batch() noexcept {
  batch_start_ = writer_.end();
  encoder_.start_batch();
}

Errc RedoWriter::write_published(const LogLock::Held &held) noexcept {
  TMH_ASSERT(held.is_valid());
  LogState &s = state();
  step(Step::kLogStart);
  storage::FlushPoint at = point();
  if (at.clock != s.durable_clock.load(std::memory_order_relaxed) ||
      at.line != s.durable_line.load(std::memory_order_relaxed)) {
    writer_.announce();  // its writer died first
    if (gatherer_ != nullptr) gatherer_->forget(held, at.line);
  }
  if (gatherer_ != nullptr) s.give_back_batch();
  storage::LogCut cut{};
  if (const Errc error = plan_cut(held, at, &cut); error != Errc::kOk) return fail_log(error);
  if (at.clock == cut.clock && at.line >= cut.line) return Errc::kOk;
  writer_.start();
  start_batch();
  encoder_.forget_trouble();
  while (has_upper(at, cut) || next_gathered_ < gathered_.size()) {
    if (const Errc error = append_next(held, cut, &at); error != Errc::kOk) return fail_log(error);
    if (writer_.end() - batch_start_ < kBatchBytes) continue;
    if (const Errc error = finish_batch(held, at); error != Errc::kOk) return fail_log(error);
  }
  at.line = std::max(at.line, cut.line);
  const Errc error = finish_batch(held, at);
  return error == Errc::kOk ? error : fail_log(error);
}

// Where a writer died in the middle, the first call finishes its batch, up to the dead writer's
// cut. Commits that were published since then need a second batch with a cut of its own.
Errc RedoWriter::write_alone() noexcept {
  const LogLock::Held held = LogLock::alone();
  const std::uint64_t cuts = state().cuts;
  TMH_TRY(write_published(held));
  return gatherer_ != nullptr && state().cuts == cuts ? write_published(held) : Errc::kOk;
}

Errc RedoWriter::write_open(const storage::OpenPayloadV1 &open) noexcept {
  const storage::FlushPoint at = point();
  writer_.start();
  if (const Errc error = writer_.append_open(at.stamp(), platform::wall_clock_ns(), open);
      error != Errc::kOk)
    return error;
  TMH_TRY(writer_.write());
  writer_.publish(at, 0, 0);
  return Errc::kOk;
}

// What was done under the domain lock before a commit was published comes before what the caller
// does with its slots. For a thread that acquires the clock that is so anyway: that of another
// process by way of that one, of which ThreadSanitizer knows nothing. The lock is on the clock's
// line.
std::uint64_t RedoWriter::acquire_published() const noexcept {
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
Errc RedoWriter::plan_cut(const LogLock::Held &held, const storage::FlushPoint &at,
                          storage::LogCut *cut) noexcept {
  gathered_.clear();
  next_gathered_ = 0;
  if (gatherer_ == nullptr) {
    *cut = {at.line, acquire_published()};
    return Errc::kOk;
  }
  LogState &s = state();
  static_cast<void>(acquire_published());  // what is left of another process's cut
  *cut = s.cut[s.cuts & 1];
  if (at.line >= cut->line && !has_upper(at, *cut)) {
    cut->line = gatherer_->clock();
    gatherer_->settle(held, cut->line);
    cut->clock = acquire_published();
    s.cut[(s.cuts + 1) & 1] = *cut;
    // Death in between: the cut before still counts, and is done.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    ++s.cuts;
  }
  step(Step::kLogCut);
  return gatherer_->gather(held, at.line, cut->line, &gathered_);
}

// Is the next commit of this level in the cut? Those that follow the cut's line on the clock below
// come later.
bool RedoWriter::has_upper(const storage::FlushPoint &at,
                           const storage::LogCut &cut) const noexcept {
  return at.clock < cut.clock &&
         (gatherer_ == nullptr || memory_.commits().entry(at.position).line <= cut.line);
}

Errc RedoWriter::append_next(const LogLock::Held &held, const storage::LogCut &cut,
                             storage::FlushPoint *at) noexcept {
  TMH_ASSERT(has_upper(*at, cut) || next_gathered_ < gathered_.size());
  const bool is_lower = next_gathered_ < gathered_.size() &&
                        (!has_upper(*at, cut) || gathered_[next_gathered_].stamp <=
                                                     memory_.commits().entry(at->position).line);
  return is_lower ? encoder_.append(held, gathered_[next_gathered_++], at)
                  : encoder_.append(held, at);
}

Errc RedoWriter::finish_batch(const LogLock::Held &held, const storage::FlushPoint &at) noexcept {
  if (observe::is_planted(observe::Planted::kAcknowledgeBeforeSync)) {
    state().durable_line.store(at.line, std::memory_order_release);
    state().durable_clock.store(at.clock, std::memory_order_release);
  }
  if (writer_.end() != batch_start_) TMH_TRY(timed_write());
  writer_.publish(at, encoder_.batch().commits, encoder_.batch().bytes);
  if (gatherer_ != nullptr) {
    state().give_back_batch();  // after durable_lsn: see LogRoom::reserve()
    gatherer_->forget(held, at.line);
  }
  start_batch();
  return Errc::kOk;
}

// Tells followers when it began and how long it is likely to take.
Errc RedoWriter::timed_write() noexcept {
  LogState &s = state();
  const std::uint32_t cpu = storage::LogHandover::this_cpu();
  s.write_ns.store(handover_.expected_ns(cpu), std::memory_order_relaxed);
  const std::uint64_t began = platform::monotonic_ns();
  s.write_began_ns.store(began, std::memory_order_relaxed);
  const Errc error = writer_.write();
  handover_.note_write(cpu, platform::monotonic_ns() - began);
  return error;
}

Errc RedoWriter::fail_log(Errc error) noexcept {
  const std::string detail = platform::failure_detail();
  // This process's own trouble: what it did not write others will. As the code of an end
  // kOutOfMemory would say that the instance has aborted.
  if (error == Errc::kOutOfMemory) {
    static_cast<void>(platform::fail_for_memory("no memory to write the redo log"));
    return Errc::kIo;
  }
  if (writer_.is_own_trouble() || encoder_.cannot_note()) return error;
  state().error.store(static_cast<std::uint32_t>(error), std::memory_order_release);
  return fail(error, detail);
}

}  // namespace tmh::page
