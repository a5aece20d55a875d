// levels/line/validation.h -- whether what an attempt has read is as it was.
// Contexts:  of the thread that runs the attempt. NOT async-signal-safe.
// Source:    TL2 (validation); LSA (extension).
#pragma once

#include <cstdint>
#include <span>

#include "levels/line/layout.h"
#include "observe/probes.h"

namespace tmh::line {

// No other committer has stamped between the snapshot and this stamp: nothing that was read can
// have changed.
[[nodiscard]] constexpr bool is_next(std::uint64_t stamp, std::uint64_t rv) noexcept {
  return stamp == rv + 1;
}

// The first of the words whose line has been written since the snapshot `rv`; null: none has.
// context: of the thread. before(entry): the word before this thread locked it, by the entry of its
// log that the lock names.
template <class Before>
[[nodiscard]] inline const LineWord *find_changed(std::span<const LineWord *const> words,
                                                  std::uint64_t rv, std::uint32_t context,
                                                  const Before &before) noexcept {
  for (const LineWord *const word : words) {
    // acquire: keeps the look behind the caller's look at the clock, or its stamp: a committer that
    // overwrites the line stamps later, or has locked it before
    const std::uint64_t now = word->load(std::memory_order_acquire);
    if (now <= rv) continue;
    if (is_locked(now) && context_of(now) == context && before(entry_of(now)) <= rv) continue;
    return word;
  }
  return nullptr;
}

// Has none of them? A probe names the first that has.
template <class Before>
[[nodiscard]] inline bool are_unchanged(std::span<const LineWord *const> words, std::uint64_t rv,
                                        std::uint32_t context, const Before &before) noexcept {
  const LineWord *const changed = find_changed(words, rv, context, before);
  if (changed == nullptr) return true;
  observe::probe::conflict(observe::probe::kLines, reinterpret_cast<std::uintptr_t>(changed));
  return false;
}

}  // namespace tmh::line
