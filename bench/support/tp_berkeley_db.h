// bench/support/tp_berkeley_db.h -- Berkeley DB 5.3 as a contestant of bench/tp.
#pragma once

#include <memory>
#include <string>

#include "bench/support/tp_work.h"

namespace tmh::bench {

// Regions lie in `home`, files in `folder`; durability as in tp_options. All balances are 0 then.
void make_berkeley_bank(const std::string &home, const std::string &folder, const BankScale &scale,
                        int durability);
// aborts: each transaction is undone at its end.
[[nodiscard]] std::unique_ptr<BankSession> open_berkeley_bank(const std::string &home,
                                                              const std::string &folder,
                                                              const BankScale &scale,
                                                              unsigned process, int durability,
                                                              bool aborts);

}  // namespace tmh::bench
