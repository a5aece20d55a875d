// bench/support/contention_tp.h -- the bank of bench/contention under transactions of tp.h: locks
// of the bank and its accounts, a step for each account.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

struct tp_env;

namespace tmh::bench {

struct BankTransfer {
  std::uint64_t from = 0, to = 0;
  std::int64_t amount = 0;
};

// One process's. The environment is volatile; accounts are integers, a cache line each.
class TpTeller {
 public:
  TpTeller(const std::string &folder, std::size_t bytes);
  ~TpTeller();
  TpTeller(const TpTeller &) = delete;
  TpTeller &operator=(const TpTeller &) = delete;

  [[nodiscard]] std::byte *data() const noexcept { return data_; }
  // Until it has committed: attempts.
  [[nodiscard]] std::uint64_t transfer(const BankTransfer &transfer) const;
  // The body runs with the whole bank locked.
  void audit(const std::function<void()> &body) const;

 private:
  tp_env *env_ = nullptr;
  std::byte *data_ = nullptr;
};

}  // namespace tmh::bench
