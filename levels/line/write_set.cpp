// levels/line/write_set.cpp -- room for entries, and their order by place.
#include "levels/line/write_set.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "platform/assert.h"

namespace tmh::line {

void WriteSet::attach(LineContextV1 &context) noexcept {
  TMH_ASSERT(empty());
  entries_ = context.writes;
  allocated_ = LineMemory::kWritesAtFirst;
  room_ = listed_room_ = 0;
}

AbortCause WriteSet::make_more_room(LineMemory &memory, std::uint32_t context) {
  TMH_ASSERT(count_ == room_ && count_ <= allocated_);
  TMH_ASSERT(allocated_ <= kWritesMax);
  if (count_ == allocated_) {
    if (allocated_ == kWritesMax) return AbortCause::kCapacity;
    const std::uint32_t more = std::min(4 * allocated_, kWritesMax);
    if (memory.allocate_writes(context, more) != Errc::kOk) return AbortCause::kNoSpace;
    allocated_ = more;
  }
  if (count_ == targets_max_) {
    const std::uint32_t more = 2 * count_ + 64;
    auto targets = std::make_unique<Target[]>(more);
    std::copy_n(targets_.get(), count_, targets.get());
    targets_ = std::move(targets);
    targets_max_ = more;
  }
  if (keeps_order_) by_place_.reserve(targets_max_);
  index_.reserve(targets_max_);
  room_ = std::min(allocated_, targets_max_);
  listed_room_ = std::min(room_, kListed);
  return AbortCause::kNone;
}

[[gnu::noinline]] void WriteSet::add_to_index() const noexcept {
  TMH_ASSERT(is_indexed());
  for (; indexed_ < count_; ++indexed_) index_.insert(key_of(targets_[indexed_].home), indexed_);
}

std::span<const std::uint32_t> WriteSet::by_place() noexcept {
  TMH_ASSERT(keeps_order_ && by_place_.capacity() >= count_);
  by_place_.resize(count_);
  std::iota(by_place_.begin(), by_place_.end(), 0u);
  const auto is_before = [this](std::uint32_t a, std::uint32_t b) {
    return entries_[a].at < entries_[b].at;
  };
  if (!std::is_sorted(by_place_.begin(), by_place_.end(), is_before))
    std::sort(by_place_.begin(), by_place_.end(), is_before);
  return by_place_;
}

}  // namespace tmh::line
