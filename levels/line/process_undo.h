// levels/line/process_undo.h -- the lines that a running attempt over all memory of the process has
// locked, and what their bytes were before it stored to them.
// Shape:     entries in the order in which lines were opened. The line word that an entry's line
//            has is locked, and names the newest entry of its lines, which names the one before.
//            Layers: a nested instance that may be undone alone begins one; it saves bytes again
//            that the instance around it has saved.
// Invariant: restored from the newest entry to the oldest, each byte is as before the first entry.
// Contexts:  one thread's. NOT async-signal-safe; not inside RTM.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "levels/line/layout.h"
#include "platform/assert.h"

namespace tmh::line {

struct alignas(64) LineUndo {
  LineWord *word;        //  0
  std::byte *home;       //  8  of the line's first byte
  std::uint64_t mask;    // 16  bit i: data has byte i
  std::uint64_t before;  // 24  the word before the attempt locked it
  std::uint32_t number;  // 32  of this entry
  std::uint32_t older;   // 36  entry whose line has this word, too; kNoEntry
  alignas(64) std::uint64_t data[kLineBytes / 8];  // 64  old bytes, where the mask says so
};
static_assert(sizeof(LineUndo) == 128 && offsetof(LineUndo, data) == 64 &&
              offsetof(LineUndo, mask) == offsetof(LineUndo, data) - detail::kMaskBefore);

inline constexpr std::uint32_t kNoEntry = ~0u;

class ProcessUndo {
 public:
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  [[nodiscard]] std::uint32_t size() const noexcept { return count_; }
  void clear() noexcept { count_ = 0; }
  [[nodiscard]] LineUndo &operator[](std::uint32_t number) const noexcept {
    TMH_ASSERT(number < count_);
    return at(number);
  }
  [[nodiscard]] bool has_room() const noexcept { return count_ != room_; }
  // Entries stay where they are. Throws std::bad_alloc.
  void make_room() {
    if (has_room()) return;
    chunks_.push_back(std::make_unique_for_overwrite<Chunk>());
    room_ += kChunkEntries;
  }
  // The next entry, which the caller fills. REQUIRES: has_room().
  [[nodiscard]] LineUndo &next() const noexcept {
    TMH_ASSERT(has_room());
    return at(count_);
  }
  void add_next() noexcept { ++count_; }
  void drop_last() noexcept { --count_; }
  // Of the entries whose lines have one word, from this one on, the newest with this line; null:
  // none that is not older than `first`.
  [[nodiscard]] LineUndo *find(std::uint32_t newest, const std::byte *home,
                               std::uint32_t first) const noexcept {
    for (std::uint32_t i = newest; i != kNoEntry && i >= first; i = at(i).older)
      if (at(i).home == home) return &at(i);
    return nullptr;
  }
  // Entries from the newest down to `first`: their bytes are as they were.
  void restore(std::uint32_t first) noexcept;
  // All words get this stamp, each by the entry that has locked it. No entry is left.
  void release(std::uint64_t stamp) noexcept;

 private:
  static constexpr std::uint32_t kChunkEntries = 256;
  struct Chunk {
    LineUndo entries[kChunkEntries];
  };
  [[nodiscard]] LineUndo &at(std::uint32_t number) const noexcept {
    return chunks_[number / kChunkEntries]->entries[number % kChunkEntries];
  }

  std::vector<std::unique_ptr<Chunk>> chunks_;
  std::uint32_t count_ = 0, room_ = 0;
};

}  // namespace tmh::line
