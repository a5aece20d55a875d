// bench/support/tp_sqlite.h -- SQLite as a contestant of bench/tp.
#pragma once

#include <memory>
#include <string>

#include "bench/support/tp_work.h"

namespace tmh::bench {

// durability: as in tp_options, not volatile. All balances are 0 then.
void make_sqlite_bank(const std::string &folder, const BankScale &scale, int durability);
[[nodiscard]] std::unique_ptr<BankSession> open_sqlite_bank(const std::string &folder,
                                                            const BankScale &scale,
                                                            unsigned process, int durability);

}  // namespace tmh::bench
