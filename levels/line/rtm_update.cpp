// levels/line/rtm_update.cpp -- begin; and the steps of a commit, all at once.
#include "levels/line/rtm_update.h"

#include "levels/line/recovery.h"
#include "levels/line/rtm.h"
#include "levels/line/software_inline.h"
#include "observe/planted.h"
#include "platform/assert.h"

namespace tmh::line {

bool RtmUpdate::begin(AbortStatus *status) noexcept {
  TMH_ASSERT(status != nullptr && thread_.is_attached_ && !thread_.is_running_);
  thread_.is_doomed_ = thread_.is_query_ = false;
  thread_.is_running_ = true;
  thread_.insists_ = Insists::kNo;
  thread_.commit_.redo().clear_error();
  thread_.rv = kNow;
  thread_.log_.begin_without(thread_);
  thread_.commit_.writes().clear();
  thread_.written = 0;
  thread_.newest = detail::kNoLine;
  (void)thread_.capacity_.begin(nullptr, thread_.number_);
  thread_.window_.begin(thread_, true);
  detail::line_access = &thread_;
  std::uint32_t said = static_cast<std::uint32_t>(explicit_abort(AbortCode::kNoRoom));
  if (thread_.commit_.prepare_in_rtm()) said = rtm_begin();
  if (said == kRtmStarted) return true;
  *status = AbortStatus{said};
  end();
  return false;
}

void RtmUpdate::commit() noexcept {
  TMH_ASSERT(thread_.is_running_ && thread_.rv == kNow && !thread_.is_doomed_);
  SoftwareCommit &commit = thread_.commit_;
  if (!commit.writes().empty()) commit.run_in_rtm();
  thread_.context_->add(LineCount::kHardwareCommits, 1);
  rtm_end();
  end();
  if (commit.writes().empty()) return;
  thread_.rv = commit.stamp();
  commit.tell_others();
}

// acquire: all that it has read is stamped up to here
void RtmUpdate::end() noexcept {
  thread_.rv = thread_.state_->clock.load(std::memory_order_acquire);
  thread_.is_running_ = false;
  detail::line_access = nullptr;
}

bool SoftwareCommit::prepare_in_rtm() noexcept {
  if (pins_.any(std::memory_order_relaxed)) undo_.prepare_in_rtm();
  return !redo_.is_on() || redo_.prepare_in_rtm();
}

void SoftwareCommit::run_in_rtm() noexcept {
  TMH_ASSERT(!writes_.empty() && context_ != nullptr);
  // relaxed, all: the processor publishes them at once
  if (state_->priority.load(std::memory_order_relaxed) != 0) rtm_abort(AbortCode::kExclusiveHeld);
  for (const WriteSet::Target &target : writes_.targets()) {
    const std::uint64_t word = target.word->load(std::memory_order_relaxed);
    if (!is_free(word) && !observe::is_planted(observe::Planted::kRtmWordsUnseen))
      rtm_abort(is_locked(word) ? AbortCode::kLineLocked : AbortCode::kUpperHolds);
  }
  if (redo_.is_on()) {
    if (!redo_.plan_in_rtm(writes_)) rtm_abort(AbortCode::kNoRoom);
    redo_.encode(writes_, redo_.time_of_rtm_ns());
  }
  const bool is_pinned =
      pins_.any(std::memory_order_relaxed) && !observe::is_planted(observe::Planted::kNoUndoWords);
  const std::uint64_t stamp = state_->clock.load(std::memory_order_relaxed) +
                              (observe::is_planted(observe::Planted::kRtmStampOld) ? 0 : 1);
  state_->clock.store(stamp, std::memory_order_relaxed);
  if (is_pinned && undo_.save(writes_, stamp, releaser_.oldest_line_pin()).is_abort())
    rtm_abort(AbortCode::kNoRoom);
  context_->stamp.store(stamp, std::memory_order_relaxed);
  if (redo_.is_on()) redo_.show_in_rtm(stamp);
  for (std::size_t i = 0; i < writes_.size(); ++i) {
    write_back_line(writes_.entry(i), writes_.target(i).home);
    writes_.target(i).word->store(stamp, std::memory_order_relaxed);
  }
}

void SoftwareCommit::tell_others() noexcept {
  state_->changed.notify();
  if (undo_.is_short()) undo_.allocate_ahead();
  if (redo_.is_on()) redo_.end_rtm();
}

}  // namespace tmh::line
