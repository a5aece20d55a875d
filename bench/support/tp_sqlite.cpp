// bench/support/tp_sqlite.cpp -- SQLite as a contestant of bench/tp.
// Set-up:  as sqlite-tuned of durable_sqlite.cpp: WAL, pages of 4096 bytes, prepared statements,
//          rowid tables, a cache for all, the WAL kept, BEGIN IMMEDIATE, a busy handler that sleeps
//          1 ms. Durability 1: synchronous=FULL. 2: synchronous=OFF.
// Retries: times the busy handler was called.
#include "bench/support/tp_sqlite.h"

#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "platform/assert.h"

namespace tmh::bench {

namespace {

constexpr std::uint64_t kFrameBytes = 4096 + 24;  // of the WAL: a page and its head
constexpr unsigned kBusySleepUs = 1'000;          // durable_sqlite.cpp says why
constexpr std::array<const char *, 3> kTables = {"accounts", "tellers", "branches"};

int sleep_shortly(void *counter, int) {
  ++*static_cast<std::uint64_t *>(counter);
  (void)::usleep(kBusySleepUs);
  return 1;
}

class SqliteBank final : public BankSession {
 public:
  SqliteBank(const std::string &folder, const BankScale &scale, unsigned process, int durability)
      : scale_(scale), process_(process) {
    constexpr int kFlags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    try {
      check(sqlite3_open_v2((folder + "/bank.sqlite").c_str(), &database_, kFlags, nullptr),
            "open");
      check(sqlite3_busy_handler(database_, sleep_shortly, &retries_), "busy_handler");
      int keep = 1;
      check(sqlite3_file_control(database_, "main", SQLITE_FCNTL_PERSIST_WAL, &keep),
            "SQLITE_FCNTL_PERSIST_WAL");
      execute("PRAGMA page_size=4096");
      execute("PRAGMA cache_size=-" + std::to_string(scale.cache_bytes >> 10));
      execute("PRAGMA journal_mode=WAL");
      execute(durability == 1 ? "PRAGMA synchronous=FULL" : "PRAGMA synchronous=OFF");
      for (const char *const table : kTables)
        execute(std::string("CREATE TABLE IF NOT EXISTS ") + table +
                "(id INTEGER PRIMARY KEY, balance INTEGER NOT NULL, filler BLOB NOT NULL)");
      execute(
          "CREATE TABLE IF NOT EXISTS history(id INTEGER PRIMARY KEY, number INTEGER NOT NULL, "
          "teller INTEGER NOT NULL, account INTEGER NOT NULL, amount INTEGER NOT NULL)");
      prepare();
    } catch (...) {
      close();
      throw;
    }
  }
  ~SqliteBank() override { close(); }
  SqliteBank(const SqliteBank &) = delete;
  SqliteBank &operator=(const SqliteBank &) = delete;

  void load() {
    load(0, scale_.accounts);
    load(1, scale_.tellers());
    load(2, scale_.branches);
    run(begin_);
    sqlite3_stmt *const insert = prepared("INSERT INTO history VALUES(?, 0, 0, 0, 0)");
    for (std::uint64_t i = 0; i < kTellingProcesses * kHistoryRows; ++i) run(insert, i);
    sqlite3_finalize(insert);
    run(commit_);
  }

  void transact(const Transfer &transfer) override {
    run(begin_);
    run(update_[0], transfer.amount, transfer.account);
    run(update_[1], transfer.amount, transfer.teller);
    run(update_[2], transfer.amount, transfer.branch);
    run(tell_, transfer.number, transfer.teller, transfer.account, transfer.amount,
        key_of_row(process_, transfer.number));
    run(commit_);
  }
  std::int64_t look(const Transfer &transfer) override {
    run(begin_reading_);
    const std::int64_t sum = number(look_[0], transfer.account) +
                             number(look_[1], transfer.teller) + number(look_[2], transfer.branch);
    run(commit_);
    return sum;
  }

  BankSums sums() override {
    return {number("SELECT sum(balance) FROM branches"), number("SELECT sum(balance) FROM tellers"),
            number("SELECT sum(balance) FROM accounts")};
  }
  HistoryRow row(unsigned process, std::uint64_t number) override {
    sqlite3_stmt *const select =
        prepared("SELECT number, teller, account, amount FROM history WHERE id = ?");
    bind(select, key_of_row(process, number));
    HistoryRow row{};
    if (sqlite3_step(select) == SQLITE_ROW)
      row = {static_cast<std::uint64_t>(sqlite3_column_int64(select, 0)),
             static_cast<std::uint64_t>(sqlite3_column_int64(select, 1)),
             static_cast<std::uint64_t>(sqlite3_column_int64(select, 2)),
             sqlite3_column_int64(select, 3)};
    sqlite3_finalize(select);
    return row;
  }
  std::uint64_t retries() const override { return retries_; }
  std::uint64_t log_bytes() override {
    int pages = 0, unused = 0;
    check(sqlite3_db_status(database_, SQLITE_DBSTATUS_CACHE_WRITE, &pages, &unused, 0),
          "db_status");
    return static_cast<std::uint64_t>(pages) * kFrameBytes;
  }

 private:
  [[nodiscard]] static std::uint64_t key_of_row(unsigned process, std::uint64_t number) noexcept {
    return process * kHistoryRows + number % kHistoryRows;
  }
  void check(int status, const char *what) const {
    if (status != SQLITE_OK)
      throw std::runtime_error(std::string("SQLite, ") + what + ": " + sqlite3_errmsg(database_));
  }
  void execute(const std::string &text) const {
    check(sqlite3_exec(database_, text.c_str(), nullptr, nullptr, nullptr), text.c_str());
  }
  [[nodiscard]] sqlite3_stmt *prepared(const std::string &text) const {
    sqlite3_stmt *statement = nullptr;
    check(sqlite3_prepare_v2(database_, text.c_str(), -1, &statement, nullptr), text.c_str());
    return statement;
  }
  void prepare() {
    begin_ = prepared("BEGIN IMMEDIATE");
    begin_reading_ = prepared("BEGIN");
    commit_ = prepared("COMMIT");
    for (std::size_t i = 0; i < kTables.size(); ++i) {
      const std::string table = kTables[i];
      update_[i] = prepared("UPDATE " + table + " SET balance = balance + ? WHERE id = ?");
      look_[i] = prepared("SELECT balance FROM " + table + " WHERE id = ?");
    }
    tell_ =
        prepared("UPDATE history SET number = ?, teller = ?, account = ?, amount = ? WHERE id = ?");
  }
  template <class... Values>
  void bind([[maybe_unused]] sqlite3_stmt *statement, Values... values) const {
    [[maybe_unused]] int at = 0;
    (check(sqlite3_bind_int64(statement, ++at, static_cast<sqlite3_int64>(values)), "bind"), ...);
  }
  // To its end, and ready again.
  template <class... Values>
  void run(sqlite3_stmt *statement, Values... values) const {
    bind(statement, values...);
    while (sqlite3_step(statement) == SQLITE_ROW) {
    }
    check(sqlite3_reset(statement), "step");
  }
  [[nodiscard]] std::int64_t number(sqlite3_stmt *select, std::uint64_t id) const {
    bind(select, id);
    const int status = sqlite3_step(select);
    const std::int64_t value = sqlite3_column_int64(select, 0);
    check(sqlite3_reset(select), "step");
    if (status != SQLITE_ROW) throw std::runtime_error("SQLite: a record is missing");
    return value;
  }
  [[nodiscard]] std::int64_t number(const std::string &text) const {
    sqlite3_stmt *const select = prepared(text);
    const int status = sqlite3_step(select);
    const std::int64_t value = sqlite3_column_int64(select, 0);
    sqlite3_finalize(select);
    if (status != SQLITE_ROW) throw std::runtime_error("SQLite: no sum");
    return value;
  }
  void load(std::size_t table, std::uint64_t count) const {
    TMH_ASSERT(table < kTables.size() && scale_.record_bytes >= 8);
    run(begin_);
    sqlite3_stmt *const insert =
        prepared(std::string("INSERT INTO ") + kTables[table] + " VALUES(?, 0, zeroblob(" +
                 std::to_string(scale_.record_bytes - 8) + "))");
    for (std::uint64_t i = 0; i < count; ++i) run(insert, i);
    sqlite3_finalize(insert);
    run(commit_);
  }
  void close() noexcept {
    for (sqlite3_stmt *const statement : {begin_, begin_reading_, commit_, tell_, update_[0],
                                          update_[1], update_[2], look_[0], look_[1], look_[2]})
      (void)sqlite3_finalize(statement);
    (void)sqlite3_close(database_);
  }

  const BankScale scale_;
  const unsigned process_;
  sqlite3 *database_ = nullptr;
  sqlite3_stmt *begin_ = nullptr, *begin_reading_ = nullptr, *commit_ = nullptr, *tell_ = nullptr;
  std::array<sqlite3_stmt *, kTables.size()> update_{}, look_{};
  std::uint64_t retries_ = 0;
};

}  // namespace

void make_sqlite_bank(const std::string &folder, const BankScale &scale, int durability) {
  SqliteBank(folder, scale, 0, durability).load();
}

std::unique_ptr<BankSession> open_sqlite_bank(const std::string &folder, const BankScale &scale,
                                              unsigned process, int durability) {
  return std::make_unique<SqliteBank>(folder, scale, process, durability);
}

}  // namespace tmh::bench
