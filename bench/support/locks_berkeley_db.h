// bench/support/locks_berkeley_db.h -- Berkeley DB's lock table as a contestant of bench/locks.
#pragma once

#include <memory>
#include <string>

#include "bench/support/locks_work.h"

namespace tmh::bench {

// Makes the environment, of which open_berkeley_locks() then joins one process each.
void make_berkeley_locks(const std::string &folder);
[[nodiscard]] std::unique_ptr<LockSession> open_berkeley_locks(const std::string &folder);

}  // namespace tmh::bench
