// levels/line/process_load.h -- the short ways of a load over all memory of the process: as
// detail::line_load(), which has the reasons for the orders. Here the view is memory itself, with
// the instance's own stores, and an instance keeps a log.
// Contexts:  of the thread that runs the instance.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>

#include <tmh/detail/line_access.hpp>

#include "levels/line/process_lines.h"
#include "levels/line/process_thread.h"

namespace tmh::line {

// long_way(): the value, where no short way gets it. REQUIRES: as detail::line_load().
template <class T, class LongWay>
[[nodiscard, gnu::always_inline]] inline T process_load(detail::LineAccess &access,
                                                        const T *address, const LongWay &long_way) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const auto load_home = [&] {
    if constexpr (detail::kIsLineWord<T>) {
      return std::atomic_ref<T>(*const_cast<T *>(address)).load(std::memory_order_acquire);
    } else {
      return detail::load_large<T>(address);
    }
  };
  if ((at ^ access.last) < kLineBytes) [[likely]] {
    const T value = load_home();
    if (access.last_word->load(std::memory_order_relaxed) > access.rv) [[unlikely]]
      return long_way();
    return value;
  }
  if (at - access.newest < kLineBytes) return load_home();  // locked by this thread
  if (at >= process_window_bytes(access)) [[unlikely]]
    return long_way();
  const std::uint64_t line = at / kLineBytes;
  const LineWord *const word = access.words + process_word_number(line);
  const std::uint64_t seen = word->load(std::memory_order_acquire);
  const T value = load_home();
  const LineWord **const top = access.log_top + 1;
  if (seen > access.rv || word->load(std::memory_order_relaxed) != seen || top > access.log_end)
      [[unlikely]]
    return long_way();
  *top = word;
  access.log_top = top;
  access.last_word = word;
  access.last = at;
  return value;
}

}  // namespace tmh::line
