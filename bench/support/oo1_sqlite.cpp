// bench/support/oo1_sqlite.cpp -- SQLite as a contestant of bench/oo1.
// Set-up:  WAL, synchronous=FULL, prepared statements, a cache for all. An index for each direction
//          has the other end, too: no row of the table is read for it.
#include "bench/support/oo1_sqlite.h"

#include <sqlite3.h>

#include <array>
#include <stdexcept>

#include "platform/assert.h"

namespace tmh::bench {

namespace {

class SqliteOo1 final : public Oo1Store {
 public:
  explicit SqliteOo1(const std::string &folder) {
    constexpr int kFlags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    try {
      check(sqlite3_open_v2((folder + "/parts.sqlite").c_str(), &database_, kFlags, nullptr),
            "open");
      execute("PRAGMA cache_size=-262144");  // KiB
      execute("PRAGMA journal_mode=WAL");
      execute("PRAGMA synchronous=FULL");
      execute(
          "CREATE TABLE IF NOT EXISTS part(id INTEGER PRIMARY KEY, x INTEGER, y INTEGER, "
          "build INTEGER, type TEXT)");
      execute(
          "CREATE TABLE IF NOT EXISTS connection(id INTEGER PRIMARY KEY, source INTEGER, "
          "target INTEGER, length INTEGER, type TEXT)");
      execute("CREATE INDEX IF NOT EXISTS forward ON connection(source, target)");
      execute("CREATE INDEX IF NOT EXISTS backward ON connection(target, source)");
      constexpr std::array<const char *, kStatements> kTexts = {
          "BEGIN",
          "COMMIT",
          "SELECT x, y FROM part WHERE id = ?",
          "SELECT target FROM connection WHERE source = ?",
          "SELECT source FROM connection WHERE target = ?",
          "INSERT INTO part VALUES(?, ?, ?, ?, 'part-type')",
          "INSERT INTO connection VALUES(?, ?, ?, ?, 'link')"};
      for (std::size_t i = 0; i < kStatements; ++i)
        check(sqlite3_prepare_v2(database_, kTexts[i], -1, &statements_[i], nullptr), kTexts[i]);
    } catch (...) {
      close();
      throw;
    }
  }
  ~SqliteOo1() override { close(); }
  SqliteOo1(const SqliteOo1 &) = delete;
  SqliteOo1 &operator=(const SqliteOo1 &) = delete;

  void transact(Access, const std::function<void()> &body) override {
    run(kBegin);
    body();
    run(kCommit);
  }
  void look_up(std::uint32_t id, Seen *seen) override {
    sqlite3_stmt *const select = statements_[kLookUp];
    bind(select, id);
    if (sqlite3_step(select) != SQLITE_ROW) throw std::runtime_error("SQLite: no such part");
    seen->add(sqlite3_column_int(select, 0), sqlite3_column_int(select, 1));
    check(sqlite3_reset(select), "a part");
  }
  void insert(const NewPart &made) override {
    run(kPart, made.part.id, made.part.x, made.part.y, made.part.build);
    for (unsigned i = 0; i < kConnections; ++i) {
      const Connection &connection = made.connections[i];
      run(kConnection, (made.part.id - 1) * kConnections + i + 1, connection.from, connection.to,
          connection.length);
    }
  }

 protected:
  void neighbours(std::uint32_t id, bool is_forward, std::vector<std::uint32_t> *found) override {
    sqlite3_stmt *const select = statements_[is_forward ? kForward : kBackward];
    bind(select, id);
    while (sqlite3_step(select) == SQLITE_ROW)
      found->push_back(static_cast<std::uint32_t>(sqlite3_column_int64(select, 0)));
    check(sqlite3_reset(select), "neighbours");
  }

 private:
  enum Statement : std::size_t {
    kBegin,
    kCommit,
    kLookUp,
    kForward,
    kBackward,
    kPart,
    kConnection,
    kStatements
  };
  void check(int status, const char *what) const {
    if (status != SQLITE_OK)
      throw std::runtime_error(std::string("SQLite, ") + what + ": " + sqlite3_errmsg(database_));
  }
  void execute(const char *text) const {
    check(sqlite3_exec(database_, text, nullptr, nullptr, nullptr), text);
  }
  template <class... Values>
  void bind([[maybe_unused]] sqlite3_stmt *statement, Values... values) const {
    [[maybe_unused]] int at = 0;
    (check(sqlite3_bind_int64(statement, ++at, static_cast<sqlite3_int64>(values)), "bind"), ...);
  }
  template <class... Values>
  void run(Statement which, Values... values) const {
    sqlite3_stmt *const statement = statements_[which];
    bind(statement, values...);
    (void)sqlite3_step(statement);
    check(sqlite3_reset(statement), "step");
  }
  void close() noexcept {
    for (sqlite3_stmt *const statement : statements_) (void)sqlite3_finalize(statement);
    (void)sqlite3_close(database_);
  }

  sqlite3 *database_ = nullptr;
  std::array<sqlite3_stmt *, kStatements> statements_{};
};

}  // namespace

std::unique_ptr<Oo1Store> open_sqlite_oo1(const std::string &folder) {
  return std::make_unique<SqliteOo1>(folder);
}

}  // namespace tmh::bench
