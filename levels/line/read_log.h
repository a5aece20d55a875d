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

inline constexpr std::uint32_t kNoLimit = ~0u;

class ReadLog {
 public:
  // Throws std::bad_alloc.
  void allocate(detail::LineAccess &access) {
    if (!words_.empty()) return;
    set_size(kEntriesAtFirst);
    set_end(access);
  }
  // An attempt begins that keeps no log.
  static void begin_without(detail::LineAccess &access) noexcept {
    access.log_top = nullptr;
    access.last_word = nullptr;  // what it has read, see SoftwareThread::has_read()
  }
  // An attempt that logs at most `reads_max` words begins.
  void begin(detail::LineAccess &access, std::uint32_t reads_max) noexcept {
    TMH_ASSERT(!words_.empty());
    access.log_top = first_;
    if (reads_max_ == reads_max) [[likely]]
      return;
    reads_max_ = reads_max;
    set_end(access);
  }
  // Room for one more. False: `reads_max` are in it. Throws std::bad_alloc.
  [[nodiscard]] bool make_room(detail::LineAccess &access) {
    TMH_ASSERT(access.log_top >= words_.data() && access.log_top <= access.log_end);
    if (access.log_top != access.log_end) return true;
    const auto used = static_cast<std::size_t>(access.log_top - words_.data());
    if (used == reads_max_) return false;
    set_size(2 * words_.size());
    access.log_top = first_ + used;
    set_end(access);
    return true;
  }
  // A line was read by a longer way, as it was at the snapshot. False: there is no room at once.
  [[nodiscard]] static bool note(detail::LineAccess &access, const LineWord &word) noexcept {
    access.last = detail::kNoLine;
    access.last_word = &word;
    if (!keeps_log(access) || *access.log_top == &word) return true;
    if (access.log_top == access.log_end) return false;
    *++access.log_top = &word;
    return true;
  }
  [[nodiscard]] std::span<const LineWord *const> words(
      const detail::LineAccess &access) const noexcept {
    if (!keeps_log(access)) return {};
    return {words_.data() + 1, static_cast<std::size_t>(access.log_top - words_.data())};
  }

 private:
  static constexpr std::size_t kEntriesAtFirst = 2048;  // 16 KiB: a third of the smallest L1d

  void set_size(std::size_t entries) {
    words_.resize(entries);
    first_ = words_.data();
    last_ = first_ + entries - 1;
  }
  void set_end(detail::LineAccess &access) const noexcept {
    access.log_end = reads_max_ == kNoLimit ? last_ : std::min(last_, first_ + reads_max_);
  }

  std::vector<const LineWord *> words_;
  const LineWord **first_ = nullptr, **last_ = nullptr;  // of words_
  std::uint32_t reads_max_ = kNoLimit;
};

}  // namespace tmh::line
