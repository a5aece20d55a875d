// bench/support/durable_sqlite.cpp -- SQLite in WAL mode as a contestant.
// Set-up:  both: journal_mode=WAL, synchronous=FULL (the WAL is synced at every commit),
//          wal_autocheckpoint as it is (1,000 pages), prepared statements, BEGIN IMMEDIATE (a
//          writer waits for the lock at the beginning and never has to be undone because its
//          snapshot is old).
//          sqlite        a WITHOUT ROWID table; busy_timeout, whose handler sleeps for 1, 2, 5, 10
//                        ms and so on up to 100
//          sqlite-tuned  what was best here: a rowid table, whose inner nodes hold keys only
//                        (SQLite's documentation advises against WITHOUT ROWID where rows are
//                        larger than a twentieth of a page); the WAL file is kept when the last
//                        connection closes, so that commits overwrite; 256 MB of cache and of
//                        mapped file; a busy handler that always sleeps 1 ms (7,000 commits/s with
//                        4 processes; 50 us: 2,800, because the processes then take turns and each
//                        has to read what the others changed; busy_timeout: 4,800).
//          Both are unfair: who has just committed is likely to be next. The median is that of a
//          lucky process; the mean and p99.9 tell the others.
//          Without durability: synchronous=OFF.
// Log:     frames of the WAL: pages written by this connection times (page size + 24); the file's
//          size would not tell, because it stops growing at the first checkpoint.
// Retries: busy answers: times the busy handler was called (sqlite-tuned), or that it gave up
//          (sqlite).
#include <sqlite3.h>
#include <unistd.h>

#include <stdexcept>

#include "bench/support/durable_contestant.h"
#include "bench/support/modes.h"
#include "platform/assert.h"

namespace tmh::bench {

namespace {

constexpr std::uint64_t kPageBytesOfDatabase = 4096;  // SQLite's default, set nevertheless
// https://www.sqlite.org/fileformat2.html, section 4.1
constexpr std::uint64_t kFrameHeaderBytes = 24;
constexpr unsigned kBusySleepUs = 1'000;  // measured, see above
// Longer than any bench: never the reason of a failure.
constexpr int kBusyTimeoutMs = 60'000;
// SQLite's integers are signed: keeps the keys' order
constexpr std::uint64_t kSignBit = std::uint64_t{1} << 63;
static_assert(sizeof(sqlite3_int64) == sizeof(std::uint64_t));

class Statement {
 public:
  Statement(sqlite3 *database, const char *text) {
    TMH_ASSERT(database != nullptr && text != nullptr);
    if (sqlite3_prepare_v2(database, text, -1, &statement_, nullptr) != SQLITE_OK) {
      throw std::runtime_error(std::string("SQLite, ") + text + ": " + sqlite3_errmsg(database));
    }
  }
  ~Statement() { (void)sqlite3_finalize(statement_); }
  Statement(const Statement &) = delete;
  Statement &operator=(const Statement &) = delete;
  [[nodiscard]] sqlite3_stmt *get() const noexcept { return statement_; }
  // Runs to its end and makes it ready again.
  [[nodiscard]] int run() const {
    int status = sqlite3_step(statement_);
    while (status == SQLITE_ROW) status = sqlite3_step(statement_);
    const int reset = sqlite3_reset(statement_);
    return status == SQLITE_DONE ? SQLITE_OK : reset;
  }

 private:
  sqlite3_stmt *statement_ = nullptr;
};

int sleep_shortly(void *counter, int) {
  TMH_ASSERT(counter != nullptr);
  ++*static_cast<std::uint64_t *>(counter);
  (void)::usleep(kBusySleepUs);
  return 1;
}

class SqliteSession final : public Session {
 public:
  SqliteSession(const std::string &folder, bool tuned, Durability durability)
      : database_(folder + "/map.sqlite") {
    sqlite3 *database = database_.get();
    if (tuned) {
      check(sqlite3_busy_handler(database, sleep_shortly, &retries_), "busy_handler");
      int keep = 1;
      check(sqlite3_file_control(database, "main", SQLITE_FCNTL_PERSIST_WAL, &keep),
            "SQLITE_FCNTL_PERSIST_WAL");
      execute("PRAGMA cache_size=-262144");  // KiB
      execute("PRAGMA mmap_size=268435456");
    } else {
      check(sqlite3_busy_timeout(database, kBusyTimeoutMs), "busy_timeout");
    }
    execute("PRAGMA page_size=4096");
    execute("PRAGMA journal_mode=WAL");
    execute(durability == Durability::kNone ? "PRAGMA synchronous=OFF" : "PRAGMA synchronous=FULL");
    execute(tuned ? "CREATE TABLE IF NOT EXISTS map(key INTEGER PRIMARY KEY, value BLOB NOT NULL)"
                  : "CREATE TABLE IF NOT EXISTS map(key INTEGER PRIMARY KEY, value BLOB NOT NULL) "
                    "WITHOUT ROWID");
    begin_ = std::make_unique<Statement>(database, "BEGIN IMMEDIATE");
    insert_ = std::make_unique<Statement>(database, "INSERT INTO map VALUES(?, ?)");
    commit_ = std::make_unique<Statement>(database, "COMMIT");
  }

  void commit(std::span<const Record> records) override {
    TMH_ASSERT(begin_ != nullptr && commit_ != nullptr && !records.empty());
    for (int status = begin_->run(); status != SQLITE_OK; status = begin_->run()) {
      if (status != SQLITE_BUSY) check(status, "BEGIN");
      ++retries_;
    }
    for (const Record &record : records) {
      check(
          sqlite3_bind_int64(insert_->get(), 1, static_cast<sqlite3_int64>(record.key ^ kSignBit)),
          "bind");
      check(sqlite3_bind_blob(insert_->get(), 2, record.value.data(),
                              static_cast<int>(record.value.size()), SQLITE_STATIC),
            "bind");
      check(insert_->run(), "INSERT");
    }
    check(commit_->run(), "COMMIT");
  }

  std::uint64_t log_bytes() override {
    int pages = 0, unused = 0;
    check(sqlite3_db_status(database_.get(), SQLITE_DBSTATUS_CACHE_WRITE, &pages, &unused, 0),
          "db_status");
    return static_cast<std::uint64_t>(pages) * (kPageBytesOfDatabase + kFrameHeaderBytes);
  }
  std::uint64_t retries() const override { return retries_; }

  void scan(const std::function<void(std::uint64_t, const char *)> &visit) override {
    const Statement all(database_.get(), "SELECT key, value FROM map ORDER BY key");
    while (sqlite3_step(all.get()) == SQLITE_ROW) {
      if (sqlite3_column_bytes(all.get(), 1) != static_cast<int>(kValueBytes)) {
        throw std::runtime_error("SQLite: a value has another size");
      }
      visit(static_cast<std::uint64_t>(sqlite3_column_int64(all.get(), 0)) ^ kSignBit,
            static_cast<const char *>(sqlite3_column_blob(all.get(), 1)));
    }
  }

 private:
  class Connection {
   public:
    explicit Connection(const std::string &file) {
      // One thread.
      constexpr int kFlags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
      if (sqlite3_open_v2(file.c_str(), &database_, kFlags, nullptr) == SQLITE_OK) return;
      const std::string why = sqlite3_errmsg(database_);
      (void)sqlite3_close(database_);
      throw std::runtime_error("SQLite, " + file + ": " + why);
    }
    ~Connection() { (void)sqlite3_close(database_); }
    Connection(const Connection &) = delete;
    Connection &operator=(const Connection &) = delete;
    [[nodiscard]] sqlite3 *get() const noexcept { return database_; }

   private:
    sqlite3 *database_ = nullptr;
  };

  void check(int status, const char *what) const {
    if (status == SQLITE_OK) return;
    throw std::runtime_error(std::string("SQLite, ") + what + ": " +
                             sqlite3_errmsg(database_.get()));
  }
  void execute(const char *text) const {
    check(sqlite3_exec(database_.get(), text, nullptr, nullptr, nullptr), text);
  }

  Connection database_;  // before the statements: they are finalized first
  std::unique_ptr<Statement> begin_, insert_, commit_;
  std::uint64_t retries_ = 0;
};

class Sqlite final : public Contestant {
 public:
  Sqlite(std::string name, bool tuned, Durability durability)
      : Contestant(std::move(name), CountsLog::kOwn, true, durability_note(durability)),
        tuned_(tuned),
        durability_(durability) {}
  void create(const std::string &folder, const Plan &) override {
    (void)SqliteSession(folder, tuned_, durability_);
  }
  std::unique_ptr<Session> open(const std::string &folder, unsigned) override {
    return std::make_unique<SqliteSession>(folder, tuned_, durability_);
  }

 private:
  bool tuned_;
  Durability durability_;
};

}  // namespace

void add_sqlite(Contestants *all, Durability durability) {
  TMH_ASSERT(all != nullptr);
  all->push_back(std::make_unique<Sqlite>("sqlite", false, durability));
  all->push_back(std::make_unique<Sqlite>("sqlite-tuned", true, durability));
}

}  // namespace tmh::bench
