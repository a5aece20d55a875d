// tools/db.cpp -- the library of dbopen(), and what is done with its functions.
// Shape:     the library tmh-db is loaded when it is asked for: programs that have no such files do
//            not need it.
// Contexts:  one thread.
#include "tools/db.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <tp/db.h>

#include "platform/assert.h"
#include "tools/db_text.h"
#include "tools/failure.h"
#include "tools/preloaded_program.h"
#include "tools/print.h"

namespace tmh::tools {

namespace {

const LoadedFirst kLibrary{"", "libtmh-db.so." TMH_SO_VERSION, "TMH_DB_LIBRARY", ""};

class DbLibrary {
 public:
  DbLibrary() : at_(::dlopen(find_library(kLibrary, Errc::kIo).c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (at_ == nullptr) refuse(Errc::kIo, ::dlerror());
  }
  [[nodiscard]] auto open() const { return function<decltype(&tp_dbopen)>("tp_dbopen"); }
  [[nodiscard]] auto check() const { return function<decltype(&tp_db_check)>("tp_db_check"); }

 private:
  template <class Function>
  [[nodiscard]] Function function(const char *name) const {
    void *const found = ::dlsym(at_, name);
    TMH_ASSERT(found != nullptr);
    return reinterpret_cast<Function>(found);
  }

  void *const at_;
};

[[noreturn]] void refuse_errno(const std::string &file) {
  const int error = errno;
  const char *const why = error == EINVAL  ? "is no file of dbopen(), or is damaged"
                          : error == EBUSY ? "has newer pages in another environment: see TP_HOME"
                                           : std::strerror(error);
  throw Error(error == EINVAL   ? Errc::kCorrupt
              : error == EACCES ? Errc::kPermission
              : error == ENOSPC ? Errc::kDiskFull
                                : Errc::kIo,
              fmt::format("{}: {}", file, why));
}

// An open database, which closes.
class Database {
 public:
  Database(const DbLibrary &library, const std::string &file, int flags, const DbTextHead &head)
      : file_(file) {
    std::string path = file;
    BTREEINFO tree{};
    tree.psize = head.page_bytes;
    tree.flags = head.has_duplicates ? R_DUP : 0;
    HASHINFO table{};
    table.bsize = head.page_bytes;
    RECNOINFO numbers{};
    numbers.psize = head.page_bytes;
    numbers.bfname = path.data();
    const bool is_numbers = head.type == DB_RECNO;
    const void *const info = is_numbers             ? static_cast<const void *>(&numbers)
                             : head.type == DB_HASH ? static_cast<const void *>(&table)
                                                    : &tree;
    const auto open = library.open();
    db_ = open(is_numbers ? nullptr : path.c_str(), flags, 0666, head.type, 0, info);
    // What an environment has newer is read there.
    if (db_ == nullptr && errno == EBUSY)
      db_ = open(is_numbers ? nullptr : path.c_str(), flags, 0666, head.type, DB_SHARED | DB_TP,
                 info);
    if (db_ == nullptr) refuse_errno(file_);
  }
  ~Database() {
    if (db_ != nullptr) (void)db_->close(db_);
  }
  Database(const Database &) = delete;
  Database &operator=(const Database &) = delete;

  [[nodiscard]] bool next(bool is_first, std::string *key, std::string *data) {
    DBT k{}, d{};
    const int result = db_->seq(db_, &k, &d, is_first ? R_FIRST : R_NEXT);
    if (result == RET_ERROR) refuse_errno(file_);
    if (result != RET_SUCCESS) return false;
    key->assign(static_cast<const char *>(k.data), k.size);
    data->assign(static_cast<const char *>(d.data), d.size);
    return true;
  }
  void put(const std::string &key, const std::string &data) {
    DBT k{const_cast<char *>(key.data()), key.size()};
    const DBT d{const_cast<char *>(data.data()), data.size()};
    if (db_->put(db_, &k, &d, 0) != RET_SUCCESS) refuse_errno(file_);
  }
  void close() {
    if (DB *const db = std::exchange(db_, nullptr); db->close(db) != RET_SUCCESS)
      refuse_errno(file_);
  }

 private:
  const std::string file_;
  DB *db_ = nullptr;
};

[[nodiscard]] const char *name_of(DBTYPE type) noexcept {
  return type == DB_BTREE ? "btree" : type == DB_HASH ? "hash" : "recno";
}

Exit check_database(const DbLibrary &library, const DbCommand &command) {
  tp_db_info info{};
  if (library.check()(command.file.c_str(), &info) != RET_SUCCESS) refuse_errno(command.file);
  const char *const state = info.wrong != nullptr ? info.wrong : "sound";
  if (command.json)
    print(Json{{"file", printable(command.file)},
               {"type", name_of(info.type)},
               {"page_bytes", info.psize},
               {"has_duplicates", info.has_duplicates != 0},
               {"records", info.records},
               {"state", state}});
  else
    print(fmt::format("{}: {}, {} records, pages of {} bytes: {}\n", printable(command.file),
                      name_of(info.type), info.records, info.psize, state));
  return info.wrong != nullptr ? Exit::kDamage : Exit::kOk;
}

Exit dump_database(const DbLibrary &library, const DbCommand &command) {
  tp_db_info info{};
  if (library.check()(command.file.c_str(), &info) != RET_SUCCESS) refuse_errno(command.file);
  if (info.wrong != nullptr)
    throw Error(Errc::kCorrupt, fmt::format("{}: {}", command.file, info.wrong));
  DbTextHead head{info.type, info.has_duplicates != 0, info.psize, info.type != DB_RECNO};
  Database from(library, command.file, O_RDONLY, head);
  print(text_of(head));
  std::string key, data;
  for (bool is_first = true; from.next(is_first, &key, &data); is_first = false) {
    if (head.has_keys) print(line_of(key));
    print(line_of(data));
  }
  print(end_of_db_text());
  return Exit::kOk;
}

// A key's records come first to last, and each put goes before those that there are.
void put_group(Database *to, const std::string &key, std::vector<std::string> *group) {
  for (auto data = group->rbegin(); data != group->rend(); ++data) to->put(key, *data);
  group->clear();
}

void load_records(DbTextReader *from, const DbTextHead &head, Database *to) {
  std::string key, data, last;
  std::vector<std::string> group;
  recno_t number = 0;
  for (;;) {
    if (head.has_keys && !from->next(&key)) break;
    if (!from->next(&data)) {
      if (!head.has_keys) break;
      throw Error(Errc::kCorrupt, "a key without a record");
    }
    if (head.type == DB_RECNO) {
      // A text has numbers as digits.
      number =
          head.has_keys ? static_cast<recno_t>(std::strtoul(key.c_str(), nullptr, 10)) : number + 1;
      key.assign(reinterpret_cast<const char *>(&number), sizeof number);
    }
    if (!group.empty() && key != last) put_group(to, last, &group);
    group.push_back(data);
    last = key;
  }
  put_group(to, last, &group);
}

Exit load_database(const DbLibrary &library, const DbCommand &command) {
  std::ifstream file;
  if (!command.from.empty()) {
    file.open(command.from, std::ios::binary);
    if (!file) refuse_errno(command.from);
  }
  DbTextReader from(command.from.empty() ? static_cast<std::istream *>(&std::cin) : &file);
  const DbTextHead head = from.head();
  // recno(3) makes its file, whatever the flags.
  if (::access(command.file.c_str(), F_OK) == 0)
    throw Error(Errc::kIo, command.file + " is there already");
  try {
    Database to(library, command.file, O_RDWR | O_CREAT | O_EXCL, head);
    load_records(&from, head, &to);
    to.close();
  } catch (...) {
    (void)::unlink(command.file.c_str());
    throw;
  }
  return Exit::kOk;
}

}  // namespace

Exit run(const DbCommand &command) {
  const DbLibrary library;
  switch (command.kind) {
    case DbCommand::Kind::kCheck:
      return check_database(library, command);
    case DbCommand::Kind::kDump:
      return dump_database(library, command);
    case DbCommand::Kind::kLoad:
      break;
  }
  return load_database(library, command);
}

}  // namespace tmh::tools
