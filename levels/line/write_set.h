// levels/line/write_set.h -- the lines that a running attempt has stored to: their entries in the
// context's redo log, found by line word.
// Shape:     entry i, in shared memory, belongs to target i, which says where the line is in this
//            process. A line has at most one entry.
// Sharing:   one thread's. Owner death: the entries below LineContextV1::lines are recovered.
// Contexts:  NOT async-signal-safe; not inside RTM.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <tmh/instance.hpp>

#include "levels/line/layout.h"
#include "levels/line/line_memory.h"
#include "levels/line/line_table.h"
#include "platform/assert.h"

namespace tmh::line {

class WriteSet {
 public:
  struct Target {
    LineWord *word;
    std::byte *home;  // of the line's first byte
  };

  // keeps_order: by_place() will be asked for. Throws std::bad_alloc.
  explicit WriteSet(bool keeps_order) : keeps_order_(keeps_order) {}

  // From now on entries lie in this context's redo log.
  void attach(LineContextV1 &context) noexcept;
  void clear() noexcept {
    if (targets_.empty()) return;
    targets_.clear();
    index_.clear();
    filter_ = 0;
    newest_line_ = detail::kNoLine;
  }
  [[nodiscard]] bool empty() const noexcept { return targets_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return targets_.size(); }
  [[nodiscard]] LineWrite &entry(std::size_t index) const noexcept {
    TMH_ASSERT(index < targets_.size());
    return entries_[index];
  }
  [[nodiscard]] const Target &target(std::size_t index) const noexcept {
    TMH_ASSERT(index < targets_.size());
    return targets_[index];
  }
  [[nodiscard]] std::span<const Target> targets() const noexcept { return targets_; }
  // Numbers of entries in the order of their places.
  [[nodiscard]] std::span<const std::uint32_t> by_place() noexcept;

  // line: its number in its segment, or in the window (window.h), which begins at a chunk.
  [[nodiscard]] bool may_have(std::uint64_t line) const noexcept {
    return (filter_ & filter_bit(line)) != 0;
  }
  // For instances of more than a few dozen lines, whose filter says yes to all.
  [[nodiscard]] bool has(const LineWord *word) const noexcept {
    return index_.find(key_of(word)) != LineTable::kNone;
  }
  // Null: the line has no entry.
  [[nodiscard]] LineWrite *find(const LineWord *word) const noexcept {
    const std::uint32_t index = index_.find(key_of(word));
    return index == LineTable::kNone ? nullptr : &entries_[index];
  }

  // All lists have room for one more line. kCapacity, kNoSpace; throws std::bad_alloc. After
  // anything but kNone the set is as it was.
  [[nodiscard]] AbortCause make_room(LineMemory &memory, std::uint32_t context) {
    if (targets_.size() != room_) [[likely]]
      return AbortCause::kNone;
    return make_more_room(memory, context);
  }
  // The new entry of a line that has none, with no byte written. make_room() comes before.
  [[nodiscard]] LineWrite &insert(std::uint64_t line, const Target &target, Where at) {
    TMH_ASSERT(targets_.size() < room_);
    TMH_ASSERT(find(target.word) == nullptr);
    TMH_ASSERT(offset_of(at) % kLineBytes == 0);
    const auto index = static_cast<std::uint32_t>(targets_.size());
    LineWrite &entry = entries_[index];
    entry.at = at;
    entry.mask = 0;
    filter_ |= filter_bit(line);
    index_.insert(key_of(target.word), index);
    targets_.push_back(target);
    return entry;
  }

  // The line stored to last needs no look into the index: its entry, when `address` is in it.
  [[nodiscard]] LineWrite *newest_at(std::uintptr_t address) const noexcept {
    return address - newest_line_ < kLineBytes ? newest_ : nullptr;
  }
  // line: address of its first byte, in the view.
  void set_newest(std::uintptr_t line, LineWrite &entry) noexcept {
    TMH_ASSERT(line % kLineBytes == 0);
    newest_line_ = line;
    newest_ = &entry;
  }
  void forget_newest() noexcept { newest_line_ = detail::kNoLine; }

 private:
  [[nodiscard]] static std::uintptr_t key_of(const LineWord *word) noexcept {
    return reinterpret_cast<std::uintptr_t>(word);
  }
  static_assert(LineMemory::kChunkBytes % (64 * kLineBytes) == 0, "a window begins at bit 0");
  [[nodiscard]] static std::uint64_t filter_bit(std::uint64_t line) noexcept {
    return 1ull << (line % 64);
  }
  [[nodiscard]] AbortCause make_more_room(LineMemory &memory, std::uint32_t context);

  LineWrite *entries_ = nullptr;
  std::vector<Target> targets_;
  LineTable index_;
  std::uint64_t filter_ = 0;  // filter_bit() of the lines in index_
  std::uintptr_t newest_line_ = detail::kNoLine;
  LineWrite *newest_ = nullptr;
  std::size_t room_ = 0;         // lines that need no make_more_room()
  std::uint32_t allocated_ = 0;  // entries that have disk blocks
  const bool keeps_order_;
  std::vector<std::uint32_t> by_place_;
};

}  // namespace tmh::line
