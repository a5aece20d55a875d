// levels/line/write_set.cpp -- room for entries, and their order by place.
#include "levels/line/write_set.h"

#include <algorithm>
#include <numeric>

#include "platform/assert.h"

namespace tmh::line {

void WriteSet::attach(LineContextV1 &context) noexcept {
  TMH_ASSERT(targets_.empty());
  entries_ = context.writes;
  allocated_ = LineMemory::kWritesAtFirst;
  room_ = 0;
}

AbortCause WriteSet::make_more_room(LineMemory &memory, std::uint32_t context) {
  TMH_ASSERT(targets_.size() == room_);
  const std::size_t count = targets_.size();
  TMH_ASSERT(count <= allocated_);
  TMH_ASSERT(allocated_ <= kWritesMax);
  if (count == allocated_) {
    if (allocated_ == kWritesMax) return AbortCause::kCapacity;
    const std::uint32_t more = std::min(4 * allocated_, kWritesMax);
    if (memory.allocate_writes(context, more) != Errc::kOk) return AbortCause::kNoSpace;
    allocated_ = more;
  }
  if (count == targets_.capacity()) targets_.reserve(2 * count + 64);
  if (keeps_order_) by_place_.reserve(targets_.capacity());
  room_ = std::min<std::size_t>(allocated_, targets_.capacity());
  return AbortCause::kNone;
}

void WriteSet::add_to_index(std::uint32_t number) {
  TMH_ASSERT(is_indexed() && number < targets_.size());
  for (std::uint32_t i = number == kListed ? 0 : number; i <= number; ++i)
    index_.insert(key_of(targets_[i].word), i);
}

std::span<const std::uint32_t> WriteSet::by_place() noexcept {
  TMH_ASSERT(keeps_order_ && by_place_.capacity() >= targets_.size());
  by_place_.resize(targets_.size());
  std::iota(by_place_.begin(), by_place_.end(), 0u);
  const auto is_before = [this](std::uint32_t a, std::uint32_t b) {
    return entries_[a].at < entries_[b].at;
  };
  if (!std::is_sorted(by_place_.begin(), by_place_.end(), is_before))
    std::sort(by_place_.begin(), by_place_.end(), is_before);
  return by_place_;
}

}  // namespace tmh::line
