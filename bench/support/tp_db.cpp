// bench/support/tp_db.cpp -- the bank in four B-trees of dbopen().
// Set-up:  as tp_berkeley_db.cpp: big-endian keys of 8 bytes, and records that are not ours between
//          those of branches and tellers, so that each of these has a page, so a lock, of its own.
#define TP_NO_SHORT_NAMES
#include "bench/support/tp_db.h"

#include <tp/db.h>
#include <tp/paper.h>

#include <endian.h>
#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/support/bsd_db.h"
#include "platform/assert.h"

namespace tmh::bench {

namespace {

[[noreturn]] void refuse(const char *what) {
  throw std::runtime_error(std::string("dbopen, ") + what + ": " + std::strerror(errno) + "; " +
                           tp_last_error());
}

enum Map : std::size_t { kBranches, kTellers, kAccounts, kHistory, kMaps };
constexpr std::array<const char *, kMaps> kFiles = {"/branches", "/tellers", "/accounts",
                                                    "/history"};

class DbBank final : public BankSession {
 public:
  DbBank(const std::string &folder, const BankScale &scale, unsigned process, DbFiles files,
         int durability)
      : scale_(scale),
        process_(process),
        files_(files),
        has_transactions_(files == DbFiles::kTransactions),
        record_(scale.record_bytes) {
    TMH_ASSERT(scale.record_bytes >= sizeof(std::int64_t) && scale.spread() > 0);
    if (has_transactions_) {
      tp_options options{};
      options.durability = durability;
      if (tp_paper_open((folder + "/home").c_str(), &options) != TP_OK) refuse("environment");
    }
    BTREEINFO info{};
    info.psize = static_cast<unsigned>(scale.page_bytes);
    info.cachesize = static_cast<unsigned>(scale.cache_bytes / kMaps);
    for (std::size_t map = 0; map < kMaps; ++map) {
      const std::string file = folder + kFiles[map];
      maps_[map] = files == DbFiles::kBsd
                       ? bsd_dbopen()(file.c_str(), O_RDWR | O_CREAT, 0600, DB_BTREE, &info)
                       : tp_dbopen(file.c_str(), O_RDWR | O_CREAT, 0600, DB_BTREE,
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
    load(kBranches, scale_.branches * scale_.spread(), record_.data(), record_.size());
    load(kTellers, scale_.tellers() * scale_.spread(), record_.data(), record_.size());
    load(kAccounts, scale_.accounts, record_.data(), record_.size());
    load(kHistory, kTellingProcesses * kHistoryRows, &none, sizeof none);
  }

  void transact(const Transfer &transfer) override {
    const HistoryRow row{transfer.number, transfer.teller, transfer.account, transfer.amount};
    for (;;) {
      begin();
      if (add(kAccounts, transfer.account, transfer.amount) &&
          add(kTellers, transfer.teller * scale_.spread(), transfer.amount) &&
          add(kBranches, transfer.branch * scale_.spread(), transfer.amount) &&
          put(kHistory, key_of_row(process_, transfer.number), &row, sizeof row))
        return commit();
      if (errno != EDEADLK || !has_transactions_) refuse("put");
      if (tp_paper_abort() != TP_OK) refuse("abort");
      ++retries_;
    }
  }

  std::int64_t look(const Transfer &transfer) override {
    const std::array<std::uint64_t, 3> numbers = {
        transfer.branch * scale_.spread(), transfer.teller * scale_.spread(), transfer.account};
    for (;;) {
      std::int64_t sum = 0;
      bool has_all = true;
      begin();
      for (const std::size_t map : {kAccounts, kTellers, kBranches}) {
        has_all = has_all && get(map, numbers[map], record_.data(), record_.size());
        sum += balance();
      }
      if (has_all) {
        commit();
        return sum;
      }
      if (errno != EDEADLK || !has_transactions_) refuse("get");
      if (tp_paper_abort() != TP_OK) refuse("abort");
      ++retries_;
    }
  }

  BankSums sums() override { return {sum(kBranches), sum(kTellers), sum(kAccounts)}; }
  BankSums sums_in_query() override {
    if (tp_query_begin(tp_paper_env()) != TP_OK) refuse("query");
    const BankSums read = sums();
    if (tp_query_end() != TP_OK) refuse("query");
    return read;
  }
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
    if (files_ == DbFiles::kFlock) lock_files(LOCK_EX);
    if (has_transactions_ && tp_paper_begin() == 0) refuse("begin");
  }
  void commit() const {
    if (files_ == DbFiles::kFlock) lock_files(LOCK_UN);
    if (files_ == DbFiles::kFsync)
      for (DB *const map : maps_)
        if (map->sync(map, 0) != RET_SUCCESS) refuse("sync");
    if (has_transactions_ && tp_paper_commit() != TP_OK) refuse("commit");
  }
  void lock_files(int operation) const {
    for (const DB *const map : maps_)
      if (::flock(map->fd(map), operation) != 0) refuse("flock");
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
    if (!get(map, number, record_.data(), record_.size())) return false;
    const std::int64_t changed = balance() + amount;
    std::memcpy(record_.data(), &changed, sizeof changed);
    return put(map, number, record_.data(), record_.size());
  }
  // Of the record that get() has read last.
  [[nodiscard]] std::int64_t balance() const {
    std::int64_t amount = 0;
    std::memcpy(&amount, record_.data(), sizeof amount);
    return amount;
  }
  [[nodiscard]] std::int64_t sum(std::size_t map) {
    DBT key{}, value{};
    std::int64_t sum = 0;
    int result = maps_[map]->seq(maps_[map], &key, &value, R_FIRST);
    for (; result == RET_SUCCESS; result = maps_[map]->seq(maps_[map], &key, &value, R_NEXT)) {
      std::int64_t balance = 0;
      TMH_ASSERT(value.size >= sizeof balance);
      std::memcpy(&balance, value.data, sizeof balance);
      sum += balance;
    }
    if (result == RET_ERROR) refuse("seq");
    return sum;
  }
  void load(std::size_t map, std::uint64_t count, const void *value, std::size_t bytes) {
    constexpr std::uint64_t kAtOnce = 1'000;
    for (std::uint64_t first = 0; first < count; first += kAtOnce) {
      begin();
      for (std::uint64_t i = first; i < std::min(count, first + kAtOnce); ++i)
        if (!put(map, i, value, bytes)) refuse("put");
      commit();
    }
  }

  const BankScale scale_;
  const unsigned process_;
  const DbFiles files_;
  const bool has_transactions_;
  std::vector<std::byte> record_;  // the balance first
  std::array<DB *, kMaps> maps_{};
  std::uint64_t retries_ = 0;
};

}  // namespace

void make_db_bank(const std::string &folder, const BankScale &scale, DbFiles files,
                  int durability) {
  // Without transactions, locks and syncs, for each would cost many times as much.
  DbBank(folder, scale, 0, files == DbFiles::kBsd ? files : DbFiles::kPrivate, durability).load();
  // The environment takes the files' pages over.
  if (files == DbFiles::kTransactions) (void)DbBank(folder, scale, 0, files, durability).sums();
}

std::unique_ptr<BankSession> open_db_bank(const std::string &folder, const BankScale &scale,
                                          unsigned process, DbFiles files, int durability) {
  return std::make_unique<DbBank>(folder, scale, process, files, durability);
}

}  // namespace tmh::bench
