// levels/lock/outcomes.h -- commits and roll-backs, as the users of lockers tell them; counted for
// tools.
// Sharing:   note_commit(): a locker's owner. note_rollback(): any participant. A process that dies
//            right before leaves one out.
// Contexts:  async-signal-safe.
#pragma once

#include <cstdint>

#include "levels/lock/layout.h"
#include "levels/lock/lock_file.h"

namespace tmh::lock {

void note_commit(LockFile &file, LockerId locker) noexcept;
// name: of the transaction's locker; records: so many were undone.
void note_rollback(LockFile &file, std::uint64_t name, std::uint64_t records, UndoneBy by) noexcept;

}  // namespace tmh::lock
