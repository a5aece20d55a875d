// levels/line/commit_steps.h -- the order of a commit's steps, for lines of segments and of the
// process.
// Why:       stamps are the serial order. A committer locks its lines before it draws one, and
//            looks at what it has read after that: of two that overlap, the later one finds the
//            earlier one's lock, or what it has stored.
// Contexts:  of the committer. NOT async-signal-safe.
// Source:    hierarchy/exchange/PROTOCOL.md, "Level 1: one instance", which names the steps; TL2.
#pragma once

#include <atomic>
#include <cstdint>

#include "levels/line/abort_status.h"

namespace tmh::line {

// Steps, in this order:
//   lock()                    the written lines, where stores have not; after an abort none is
//   prepare()                 what must be there before the stamp; clock(): the line clock
//   note_stamp(stamp)
//   pass_commit_point(stamp)  validates; the commit takes effect
//   give_back()               instead, after an abort
//   write_back(stamp)         where the stores are not home yet
//   unlock(stamp), end()
template <class Steps>
[[nodiscard, gnu::always_inline]] inline Ending commit_in_order(Steps steps) noexcept {
  if (const Ending ending = steps.lock(); ending.is_abort()) return ending;
  steps.prepare();
  // seq_cst, as the look for pins: after the locks and before the look. An instance above stores
  // its pin, then reads this clock (Snapshot::announce): one of the two sees the other.
  const std::uint64_t stamp = steps.clock().fetch_add(1, std::memory_order_seq_cst) + 1;
  steps.note_stamp(stamp);
  if (const Ending ending = steps.pass_commit_point(stamp); ending.is_abort()) {
    steps.give_back();
    return ending;
  }
  steps.write_back(stamp);
  steps.unlock(stamp);
  steps.end();
  return {};
}

}  // namespace tmh::line
