// bench/support/durable_lmdb.cpp -- LMDB as a contestant.
// Set-up:  lmdb           default environment: pwrite of the pages, fdatasync, then the meta page
//                         through an O_DSYNC file
//          lmdb-writemap  MDB_WRITEMAP: stores into the mapped file, msync of data, then of the
//                         meta page
//          Both: default sync (MDB_NOSYNC, MDB_NOMETASYNC, MDB_MAPASYNC off: a commit is durable
//          when it returns), a map of 1 GiB so that it never has to grow, the unnamed database,
//          MDB_INTEGERKEY because keys are 64-bit integers.
//          Without durability: MDB_NOSYNC besides, which is what LMDB has for it.
//          Writers of all processes take turns on LMDB's robust mutex; there is nothing to retry.
// Log:     LMDB has none: it writes pages that no reader uses and flips a meta page.
#include <lmdb.h>

#include <stdexcept>

#include "bench/support/durable_contestant.h"
#include "bench/support/modes.h"
#include "platform/assert.h"

namespace tmh::bench {

namespace {

constexpr std::size_t kMapBytes = std::size_t{1} << 30;  // address space only

void check(int status, const char *what) {
  if (status != MDB_SUCCESS)
    throw std::runtime_error(std::string("LMDB, ") + what + ": " + mdb_strerror(status));
}

class LmdbSession final : public Session {
 public:
  LmdbSession(const std::string &folder, unsigned flags) {
    check(mdb_env_create(&environment_), "mdb_env_create");
    try {
      check(mdb_env_set_mapsize(environment_, kMapBytes), "mdb_env_set_mapsize");
      check(mdb_env_open(environment_, folder.c_str(), flags, 0600), "mdb_env_open");
      MDB_txn *transaction = nullptr;
      check(mdb_txn_begin(environment_, nullptr, 0, &transaction), "mdb_txn_begin");
      const int opened =
          mdb_dbi_open(transaction, nullptr, MDB_CREATE | MDB_INTEGERKEY, &database_);
      if (opened != MDB_SUCCESS) mdb_txn_abort(transaction);
      check(opened, "mdb_dbi_open");
      check(mdb_txn_commit(transaction), "mdb_txn_commit");
    } catch (...) {
      mdb_env_close(environment_);
      throw;
    }
  }
  ~LmdbSession() override { mdb_env_close(environment_); }
  LmdbSession(const LmdbSession &) = delete;
  LmdbSession &operator=(const LmdbSession &) = delete;

  void commit(std::span<const Record> records) override {
    TMH_ASSERT(environment_ != nullptr && !records.empty());
    MDB_txn *transaction = nullptr;
    check(mdb_txn_begin(environment_, nullptr, 0, &transaction), "mdb_txn_begin");
    for (const Record &record : records) {
      std::uint64_t key = record.key;
      Value value = record.value;
      MDB_val key_bytes{sizeof(key), &key}, value_bytes{value.size(), value.data()};
      const int put = mdb_put(transaction, database_, &key_bytes, &value_bytes, 0);
      if (put != MDB_SUCCESS) mdb_txn_abort(transaction);
      check(put, "mdb_put");
    }
    check(mdb_txn_commit(transaction), "mdb_txn_commit");
  }

  void scan(const std::function<void(std::uint64_t, const char *)> &visit) override {
    TMH_ASSERT(visit != nullptr);
    MDB_txn *transaction = nullptr;
    check(mdb_txn_begin(environment_, nullptr, MDB_RDONLY, &transaction), "mdb_txn_begin");
    MDB_cursor *cursor = nullptr;
    check(mdb_cursor_open(transaction, database_, &cursor), "mdb_cursor_open");
    MDB_val key, value;
    while (mdb_cursor_get(cursor, &key, &value, MDB_NEXT) == MDB_SUCCESS) {
      if (value.mv_size != kValueBytes) throw std::runtime_error("LMDB: a value has another size");
      visit(*static_cast<const std::uint64_t *>(key.mv_data),
            static_cast<const char *>(value.mv_data));
    }
    mdb_cursor_close(cursor);
    mdb_txn_abort(transaction);
  }

 private:
  MDB_env *environment_ = nullptr;
  MDB_dbi database_ = 0;
};

class Lmdb final : public Contestant {
 public:
  Lmdb(std::string name, unsigned flags, Durability durability)
      : Contestant(std::move(name), CountsLog::kNo, true, durability_note(durability)),
        flags_(flags | (durability == Durability::kNone ? MDB_NOSYNC : 0U)) {}
  void create(const std::string &folder, const Plan &) override {
    (void)LmdbSession(folder, flags_);
  }
  std::unique_ptr<Session> open(const std::string &folder, unsigned) override {
    return std::make_unique<LmdbSession>(folder, flags_);
  }

 private:
  unsigned flags_;
};

}  // namespace

void add_lmdb(Contestants *all, Durability durability) {
  TMH_ASSERT(all != nullptr);
  all->push_back(std::make_unique<Lmdb>("lmdb", 0, durability));
  all->push_back(std::make_unique<Lmdb>("lmdb-writemap", MDB_WRITEMAP, durability));
}

}  // namespace tmh::bench
