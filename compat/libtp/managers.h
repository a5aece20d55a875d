// compat/libtp/managers.h -- what the transactions of a process share: locks, chains, types of
// records, and numbers.
// Sharing:   threads: all may call.
// Contexts:  NOT async-signal-safe. Throws tmh::Error.
// Source:    LIBTP 3.2: the modules around a transaction.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include <tmh/domain.hpp>

#include "compat/libtp/chain_file.h"
#include "compat/libtp/record_types.h"
#include "compat/libtp/segment_ranges.h"
#include "levels/lock/lock.h"

namespace tmh::tp {

// Throws tmh::Error with this thread's detail.
void throw_unless_ok(Errc error);

class Managers {
 public:
  explicit Managers(const Domain &domain) : domain_(domain), chains_(domain) {}

  void use(lock::LockTable *locks) noexcept { locks_ = locks; }
  [[nodiscard]] const Domain &domain() const noexcept { return domain_; }
  [[nodiscard]] const ChainFile &chains() const noexcept { return chains_; }
  // REQUIRES: use().
  [[nodiscard]] lock::LockTable &locks() const noexcept {
    TMH_ASSERT(locks_ != nullptr);
    return *locks_;
  }
  [[nodiscard]] RecordTypes &types() noexcept { return types_; }
  [[nodiscard]] SegmentRanges &ranges() noexcept { return ranges_; }
  // Records stay behind the commit.
  void keep_log(bool keeps) noexcept { keeps_log_ = keeps; }
  [[nodiscard]] bool keeps_log() const noexcept { return keeps_log_; }
  [[nodiscard]] bool is_durable() const { return domain_.durability() != Durability::kNone; }
  [[nodiscard]] bool is_strict() const { return domain_.durability() == Durability::kStrict; }

  // Returns when all steps so far are durable; at once in a volatile domain.
  void await_log() const;

  // Of a transaction. Outside of steps.
  [[nodiscard]] std::uint64_t draw_id();
  // In a step. Those behind a crash are larger.
  [[nodiscard]] std::uint64_t draw_lsn();

 private:
  const Domain domain_;
  const ChainFile chains_;
  RecordTypes types_;
  SegmentRanges ranges_;
  lock::LockTable *locks_ = nullptr;
  bool keeps_log_ = false;
  // The next life's numbers are larger.
  std::atomic<std::uint64_t> numbers_kept_{0};
};

}  // namespace tmh::tp
