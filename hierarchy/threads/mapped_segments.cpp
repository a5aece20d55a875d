// hierarchy/threads/mapped_segments.cpp -- the list of mapped segments: changing and searching it.
#include "hierarchy/threads/mapped_segments.h"

#include <algorithm>

#include "platform/assert.h"

namespace tmh::detail {

void MappedSegments::reserve() {
  const std::scoped_lock guard(mutex_);
  mapped_.reserve(mapped_.size() + 1);
}

void MappedSegments::add(const MappedSegment &segment) noexcept {
  const std::scoped_lock guard(mutex_);
  TMH_ASSERT(mapped_.size() < mapped_.capacity());
  TMH_ASSERT(segment.base != nullptr && segment.max_bytes != 0);
  TMH_ASSERT(std::none_of(mapped_.begin(), mapped_.end(), [&](const MappedSegment &each) {
    return each.number == segment.number;
  }));
  mapped_.push_back(segment);
  epoch_.fetch_add(1, std::memory_order_release);
}

void MappedSegments::remove(std::uint32_t number) noexcept {
  const std::scoped_lock guard(mutex_);
  std::erase_if(mapped_, [number](const MappedSegment &each) { return each.number == number; });
  epoch_.fetch_add(1, std::memory_order_release);
}

void MappedSegments::forget_all() noexcept {
  const std::scoped_lock guard(mutex_);
  mapped_.clear();
}

std::vector<MappedSegment> MappedSegments::all() const {
  const std::scoped_lock guard(mutex_);
  return mapped_;
}

bool MappedSegments::holds(std::uintptr_t address) const noexcept {
  const std::scoped_lock guard(mutex_);
  return std::any_of(mapped_.begin(), mapped_.end(), [address](const MappedSegment &each) {
    return address - reinterpret_cast<std::uintptr_t>(each.base) < each.max_bytes;
  });
}

bool MappedSegments::have(const page::SegmentSet &wanted) const noexcept {
  page::SegmentSet mapped;
  const std::scoped_lock guard(mutex_);
  for (const MappedSegment &each : mapped_) mapped.set(each.number);
  return (wanted & ~mapped).none();
}

}  // namespace tmh::detail
