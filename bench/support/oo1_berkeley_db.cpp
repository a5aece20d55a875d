// bench/support/oo1_berkeley_db.cpp -- Berkeley DB 5.3 as a contestant of bench/oo1.
// Set-up:  the files of oo1_db.cpp; pages of 4096 bytes, a cache for all, a log buffer of 8 MB.
#include "bench/support/oo1_berkeley_db.h"

#include <db.h>
#include <endian.h>

#include <array>
#include <cstring>
#include <stdexcept>

#include "platform/assert.h"

namespace tmh::bench {

namespace {

constexpr std::uint32_t kMiB = 1U << 20;
enum File : std::size_t { kParts, kLinks, kFrom, kTo, kFiles };
constexpr std::array<const char *, kFiles> kNames = {"parts", "connections", "from", "to"};

void check(int status, const char *what) {
  TMH_ASSERT(what != nullptr);
  if (status != 0)
    throw std::runtime_error(std::string("Berkeley DB, ") + what + ": " + db_strerror(status));
}

[[nodiscard]] DBT bytes_of(const void *data, std::size_t bytes) {
  DBT told{};
  told.data = const_cast<void *>(data);
  told.size = told.ulen = static_cast<std::uint32_t>(bytes);
  told.flags = DB_DBT_USERMEM;
  return told;
}

class BerkeleyOo1 final : public Oo1Store {
 public:
  explicit BerkeleyOo1(const std::string &folder) {
    try {
      open(folder);
    } catch (...) {
      close();
      throw;
    }
  }
  ~BerkeleyOo1() override { close(); }
  BerkeleyOo1(const BerkeleyOo1 &) = delete;
  BerkeleyOo1 &operator=(const BerkeleyOo1 &) = delete;

  void transact(Access, const std::function<void()> &body) override {
    check(environment_->txn_begin(environment_, nullptr, &txn_, 0), "txn_begin");
    body();
    check(txn_->commit(txn_, DB_TXN_SYNC), "commit");
    txn_ = nullptr;
  }
  void look_up(std::uint32_t id, Seen *seen) override {
    std::uint32_t key = htobe32(id);
    Part part{};
    get(kParts, bytes_of(&key, sizeof key), &part, sizeof part);
    seen->add(part.x, part.y);
  }
  void insert(const NewPart &made) override {
    const std::uint32_t key = htobe32(made.part.id);
    put(kParts, bytes_of(&key, sizeof key), &made.part, sizeof made.part);
    for (unsigned i = 0; i < kConnections; ++i) {
      const db_recno_t number = (made.part.id - 1) * kConnections + i + 1;
      const std::uint32_t to = htobe32(made.connections[i].to);
      put(kLinks, bytes_of(&number, sizeof number), &made.connections[i],
          sizeof made.connections[i]);
      put(kTo, bytes_of(&to, sizeof to), &number, sizeof number);
      put(kFrom, bytes_of(&key, sizeof key), &number, sizeof number);
    }
  }

 protected:
  void neighbours(std::uint32_t id, bool is_forward, std::vector<std::uint32_t> *found) override {
    std::uint32_t wanted = htobe32(id);
    db_recno_t number = 0;
    DBT key = bytes_of(&wanted, sizeof wanted), data = bytes_of(&number, sizeof number);
    DB *const tree = files_[is_forward ? kFrom : kTo];
    DBC *cursor = nullptr;
    check(tree->cursor(tree, txn_, &cursor, 0), "cursor");
    int status = cursor->get(cursor, &key, &data, DB_SET);
    while (status == 0) {
      Connection connection{};
      get(kLinks, bytes_of(&number, sizeof number), &connection, sizeof connection);
      found->push_back(is_forward ? connection.to : connection.from);
      status = cursor->get(cursor, &key, &data, DB_NEXT_DUP);
    }
    check(cursor->close(cursor), "cursor close");
    if (status != DB_NOTFOUND) check(status, "a neighbour");
  }

 private:
  void get(std::size_t file, DBT key, void *value, std::size_t bytes) {
    DBT data = bytes_of(value, bytes);
    check(files_[file]->get(files_[file], txn_, &key, &data, 0), "get");
  }
  void put(std::size_t file, DBT key, const void *value, std::size_t bytes) {
    DBT data = bytes_of(value, bytes);
    check(files_[file]->put(files_[file], txn_, &key, &data, 0), "put");
  }
  void open(const std::string &folder) {
    check(db_env_create(&environment_, 0), "db_env_create");
    DB_ENV *const env = environment_;
    check(env->set_cachesize(env, 0, 256 * kMiB, 1), "set_cachesize");
    check(env->set_lg_bsize(env, 8 * kMiB), "set_lg_bsize");
    check(env->set_lg_max(env, 32 * kMiB), "set_lg_max");
    // A traversal, and a portion that is loaded, hold many pages.
    constexpr std::uint32_t kLocks = 100'000;
    check(env->set_lk_max_locks(env, kLocks), "set_lk_max_locks");
    check(env->set_lk_max_objects(env, kLocks), "set_lk_max_objects");
    check(env->open(env, folder.c_str(),
                    DB_CREATE | DB_INIT_MPOOL | DB_INIT_LOCK | DB_INIT_LOG | DB_INIT_TXN, 0600),
          "environment open");
    for (std::size_t file = 0; file < kFiles; ++file) {
      check(db_create(&files_[file], environment_, 0), "db_create");
      DB *const opened = files_[file];
      check(opened->set_pagesize(opened, 4096), "set_pagesize");
      if (file == kLinks) check(opened->set_re_len(opened, sizeof(Connection)), "set_re_len");
      if (file == kFrom || file == kTo) check(opened->set_flags(opened, DB_DUP), "DB_DUP");
      check(opened->open(opened, nullptr, kNames[file], nullptr,
                         file == kLinks ? DB_RECNO : DB_BTREE, DB_AUTO_COMMIT | DB_CREATE, 0600),
            "open");
    }
  }
  void close() noexcept {
    for (DB *&file : files_) {
      if (file != nullptr) (void)file->close(file, 0);
      file = nullptr;
    }
    if (environment_ != nullptr) (void)environment_->close(environment_, 0);
    environment_ = nullptr;
  }

  DB_ENV *environment_ = nullptr;
  std::array<DB *, kFiles> files_{};
  DB_TXN *txn_ = nullptr;  // the running one
};

}  // namespace

std::unique_ptr<Oo1Store> open_berkeley_oo1(const std::string &folder) {
  return std::make_unique<BerkeleyOo1>(folder);
}

}  // namespace tmh::bench
