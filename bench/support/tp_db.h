// bench/support/tp_db.h -- files of dbopen() as contestants of bench/tp: in transactions, and
// private ones without any.
#pragma once

#include <memory>
#include <string>

#include "bench/support/tp_work.h"

namespace tmh::bench {

// durability: as in tp_options; kPrivateFiles: no transactions, one process. All balances are 0
// then.
inline constexpr int kPrivateFiles = -1;
void make_db_bank(const std::string &folder, const BankScale &scale, int durability);
[[nodiscard]] std::unique_ptr<BankSession> open_db_bank(const std::string &folder,
                                                        const BankScale &scale, unsigned process,
                                                        int durability);

}  // namespace tmh::bench
