// levels/line/software.cpp -- life of a thread's instances: attach, begin, end, the snapshot.
#include "levels/line/software.h"

#include <algorithm>
#include <new>

#include "observe/planted.h"
#include "platform/probes.h"
#include "platform/process.h"
#include "platform/steps.h"

namespace tmh::detail {
constinit thread_local LineAccess *line_access = nullptr;
}  // namespace tmh::detail

namespace tmh::line {

namespace {
constexpr std::size_t kLogEntriesAtFirst = 2048;  // 16 KiB: a third of the smallest L1d

bool invalid_by(const LineWord &word) noexcept {
  platform::probe::conflict(platform::probe::kLines, reinterpret_cast<std::uintptr_t>(&word));
  return false;
}
}  // namespace

Errc SoftwareThread::attach(std::uint32_t slot, std::uint64_t incarnation) noexcept {
  try {
    if (log_.empty()) log_.resize(kLogEntriesAtFirst);
  } catch (const std::bad_alloc &) {
    return Errc::kOutOfMemory;
  }
  if (const Errc error = memory_.take_context(slot, incarnation, &number_); error != Errc::kOk)
    return error;
  context_ = &memory_.context(number_);
  slot_ = slot;
  incarnation_ = incarnation;
  // relaxed: acquired with the context; from now on this thread alone moves it on.
  instance_ = number_of(context_->status.load(std::memory_order_relaxed));
  writes_allocated_ = LineMemory::kWritesAtFirst;
  writes_room_ = 0;
  undo_allocated_ = redo_allocated_ = false;
  is_attached_ = true;
  return Errc::kOk;
}

void SoftwareThread::detach() noexcept {
  if (!is_attached_) return;
  if (is_running_) abandon();
  is_attached_ = false;
  memory_.give_back(number_);
}

// The window stays unless the segment has grown or is another one: looking for its ends costs as
// much as a small instance. Where loads take blocks it ends before the segment does, and stays all
// the same.
inline void SoftwareThread::use_again() noexcept {
  // As in segment_of_address().
  const std::uint64_t segment_bytes = segment_->bytes.load(std::memory_order_acquire);
  // While it is not mapped, another thread may be mapping it again, and setting the rest.
  const bool is_mapped_still =
      segment_bytes != 0 && segment_->mappings.load(std::memory_order_relaxed) == mappings_seen_;
  if (!is_mapped_still || (segment_bytes != window_bytes_ && !segment_->loads_take_blocks))
      [[unlikely]]
    return look_again();
  open_window();
}

bool SoftwareThread::begin(const Begin &begin) noexcept {
  policy_ = begin.policy;
  attempt_ = begin.attempt;
  is_query_ = begin.is_query;
  insists_ = begin.insists;
  context_->add(LineCount::kBegins, 1);
  is_running_ = true;
  is_doomed_ = false;
  cause_ = AbortCause::kNone;
  error_ = Errc::kOk;
  if (attempt_ != 0) [[unlikely]]
    begin_again();
  if (begin.takes_turn && !has_turn_) [[unlikely]]
    take_turn();
  blocked_on_ = nullptr;
  // acquire: pairs with line-stamp. What is stamped up to it is locked or written back when we
  // look.
  rv = memory_.state().clock.load(std::memory_order_acquire);
  // Unique as a context is one thread's and retries keep it; no shared counter is needed for the
  // order of begins.
  if (attempt_ == 0 || !policy_.keep_age) [[likely]]
    age_ = rv << 16 | number_;
  log_top = log_.data();
  reads_durable_only_ = begin.reads_durable_only;
  reads_max_ = begin.reads_max;
  set_log_end();
  if (!writes_.empty()) {
    writes_.clear();
    write_index_.clear();
    write_filter_ = 0;
    stored_line_ = detail::kNoLine;
  }
  is_limited_ = false;
  if (begin.capacity != nullptr) [[unlikely]]
    limit(*begin.capacity);
  if (segment_ != nullptr) [[likely]]
    use_again();
  detail::line_access = this;
  platform::probe::begin(platform::probe::kLines, instance_, is_query_ ? 1 : 0);
  return true;
}

void SoftwareThread::begin_again() noexcept {
  wait_for_blocker();
  if (insists_ != Insists::kNo && attempt_ >= (is_query_ ? kQueryTurnAttempts : kTurnAttempts))
    take_turn();
}

// The line that made the attempt before let go. Not one of an earlier instance, which went on at
// the level above; nor one that has been unmapped since.
void SoftwareThread::wait_for_blocker() noexcept {
  if (blocked_on_ != nullptr && blocked_removals_ == memory_.removals())
    static_cast<void>(wait_until_changed(*blocked_on_, blocked_seen_));
}

void SoftwareThread::limit(const CapacityModel &capacity) noexcept {
  if (capacity.is_unlimited()) return;
  is_limited_ = true;
  if (use_ == nullptr) use_.reset(new (std::nothrow) CapacityUse());
  if (use_ == nullptr) return doom(AbortCause::kCapacity);  // nothing fits into what cannot be kept
  read_lines_.clear();
  use_->begin(capacity, model_now_ns(), number_);
}

void SoftwareThread::abandon(AbortCause cause) noexcept { (void)end_aborted(cause); }

void SoftwareThread::doom(AbortCause cause) noexcept {
  platform::probe::abort(platform::probe::kLines, static_cast<std::uint32_t>(cause));
  cause_ = cause;
  status_ = status_of(cause);
  is_doomed_ = true;
  bytes = bytes_beside_ = 0;  // so that the short ways end, too
  last = stored_line_ = detail::kNoLine;
}

void SoftwareThread::fail(AbortCause cause) {
  doom(cause);
  throw detail::LineAbort{};
}

void SoftwareThread::nest(std::uint32_t depth) {
  if (!is_limited_ || use_ == nullptr || use_->nest(depth) == AbortCause::kNone) return;
  doom(AbortCause::kCapacity);
  status_ = AbortStatus{kStatusCapacity | kStatusNested};
  throw detail::LineAbort{};
}

bool SoftwareThread::is_log_valid() const noexcept {
  for (const LineWord *const word : reads()) {
    // acquire: pairs with line-unlock; an unchanged word says that no commit stamped before the
    // caller's look at the clock wrote the line.
    if (word->load(std::memory_order_acquire) > rv) return invalid_by(*word);
  }
  return true;
}

bool SoftwareThread::extend() noexcept {
  // acquire: pairs with line-stamp: a commit stamped up to here has locked its lines before.
  const std::uint64_t now = memory_.state().clock.load(std::memory_order_acquire);
  platform::step(platform::Step::kGapLineExtend);
  if (observe::is_planted(observe::Planted::kExtendComparesNew)) rv = now;
  if (!is_log_valid() && !observe::is_planted(observe::Planted::kLineNoExtensionCheck))
    return false;
  // The next begin says why.
  if (reads_durable_only_ && redo_log_->drain() != Errc::kOk) return false;
  rv = now;
  return true;
}

std::uint64_t SoftwareThread::durable_at() const noexcept {
  if (!writes_.empty()) return stamp_;  // its own record comes after all that it depends on
  std::uint64_t newest = 0;
  // A word that has changed since was not above the snapshot. acquire: as a read's
  for (const LineWord *const word : reads())
    newest = std::max(newest, std::min(word->load(std::memory_order_acquire), rv));
  return newest;
}

std::uint64_t SoftwareThread::model_now_ns() const noexcept {
  return use_->wants_time() ? platform::monotonic_ns() : 0;
}

}  // namespace tmh::line
