// hierarchy/retry.cpp -- tmh::retry(): the sleep between two attempts.
#include "hierarchy/retry.h"

#include <algorithm>
#include <utility>

#include "hierarchy/actions.h"
#include "hierarchy/domain_impl.h"
#include "levels/line/rtm.h"
#include "platform/failure.h"

namespace tmh {

namespace detail {

using platform::fail;

namespace {
Errc fail_unmapped() noexcept {
  return fail(Errc::kNotMapped, "unmapped while retry() waited for a change in it");
}
}  // namespace

bool LineReads::OfSegment::holds(const LineWord *word) const noexcept {
  // acquire: pairs with add_segment()
  const std::uint64_t lines = segment->bytes.load(std::memory_order_acquire) / kLineBytes;
  return word >= segment->words && word < segment->words + lines;
}

bool LineReads::OfSegment::is_mapped() const noexcept {
  return segment->mappings.load(std::memory_order_relaxed) == mapping;  // LineUsers orders it
}

bool LineReads::OfSegment::is_changed(std::uint64_t snapshot) const noexcept {
  return std::any_of(reads.begin(), reads.end(), [snapshot](const LineWord *word) {
    return word->load(std::memory_order_acquire) > snapshot;  // acquire: as a read's
  });
}

LineReads::OfSegment &LineReads::of_segment(const line::LineMemory &memory, const LineWord *word) {
  for (OfSegment &known : segments_)
    if (known.holds(word)) return known;
  for (std::uint32_t number = 0;; ++number) {
    const line::LineSegment &segment = memory.segment(number);
    OfSegment found{&segment, segment.mappings.load(std::memory_order_relaxed), {}};
    if (found.holds(word)) return segments_.emplace_back(std::move(found));
  }
}

LineReads::LineReads(const line::LineMemory &memory, std::span<const LineWord *const> reads,
                     std::uint64_t snapshot)
    : snapshot_(snapshot) {
  for (const LineWord *const word : reads) of_segment(memory, word).reads.push_back(word);
}

void LineReads::await_change(DomainImpl &domain, std::int64_t deadline_ns) const {
  bool is_unmapped = false;
  Errc in_vain = Errc::kOk;
  const Slept slept = sleep_until(
      [&](Awaited *awaited) {
        if (domain.enter_lines() != Errc::kOk) return true;
        if (awaited != nullptr) awaited->prepare(domain.lines()->memory().state().changed);
        bool is_changed = false;
        is_unmapped = false;
        for (const OfSegment &segment : segments_) {
          if (!segment.is_mapped())
            is_unmapped = true;
          else if (segment.is_changed(snapshot_))
            is_changed = true;
        }
        if (!is_changed) in_vain = domain.check_commits();
        LineUsers::leave();
        if (is_changed) is_unmapped = false;  // perhaps it says that the other segment is gone
        return is_changed || is_unmapped || in_vain != Errc::kOk;
      },
      deadline_ns);
  domain.count_sleep(slept);
  check(in_vain);
  if (is_unmapped) check(fail_unmapped());
}

void DomainImpl::count_sleep(const Slept &slept) noexcept {
  if (slept.sleeps == 0) return;
  const auto open = keep_open();
  if (usable() != Errc::kOk) return;
  storage::Participant &own = memory_->participant(slot_);
  own.add_from_any_thread(storage::Count::kRetrySleeps, slept.sleeps);
  own.add_from_any_thread(storage::Count::kRetryWakes, slept.wakes);
}

void DomainImpl::wake_sleepers() noexcept {
  memory_->state().changed.notify();
  if (lines_ != nullptr) lines_->memory().state().changed.notify();
}

// REQUIRES that the domain stays open.
Errc DomainImpl::check_commits() const noexcept {
  return durable_ == nullptr ? Errc::kOk : durable_->log().check_writable();
}

bool DomainImpl::are_mapped(const page::Engine::SegmentSet &wanted) const noexcept {
  page::Engine::SegmentSet mapped;
  const std::scoped_lock guard(segments_mutex_);
  for (const auto &segment : segments_) mapped.set(segment->number);
  return (wanted & ~mapped).none();
}

// Has level 1 committed since, to whatever page? REQUIRES that the domain stays open.
bool DomainImpl::has_moved_at_lines(const page::Engine::ReadSet &reads) const noexcept {
  return reads.has_stand_ins && lines_ != nullptr &&
         lines_->directory().clock() != reads.line_snapshot;
}

// Has one of the pages been committed to since, or may it have been at the level below? REQUIRES
// that the domain stays open, and that its clock has been acquired.
bool DomainImpl::has_moved_at_pages(const page::Engine::ReadSet &reads,
                                    std::uint64_t snapshot) const noexcept {
  if (reads.page_count > page::Engine::ReadSet::kPagesMax) return true;
  // relaxed, both: the clock has been acquired
  if (memory_->state().announcements.load(std::memory_order_relaxed) != reads.announcements)
    return true;
  return std::any_of(
      reads.pages.begin(), reads.pages.begin() + static_cast<std::ptrdiff_t>(reads.page_count),
      [&](storage::PageId page) {
        return memory_->meta_to_read(page).stamp.load(std::memory_order_relaxed) > snapshot;
      });
}

// Level 1 changes what an instance of level 2 has read only after a release, which moves the clock
// as well; but for pages that level 2 could not take, and memory stood in for; and for what it had
// changed already when a snapshot that could not move on came there.
Errc DomainImpl::await_change() noexcept {
  if (usable() != Errc::kOk || runs_here()) return Errc::kOk;
  const bool is_last = current().last.domain == this;
  if (is_last && current().last.has_read_behind) return Errc::kOk;
  const bool by_retry = is_last && current().last.by_retry;
  if (by_retry && !current().last_reads.is_exact) {
    current().exact_reads_of = this;  // the next attempt, which begins at once, will know
    return Errc::kOk;
  }
  std::uint64_t seen = current().last.snapshot;
  if (!is_last) {
    const auto open = keep_open();
    if (usable() != Errc::kOk) return Errc::kOk;
    seen = engine_->snapshot();
  }
  const std::uint64_t epoch = segments_epoch();
  bool is_unmapped = false;
  Errc in_vain = Errc::kOk;
  // level 1 wakes those alone who have read there
  constexpr std::int64_t kUnannouncedNsMax = 1'000'000;
  const Slept slept = sleep_until(
      [&](Awaited *awaited) {
        {
          const auto open = keep_open();  // a close by another thread waits for one look
          if (usable() != Errc::kOk) return true;
          if (awaited != nullptr) awaited->prepare(memory_->state().changed);
          // acquire: as a begin's
          const bool has_moved = memory_->state().clock.load(std::memory_order_acquire) != seen;
          if (has_moved && (!by_retry || has_moved_at_pages(current().last_reads, seen)))
            return true;
          if (by_retry && has_moved_at_lines(current().last_reads)) return true;
          in_vain = check_commits();
          if (in_vain != Errc::kOk) return true;
        }
        // By hand it is not known what has been read: then any unmapping may have been its.
        if (!by_retry) return segments_epoch() != epoch;
        is_unmapped = !are_mapped(current().last_reads.segments);
        return is_unmapped;
      },
      by_retry ? current().last.deadline_ns : kNoDeadline,
      by_retry && current().last_reads.has_stand_ins ? kUnannouncedNsMax : kSleepNsMax);
  count_sleep(slept);
  if (in_vain != Errc::kOk) return in_vain;
  // A close unmaps, too: then it is the next begin that says why it fails.
  return is_unmapped && usable() == Errc::kOk ? fail_unmapped() : Errc::kOk;
}

// REQUIRES the runner's mutex. While the domain's clock stands, the attempt will touch what the one
// before has.
Errc DomainImpl::begin_exact_reads(page::Engine &engine) noexcept {
  current().exact_reads_of = nullptr;
  // acquire: as a begin's
  const bool is_changed =
      memory_->state().clock.load(std::memory_order_acquire) != current().last.snapshot;
  if (!is_changed && !are_mapped(current().last_reads.segments)) return fail_unmapped();
  engine.forget_kept();
  return Errc::kOk;
}

void raise_nothing_read() {
  fail(Errc::kNothingRead, "retry() would sleep for ever");
  raise(Errc::kNothingRead);
}

}  // namespace detail

namespace {

[[noreturn]] void retry_by(std::int64_t deadline_ns) {
  detail::require_instance("retry()");
  if (detail::current().hardware.depth != 0) line::rtm_abort(line::AbortCode::kRetry);
  if (detail::current().lines.depth == 0) {
    if (detail::irrevocable_here()) {
      platform::fail(Errc::kNestedMisuse, "retry() in an irrevocable instance");
      detail::raise(Errc::kNestedMisuse);
    }
    detail::note_page_reads_here();
    detail::current().retry_deadline_ns = deadline_ns;
    throw detail::RetryNow{};
  }
  line::SoftwareThread &thread = *detail::current().lines.thread;
  if (thread.is_doomed()) throw detail::LineAbort{};  // the body has swallowed the first
  if (thread.reads().empty()) detail::raise_nothing_read();
  detail::current().unwinds = detail::Unwinds::kToWait;
  detail::current().retry_deadline_ns = deadline_ns;
  thread.fail(AbortCause::kUser);
}

}  // namespace

void retry() { retry_by(detail::kNoDeadline); }

void retry_until(std::chrono::steady_clock::time_point deadline) {
  retry_by(deadline.time_since_epoch() / std::chrono::nanoseconds(1));
}

}  // namespace tmh
