// levels/line/capacity_watch.h -- what a running attempt has used of its capacity model.
// Shape:     off, or one CapacityUse. Every answer that is not kNone is to fail the attempt.
// Contexts:  one thread's. NOT async-signal-safe: begin() and read() may allocate.
#pragma once

#include <cstdint>
#include <memory>
#include <new>

#include "levels/line/capacity.h"
#include "levels/line/layout.h"
#include "levels/line/line_table.h"
#include "platform/assert.h"
#include "platform/process.h"
#include "platform/set_if_other.h"

namespace tmh::line {

class CapacityWatch {
 public:
  [[nodiscard]] bool is_on() const noexcept { return is_on_; }
  // model: null or unlimited: off. Outlives the attempt. seed_more: as CapacityUse::begin().
  [[nodiscard]] AbortCause begin(const CapacityModel *model, std::uint64_t seed_more) noexcept {
    platform::set_if_other(is_on_, model != nullptr && !model->is_unlimited());
    if (!is_on_) [[likely]]
      return AbortCause::kNone;
    if (use_ == nullptr) use_.reset(new (std::nothrow) CapacityUse());
    if (use_ == nullptr) return AbortCause::kCapacity;  // nothing fits into what cannot be kept
    lines_.clear();
    use_->begin(*model, now_ns(), seed_more);
    return AbortCause::kNone;
  }
  // While is_on(), after begin() has said kNone. read(): of any load; counts a line once.
  [[nodiscard]] AbortCause read(const LineWord *word) {
    const auto key = reinterpret_cast<std::uintptr_t>(word);
    if (lines_.find(key) != LineTable::kNone) return AbortCause::kNone;
    lines_.insert(key, 0);
    return use_->read(now_ns());
  }
  // Of the first store to a line. line: its number in memory.
  [[nodiscard]] AbortCause write(std::uint64_t line) noexcept {
    TMH_ASSERT(is_on_ && use_ != nullptr);
    return use_->write(line, now_ns());
  }
  // depth: of begins that are open.
  [[nodiscard]] AbortCause nest(std::uint32_t depth) const noexcept {
    return is_on_ && use_ != nullptr ? use_->nest(depth) : AbortCause::kNone;
  }

 private:
  [[nodiscard]] std::uint64_t now_ns() const noexcept {
    return use_->wants_time() ? platform::monotonic_ns() : 0;
  }

  bool is_on_ = false;
  std::unique_ptr<CapacityUse> use_;
  LineTable lines_;  // read so far
};

}  // namespace tmh::line
