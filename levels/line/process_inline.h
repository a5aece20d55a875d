// levels/line/process_inline.h -- begin, end and first stores to lines of an instance over all
// memory of the process, for the code that runs one. Apart from process_thread.h for the same
// reason as software_inline.h.
#pragma once

#include <cstring>

#include "levels/line/process_thread.h"
#include "observe/probes.h"
#include "platform/assert.h"
#include "platform/set_if_other.h"

namespace tmh::line {

[[gnu::always_inline]] inline void ProcessThread::begin_at_once(std::uint32_t attempt) noexcept {
  TMH_ASSERT(is_attached_ && !is_running_ && !is_query_ && undo_.empty());
  attempt_ = attempt;
  is_running_ = true;
  is_doomed_ = false;
  platform::set_if_other(has_stored_, false);
  context_->add(LineCount::kBegins, 1);
  // acquire: as SoftwareThread::begin()
  rv = state_->clock.load(std::memory_order_acquire);
  log_.begin(*this, kNoLimit);
  last = detail::kNoLine;
  platform::set_if_other(bytes, kProcessBytes);
  observe::probe::begin(observe::probe::kLines, 0, observe::probe::kUpdate);
}

// The line's word is locked by this thread now.
[[gnu::always_inline]] inline void ProcessThread::add_entry(LineWord &word, std::uintptr_t at,
                                                            std::uint64_t before,
                                                            std::uint32_t older) noexcept {
  LineUndo &entry = undo_.next();
  entry.word = &word;
  entry.home = reinterpret_cast<std::byte *>(at / kLineBytes * kLineBytes);
  entry.mask = 0;
  entry.before = before;
  entry.number = undo_.size();
  entry.older = older;
  undo_.add_next();
  use(entry);
}

[[gnu::always_inline]] inline void ProcessThread::use(LineUndo &entry) noexcept {
  if (last_word == entry.word) last = detail::kNoLine;
  newest = reinterpret_cast<std::uintptr_t>(entry.home);
  newest_bytes = reinterpret_cast<std::byte *>(entry.data);
}

[[gnu::always_inline]] inline void ProcessThread::open_process_line(std::uintptr_t at) {
  TMH_ASSERT(is_running());
  LineWord &word = word_of(at);
  __builtin_prefetch(reinterpret_cast<const void *>(at), 1);
  // relaxed: the CAS decides
  std::uint64_t seen = word.load(std::memory_order_relaxed);
  // The word `priority`: who has it goes first. relaxed: a courtesy.
  if (seen > rv || process_window_bytes(*this) == 0 || !undo_.has_room() ||
      state_->priority.load(std::memory_order_relaxed) != 0 ||
      // acquire: pairs with the release of the last thread that had the word locked
      !word.compare_exchange_strong(seen, locked_by(number_, undo_.size()),
                                    std::memory_order_acquire, std::memory_order_relaxed))
      [[unlikely]]
    return open_any_process_line(at);
  add_entry(word, at, seen, kNoEntry);
}

[[gnu::always_inline]] inline void ProcessThread::keep(std::uintptr_t at,
                                                       std::uint32_t size) noexcept {
  TMH_ASSERT(at - newest + size <= kLineBytes);
  const std::uint64_t wanted = byte_mask(at, size), kept = detail::newest_mask(*this);
  if ((wanted & ~kept) == 0) return;
  if ((wanted & kept) != 0) [[unlikely]]
    return keep_more(wanted);
  std::memcpy(newest_bytes + at % kLineBytes, reinterpret_cast<const void *>(at), size);
  detail::newest_mask(*this) = kept | wanted;
}

inline bool ProcessThread::begin(const Begin &options) noexcept {
  insists_ = options.insists;
  if (options.attempt != 0) wait_to_begin_again(options.attempt);
  begin_at_once(options.attempt);
  return true;
}

[[gnu::always_inline]] inline bool ProcessThread::try_commit() noexcept {
  TMH_ASSERT(is_running_);
  if (is_doomed_ || !undo_.empty()) return commit_stores();
  context_->add(LineCount::kCommits, 1);
  observe::probe::commit(observe::probe::kLines, rv, 0);
  end();
  return true;
}

inline Status ProcessThread::commit() noexcept {
  if (try_commit()) return Status::kCommitted;
  abandon();
  return Status::kAborted;
}

}  // namespace tmh::line
