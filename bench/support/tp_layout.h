// bench/support/tp_layout.h -- where the bank's records lie in memory that the contestants of
// bench/tp map.
// Shape:     a cache line each: branches, tellers, accounts, rows of history.
#pragma once

#include <cstddef>
#include <cstdint>

#include "bench/support/tp_work.h"
#include "platform/assert.h"

namespace tmh::bench {

// A cache line, so that neighbours do not conflict.
struct alignas(64) Record {
  std::int64_t balance;
};
struct alignas(64) TellingRow {
  HistoryRow row;
};

// Where the records lie.
class BankLayout {
 public:
  BankLayout(const BankScale &scale, void *base) noexcept
      : scale_(scale), records_(static_cast<Record *>(base)) {
    TMH_ASSERT(reinterpret_cast<std::uintptr_t>(base) % alignof(Record) == 0);
  }
  [[nodiscard]] static std::size_t bytes(const BankScale &scale) noexcept {
    constexpr std::size_t kPageBytes = 4096;
    const std::size_t bytes = (scale.branches + scale.tellers() + scale.accounts) * sizeof(Record) +
                              kTellingProcesses * kHistoryRows * sizeof(TellingRow);
    return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  }
  // Records are numbered: branches, tellers, accounts, rows of history.
  [[nodiscard]] std::uint64_t teller(std::uint64_t index) const noexcept {
    return scale_.branches + index;
  }
  [[nodiscard]] std::uint64_t account(std::uint64_t index) const noexcept {
    return teller(scale_.tellers()) + index;
  }
  [[nodiscard]] std::uint64_t row(unsigned process, std::uint64_t number) const noexcept {
    return account(scale_.accounts) + process * kHistoryRows + number % kHistoryRows;
  }
  [[nodiscard]] std::int64_t *balance(std::uint64_t record) const noexcept {
    return &records_[record].balance;
  }
  [[nodiscard]] HistoryRow *history(std::uint64_t record) const noexcept {
    static_assert(sizeof(Record) == sizeof(TellingRow));
    return &reinterpret_cast<TellingRow *>(&records_[record])->row;
  }
  [[nodiscard]] BankSums sums() const noexcept {
    BankSums sums;
    for (std::uint64_t i = 0; i < scale_.branches; ++i) sums.branches += *balance(i);
    for (std::uint64_t i = 0; i < scale_.tellers(); ++i) sums.tellers += *balance(teller(i));
    for (std::uint64_t i = 0; i < scale_.accounts; ++i) sums.accounts += *balance(account(i));
    return sums;
  }

 private:
  BankScale scale_;
  Record *records_;
};

}  // namespace tmh::bench
