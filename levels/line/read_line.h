// levels/line/read_line.h -- the long way of a load: word, data, the word again, until they fit.
// Contexts:  of the thread that runs the attempt. NOT async-signal-safe.
// Source:    include/tmh/detail/line_access.hpp, line_load_by(), which has the reasons for the
//            orders.
#pragma once

#include <cstdint>

#include <tmh/detail/line_access.hpp>

#include "levels/line/layout.h"
#include "levels/line/read_log.h"
#include "observe/steps.h"

namespace tmh::line {

// load(): copies what is there. It may run several times.
// settle(seen): does something about a word that is locked, U or newer than the snapshot. True:
// this thread has locked the line, and loads it as it is. May leave.
// refuse(): the attempt may read no more; does not return. (One without a limit never comes there.)
// kWatched: a thread may watch the steps.
template <bool kWatched, class Load, class Settle, class Refuse>
[[gnu::always_inline]] inline void read_line(detail::LineAccess &access, ReadLog &log,
                                             const LineWord &word, const Load &load,
                                             const Settle &settle, const Refuse &refuse) {
  for (;;) {
    const std::uint64_t seen = word.load(std::memory_order_acquire);
    if (seen > access.rv) [[unlikely]] {
      if (settle(seen)) return load();
      continue;
    }
    observe::step_if<kWatched>(observe::Step::kGapLineLooked);
    load();
    if (word.load(std::memory_order_relaxed) != seen) [[unlikely]]
      continue;
    while (!ReadLog::note(access, word))
      if (!log.make_room(access)) refuse();
    return;
  }
}

}  // namespace tmh::line
