// bench/support/tp_tmh.h -- tp.h's transactions as contestants of bench/tp, and the same code on
// plain memory.
// Shape:     records are words of a segment, a cache line each, locked by their number. All four
//            locks are taken first: account, teller, branch, row of history.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "bench/support/tp_work.h"

namespace tmh::bench {

enum class TransactionEnd : std::uint8_t {
  kCommit,      // four steps, then tp_commit()
  kCommitStep,  // everything in tp_commit_step()
  kAbort        // four steps, then tp_abort()
};

// What of a transaction is run; the rest is left out.
struct TransactionParts {
  TransactionEnd end = TransactionEnd::kCommit;
  bool has_locks = true, has_steps = true, has_records = true, has_stores = true;
};

// durability: of tp_options.
[[nodiscard]] std::unique_ptr<BankSession> open_tp_bank(const std::string &folder,
                                                        const BankScale &scale, unsigned process,
                                                        int durability,
                                                        const TransactionParts &parts);
// Loads and stores of private memory, no transactions.
[[nodiscard]] std::unique_ptr<BankSession> open_plain_bank(const BankScale &scale,
                                                           unsigned process);

}  // namespace tmh::bench
