// levels/line/read_log.h -- the line words that an attempt has loaded from, in order.
// Shape:     entry 0 is a mark that names no line. LineAccess::log_top and log_end point into the
//            log: the short way of a load appends without asking here.
//            A query's first attempt keeps none: who needs one begins again.
// Contexts:  one thread's. Outlives its attempt: retry() and durability ask afterwards.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <tmh/detail/line_access.hpp>

#include "levels/line/layout.h"
#include "platform/assert.h"

namespace tmh::line {

// Of the running attempt, or the last one.
[[nodiscard]] inline bool keeps_log(const detail::LineAccess &access) noexcept {
  return access.log_top != nullptr;
}

class ReadLog {
 public:
  // Throws std::bad_alloc.
  void allocate() {
    if (words_.empty()) words_.resize(kEntriesAtFirst);
  }
  // An attempt begins that keeps no log.
  static void begin_without(detail::LineAccess &access) noexcept { access.log_top = nullptr; }
  // An attempt that logs at most `reads_max` words begins.
  void begin(detail::LineAccess &access, std::uint32_t reads_max) noexcept {
    TMH_ASSERT(!words_.empty());
    reads_max_ = reads_max;
    access.log_top = words_.data();
    set_end(access);
  }
  // Room for one more. False: `reads_max` are in it. Throws std::bad_alloc.
  [[nodiscard]] bool make_room(detail::LineAccess &access) {
    TMH_ASSERT(access.log_top >= words_.data() && access.log_top <= access.log_end);
    if (access.log_top != access.log_end) return true;
    const auto used = static_cast<std::size_t>(access.log_top - words_.data());
    if (used == reads_max_) return false;
    words_.resize(2 * words_.size());
    access.log_top = words_.data() + used;
    set_end(access);
    return true;
  }
  [[nodiscard]] std::span<const LineWord *const> words(
      const detail::LineAccess &access) const noexcept {
    if (!keeps_log(access)) return {};
    return {words_.data() + 1, static_cast<std::size_t>(access.log_top - words_.data())};
  }

 private:
  static constexpr std::size_t kEntriesAtFirst = 2048;  // 16 KiB: a third of the smallest L1d

  void set_end(detail::LineAccess &access) noexcept {
    access.log_end = words_.data() + std::min<std::size_t>(reads_max_, words_.size() - 1);
  }

  std::vector<const LineWord *> words_;
  std::uint32_t reads_max_ = 0;
};

}  // namespace tmh::line
