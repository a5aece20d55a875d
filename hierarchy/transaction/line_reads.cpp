// hierarchy/transaction/line_reads.cpp -- sleeping until a line changes.
#include "hierarchy/transaction/line_reads.h"

#include <algorithm>
#include <utility>

#include "hierarchy/domain/domain.h"
#include "hierarchy/transaction/raise.h"
#include "hierarchy/transaction/retry.h"
#include "platform/assert.h"

namespace tmh::detail {

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
    TMH_ASSERT(number < storage::kSegmentsMax);
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
  TMH_ASSERT(domain.lines() != nullptr);
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
  count_sleep(domain, slept);
  check(in_vain);
  if (is_unmapped) check(fail_unmapped());
}

}  // namespace tmh::detail
