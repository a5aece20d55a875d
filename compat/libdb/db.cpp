// compat/libdb/db.cpp -- tp/db.h: dbopen().
// Contexts:  NOT async-signal-safe.
#include <tp/db.h>

#include <cerrno>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "compat/libdb/btree_handle.h"
#include "compat/libdb/failure.h"
#include "compat/libdb/hash_handle.h"
#include "compat/libdb/recno_handle.h"

namespace tmh::db {
namespace {

constexpr unsigned kNoEffect = DB_LOCK | DB_SHMEM | DB_TXN;
constexpr unsigned kOpenFlags = O_ACCMODE | O_CREAT | O_EXCL | O_NONBLOCK | O_TRUNC;

std::unique_ptr<Handle> open_handle(const char *file, int flags, int mode, DBTYPE type,
                                    const void *openinfo) {
  const unsigned given = static_cast<unsigned>(flags) & ~kNoEffect;
  if ((given & ~kOpenFlags) != 0 || (given & O_ACCMODE) == O_WRONLY) throw Failure{EINVAL};
  const std::string path = file != nullptr ? file : "";
  if (file != nullptr && path.empty()) throw Failure{ENOENT};
  if (type == DB_RECNO) {
    const TextFile::Settings text{.path = path, .flags = static_cast<int>(given), .mode = mode};
    return std::make_unique<RecnoHandle>(text, static_cast<const RECNOINFO *>(openinfo));
  }
  PrivateStore::Settings settings;
  settings.path = path;
  settings.flags = static_cast<int>(given);
  settings.mode = mode;
  if (type == DB_HASH) {
    const HASHINFO info =
        openinfo != nullptr ? *static_cast<const HASHINFO *>(openinfo) : HASHINFO{};
    return std::make_unique<HashHandle>(std::move(settings), info);
  }
  if (type != DB_BTREE) throw Failure{EINVAL};
  const BTREEINFO info =
      openinfo != nullptr ? *static_cast<const BTREEINFO *>(openinfo) : BTREEINFO{};
  return std::make_unique<BtreeHandle>(std::move(settings), info);
}

}  // namespace
}  // namespace tmh::db

extern "C" DB *dbopen(const char *file, int flags, int mode, DBTYPE type, const void *openinfo) {
  try {
    // The handle's end is DB.close().
    return tmh::db::open_handle(file, flags, mode, type, openinfo).release()->db();
  } catch (const tmh::db::Failure &failure) {
    errno = failure.number;
  } catch (const std::bad_alloc &) {
    errno = ENOMEM;
  }
  return nullptr;
}
