// levels/line/recovery.cpp -- finishing or giving back the commits of dead threads; old words for
// snapshots above.
#include "levels/line/recovery.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "levels/line/redo.h"
#include "observe/planted.h"
#include "observe/steps.h"
#include "platform/assert.h"

namespace tmh::line {

namespace {

bool is_known(const LineMemory &memory, Where at) noexcept {
  // acquire: pairs with LineMemory::add_segment(). Bytes of shared memory are not believed.
  return segment_of(at) < storage::kSegmentsMax && offset_of(at) % kLineBytes == 0 &&
         offset_of(at) < memory.segment(segment_of(at)).bytes.load(std::memory_order_acquire);
}

// False: some of the lines lie in a segment that this process has not opened. It frees the others
// at once, because a waiter for one of them may hold the domain lock, and then no process that has
// the missing segment open can get on. Each recoverer marks the lines that it has settled. So two
// processes, each with another segment open, recover the context together.
bool recover_lines(LineMemory &memory, std::uint32_t number, bool is_committed) noexcept {
  LineContextV1 &context = memory.context(number);
  // relaxed: published by the status, which the caller has acquired
  const std::uint64_t lines =
      std::min<std::uint64_t>(context.lines.load(std::memory_order_relaxed), kWritesMax);
  const std::uint64_t stamp = context.stamp.load(std::memory_order_relaxed);
  bool complete = true;
  for (std::uint64_t i = 0; i < lines; ++i) {
    LineWrite &entry = context.writes[i];
    if (entry.at == kSettled) continue;
    if (!is_known(memory, entry.at)) {
      complete = false;
      continue;
    }
    LineSegment &segment = memory.segment(segment_of(entry.at));
    LineWord &word = segment.words[offset_of(entry.at) / kLineBytes];
    // acquire: pairs with line-lock; what the dead one stored before it is seen
    if (word.load(std::memory_order_acquire) == locked_by(number, static_cast<std::uint32_t>(i))) {
      if (is_committed && (i == 0 || !observe::is_planted(observe::Planted::kLineHalfRecovery)))
        write_back_line(entry, segment.home + offset_of(entry.at));
      // relaxed: seen by the acquire above. release: as line-unlock.
      word.store(is_committed ? stamp : entry.before.load(std::memory_order_relaxed),
                 std::memory_order_release);
    }
    // Death in between: free and not yet said to be, never the reverse.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    entry.at = kSettled;
  }
  return complete;
}

// The attempt in which the thread died is counted as what it came to. Twice is once.
void settle_counts(LineContextV1 &context, bool is_committed) noexcept {
  std::uint64_t ended = context.count(LineCount::kCommits);
  for (std::uint32_t i = 0; i < kAbortCauseCount; ++i)
    ended += context.count(line_abort_count(static_cast<AbortCause>(i)));
  if (context.count(LineCount::kBegins) == ended ||
      observe::is_planted(observe::Planted::kDeathUncounted))
    return;
  context.add(is_committed ? LineCount::kCommits : line_abort_count(AbortCause::kDied),
              observe::is_planted(observe::Planted::kDeathCountedTwice) ? 2 : 1);
}

bool recover_context(LineMemory &memory, std::uint32_t number) noexcept {
  TMH_ASSERT(number < kContextsMax);
  LineContextV1 &context = memory.context(number);
  LineStateV1 &state = memory.state();
  // acquire: pairs with the release of PENDING and of COMMITTED
  const std::uint64_t status = context.status.load(std::memory_order_acquire);
  const bool is_committed = state_of(status) == State::kCommitted &&
                            !observe::is_planted(observe::Planted::kRecoveryUndoes);
  // Also where its lines must wait for a participant that knows the segment: the log need not, nor
  // the committers that wait for its priority.
  settle_redo(context);
  std::uint64_t own = number + 1ull;
  // release: as Priority::give().
  state.priority.compare_exchange_strong(own, 0, std::memory_order_release,
                                         std::memory_order_relaxed);
  if (state_of(status) != State::kIdle && !recover_lines(memory, number, is_committed))
    return false;
  settle_counts(context, is_committed);
  observe::step(observe::Step::kLineRecovered);
  // As its owner does.
  context.status.store(status_word(number_of(status), State::kIdle), std::memory_order_release);
  context.in_flight.store(0, std::memory_order_release);
  // relaxed, both: totals; the domain lock, or the folder lock, is held
  state.recovered.fetch_add(1, std::memory_order_relaxed);
  state.recovered_commits.fetch_add(is_committed ? 1 : 0, std::memory_order_relaxed);
  context.owner.store(Owner{}, std::memory_order_release);  // pairs with take_context()
  return true;
}

}  // namespace

std::uint64_t take_reserved(LineMemory &memory, std::uint32_t slot,
                            std::uint64_t incarnation) noexcept {
  std::uint64_t bytes = 0;
  for (std::uint32_t i = 0; i < memory.contexts_high(); ++i) {
    LineContextV1 &context = memory.context(i);
    // acquire, both: pair with take_context(), and with the release of COMMITTED and IDLE
    if (context.owner.load(std::memory_order_acquire) != owner_of(slot, incarnation)) continue;
    const bool is_committed =
        state_of(context.status.load(std::memory_order_acquire)) == State::kCommitted;
    const std::uint64_t reserved = context.redo_reserved.exchange(0, std::memory_order_relaxed);
    if (!is_committed) bytes += reserved;
  }
  return bytes;
}

bool recover_contexts(LineMemory &memory, std::uint32_t slot, std::uint64_t incarnation) noexcept {
  bool complete = true;
  for (std::uint32_t i = 0; i < memory.contexts_high(); ++i) {
    // acquire: pairs with take_context()
    if (memory.context(i).owner.load(std::memory_order_acquire) == owner_of(slot, incarnation))
      complete = recover_context(memory, i) && complete;
  }
  return complete;
}

bool recover_all_contexts(LineMemory &memory) noexcept {
  bool complete = true;
  for (std::uint32_t i = 0; i < memory.contexts_high(); ++i) {
    // acquire: pairs with take_context()
    if (memory.context(i).owner.load(std::memory_order_acquire) != Owner{})
      complete = recover_context(memory, i) && complete;
  }
  return complete;
}

void undo_page(const LineMemory &memory, storage::PageId page, std::uint64_t snapshot,
               const std::uint64_t *versions, std::byte *content) noexcept {
  constexpr std::size_t kWords = kPageBytes / 8;
  // Of the oldest newer commit to each word: what it replaced is state(snapshot).
  std::uint64_t first_stamp[kWords] = {};
  const std::uint64_t begin =
      static_cast<std::uint64_t>(where(storage::segment_number(page), storage::page_offset(page)));
  for (std::uint32_t c = 0; c < memory.contexts_high(); ++c) {
    const LineContextV1 &context = memory.context(c);
    // One that has never saved may have no blocks there.
    if (context.undo_head.load(std::memory_order_relaxed) == 0) continue;
    // Newest first; stamps only grow along a list. acquire: pairs with UndoRing::link(). The head
    // again, behind that: no list leads past it.
    std::uint64_t next =
        context.undo_last[undo_list_of(Where{begin})].load(std::memory_order_acquire);
    const std::uint64_t head = context.undo_head.load(std::memory_order_acquire);
    const std::uint64_t oldest = head > kUndoWords ? head - kUndoWords : 0;
    for (std::uint64_t newer = ~0ull; next > oldest && next <= head;) {
      const UndoWord &undo = context.undo[(next - 1) % kUndoWords];
      // acquire, all four: pair with the releases in UndoRing; the stamp is looked at again
      const std::uint64_t stamp = undo.stamp.load(std::memory_order_acquire);
      // 0, and a newer one than the word that has led here: overwritten, as are all before it, by
      // commits that no pin made keep them.
      if (stamp <= snapshot || stamp > newer) break;
      const std::uint64_t at = static_cast<std::uint64_t>(undo.at.load(std::memory_order_acquire));
      const std::uint64_t value = undo.value.load(std::memory_order_acquire);
      const std::uint64_t before = undo.before.load(std::memory_order_acquire);
      if (undo.stamp.load(std::memory_order_relaxed) != stamp || before >= next) break;
      newer = stamp;
      next = before;
      if (at - begin >= kPageBytes) continue;
      const std::size_t word = (at - begin) / 8;
      const bool is_later = versions != nullptr && stamp > versions[word * 8 / kLineBytes] &&
                            !observe::is_planted(observe::Planted::kBesideUndoesMore);
      if (is_later) continue;
      if (first_stamp[word] != 0 && first_stamp[word] < stamp) continue;
      first_stamp[word] = stamp;
      std::memcpy(content + 8 * word, &value, sizeof value);
    }
    if (versions != nullptr) observe::step(observe::Step::kGapBesideRing);
  }
}

}  // namespace tmh::line
