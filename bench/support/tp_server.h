// bench/support/tp_server.h -- the bank at a server, as contestants of bench/tp: by the calls of
// dbopen(), and a request for each transaction; and the bank in Tcl.
#pragma once

#include <memory>
#include <string>

#include "bench/support/tp_work.h"

namespace tmh::bench {

// All REQUIRE a ServerProcess of the folder, which has the bank of make_db_bank().
// The same calls as open_db_bank(), in a process that TP_SERVER makes a client.
[[nodiscard]] std::unique_ptr<BankSession> open_server_bank(const std::string &folder,
                                                            const BankScale &scale,
                                                            unsigned process, int durability);
// A request for each transaction.
[[nodiscard]] std::unique_ptr<BankSession> open_request_bank(const std::string &folder,
                                                             const BankScale &scale,
                                                             unsigned process, int durability);

// The package tp was built.
[[nodiscard]] bool has_tcl() noexcept;
// In this process, in Tcl.
[[nodiscard]] std::unique_ptr<BankSession> open_tcl_bank(const std::string &folder,
                                                         const BankScale &scale, unsigned process,
                                                         int durability);

}  // namespace tmh::bench
