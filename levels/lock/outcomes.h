// levels/lock/outcomes.h -- commits and roll-backs, as the users of lockers tell them; counted for
// tools.
// Sharing:   note_commit(): a locker's owner. note_rollback(): any participant. A process that dies
//            right before leaves one out.
// Contexts:  async-signal-safe.
#pragma once

#include "levels/lock/layout.h"
#include "levels/lock/lock_file.h"

namespace tmh::lock {

void note_commit(LockFile &file, LockerId locker) noexcept;
void note_rollback(LockFile &file, UndoneBy by) noexcept;

}  // namespace tmh::lock
