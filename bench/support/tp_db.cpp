// bench/support/tp_db.cpp -- the bank in four B-trees of dbopen().
// Set-up:  as tp_berkeley_db.cpp: pages of 512 bytes, big-endian keys of 8 bytes, and records that
//          are not ours between those of branches and tellers, so that each of these has a page, so
//          a lock, of its own.
#define TP_NO_SHORT_NAMES
#include "bench/support/tp_db.h"

#include <tp/db.h>
#include <tp/paper.h>

#include <endian.h>
#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "platform/assert.h"

namespace tmh::bench {

namespace {

constexpr unsigned kPageSize = 512, kCacheBytes = 64U << 20;
constexpr std::uint64_t kSpread = 18;

[[noreturn]] void refuse(const char *what) {
  throw std::runtime_error(std::string("dbopen, ") + what + ": " + std::strerror(errno) + "; " +
                           tp_last_error());
}

enum Map : std::size_t { kBranches, kTellers, kAccounts, kHistory, kMaps };
constexpr std::array<const char *, kMaps> kFiles = {"/branches", "/tellers", "/accounts",
                                                    "/history"};

class DbBank final : public BankSession {
 public:
  DbBank(const std::string &folder, const BankScale &scale, unsigned process, int durability)
      : scale_(scale), process_(process), has_transactions_(durability != kPrivateFiles) {
    if (has_transactions_) {
      tp_options options{};
      options.durability = durability;
      if (tp_paper_open((folder + "/home").c_str(), &options) != TP_OK) refuse("environment");
    }
    BTREEINFO info{};
    info.psize = kPageSize;
    info.cachesize = kCacheBytes;
    for (std::size_t map = 0; map < kMaps; ++map) {
      maps_[map] = tp_dbopen((folder + kFiles[map]).c_str(), O_RDWR | O_CREAT, 0600, DB_BTREE,
                             has_transactions_ ? DB_SHARED | DB_TP : 0, &info);
      if (maps_[map] == nullptr) refuse("open");
    }
  }
  ~DbBank() override {
    for (DB *const map : maps_)
      if (map != nullptr) (void)map->close(map);
    if (has_transactions_) (void)tp_paper_close();
  }
  DbBank(const DbBank &) = delete;
  DbBank &operator=(const DbBank &) = delete;

  void load() {
    const HistoryRow none{};
    load(kBranches, scale_.branches * kSpread, &none.amount, sizeof none.amount);
    load(kTellers, scale_.tellers() * kSpread, &none.amount, sizeof none.amount);
    load(kAccounts, scale_.accounts, &none.amount, sizeof none.amount);
    load(kHistory, kTellingProcesses * kHistoryRows, &none, sizeof none);
  }

  void transact(const Transfer &transfer) override {
    const HistoryRow row{transfer.number, transfer.teller, transfer.account, transfer.amount};
    for (;;) {
      begin();
      if (add(kAccounts, transfer.account, transfer.amount) &&
          add(kTellers, transfer.teller * kSpread, transfer.amount) &&
          add(kBranches, transfer.branch * kSpread, transfer.amount) &&
          put(kHistory, key_of_row(process_, transfer.number), &row, sizeof row))
        return commit();
      if (errno != EDEADLK || !has_transactions_) refuse("put");
      if (tp_paper_abort() != TP_OK) refuse("abort");
      ++retries_;
    }
  }

  BankSums sums() override { return {sum(kBranches), sum(kTellers), sum(kAccounts)}; }
  HistoryRow row(unsigned process, std::uint64_t number) override {
    HistoryRow row{};
    if (!get(kHistory, key_of_row(process, number), &row, sizeof row)) refuse("get");
    return row;
  }
  std::uint64_t retries() const override { return retries_; }

 private:
  [[nodiscard]] static std::uint64_t key_of_row(unsigned process, std::uint64_t number) noexcept {
    return process * kHistoryRows + number % kHistoryRows;
  }
  void begin() const {
    if (has_transactions_ && tp_paper_begin() == 0) refuse("begin");
  }
  void commit() const {
    if (has_transactions_ && tp_paper_commit() != TP_OK) refuse("commit");
  }
  [[nodiscard]] bool get(std::size_t map, std::uint64_t number, void *value, std::size_t bytes) {
    std::uint64_t key = htobe64(number);
    const DBT k{&key, sizeof key};
    DBT d{};
    if (maps_[map]->get(maps_[map], &k, &d, 0) != RET_SUCCESS) return false;
    TMH_ASSERT(d.size == bytes);
    std::memcpy(value, d.data, bytes);
    return true;
  }
  [[nodiscard]] bool put(std::size_t map, std::uint64_t number, const void *value,
                         std::size_t bytes) {
    std::uint64_t key = htobe64(number);
    DBT k{&key, sizeof key};
    const DBT d{const_cast<void *>(value), bytes};
    return maps_[map]->put(maps_[map], &k, &d, 0) == RET_SUCCESS;
  }
  [[nodiscard]] bool add(std::size_t map, std::uint64_t number, std::int64_t amount) {
    std::int64_t balance = 0;
    if (!get(map, number, &balance, sizeof balance)) return false;
    balance += amount;
    return put(map, number, &balance, sizeof balance);
  }
  [[nodiscard]] std::int64_t sum(std::size_t map) {
    DBT key{}, value{};
    std::int64_t sum = 0;
    for (unsigned how = R_FIRST; maps_[map]->seq(maps_[map], &key, &value, how) == RET_SUCCESS;
         how = R_NEXT) {
      std::int64_t balance = 0;
      TMH_ASSERT(value.size == sizeof balance);
      std::memcpy(&balance, value.data, sizeof balance);
      sum += balance;
    }
    return sum;
  }
  void load(std::size_t map, std::uint64_t count, const void *value, std::size_t bytes) {
    constexpr std::uint64_t kAtOnce = 100;
    for (std::uint64_t first = 0; first < count; first += kAtOnce) {
      begin();
      for (std::uint64_t i = first; i < std::min(count, first + kAtOnce); ++i)
        if (!put(map, i, value, bytes)) refuse("put");
      commit();
    }
  }

  const BankScale scale_;
  const unsigned process_;
  const bool has_transactions_;
  std::array<DB *, kMaps> maps_{};
  std::uint64_t retries_ = 0;
};

}  // namespace

void make_db_bank(const std::string &folder, const BankScale &scale, int durability) {
  DbBank(folder, scale, 0, durability).load();
}

std::unique_ptr<BankSession> open_db_bank(const std::string &folder, const BankScale &scale,
                                          unsigned process, int durability) {
  return std::make_unique<DbBank>(folder, scale, process, durability);
}

}  // namespace tmh::bench
