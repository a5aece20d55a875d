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

Errc fail_unmapped() noexcept {
  return fail(Errc::kNotMapped, "unmapped while retry() waited for a change in it");
}

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
