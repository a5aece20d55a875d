// levels/line/undo_ring.cpp -- saving words, and whether there is room for them.
#include "levels/line/undo_ring.h"

#include "platform/assert.h"

namespace tmh::line {

Ending UndoRing::save(const WriteSet &writes, std::uint64_t stamp,
                      std::uint64_t oldest_pin) noexcept {
  TMH_ASSERT(context_ != nullptr);
  TMH_ASSERT(!writes.empty());
  if (!is_allocated_ && memory_->allocate_undo(number_) != Errc::kOk) return AbortCause::kNoSpace;
  is_allocated_ = true;
  // Relaxed: this thread's.
  std::uint64_t head = context_->undo_head.load(std::memory_order_relaxed);
  if (!has_room(writes, head, oldest_pin))
    return {AbortCause::kCapacity, AbortStatus{kStatusCapacity | kStatusRetry}};
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
  // release: a reader that sees the head sees the words below it
  context_->undo_head.store(head, std::memory_order_release);
  return {};
}

// Stamps only grow along the ring, so the last word to be overwritten speaks for all.
bool UndoRing::has_room(const WriteSet &writes, std::uint64_t head,
                        std::uint64_t oldest_pin) const noexcept {
  TMH_ASSERT(!writes.empty());
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < writes.size(); ++i) {
    const std::uint64_t mask = writes.entry(i).mask;
    for (std::uint64_t word = 0; word < kLineBytes / 8; ++word)
      count += (mask >> (8 * word) & 0xff) != 0 ? 1u : 0u;
  }
  if (count > kUndoWords) return false;
  // relaxed: this thread's
  return context_->undo[(head + count - 1) % kUndoWords].stamp.load(std::memory_order_relaxed) <=
         oldest_pin;
}

}  // namespace tmh::line
