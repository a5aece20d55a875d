// bench/support/oo1_berkeley_db.h -- Berkeley DB 5.3 as a contestant of bench/oo1.
#pragma once

#include <memory>
#include <string>

#include "bench/support/oo1_work.h"

namespace tmh::bench {

// In transactions, DB_TXN_SYNC.
[[nodiscard]] std::unique_ptr<Oo1Store> open_berkeley_oo1(const std::string &folder);

}  // namespace tmh::bench
