// compat/libdb/server/operations.cpp -- from operations to calls of db.h and paper.h.
#include "compat/libdb/server/operations.h"

#define TP_NO_SHORT_NAMES
#include <tp/paper.h>

#undef tp_lock

#include <stdlib.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <optional>
#include <utility>

#include "compat/libdb/failure.h"
#include "compat/libtp/interruption.h"
#include "platform/assert.h"

namespace tmh::db::server {

namespace {

using tp::wire::Opening;
using tp::wire::Reader;

static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "counters of threads");
constexpr std::size_t kKeyRoom = 8;  // a number is read, whatever its size is said to be
constexpr std::uint64_t kCacheBytesMax = 256u << 20, kSkippedBytesMax = 1u << 30;

[[nodiscard]] std::string path_of(const std::optional<std::string_view> &path) {
  if (!path || path->empty() || (*path)[0] != '/' || path->find('\0') != std::string_view::npos)
    throw Failure{path && path->empty() ? ENOENT : EINVAL};
  std::string made(*path);
  // Another kind of file would keep the worker.
  struct stat found {};
  if (::stat(made.c_str(), &found) == 0 && !S_ISREG(found.st_mode)) throw Failure{EINVAL};
  return made;
}

template <class Number>
[[nodiscard]] Number narrowed(std::uint64_t number) {
  const auto made = static_cast<Number>(number);
  if (static_cast<std::uint64_t>(made) != number) throw Failure{EINVAL};
  return made;
}
[[nodiscard]] unsigned cache_bytes(std::uint64_t bytes) {
  return static_cast<unsigned>(std::min(bytes, kCacheBytesMax));
}

// While the process has no environment: an open may make it.
std::mutex opening_mutex;

struct Info {
  BTREEINFO tree{};
  HASHINFO table{};
  RECNOINFO numbers{};
  std::string tree_file;

  // Null: none is given.
  [[nodiscard]] const void *fill(const Opening &opening) {
    const auto &n = opening.numbers;
    if (opening.has_info == 0) return nullptr;
    if (opening.type == DB_BTREE) {
      tree.flags = n[0];
      tree.cachesize = cache_bytes(n[1]);
      tree.maxkeypage = narrowed<int>(n[2]);
      tree.minkeypage = narrowed<int>(n[3]);
      tree.psize = narrowed<unsigned>(n[4]);
      tree.lorder = narrowed<int>(n[5]);
      return &tree;
    }
    if (opening.type == DB_HASH) {
      table.bsize = narrowed<unsigned>(n[0]);
      table.ffactor = narrowed<unsigned>(n[1]);
      table.nelem = narrowed<unsigned>(n[2]);
      table.cachesize = cache_bytes(n[3]);
      table.lorder = narrowed<int>(n[4]);
      return &table;
    }
    numbers.flags = n[0];
    numbers.cachesize = cache_bytes(n[1]);
    numbers.psize = narrowed<unsigned>(n[2]);
    numbers.lorder = narrowed<int>(n[3]);
    numbers.reclen = n[4];
    // Longer ones are in no message.
    if (numbers.reclen > TP_SERVER_MESSAGE_MAX) throw Failure{EINVAL};
    numbers.bval = narrowed<unsigned char>(n[5]);
    if (opening.tree_file) {
      tree_file = path_of(opening.tree_file);
      numbers.bfname = tree_file.data();
    }
    return &numbers;
  }
};

[[nodiscard]] std::string_view view(const DBT &dbt) noexcept {
  return {static_cast<const char *>(dbt.data), dbt.size};
}
[[nodiscard]] tp::wire::Result of_call(int result) noexcept {
  tp::wire::Result made;
  made.result = result;
  if (result == RET_ERROR) made.error = errno;
  return made;
}
[[nodiscard]] tp::wire::Result refused(int error) noexcept {
  errno = error;
  return of_call(RET_ERROR);
}

[[nodiscard]] std::string real_path(const std::string &path) {
  const std::unique_ptr<char, decltype(&std::free)> found(::realpath(path.c_str(), nullptr),
                                                          &std::free);
  return found == nullptr ? path : found.get();
}

}  // namespace

bool has_transaction() noexcept { return tp_paper_txn() != nullptr; }

Operations::~Operations() { (void)roll_back(); }

bool Operations::roll_back() noexcept {
  if (!has_transaction()) return false;
  Counters::add(counters_.rolled_back);
  // What cannot be undone now others undo.
  if (tp_paper_abort() != TP_OK) tp::give_transaction_up();
  TMH_ASSERT(!has_transaction());
  note_end();
  return true;
}

Operations::Result Operations::run(const Op &op) noexcept {
  TMH_ASSERT(session_ != nullptr);
  Counters::add(counters_.operations);
  try {
    return run_op(op);
  } catch (const Failure &failure) {
    return refused(failure.number);
  } catch (const std::bad_alloc &) {
    return refused(ENOMEM);
  } catch (const std::exception &) {
    return refused(EIO);
  }
}

Operations::Result Operations::run_op(const Op &op) {
  switch (op.kind) {
    case TP_SERVER_GET:
    case TP_SERVER_PUT:
    case TP_SERVER_DEL:
    case TP_SERVER_SEQ:
    case TP_SERVER_SYNC:
    case TP_SERVER_ADD:
      return record(op);
    case TP_SERVER_CLOSE:
      return close(op);
    case TP_SERVER_DBOPEN:
      return open(op);
    case TP_SERVER_BEGIN:
      return begin();
    case TP_SERVER_COMMIT:
    case TP_SERVER_ABORT:
      return end(op);
    case TP_SERVER_LOCK:
      return answer(tp_paper_lock(op.db, op.number, op.flags));
    case TP_SERVER_UNLOCK:
      return answer(tp_paper_unlock(op.db, op.number, op.flags));
    case TP_SERVER_TRADE:
      return trade(op);
    case TP_SERVER_LOG:
      return log(op);
    case TP_SERVER_FLUSH:
      return answer(tp_log_flush(tp_paper_env()));
    case TP_SERVER_BUF_OPEN:
      return open_pages(op);
    case TP_SERVER_BUF_GET:
      return get_page(op);
    case TP_SERVER_BUF_PUT:
      return put_page(op);
    case TP_SERVER_HOME:
      return home(op);
    case TP_SERVER_QUERY_BEGIN:
    case TP_SERVER_QUERY_END:
      throw Failure{ENOTSUP};
    default:
      throw Failure{EINVAL};
  }
}

Operations::Result Operations::answer(int error) {
  TMH_ASSERT(error >= 0);
  Result made;
  made.result = error;
  if (error == TP_OK) return made;
  text_ = tp_last_error();
  made.data = text_;
  return made;
}

// ---- Records -----------------------------------------------------------------------------------

Operations::Result Operations::open(const Op &op) {
  if (!op.data) throw Failure{EINVAL};
  Reader in(*op.data);
  const Opening opening = take_opening(&in);
  if (!in.is_at_end() ||
      (opening.type != DB_BTREE && opening.type != DB_HASH && opening.type != DB_RECNO))
    throw Failure{EINVAL};
  if (session_->is_full()) throw Failure{EMFILE};
  Info info;
  const void *const openinfo = info.fill(opening);
  const std::string path = op.key ? path_of(op.key) : std::string();
  // Clients that ask for nothing else meet in a file: none has it alone.
  const int dbflags = opening.dbflags == 0 && op.key ? DB_SHARED | DB_TP : opening.dbflags;
  std::unique_lock guard(opening_mutex, std::defer_lock);
  if (tp_paper_env() == nullptr) guard.lock();
  DB *const db = tp_dbopen(op.key ? path.c_str() : nullptr, opening.flags, opening.mode,
                           static_cast<DBTYPE>(opening.type), dbflags, openinfo);
  if (guard.owns_lock()) guard.unlock();
  if (db == nullptr) return of_call(RET_ERROR);
  TMH_ASSERT(db->type == static_cast<DBTYPE>(opening.type));
  const auto made = std::make_shared<Database>(db);
  made->has_transactions = (dbflags & DB_TP) != 0;
  made->is_private = dbflags == 0;
  made->has_duplicates = opening.type == DB_BTREE && (info.tree.flags & R_DUP) != 0;
  made->record_bytes = (info.numbers.flags & R_FIXEDLEN) != 0 ? info.numbers.reclen : 0;
  Result result;
  result.db = session_->add(made);
  return result;
}

Operations::Result Operations::close(const Op &op) {
  const std::shared_ptr<Database> database = session_->find(op.db);
  if (database == nullptr) throw Failure{EBADF};
  const std::unique_lock mine(database->mutex, std::try_to_lock);
  if (!mine.owns_lock()) throw Failure{EBUSY};
  // Closing stores what waits for the end of a transaction, which is its own thread's alone.
  if (database->user != nullptr && database->user != running_ && database->user->load())
    throw Failure{EBUSY};
  if (session_->remove(op.db) == nullptr) throw Failure{EBADF};
  return of_call(database->close());
}

void Operations::use(Database *database) {
  TMH_ASSERT(database != nullptr);
  note_end();
  tp_txn *const running = tp_paper_txn();
  if (running == nullptr) return;
  if (running_ == nullptr) {
    running_ = std::make_shared<std::atomic<bool>>(true);
    running_id_ = tp_txn_id(running);
  }
  database->user = running_;
}

void Operations::note_end() noexcept {
  if (running_ == nullptr) return;
  const tp_txn *const running = tp_paper_txn();
  if (running != nullptr && tp_txn_id(running) == running_id_) return;
  running_->store(false);
  running_ = nullptr;
}

// The library reads a number of the key's, and may be given what it has delivered.
DBT *Operations::given_key(const Op &op) {
  if (!op.key) return nullptr;
  key_.assign(*op.key);
  key_.resize(std::max(key_.size(), kKeyRoom));
  TMH_ASSERT(key_.size() >= sizeof(recno_t));
  given_ = {key_.data(), op.key->size()};
  return &given_;
}

Operations::Result Operations::record(const Op &op) {
  const std::shared_ptr<Database> database = session_->find(op.db);
  if (database == nullptr) throw Failure{EBADF};
  // Another connection of the process is in a call.
  const std::unique_lock mine(database->mutex, std::try_to_lock);
  if (!mine.owns_lock() || database->db == nullptr) throw Failure{EBUSY};
  use(database.get());
  DB *const db = database->db;
  DBT *const key = given_key(op);
  DBT data{};
  if (op.data) {
    data_.assign(*op.data);
    data = {data_.data(), data_.size()};
  }
  Result made;
  switch (op.kind) {
    case TP_SERVER_SYNC:
      return of_call(db->sync(db, op.flags));
    case TP_SERVER_DEL:
      return of_call(db->del(db, key, op.flags));
    case TP_SERVER_ADD:
      return add(op, database.get());
    case TP_SERVER_GET:
      made = of_call(db->get(db, key, &data, op.flags));
      if (made.result == RET_SUCCESS) made.data = view(data);
      return made;
    case TP_SERVER_SEQ: {
      DBT found = key != nullptr ? *key : DBT{};
      made = of_call(db->seq(db, &found, &data, op.flags));
      if (made.result != RET_SUCCESS) return made;
      made.key = view(found);
      made.data = view(data);
      return made;
    }
    default:
      break;
  }
  if (db->type == DB_RECNO && op.flags != R_CURSOR && key != nullptr) {
    recno_t number = 0;
    std::memcpy(&number, key->data, sizeof number);
    // What it skips is made.
    if (number > limits_.number_max || number * database->record_bytes > kSkippedBytesMax)
      throw Failure{EFBIG};
  }
  const void *const before = key != nullptr ? key->data : nullptr;
  made = of_call(db->put(db, key, op.data ? &data : nullptr, op.flags));
  if (key != nullptr && key->data != before) made.key = view(*key);
  return made;
}

Operations::Result Operations::add(const Op &op, Database *database) {
  TMH_ASSERT(database != nullptr && database->db != nullptr);
  if (database->has_duplicates || (!database->has_transactions && !database->is_private))
    throw Failure{ENOTSUP};
  if (!database->has_transactions || has_transaction()) return add_here(op, database->db);
  if (begin().result != TP_OK) throw Failure{EIO};
  try {
    Op commit;
    commit.kind = TP_SERVER_COMMIT;
    const Result made = add_here(op, database->db);
    if (made.result == RET_SUCCESS && end(commit).result != TP_OK) throw Failure{EIO};
    if (made.result != RET_SUCCESS) (void)roll_back();
    return made;
  } catch (...) {
    (void)roll_back();
    throw;
  }
}

Operations::Result Operations::add_here(const Op &op, DB *db) {
  TMH_ASSERT(op.kind == TP_SERVER_ADD);
  DBT *const key = given_key(op);
  DBT found{};
  Result made = of_call(db->get(db, key, &found, 0));
  if (made.result != RET_SUCCESS) return made;
  std::uint64_t number = 0;
  if (found.size < sizeof number || op.flags > found.size - sizeof number) throw Failure{EINVAL};
  data_.assign(view(found));
  std::memcpy(&number, data_.data() + op.flags, sizeof number);
  number += op.number;
  std::memcpy(data_.data() + op.flags, &number, sizeof number);
  const DBT changed{data_.data(), data_.size()};
  made = of_call(db->put(db, key, &changed, 0));
  if (made.result == RET_SUCCESS) made.data = data_;
  return made;
}

// ---- Transactions ------------------------------------------------------------------------------

Operations::Result Operations::home(const Op &op) {
  if (!op.key || op.key->empty() || (*op.key)[0] != '/' ||
      op.key->find('\0') != std::string_view::npos)
    throw Failure{EINVAL};
  const std::string wanted(*op.key);
  const std::scoped_lock guard(opening_mutex);
  if (tp_env *const env = tp_paper_env(); env != nullptr) {
    if (real_path(tp_home(env)) == real_path(wanted)) return answer(TP_OK);
    Result made;
    made.result = TP_EARGUMENT;
    text_ = std::string("the server has the environment ") + tp_home(env);
    made.data = text_;
    return made;
  }
  tp_options options{};
  options.durability = static_cast<int>(static_cast<std::int64_t>(op.number));
  return answer(tp_paper_open(wanted.c_str(), &options));
}

Operations::Result Operations::begin() {
  const tp_id begun = tp_paper_begin();
  if (begun == 0) return answer(TP_EARGUMENT);
  Result made;
  made.number = begun;
  return made;
}

Operations::Result Operations::end(const Op &op) {
  TMH_ASSERT(op.kind == TP_SERVER_COMMIT || op.kind == TP_SERVER_ABORT);
  const bool commits = op.kind == TP_SERVER_COMMIT;
  const Result made = answer(commits ? tp_paper_commit() : tp_paper_abort());
  note_end();
  if (made.result == TP_OK) Counters::add(commits ? counters_.transactions : counters_.rolled_back);
  return made;
}

Operations::Result Operations::trade(const Op &op) {
  unsigned to = 0;
  if (!op.data || op.data->size() != sizeof to) throw Failure{EINVAL};
  std::memcpy(&to, op.data->data(), sizeof to);
  return answer(tp_paper_upgrade(op.db, op.number, op.flags, to));
}

Operations::Result Operations::log(const Op &op) {
  const std::string_view data = op.data ? *op.data : std::string_view();
  const tp_lsn lsn = tp_paper_log(op.flags, data.data(), data.size());
  if (lsn == 0) return answer(TP_EARGUMENT);
  Result made;
  made.number = lsn;
  return made;
}

// ---- Pages -------------------------------------------------------------------------------------

Operations::Result Operations::open_pages(const Op &op) {
  if (!op.key || op.key->empty() || op.key->find('\0') != std::string_view::npos)
    throw Failure{EINVAL};
  Result made;
  made.db = tp_paper_buf_open(std::string(*op.key).c_str(), static_cast<int>(op.flags),
                              narrowed<int>(op.number));
  return made.db >= 0 ? made : answer(TP_EARGUMENT);
}

// No page stays pinned between requests: other clients' threads would wait for it.
Operations::Result Operations::get_page(const Op &op) {
  if (op.number > limits_.number_max) throw Failure{EFBIG};
  int bytes = 0;
  const void *const page = tp_paper_buf_get(op.db, op.number, BF_PIN, &bytes);
  if (page == nullptr) return answer(TP_EARGUMENT);
  data_.assign(static_cast<const char *>(page), TP_PAGE_BYTES);
  TMH_ASSERT(has_transaction());
  Result made = answer(tp_paper_buf_unpin(const_cast<void *>(page)));
  if (made.result != TP_OK) return made;
  made.number = static_cast<std::uint64_t>(bytes);
  made.data = data_;
  return made;
}

Operations::Result Operations::put_page(const Op &op) {
  if (op.number > limits_.number_max) throw Failure{EFBIG};
  if (!op.data || op.data->size() > TP_PAGE_BYTES || op.flags > TP_PAGE_BYTES - op.data->size())
    throw Failure{EINVAL};
  void *const page = tp_paper_buf_get(op.db, op.number, BF_PIN, nullptr);
  if (page == nullptr) return answer(TP_EARGUMENT);
  char *const to = static_cast<char *>(page) + op.flags;
  tp_step_t *const step = tp_running_step(tp_paper_txn());
  TMH_ASSERT(step != nullptr);
  const int logged = tp_log_bytes(step, to, op.data->size(), nullptr);
  if (logged == TP_OK) std::memcpy(to, op.data->data(), op.data->size());
  const Result failed = answer(logged);
  const int unpinned = tp_paper_buf_unpin(page);
  return logged != TP_OK ? failed : answer(unpinned);
}

}  // namespace tmh::db::server
