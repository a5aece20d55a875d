// levels/line/recovery.h -- what dead threads leave: locked lines, a context, the priority.
// Invariant: idempotent, also when cut short at any instruction: a line is touched only while it is
//            still locked by the dead context, and the context is freed last.
// Contexts:  async-signal-safe.
// Source:    hierarchy/exchange/PROTOCOL.md, "Death".
#pragma once

#include <cstdint>

#include "levels/line/line_memory.h"

namespace tmh::line {

// Stores the entry's bytes to the line's home. REQUIRES: the line is locked by whoever's redo log
// that is; or RTM runs.
void write_back_line(const LineWrite &entry, std::byte *home) noexcept;

// Room in the log that the attempts of a participant that has ended had reserved and did not come
// to use: the caller gives it back, or, if he dies first, nobody. REQUIRES the domain lock, and to
// come before recover_contexts().
[[nodiscard]] std::uint64_t take_reserved(LineMemory &memory, std::uint32_t slot,
                                          std::uint64_t incarnation) noexcept;

// Recovers all contexts of a participant that has ended. REQUIRES the domain lock. False: a context
// names a segment that is not open here; it stays the dead one's, with its lines there, for
// a participant that knows the segment. Its other lines are free.
bool recover_contexts(LineMemory &memory, std::uint32_t slot, std::uint64_t incarnation) noexcept;
// All contexts, whoever's. REQUIRES: nobody is attached, the folder lock is held, all segments are
// open.
bool recover_all_contexts(LineMemory &memory) noexcept;

// The page as it was at `snapshot`, given home's content: undoes newer words from the undo rings of
// all contexts. versions: of each line, as it was copied: commits that come meanwhile leave undo
// words, too, which others before them in a ring that has been looked at already would have to
// undo. Null: level 1 does not change the page meanwhile. REQUIRES: a line pin <= snapshot is
// announced, and was when each of the newer commits looked for pins.
void undo_page(const LineMemory &memory, storage::PageId page, std::uint64_t snapshot,
               const std::uint64_t *versions, std::byte *content) noexcept;

}  // namespace tmh::line
