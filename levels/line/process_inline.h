// levels/line/process_inline.h -- begin, end and first stores to lines of an instance over all
// memory of the process, for the code that runs one. Apart from process_thread.h for the same
// reason as software_inline.h.
#pragma once

#include "levels/line/process_thread.h"
#include "observe/probes.h"
#include "platform/assert.h"
#include "platform/set_if_other.h"

namespace tmh::line {

[[gnu::always_inline]] inline void ProcessThread::begin_at_once(std::uint32_t attempt) noexcept {
  TMH_ASSERT(is_attached_ && !is_running_ && !is_query_);
  attempt_ = attempt;
  is_running_ = true;
  is_doomed_ = false;
  context_->add(LineCount::kBegins, 1);
  // acquire: as SoftwareThread::begin()
  rv = state_->clock.load(std::memory_order_acquire);
  log_.begin(*this, kNoLimit);
  if (!commit_.writes().empty()) {
    commit_.writes().clear();
    written = 0;
    newest = detail::kNoLine;
  }
  last = detail::kNoLine;
  platform::set_if_other(bytes, kProcessBytes);
  observe::probe::begin(observe::probe::kLines, 0, 0);
}

// As open_line(). No level is above, and memory takes no disk blocks. So nothing of the line is
// looked at before the commit, which need not wait for it then.
[[gnu::always_inline]] inline LineWrite &ProcessThread::open_process_line(std::uintptr_t at) {
  TMH_ASSERT(is_running() && !is_query());
  const std::uint64_t line = at / kLineBytes;
  WriteSet &writes = commit_.writes();
  if (window_bytes(*this) == 0 || may_have_written(*this, line) || !writes.has_room()) [[unlikely]]
    return open_any_process_line(at);
  LineWord *const word = memory_.segment(0).words + process_word_number(line);
  auto *const home = reinterpret_cast<std::byte *>(line * kLineBytes);
  __builtin_prefetch(word, 1);
  __builtin_prefetch(home, 1);
  LineWrite &entry = writes.insert({word, home}, where(0, line * kLineBytes));
  make_newest(*this, entry, line, word, line * kLineBytes);
  return entry;
}

inline bool ProcessThread::begin(const Begin &options) noexcept {
  insists_ = options.insists;
  if (options.attempt != 0) wait_to_begin_again(options.attempt);
  begin_at_once(options.attempt);
  return true;
}

[[gnu::always_inline]] inline Status ProcessThread::commit() noexcept {
  TMH_ASSERT(is_running_);
  if (is_doomed_ || !commit_.writes().empty()) return commit_writes();
  context_->add(LineCount::kCommits, 1);
  observe::probe::commit(observe::probe::kLines, rv, 0);
  end();
  return Status::kCommitted;
}

}  // namespace tmh::line
