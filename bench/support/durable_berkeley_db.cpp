// bench/support/durable_berkeley_db.cpp -- Berkeley DB 5.3 as a contestant.
// Set-up:  both: one environment for all processes, made by the first one and joined by the others
//          (DB_INIT_MPOOL, _LOCK, _LOG, _TXN); a B-tree; keys stored big-endian, so that the
//          default comparison of bytes is that of numbers; each commit DB_TXN_SYNC. Conflicts are
//          looked for whenever a lock has to be waited for (DB_LOCK_DEFAULT).
//          bdb-thesis  the thesis's: a cache of 2 MB in two parts, everything else by default (C.6)
//          bdb-tuned   what was best here of what the manual offers: a cache of 256 MB, which holds
//                      everything; pages of 8 KiB (4 KiB: 5 % slower with 4 processes); a log
//                      buffer of 8 MB; DB_LOG_ZERO, so that commits overwrite blocks of a log file
//                      that has its size already (without: 25 % fewer commits with 4 processes);
//                      regions on tmpfs, so that the kernel does not write them back (without: 10 %
//                      fewer).
//          Tried and left: DB_LOG_DSYNC (no group commit: half the commits with 4 processes),
//          DB_LOG_DIRECT (refused on Linux), spinning for mutexes more or less often (no
//          difference), pages of 16 KiB (no difference). Group commit needs no switch. No
//          checkpoint falls into a round: one would be due every few 10 MB of log.
//          Without durability: DB_TXN_NOT_DURABLE for the map, as in the thesis (C.6): no log
//          records at all. The faster of what the manual offers (DB_TXN_NOSYNC: writes the log,
//          without waiting).
// Retries: deadlocks; the transaction is aborted and run again.
#include <db.h>
#include <endian.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <optional>
#include <stdexcept>

#include "bench/support/durable_contestant.h"
#include "bench/support/modes.h"
#include "bench/support/options.h"
#include "platform/assert.h"

namespace tmh::bench {

namespace {

constexpr std::uint32_t kMiB = 1U << 20;
constexpr int kFileMode = 0600;

struct Setup {
  const char *name;
  std::uint32_t cache_bytes;
  int cache_count;
  std::uint32_t page_bytes;        // 0: the file system's block size, Berkeley DB's default
  std::uint32_t log_buffer_bytes;  // 0: default, 32 KB
  std::uint32_t log_file_bytes;    // 0: default, 10 MB; at least four buffers
  bool zeroed_log;
  bool regions_in_memory;
};
constexpr Setup kThesis{"bdb-thesis", 2 * kMiB, 2, 0, 0, 0, false, false};
constexpr Setup kTuned{"bdb-tuned", 256 * kMiB, 1, 8192, 8 * kMiB, 4 * 8 * kMiB, true, true};
static_assert(kTuned.log_file_bytes >= 4 * kTuned.log_buffer_bytes);

void check(int status, const char *what) {
  TMH_ASSERT(what != nullptr);
  if (status != 0)
    throw std::runtime_error(std::string("Berkeley DB, ") + what + ": " + db_strerror(status));
}
class BerkeleySession final : public Session {
 public:
  BerkeleySession(const Setup &setup, const std::string &home, const std::string &folder,
                  Durability durability, bool create)
      : commit_flags_(durability == Durability::kNone ? 0 : DB_TXN_SYNC) {
    try {
      open_environment(setup, home, folder, create);
      open_map(setup, durability, create);
    } catch (...) {
      close();
      throw;
    }
  }
  ~BerkeleySession() override { close(); }
  BerkeleySession(const BerkeleySession &) = delete;
  BerkeleySession &operator=(const BerkeleySession &) = delete;

  void commit(std::span<const Record> records) override {
    TMH_ASSERT(environment_ != nullptr && map_ != nullptr && !records.empty());
    for (;;) {
      DB_TXN *transaction = nullptr;
      check(environment_->txn_begin(environment_, nullptr, &transaction, 0), "txn_begin");
      int status = 0;
      for (std::size_t i = 0; status == 0 && i < records.size(); ++i)
        status = put(transaction, records[i]);
      if (status == 0) {
        check(transaction->commit(transaction, commit_flags_), "commit");
        return;
      }
      check(transaction->abort(transaction), "abort");
      if (status != DB_LOCK_DEADLOCK && status != DB_LOCK_NOTGRANTED) check(status, "put");
      ++retries_;
    }
  }

  std::uint64_t log_bytes() override {
    DB_LOG_STAT *statistics = nullptr;
    check(environment_->log_stat(environment_, &statistics, 0), "log_stat");
    const std::uint64_t bytes =
        std::uint64_t{statistics->st_w_mbytes} * kMiB + statistics->st_w_bytes;
    std::free(statistics);
    return bytes;
  }
  std::uint64_t retries() const override { return retries_; }

  void scan(const std::function<void(std::uint64_t, const char *)> &visit) override {
    DBC *cursor = nullptr;
    check(map_->cursor(map_, nullptr, &cursor, 0), "cursor");
    DBT key{}, value{};
    while (cursor->get(cursor, &key, &value, DB_NEXT) == 0) {
      std::uint64_t bytes = 0;
      if (key.size != sizeof(bytes) || value.size != kValueBytes) {
        throw std::runtime_error("Berkeley DB: a record has another size");
      }
      std::memcpy(&bytes, key.data, sizeof(bytes));
      visit(be64toh(bytes), static_cast<const char *>(value.data));
    }
    check(cursor->close(cursor), "cursor close");
  }

 private:
  int put(DB_TXN *transaction, const Record &record) {
    std::uint64_t key = htobe64(record.key);
    Value value = record.value;
    DBT key_bytes{}, value_bytes{};
    key_bytes.data = &key;
    key_bytes.size = sizeof(key);
    value_bytes.data = value.data();
    value_bytes.size = static_cast<std::uint32_t>(value.size());
    return map_->put(map_, transaction, &key_bytes, &value_bytes, 0);
  }

  void open_environment(const Setup &setup, const std::string &home, const std::string &folder,
                        bool create) {
    check(db_env_create(&environment_, 0), "db_env_create");
    DB_ENV *const env = environment_;
    check(env->set_cachesize(env, 0, setup.cache_bytes, setup.cache_count), "set_cachesize");
    check(env->set_lk_detect(env, DB_LOCK_DEFAULT), "set_lk_detect");
    if (setup.log_buffer_bytes != 0)
      check(env->set_lg_bsize(env, setup.log_buffer_bytes), "set_lg_bsize");
    if (setup.log_file_bytes != 0) check(env->set_lg_max(env, setup.log_file_bytes), "set_lg_max");
    if (setup.zeroed_log) check(env->log_set_config(env, DB_LOG_ZERO, 1), "DB_LOG_ZERO");
    if (home != folder) {  // regions there, everything that lasts here
      check(env->set_lg_dir(env, folder.c_str()), "set_lg_dir");
      check(env->add_data_dir(env, folder.c_str()), "add_data_dir");
      check(env->set_create_dir(env, folder.c_str()), "set_create_dir");
    }
    const std::uint32_t flags =
        DB_INIT_MPOOL | DB_INIT_LOCK | DB_INIT_LOG | DB_INIT_TXN | (create ? DB_CREATE : 0U);
    check(env->open(env, home.c_str(), flags, kFileMode), "environment open");
  }

  void open_map(const Setup &setup, Durability durability, bool create) {
    check(db_create(&map_, environment_, 0), "db_create");
    if (create && setup.page_bytes != 0)
      check(map_->set_pagesize(map_, setup.page_bytes), "set_pagesize");
    if (durability == Durability::kNone)
      check(map_->set_flags(map_, DB_TXN_NOT_DURABLE), "DB_TXN_NOT_DURABLE");
    check(map_->open(map_, nullptr, "map.db", nullptr, DB_BTREE,
                     DB_AUTO_COMMIT | (create ? DB_CREATE : 0U), kFileMode),
          "open");
  }

  void close() noexcept {
    if (map_ != nullptr) (void)map_->close(map_, 0);
    if (environment_ != nullptr) (void)environment_->close(environment_, 0);
    map_ = nullptr;
    environment_ = nullptr;
  }

  std::uint32_t commit_flags_;
  DB_ENV *environment_ = nullptr;
  DB *map_ = nullptr;
  std::uint64_t retries_ = 0;
};

class BerkeleyDb final : public Contestant {
 public:
  BerkeleyDb(const Setup &setup, Durability durability)
      : Contestant(setup.name, CountsLog::kOfEverybody, true, durability_note(durability)),
        setup_(setup),
        durability_(durability) {}
  void prepare(const Plan &) override {
    static const std::string kMemoryFolder = "/dev/shm";
    home_.reset();
    if (setup_.regions_in_memory && ::access(kMemoryFolder.c_str(), W_OK) == 0)
      home_.emplace(kMemoryFolder);
  }
  void create(const std::string &folder, const Plan &) override {
    (void)BerkeleySession(setup_, home(folder), folder, durability_, true);
  }
  std::unique_ptr<Session> open(const std::string &folder, unsigned) override {
    return std::make_unique<BerkeleySession>(setup_, home(folder), folder, durability_, false);
  }

 private:
  [[nodiscard]] const std::string &home(const std::string &folder) const {
    return home_ ? home_->path() : folder;
  }
  Setup setup_;
  Durability durability_;
  std::optional<ScratchFolder> home_;
};

}  // namespace

void add_berkeley_db(Contestants *all, Durability durability) {
  TMH_ASSERT(all != nullptr);
  all->push_back(std::make_unique<BerkeleyDb>(kThesis, durability));
  all->push_back(std::make_unique<BerkeleyDb>(kTuned, durability));
}

}  // namespace tmh::bench
