// levels/line/undo_ring.h -- the words under a commit's writes, kept for snapshots of the level
// above that began before its stamp.
// Shape:     a ring, and lists through it by page. Words that no pin protects are overwritten; a
//            list leads there, and who follows it sees by the stamps that it ends.
// Sharing:   the ring lies in the context; its thread alone stores there, recovery.cpp's finder
//            reads.
// Contexts:  one thread's, inside a commit that holds its lines.
#pragma once

#include <cstdint>

#include "levels/line/abort_status.h"
#include "levels/line/line_memory.h"
#include "levels/line/write_set.h"

namespace tmh::line {

class UndoRing {
 public:
  void attach(LineMemory &memory, std::uint32_t context) noexcept {
    memory_ = &memory;
    number_ = context;
    context_ = &memory.context(context);
    // relaxed: acquired with the context
    blocks_begin_ = context_->undo_head.load(std::memory_order_relaxed) / kWordsPerChunk;
    blocks_end_ = blocks_begin_;
    writable_end_ = 0;
    is_short_ = false;
  }
  // REQUIRES: all lines of `writes` are locked by this context, or it runs in RTM. A ring without
  // room aborts: a word that a line pin may still need must not be overwritten. That ends with the
  // snapshot, so the status says that another try may succeed.
  [[nodiscard]] Ending save(const WriteSet &writes, std::uint64_t stamp,
                            std::uint64_t oldest_pin) noexcept;
  // Holding no line: the next commits ask for no blocks while they hold theirs.
  [[nodiscard]] bool is_short() const noexcept { return is_short_; }
  void allocate_ahead() noexcept;
  // Before a transaction in RTM that saves: stores to what lies next in the ring do not fault.
  void prepare_in_rtm() noexcept;

 private:
  // Blocks are asked for as the ring is used, so much at once.
  static constexpr std::uint64_t kWordsPerChunk = 1u << 14;
  static constexpr std::uint64_t kChunks = kUndoWords / kWordsPerChunk;

  [[nodiscard]] static std::uint64_t count_words(const WriteSet &writes) noexcept;
  [[nodiscard]] bool has_blocks(std::uint64_t end) noexcept;
  void link(std::uint64_t first, std::uint64_t end) noexcept;

  LineMemory *memory_ = nullptr;
  LineContextV1 *context_ = nullptr;
  std::uint32_t number_ = 0;
  // Chunks, counted on through every round of the ring.
  std::uint64_t blocks_begin_ = 0, blocks_end_ = 0;
  // Pages of words that prepare_in_rtm() has stored to, counted in the same way; 0: none.
  std::uint64_t writable_end_ = 0;
  bool is_short_ = false;
};

}  // namespace tmh::line
