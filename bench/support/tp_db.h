// bench/support/tp_db.h -- files of dbopen() as contestants of bench/tp: in transactions, and
// private ones without any; 4.4BSD's own code on private ones.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "bench/support/tp_work.h"

namespace tmh::bench {

// All but the first are for one process, and without transactions.
enum class DbFiles : std::uint8_t {
  kTransactions,  // DB_SHARED | DB_TP
  kPrivate,       // NOTP of the paper
  kFlock,         // each transaction holds flock(2) of the four files
  kFsync,         // sync of the four files at the end of each transaction
  kBsd            // db 1.85: bench/support/bsd_db.h
};

// durability: as in tp_options, of kTransactions alone. All balances are 0 then.
void make_db_bank(const std::string &folder, const BankScale &scale, DbFiles files, int durability);
[[nodiscard]] std::unique_ptr<BankSession> open_db_bank(const std::string &folder,
                                                        const BankScale &scale, unsigned process,
                                                        DbFiles files, int durability);

}  // namespace tmh::bench
