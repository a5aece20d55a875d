// levels/line/write_set.h -- the lines that a running attempt has stored to: their entries in the
// context's redo log, found by where the line is in this process. Not by its word, which another
// line may share (process_lines.h).
// Shape:     entry i, in shared memory, belongs to target i, which says where the line is in this
//            process. A line has at most one entry. A few are found by looking at each target,
//            more by an index, which is made when it is asked.
// Sharing:   one thread's. Owner death: the entries below LineContextV1::lines are recovered.
// Contexts:  NOT async-signal-safe. Inside RTM what makes room aborts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
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
    if (indexed_ != 0) index_.clear();
    count_ = indexed_ = 0;
  }
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  [[nodiscard]] bool is_few() const noexcept { return count_ <= kListed; }
  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  [[nodiscard]] LineWrite &entry(std::size_t index) const noexcept {
    TMH_ASSERT(index < count_);
    return entries_[index];
  }
  [[nodiscard]] const Target &target(std::size_t index) const noexcept {
    TMH_ASSERT(index < count_);
    return targets_[index];
  }
  [[nodiscard]] std::span<const Target> targets() const noexcept {
    return {targets_.get(), count_};
  }
  [[nodiscard]] std::span<LineWrite> entries() const noexcept { return {entries_, count_}; }
  // Numbers of entries in the order of their places.
  [[nodiscard]] std::span<const std::uint32_t> by_place() noexcept;

  // home: of the line's first byte, as Target has it.
  [[nodiscard]] bool has(const std::byte *home) const noexcept {
    return number_of(home) != LineTable::kNone;
  }
  // Null: the line has no entry.
  [[nodiscard]] LineWrite *find(const std::byte *home) const noexcept {
    const std::uint32_t number = number_of(home);
    return number == LineTable::kNone ? nullptr : &entries_[number];
  }

  [[nodiscard]] bool has_room() const noexcept { return count_ != room_; }
  // Room for one more line in a set that stays so small that it needs no index?
  [[nodiscard]] bool has_listed_room() const noexcept { return count_ < listed_room_; }
  // All lists have room for one more line. kCapacity, kNoSpace; throws std::bad_alloc. After
  // anything but kNone the set is as it was.
  [[nodiscard]] AbortCause make_room(LineMemory &memory, std::uint32_t context) {
    if (has_room()) [[likely]]
      return AbortCause::kNone;
    return make_more_room(memory, context);
  }
  // The new entry of a line that has none, with no byte written. make_room() comes before.
  [[nodiscard]] LineWrite &insert(const Target &target, Where at) noexcept {
    return append(target, at);
  }
  // The same where has_listed_room().
  [[nodiscard]] LineWrite &insert_listed(const Target &target, Where at) noexcept {
    TMH_ASSERT(has_listed_room());
    return append(target, at);
  }

 private:
  static constexpr std::uint32_t kListed = 8;

  // A place in the index is one of eight-byte words.
  static_assert(kLineBytes % 8 == 0);
  [[nodiscard]] static std::uintptr_t key_of(const std::byte *home) noexcept {
    return reinterpret_cast<std::uintptr_t>(home) / (kLineBytes / 8);
  }
  [[nodiscard]] bool is_indexed() const noexcept { return !is_few(); }
  [[nodiscard]] std::uint32_t number_of(const std::byte *home) const noexcept {
    if (is_indexed()) {
      if (indexed_ != count_) add_to_index();
      return index_.find(key_of(home));
    }
    for (std::uint32_t i = 0; i < count_; ++i)
      if (targets_[i].home == home) return i;
    return LineTable::kNone;
  }
  [[nodiscard]] LineWrite &append(const Target &target, Where at) noexcept {
    TMH_ASSERT(has_room());
    TMH_ASSERT(find(target.home) == nullptr);
    TMH_ASSERT(offset_of(at) % kLineBytes == 0);
    const std::size_t index = count_++;
    LineWrite &entry = entries_[index];
    entry.at = at;
    entry.mask = 0;
    entry.kept = detail::Kept::kNo;
    targets_[index] = target;
    return entry;
  }
  // What is not there yet: a set that is not asked, as that of a large copy, needs no index.
  void add_to_index() const noexcept;
  [[nodiscard]] AbortCause make_more_room(LineMemory &memory, std::uint32_t context);

  LineWrite *entries_ = nullptr;
  std::unique_ptr<Target[]> targets_;
  std::uint32_t count_ = 0;
  std::uint32_t room_ = 0;         // lines that need no make_more_room()
  std::uint32_t listed_room_ = 0;  // of these, lines that need no index
  std::uint32_t allocated_ = 0;    // entries that have disk blocks
  std::uint32_t targets_max_ = 0;
  mutable LineTable index_;
  mutable std::uint32_t indexed_ = 0;  // entries in it
  const bool keeps_order_;
  std::vector<std::uint32_t> by_place_;
};

// line: its number in its segment, or in the window (window.h), which begins at a chunk.
static_assert(LineMemory::kChunkBytes % (64 * kLineBytes) == 0);
[[nodiscard]] inline bool may_have_written(const detail::LineAccess &access,
                                           std::uint64_t line) noexcept {
  return (access.written >> (line % 64) & 1) != 0;
}

// From now on the short way of a store goes to this line, and its loads look into the redo log.
inline void make_newest(detail::LineAccess &access, LineWrite &entry, std::uint64_t line,
                        const LineWord *word, std::uintptr_t first_byte) noexcept {
  access.written |= 1ull << (line % 64);
  if (access.last_word == word) access.last = detail::kNoLine;
  access.newest = first_byte;
  access.newest_bytes = reinterpret_cast<std::byte *>(entry.data);
}

}  // namespace tmh::line
