// bench/support/tp_berkeley_db.cpp -- Berkeley DB 5.3 as a contestant of bench/tp.
// Set-up:  bdb-tuned of durable_berkeley_db.cpp: a cache that holds everything, a log buffer of 8
//          MB, regions on tmpfs; where commits are synced, log files written with zeros in advance.
//          Four B-trees of 8-byte keys, stored big-endian; a record's value is its balance, 8
//          bytes. Berkeley DB locks pages of a B-tree: pages have 512 bytes, and records that are
//          not ours lie between those of branches and tellers, so that each of these has a page of
//          its own (BankScale::spread()). What is changed is read with DB_RMW, so that no lock has
//          to become a stronger one.
//          Durability 1: DB_TXN_SYNC. 2: DB_TXN_NOSYNC, the log stays in its buffer. 0:
//          DB_TXN_NOT_DURABLE, no log.
#include "bench/support/tp_berkeley_db.h"

#include <db.h>
#include <endian.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "platform/assert.h"

namespace tmh::bench {

namespace {

constexpr std::uint32_t kMiB = 1U << 20, kLogBufferBytes = 8 * kMiB;
constexpr int kFileMode = 0600;

void check(int status, const char *what) {
  TMH_ASSERT(what != nullptr);
  if (status != 0)
    throw std::runtime_error(std::string("Berkeley DB, ") + what + ": " + db_strerror(status));
}

enum Map : std::size_t { kBranches, kTellers, kAccounts, kHistory, kMaps };
constexpr const char *kFiles[kMaps] = {"branches.db", "tellers.db", "accounts.db", "history.db"};

class BerkeleyBank final : public BankSession {
 public:
  BerkeleyBank(const std::string &home, const std::string &folder, const BankScale &scale,
               unsigned process, int durability, bool aborts, bool create)
      : scale_(scale),
        process_(process),
        aborts_(aborts),
        commit_flags_(durability == 1   ? DB_TXN_SYNC
                      : durability == 2 ? DB_TXN_NOSYNC
                                        : 0U) {
    try {
      open_environment(home, folder, create);
      for (std::size_t map = 0; map < kMaps; ++map) open_map(map, durability, create);
      if (create) load();
    } catch (...) {
      close();
      throw;
    }
  }
  ~BerkeleyBank() override { close(); }
  BerkeleyBank(const BerkeleyBank &) = delete;
  BerkeleyBank &operator=(const BerkeleyBank &) = delete;

  void transact(const Transfer &transfer) override {
    const HistoryRow row{transfer.number, transfer.teller, transfer.account, transfer.amount};
    for (;;) {
      DB_TXN *txn = nullptr;
      check(environment_->txn_begin(environment_, nullptr, &txn, 0), "txn_begin");
      int status = add(txn, kAccounts, transfer.account, transfer.amount);
      if (status == 0)
        status = add(txn, kTellers, transfer.teller * scale_.spread(), transfer.amount);
      if (status == 0)
        status = add(txn, kBranches, transfer.branch * scale_.spread(), transfer.amount);
      if (status == 0)
        status = put(txn, kHistory, key_of_row(process_, transfer.number), &row, sizeof row);
      if (status == 0) {
        if (aborts_)
          check(txn->abort(txn), "abort");
        else
          check(txn->commit(txn, commit_flags_), "commit");
        return;
      }
      check(txn->abort(txn), "abort");
      if (status != DB_LOCK_DEADLOCK && status != DB_LOCK_NOTGRANTED) check(status, "put");
      ++retries_;
    }
  }

  std::int64_t look(const Transfer &transfer) override {
    const std::uint64_t numbers[] = {transfer.branch * scale_.spread(),
                                     transfer.teller * scale_.spread(), transfer.account};
    for (;;) {
      DB_TXN *txn = nullptr;
      check(environment_->txn_begin(environment_, nullptr, &txn, 0), "txn_begin");
      std::int64_t sum = 0;
      int status = 0;
      for (std::size_t map : {kAccounts, kTellers, kBranches}) {
        if (status == 0) status = get(txn, map, numbers[map], record_.data(), record_.size(), 0);
        sum += balance();
      }
      if (status == 0) {
        check(txn->commit(txn, commit_flags_), "commit");
        return sum;
      }
      check(txn->abort(txn), "abort");
      if (status != DB_LOCK_DEADLOCK && status != DB_LOCK_NOTGRANTED) check(status, "get");
      ++retries_;
    }
  }

  BankSums sums() override { return {sum(kBranches), sum(kTellers), sum(kAccounts)}; }
  HistoryRow row(unsigned process, std::uint64_t number) override {
    HistoryRow row{};
    check(get(nullptr, kHistory, key_of_row(process, number), &row, sizeof row, 0), "get");
    return row;
  }
  std::uint64_t retries() const override { return retries_; }
  std::uint64_t log_bytes() override {
    if (process_ != 0) return 0;
    // The log is counted as it is written.
    check(environment_->log_flush(environment_, nullptr), "log_flush");
    DB_LOG_STAT *told = nullptr;
    check(environment_->log_stat(environment_, &told, 0), "log_stat");
    const std::uint64_t bytes = std::uint64_t{told->st_w_mbytes} * kMiB + told->st_w_bytes;
    std::free(told);
    return bytes;
  }

 private:
  [[nodiscard]] static std::uint64_t key_of_row(unsigned process, std::uint64_t number) noexcept {
    return process * kHistoryRows + number % kHistoryRows;
  }

  int get(DB_TXN *txn, std::size_t map, std::uint64_t number, void *value, std::size_t bytes,
          std::uint32_t flags) {
    std::uint64_t key = htobe64(number);
    DBT key_bytes{}, value_bytes{};
    key_bytes.data = &key;
    key_bytes.size = sizeof key;
    value_bytes.data = value;
    value_bytes.ulen = static_cast<std::uint32_t>(bytes);
    value_bytes.flags = DB_DBT_USERMEM;
    return maps_[map]->get(maps_[map], txn, &key_bytes, &value_bytes, flags);
  }
  int put(DB_TXN *txn, std::size_t map, std::uint64_t number, const void *value,
          std::size_t bytes) {
    std::uint64_t key = htobe64(number);
    DBT key_bytes{}, value_bytes{};
    key_bytes.data = &key;
    key_bytes.size = sizeof key;
    value_bytes.data = const_cast<void *>(value);
    value_bytes.size = static_cast<std::uint32_t>(bytes);
    return maps_[map]->put(maps_[map], txn, &key_bytes, &value_bytes, 0);
  }
  int add(DB_TXN *txn, std::size_t map, std::uint64_t number, std::int64_t amount) {
    if (const int status = get(txn, map, number, record_.data(), record_.size(), DB_RMW))
      return status;
    const std::int64_t changed = balance() + amount;
    std::memcpy(record_.data(), &changed, sizeof changed);
    return put(txn, map, number, record_.data(), record_.size());
  }
  // Of the record that get() has read last.
  [[nodiscard]] std::int64_t balance() const {
    std::int64_t amount = 0;
    std::memcpy(&amount, record_.data(), sizeof amount);
    return amount;
  }

  std::int64_t sum(std::size_t map) {
    DBC *cursor = nullptr;
    check(maps_[map]->cursor(maps_[map], nullptr, &cursor, 0), "cursor");
    DBT key{}, value{};
    std::int64_t sum = 0;
    while (cursor->get(cursor, &key, &value, DB_NEXT) == 0) {
      std::int64_t balance = 0;
      TMH_ASSERT(value.size >= sizeof balance);
      std::memcpy(&balance, value.data, sizeof balance);
      sum += balance;
    }
    check(cursor->close(cursor), "cursor close");
    return sum;
  }

  void load() {
    const HistoryRow none{};
    load(kBranches, scale_.branches * scale_.spread(), record_.data(), record_.size());
    load(kTellers, scale_.tellers() * scale_.spread(), record_.data(), record_.size());
    load(kAccounts, scale_.accounts, record_.data(), record_.size());
    load(kHistory, kTellingProcesses * kHistoryRows, &none, sizeof none);
  }
  void load(std::size_t map, std::uint64_t count, const void *value, std::size_t bytes) {
    constexpr std::uint64_t kAtOnce = 100;
    for (std::uint64_t first = 0; first < count; first += kAtOnce) {
      DB_TXN *txn = nullptr;
      check(environment_->txn_begin(environment_, nullptr, &txn, 0), "txn_begin");
      for (std::uint64_t i = first; i < std::min(count, first + kAtOnce); ++i)
        check(put(txn, map, i, value, bytes), "put");
      check(txn->commit(txn, DB_TXN_NOSYNC), "commit");
    }
  }

  void open_environment(const std::string &home, const std::string &folder, bool create) {
    check(db_env_create(&environment_, 0), "db_env_create");
    DB_ENV *const env = environment_;
    check(env->set_cachesize(env, 0, static_cast<std::uint32_t>(scale_.cache_bytes), 1),
          "set_cachesize");
    check(env->set_lk_detect(env, DB_LOCK_DEFAULT), "set_lk_detect");
    check(env->set_lg_bsize(env, kLogBufferBytes), "set_lg_bsize");
    check(env->set_lg_max(env, 4 * kLogBufferBytes), "set_lg_max");
    if (commit_flags_ == DB_TXN_SYNC)
      check(env->log_set_config(env, DB_LOG_ZERO, 1), "DB_LOG_ZERO");
    if (home != folder) {
      check(env->set_lg_dir(env, folder.c_str()), "set_lg_dir");
      check(env->add_data_dir(env, folder.c_str()), "add_data_dir");
      check(env->set_create_dir(env, folder.c_str()), "set_create_dir");
    }
    const std::uint32_t flags =
        DB_INIT_MPOOL | DB_INIT_LOCK | DB_INIT_LOG | DB_INIT_TXN | (create ? DB_CREATE : 0U);
    check(env->open(env, home.c_str(), flags, kFileMode), "environment open");
  }
  void open_map(std::size_t map, int durability, bool create) {
    check(db_create(&maps_[map], environment_, 0), "db_create");
    DB *const opened = maps_[map];
    if (create)
      check(opened->set_pagesize(opened, static_cast<std::uint32_t>(scale_.page_bytes)),
            "set_pagesize");
    if (durability == 0) check(opened->set_flags(opened, DB_TXN_NOT_DURABLE), "DB_TXN_NOT_DURABLE");
    check(opened->open(opened, nullptr, kFiles[map], nullptr, DB_BTREE,
                       DB_AUTO_COMMIT | (create ? DB_CREATE : 0U), kFileMode),
          "open");
  }
  void close() noexcept {
    for (DB *&map : maps_) {
      if (map != nullptr) (void)map->close(map, 0);
      map = nullptr;
    }
    if (environment_ != nullptr) (void)environment_->close(environment_, 0);
    environment_ = nullptr;
  }

  BankScale scale_;
  unsigned process_;
  bool aborts_;
  std::vector<std::byte> record_ = std::vector<std::byte>(scale_.record_bytes);  // balance first
  std::uint32_t commit_flags_;
  DB_ENV *environment_ = nullptr;
  DB *maps_[kMaps] = {};
  std::uint64_t retries_ = 0;
};

}  // namespace

void make_berkeley_bank(const std::string &home, const std::string &folder, const BankScale &scale,
                        int durability) {
  (void)BerkeleyBank(home, folder, scale, 0, durability, false, true);
}

std::unique_ptr<BankSession> open_berkeley_bank(const std::string &home, const std::string &folder,
                                                const BankScale &scale, unsigned process,
                                                int durability, bool aborts) {
  return std::make_unique<BerkeleyBank>(home, folder, scale, process, durability, aborts, false);
}

}  // namespace tmh::bench
