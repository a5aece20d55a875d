// levels/line/undo_ring.cpp -- saving words, and whether there is room for them.
#include "levels/line/undo_ring.h"

#include "levels/line/rtm.h"
#include "platform/assert.h"

namespace tmh::line {

Ending UndoRing::save(const WriteSet &writes, std::uint64_t stamp,
                      std::uint64_t oldest_pin) noexcept {
  TMH_ASSERT(context_ != nullptr);
  TMH_ASSERT(!writes.empty());
  // Relaxed: this thread's.
  const std::uint64_t first = context_->undo_head.load(std::memory_order_relaxed);
  const std::uint64_t end = first + count_words(writes);
  TMH_ASSERT(end - first <= kUndoWords);
  // Before the first look: without blocks that may be SIGBUS.
  if (!has_blocks(end)) return AbortCause::kNoSpace;
  // Stamps only grow along the ring, so the last word to be overwritten speaks for all.
  if (context_->undo[(end - 1) % kUndoWords].stamp.load(std::memory_order_relaxed) > oldest_pin)
    return {AbortCause::kCapacity, AbortStatus{kStatusCapacity | kStatusRetry}};
  std::uint64_t head = first;
  for (std::size_t i = 0; i < writes.size(); ++i) {
    const LineWrite &entry = writes.entry(i);
    for (std::uint64_t word = 0; word < kLineBytes / 8; ++word) {
      if ((entry.mask >> (8 * word) & 0xff) == 0) continue;
      UndoWord &undo = context_->undo[head++ % kUndoWords];
      const Where at{static_cast<std::uint64_t>(entry.at) + 8 * word};
      const std::atomic_ref<std::uint64_t> home(
          *reinterpret_cast<std::uint64_t *>(writes.target(i).home + 8 * word));
      undo.stamp.store(0, std::memory_order_relaxed);
      // Release, all three: a reader that sees one of these sees the stamp's 0, or a later stamp,
      // when it looks again.
      undo.at.store(at, std::memory_order_release);
      // Relaxed: the line is locked.
      undo.value.store(home.load(std::memory_order_relaxed), std::memory_order_release);
      undo.stamp.store(stamp, std::memory_order_release);
    }
  }
  TMH_ASSERT(head == end);
  // Before a list leads there: no list leads past the head, where who comes after one that has died
  // stores next.
  context_->undo_head.store(end, std::memory_order_release);
  link(first, end);
  is_short_ = blocks_end_ - blocks_begin_ < kChunks &&
              blocks_end_ * kWordsPerChunk - end < kWordsPerChunk / 2;
  return {};
}

void UndoRing::allocate_ahead() noexcept {
  is_short_ = false;
  const std::uint64_t head = context_->undo_head.load(std::memory_order_relaxed);
  static_cast<void>(has_blocks(head + kWordsPerChunk));  // save() will say that there are none
}

void UndoRing::prepare_in_rtm() noexcept {
  constexpr std::uint64_t kWordsPerPage = kPageBytes / sizeof(UndoWord), kPages = 2;
  const std::uint64_t head = context_->undo_head.load(std::memory_order_relaxed);
  const std::uint64_t end = head / kWordsPerPage + kPages;
  if (end == writable_end_) return;
  if (!has_blocks(end * kWordsPerPage)) return;  // as allocate_ahead()
  for (std::uint64_t page = head / kWordsPerPage; page < end; ++page)
    make_writable(context_->undo[page * kWordsPerPage % kUndoWords].stamp);
  if (writable_end_ == 0)
    for (std::uint32_t list = 0; list < kUndoLists; list += kPageBytes / sizeof(LineWord))
      make_writable(context_->undo_last[list]);
  writable_end_ = end;
}

void UndoRing::link(std::uint64_t first, std::uint64_t end) noexcept {
  for (std::uint64_t i = first; i < end; ++i) {
    UndoWord &undo = context_->undo[i % kUndoWords];
    // Relaxed, both: this thread's. Release, both: who finds the word finds what is in it, and a
    // reader that sees `before` sees the stamp, as in save().
    LineWord &last = context_->undo_last[undo_list_of(undo.at.load(std::memory_order_relaxed))];
    undo.before.store(last.load(std::memory_order_relaxed), std::memory_order_release);
    last.store(i + 1, std::memory_order_release);
  }
}

std::uint64_t UndoRing::count_words(const WriteSet &writes) noexcept {
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < writes.size(); ++i) {
    const std::uint64_t mask = writes.entry(i).mask;
    for (std::uint64_t word = 0; word < kLineBytes / 8; ++word)
      count += (mask >> (8 * word) & 0xff) != 0 ? 1u : 0u;
  }
  return count;
}

// Of the words below `end`.
bool UndoRing::has_blocks(std::uint64_t end) noexcept {
  while (blocks_end_ * kWordsPerChunk < end && blocks_end_ - blocks_begin_ < kChunks) {
    const std::uint64_t first = blocks_end_ % kChunks * kWordsPerChunk;
    if (memory_->allocate_undo(number_, first, kWordsPerChunk) != Errc::kOk) return false;
    ++blocks_end_;
  }
  return true;
}

}  // namespace tmh::line
