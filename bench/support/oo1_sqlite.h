// bench/support/oo1_sqlite.h -- SQLite as a contestant of bench/oo1.
#pragma once

#include <memory>
#include <string>

#include "bench/support/oo1_work.h"

namespace tmh::bench {

[[nodiscard]] std::unique_ptr<Oo1Store> open_sqlite_oo1(const std::string &folder);

}  // namespace tmh::bench
