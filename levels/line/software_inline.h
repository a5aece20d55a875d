// levels/line/software_inline.h -- begin, end and extension of a thread's instance on software
// lines, for what runs one. Apart from software.h, because these have probes, and what compiles a
// probe must know whether there are any.
#pragma once

#include "levels/line/software.h"
#include "levels/line/validation.h"
#include "observe/planted.h"
#include "observe/probes.h"
#include "observe/steps.h"
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
  observe::probe::begin(observe::probe::kLines, commit_.instance(),
                        observe::probe::begins(begin.is_query));
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

template <class Before>
inline bool SoftwareThread::extend(const Before &before) noexcept {
  TMH_ASSERT(is_running_);
  // acquire: pairs with line-stamp: a commit stamped up to here has locked its lines before.
  const std::uint64_t now = state_->clock.load(std::memory_order_acquire);
  observe::step(observe::Step::kGapLineExtend);
  if (observe::is_planted(observe::Planted::kExtendComparesNew)) rv = now;
  if (!keeps_log(*this) && has_read()) return false;
  if (!are_unchanged(reads(), rv, number_, before) &&
      !observe::is_planted(observe::Planted::kLineNoExtensionCheck))
    return false;
  // The next begin says why.
  if (reads_durable_only_ && commit_.redo().drain() != Errc::kOk) return false;
  rv = now;
  // release: a committer that sees it knows that this reader reads at no earlier snapshot any more
  if (shown_ != nullptr) shown_->store(now, std::memory_order_release);
  return true;
}

}  // namespace tmh::line
