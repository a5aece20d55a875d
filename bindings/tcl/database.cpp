// bindings/tcl/database.cpp -- put, get, del, seq, sync, close.
#include "bindings/tcl/database.h"

#include <sys/stat.h>
#include <tp/db.h>

#include <cerrno>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "bindings/tcl/values.h"
#include "platform/assert.h"

namespace tmh::tcl {

namespace {

struct Database {
  DB *db = nullptr;
  Tcl_Command command = nullptr;
  Package *package = nullptr;
};

void end(ClientData of) {
  TMH_ASSERT(of != nullptr);
  const std::unique_ptr<Database> database(static_cast<Database *>(of));
  if (database->db != nullptr) (void)database->db->close(database->db);
}

// A key: bytes, or a number of recno.
class Key {
 public:
  [[nodiscard]] bool take(Tcl_Interp *interp, const Database &database, Tcl_Obj *from) {
    if (database.db->type != DB_RECNO) return get_bytes(interp, from, &dbt_);
    std::uint64_t number = 0;
    if (!get_number(interp, from, database.package->number_max, &number)) return false;
    number_ = static_cast<recno_t>(number);
    dbt_ = {&number_, sizeof number_};
    return true;
  }
  [[nodiscard]] DBT *dbt() noexcept { return &dbt_; }

 private:
  DBT dbt_{};
  recno_t number_ = 0;
};
[[nodiscard]] Tcl_Obj *new_key(const Database &database, const DBT &key) {
  recno_t number = 0;
  if (database.db->type != DB_RECNO || key.size != sizeof number) return new_bytes(key);
  std::memcpy(&number, key.data, sizeof number);
  return Tcl_NewWideIntObj(number);
}

// 0: it has been done; 1: it is not there, or is there already.
int tell_whether(Tcl_Interp *interp, int result) {
  if (result == RET_ERROR) return fail_errno(interp);
  Tcl_SetObjResult(interp, Tcl_NewBooleanObj(result == RET_SUCCESS));
  return TCL_OK;
}

int put(Tcl_Interp *interp, const Database &database, int count, Tcl_Obj *const words[]) {
  static const char *const kHow[] = {"-cursor",      "-iafter",    "-ibefore",
                                     "-nooverwrite", "-setcursor", nullptr};
  constexpr unsigned kFlags[] = {R_CURSOR, R_IAFTER, R_IBEFORE, R_NOOVERWRITE, R_SETCURSOR};
  static_assert(std::size(kHow) == std::size(kFlags) + 1);
  if (count != 4 && count != 5) {
    Tcl_WrongNumArgs(interp, 2, words,
                     "key data ?-nooverwrite|-cursor|-iafter|-ibefore|-setcursor?");
    return TCL_ERROR;
  }
  int how = -1;
  if (count == 5 && Tcl_GetIndexFromObj(interp, words[4], kHow, "option", 0, &how) != TCL_OK)
    return TCL_ERROR;
  Key key;
  DBT data{};
  if (!key.take(interp, database, words[2]) || !get_bytes(interp, words[3], &data))
    return TCL_ERROR;
  return tell_whether(interp,
                      database.db->put(database.db, key.dbt(), &data, how < 0 ? 0 : kFlags[how]));
}

int get(Tcl_Interp *interp, const Database &database, int count, Tcl_Obj *const words[]) {
  if (count != 3 && count != 4) {
    Tcl_WrongNumArgs(interp, 2, words, "key ?variable?");
    return TCL_ERROR;
  }
  Key key;
  if (!key.take(interp, database, words[2])) return TCL_ERROR;
  DBT data{};
  const int result = database.db->get(database.db, key.dbt(), &data, 0);
  if (result == RET_ERROR) return fail_errno(interp);
  if (count == 3) {
    if (result == RET_SPECIAL) return fail(interp, "NOTFOUND", "the key is not there");
    Tcl_SetObjResult(interp, new_bytes(data));
    return TCL_OK;
  }
  if (result == RET_SUCCESS &&
      Tcl_ObjSetVar2(interp, words[3], nullptr, new_bytes(data), TCL_LEAVE_ERR_MSG) == nullptr)
    return TCL_ERROR;
  return tell_whether(interp, result);
}

int del(Tcl_Interp *interp, const Database &database, int count, Tcl_Obj *const words[]) {
  if (count != 3) {
    Tcl_WrongNumArgs(interp, 2, words, "key|-cursor");
    return TCL_ERROR;
  }
  Key key;
  const bool is_cursor = std::strcmp(Tcl_GetString(words[2]), "-cursor") == 0;
  if (!is_cursor && !key.take(interp, database, words[2])) return TCL_ERROR;
  return tell_whether(interp, database.db->del(database.db, key.dbt(), is_cursor ? R_CURSOR : 0));
}

int seq(Tcl_Interp *interp, const Database &database, int count, Tcl_Obj *const words[]) {
  static const char *const kHow[] = {"cursor", "first", "last", "next", "prev", nullptr};
  constexpr unsigned kFlags[] = {R_CURSOR, R_FIRST, R_LAST, R_NEXT, R_PREV};
  static_assert(std::size(kHow) == std::size(kFlags) + 1);
  int how = 0;
  if (count < 3 || count > 4) {
    Tcl_WrongNumArgs(interp, 2, words, "first|last|next|prev|cursor ?key?");
    return TCL_ERROR;
  }
  if (Tcl_GetIndexFromObj(interp, words[2], kHow, "place", 0, &how) != TCL_OK) return TCL_ERROR;
  if ((count == 4) != (kFlags[how] == R_CURSOR))
    return fail(interp, "EINVAL", "a key is that of cursor alone");
  Key key;
  if (count == 4 && !key.take(interp, database, words[3])) return TCL_ERROR;
  DBT data{};
  const int result = database.db->seq(database.db, key.dbt(), &data, kFlags[how]);
  if (result == RET_ERROR) return fail_errno(interp);
  if (result == RET_SPECIAL) return TCL_OK;
  Tcl_Obj *const both[] = {new_key(database, *key.dbt()), new_bytes(data)};
  Tcl_SetObjResult(interp, Tcl_NewListObj(2, both));
  return TCL_OK;
}

int close(Tcl_Interp *interp, Database *database) {
  TMH_ASSERT(database->db != nullptr && database->command != nullptr);
  DB *const db = std::exchange(database->db, nullptr);
  const int result = db->close(db);
  const int error = errno;
  // The database is gone with its command.
  (void)Tcl_DeleteCommandFromToken(interp, database->command);
  if (result == RET_SUCCESS) return TCL_OK;
  errno = error;
  return fail_errno(interp);
}

int call(ClientData of, Tcl_Interp *interp, int count, Tcl_Obj *const words[]) {
  static const char *const kCalls[] = {"close", "del", "get", "put", "seq", "sync", nullptr};
  enum Call { kClose, kDel, kGet, kPut, kSeq, kSync };
  auto *const database = static_cast<Database *>(of);
  TMH_ASSERT(database != nullptr && database->db != nullptr);
  int which = 0;
  if (count < 2) {
    Tcl_WrongNumArgs(interp, 1, words, "close|del|get|put|seq|sync ?argument ...?");
    return TCL_ERROR;
  }
  if (Tcl_GetIndexFromObj(interp, words[1], kCalls, "call", 0, &which) != TCL_OK) return TCL_ERROR;
  switch (which) {
    case kDel:
      return del(interp, *database, count, words);
    case kGet:
      return get(interp, *database, count, words);
    case kPut:
      return put(interp, *database, count, words);
    case kSeq:
      return seq(interp, *database, count, words);
    default:
      break;
  }
  if (count != 2) {
    Tcl_WrongNumArgs(interp, 2, words, "");
    return TCL_ERROR;
  }
  if (which == kClose) return close(interp, database);
  return database->db->sync(database->db, 0) == RET_SUCCESS ? TCL_OK : fail_errno(interp);
}

// ---- dbopen ------------------------------------------------------------------------------------

struct Options {
  int dbflags = 0;
  bool has_duplicates = false;
  std::uint64_t page_bytes = 0, cache_bytes = 0, record_bytes = 0;
};
[[nodiscard]] bool take_options(Tcl_Interp *interp, int count, Tcl_Obj *const words[],
                                Options *out) {
  static const char *const kNames[] = {"-cachesize", "-dup", "-psize", "-reclen",
                                       "-shared",    "-tp",  nullptr};
  enum Name { kCache, kDuplicates, kPage, kRecord, kShared, kTransactions };
  constexpr std::uint64_t kBytesMax = 1u << 28;
  for (int i = 0; i < count; ++i) {
    int name = 0;
    if (Tcl_GetIndexFromObj(interp, words[i], kNames, "option", 0, &name) != TCL_OK) return false;
    if (name == kDuplicates) {
      out->has_duplicates = true;
    } else if (name == kShared) {
      out->dbflags |= DB_SHARED;
    } else if (name == kTransactions) {
      out->dbflags |= DB_SHARED | DB_TP;
    } else {
      std::uint64_t *const number = name == kCache  ? &out->cache_bytes
                                    : name == kPage ? &out->page_bytes
                                                    : &out->record_bytes;
      if (++i == count) {
        (void)fail(interp, "EINVAL", "an option lacks its number");
        return false;
      }
      if (!get_number(interp, words[i], kBytesMax, number)) return false;
    }
  }
  return true;
}

[[nodiscard]] bool take_flags(Tcl_Interp *interp, Tcl_Obj *from, int *flags) {
  static const char *const kNames[] = {"creat", "excl", "rdonly", "rdwr", "trunc", nullptr};
  constexpr int kFlags[] = {O_CREAT, O_EXCL, O_RDONLY, O_RDWR, O_TRUNC};
  static_assert(std::size(kNames) == std::size(kFlags) + 1);
  int count = 0;
  Tcl_Obj **words = nullptr;
  if (Tcl_ListObjGetElements(interp, from, &count, &words) != TCL_OK) return false;
  for (int i = 0; i < count; ++i) {
    int name = 0;
    if (Tcl_GetIndexFromObj(interp, words[i], kNames, "flag", 0, &name) != TCL_OK) return false;
    *flags |= kFlags[name];
  }
  return true;
}

}  // namespace

int open_database(ClientData of, Tcl_Interp *interp, int count, Tcl_Obj *const words[]) {
  auto *const package = static_cast<Package *>(of);
  TMH_ASSERT(package != nullptr);
  static const char *const kTypes[] = {"btree", "hash", "recno", nullptr};
  constexpr DBTYPE kDbTypes[] = {DB_BTREE, DB_HASH, DB_RECNO};
  if (count < 5) {
    Tcl_WrongNumArgs(interp, 1, words, "file flags mode type ?option ...?");
    return TCL_ERROR;
  }
  int flags = 0, type = 0;
  std::uint64_t mode = 0;
  Options options;
  if (!take_flags(interp, words[2], &flags) || !get_number(interp, words[3], 07777, &mode) ||
      Tcl_GetIndexFromObj(interp, words[4], kTypes, "type", 0, &type) != TCL_OK ||
      !take_options(interp, count - 5, words + 5, &options))
    return TCL_ERROR;
  int bytes = 0;
  const char *const name = Tcl_GetStringFromObj(words[1], &bytes);
  std::string file(name, static_cast<std::size_t>(bytes));
  // Tcl writes a zero byte as two others.
  if (file.find("\xc0\x80") != std::string::npos)
    return fail(interp, "EINVAL", "a path has a zero byte");
  const bool is_named = !file.empty();
  struct stat found {};
  if (is_named && ::stat(file.c_str(), &found) == 0 && !S_ISREG(found.st_mode))
    return fail(interp, "EINVAL", "it is no ordinary file");
  BTREEINFO tree{};
  HASHINFO table{};
  RECNOINFO numbers{};
  tree.flags = options.has_duplicates ? R_DUP : 0;
  tree.psize = table.bsize = numbers.psize = static_cast<unsigned>(options.page_bytes);
  tree.cachesize = table.cachesize = numbers.cachesize = static_cast<unsigned>(options.cache_bytes);
  numbers.flags = options.record_bytes != 0 ? R_FIXEDLEN : 0;
  numbers.reclen = options.record_bytes;
  // A file of records is its tree's: any bytes may be in them.
  const bool is_numbers = kDbTypes[type] == DB_RECNO;
  if (is_numbers && is_named) numbers.bfname = file.data();
  const void *const info = is_numbers                  ? static_cast<const void *>(&numbers)
                           : kDbTypes[type] == DB_HASH ? static_cast<const void *>(&table)
                                                       : &tree;
  auto made = std::make_unique<Database>();
  made->package = package;
  made->db = tp_dbopen(is_numbers || !is_named ? nullptr : file.c_str(), flags,
                       static_cast<int>(mode), kDbTypes[type], options.dbflags, info);
  if (made->db == nullptr) return fail_errno(interp);
  const std::string command = "::tp::db" + std::to_string(++package->databases);
  Database *const database = made.release();
  database->command = Tcl_CreateObjCommand(interp, command.c_str(), call, database, end);
  Tcl_SetObjResult(interp, Tcl_NewStringObj(command.c_str(), -1));
  return TCL_OK;
}

}  // namespace tmh::tcl
