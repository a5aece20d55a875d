// bench/support/tp_work.h -- the transactions of bench/tp, and what runs them.
// Shape:     TPC-B's: an account's, its teller's and its branch's balance change, and a row of
//            history tells. 10 tellers a branch; the account is of the teller's branch for 85 of
//            100. History is a ring of rows for each process.
// Checked:   branches, tellers and accounts have the same sum, that of the committed transfers, and
//            a process's last row of history is that of its last transfer.
// Source:    TPC Benchmark B, revision 2.0.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

#include "bench/support/stats.h"
#include "platform/assert.h"

namespace tmh::bench {

inline constexpr std::uint64_t kTellersPerBranch = 10;
inline constexpr std::uint64_t kHistoryRows = 1024;  // kept, per process
inline constexpr unsigned kTellingProcesses = 10;    // that have a ring of history

struct BankScale {
  std::uint64_t branches, accounts;
  // Of files: a balance's record, from 8 on; a page; a process's cache.
  std::uint64_t record_bytes = 8, page_bytes = 512, cache_bytes = std::uint64_t{256} << 20;
  bool is_dense = false;  // branches, and tellers, lie side by side
  [[nodiscard]] std::uint64_t tellers() const noexcept { return branches * kTellersPerBranch; }
  // Records, those that are not ours included, from one branch or teller to the next: each has a
  // page, so a lock, of its own. A record has a key of 8 bytes, and some 12 that tell of it.
  [[nodiscard]] std::uint64_t spread() const noexcept {
    return is_dense ? 1 : page_bytes / (record_bytes + 20);
  }
};

struct Transfer {
  std::uint64_t branch, teller, account;
  std::int64_t amount;
  std::uint64_t number;  // of its process, from 1 on
};
struct HistoryRow {
  std::uint64_t number, teller, account;
  std::int64_t amount;
};
static_assert(sizeof(HistoryRow) == 32);

// The same transfers for every contestant.
class Transfers {
 public:
  Transfers(const BankScale &scale, std::uint64_t seed) noexcept : scale_(scale), random_(seed) {
    TMH_ASSERT(scale.branches > 0 && scale.accounts % scale.branches == 0);
  }
  [[nodiscard]] Transfer next() noexcept {
    constexpr std::int64_t kAmountMax = 999'999;
    Transfer drawn{};
    drawn.teller = random_.below(scale_.tellers());
    drawn.branch = drawn.teller / kTellersPerBranch;
    const std::uint64_t of_branch = scale_.accounts / scale_.branches;
    const std::uint64_t home = drawn.branch * of_branch;
    drawn.account = home + random_.below(of_branch);
    if (scale_.accounts > of_branch && random_.below(100) >= 85)
      drawn.account =
          (home + of_branch + random_.below(scale_.accounts - of_branch)) % scale_.accounts;
    drawn.amount = static_cast<std::int64_t>(random_.below(2 * kAmountMax + 1)) - kAmountMax;
    drawn.number = ++number_;
    return drawn;
  }

 private:
  BankScale scale_;
  Random random_;
  std::uint64_t number_ = 0;
};

struct BankSums {
  std::int64_t branches = 0, tellers = 0, accounts = 0;
};

// The bank as one process has it.
class BankSession {
 public:
  virtual ~BankSession() = default;
  // One transaction, begun again until it ends as it should.
  virtual void transact(const Transfer &transfer) = 0;
  // The same transaction, which only reads: the sum of the three balances.
  virtual std::int64_t look(const Transfer &transfer) {
    (void)transfer;
    throw std::runtime_error("this contestant has no transaction that only reads");
  }
  // The sums of one moment, while others transact.
  [[nodiscard]] virtual BankSums sums_in_query() {
    throw std::runtime_error("this contestant has no queries");
  }
  // Of all processes, as process 0 tells it, and 0 others; or of this process. Takes time.
  [[nodiscard]] virtual std::uint64_t log_bytes() { return 0; }
  // While nobody transacts.
  [[nodiscard]] virtual BankSums sums() = 0;
  // The row that the transfer of this number has written, if it is one of the last.
  [[nodiscard]] virtual HistoryRow row(unsigned process, std::uint64_t number) = 0;
  [[nodiscard]] virtual std::uint64_t retries() const = 0;
};

}  // namespace tmh::bench
