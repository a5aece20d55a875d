// levels/line/software_inline.h -- begin and end of a thread's instance on software lines, for who
// runs one. Apart from software.h, because these have probes, and whoever compiles a probe must
// know whether there are any.
#pragma once

#include "levels/line/software.h"
#include "observe/probes.h"
#include "platform/assert.h"
#include "platform/set_if_other.h"

namespace tmh::line {

[[gnu::always_inline]] inline bool SoftwareThread::begin(const Begin &begin) noexcept {
  TMH_ASSERT(is_attached_ && !is_running_);
  // The first locked instruction of a commit waits until all stores before it have left the
  // processor. So a begin stores no more than it must: what stays as it was is compared.
  attempt_ = begin.attempt;
  is_running_ = true;
  is_doomed_ = false;
  is_query_ = begin.is_query;
  insists_ = begin.insists;
  platform::set_if_other(reads_durable_only_, begin.reads_durable_only);
  context_->add(LineCount::kBegins, 1);
  commit_.redo().clear_error();
  if (begin.attempt != 0) [[unlikely]]
    begin_again();
  if (begin.takes_priority) [[unlikely]]
    priority_.take(number_);
  // acquire: pairs with line-stamp. What is stamped up to it is locked or written back when we
  // look.
  if (!begin.keeps_snapshot) rv = state_->clock.load(std::memory_order_acquire);
  rivals_.begin(begin.policy, begin.attempt == 0, rv, number_);
  begin.logs_reads ? log_.begin(*this, begin.reads_max) : log_.begin_without(*this);
  if (!commit_.writes().empty()) {
    commit_.writes().clear();
    written = 0;
    newest = detail::kNoLine;
  }
  const AbortCause verdict = capacity_.begin(begin.capacity, number_);
  window_.begin(*this, !capacity_.is_on());
  if (verdict != AbortCause::kNone) [[unlikely]]
    doom(verdict);
  detail::line_access = this;
  observe::probe::begin(observe::probe::kLines, commit_.instance(), begin.is_query ? 1 : 0);
  return true;
}

[[gnu::always_inline]] inline Status SoftwareThread::commit() noexcept {
  TMH_ASSERT(is_running_);
  if (is_doomed_ || !commit_.writes().empty()) return commit_writes();
  context_->add(LineCount::kCommits, 1);
  observe::probe::commit(observe::probe::kLines, rv, 0);
  finish();
  return Status::kCommitted;
}

}  // namespace tmh::line
