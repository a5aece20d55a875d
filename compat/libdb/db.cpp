// compat/libdb/db.cpp -- tp/db.h: dbopen().
// Contexts:  NOT async-signal-safe.
#include <tp/db.h>

#include <sys/stat.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "compat/libdb/btree_handle.h"
#include "compat/libdb/failure.h"
#include "compat/libdb/file_check.h"
#include "compat/libdb/hash_handle.h"
#include "compat/libdb/items.h"
#include "compat/libdb/private_store.h"
#include "compat/libdb/recno_handle.h"
#include "compat/libdb/remote_handle.h"
#include "compat/libdb/shared/environment.h"
#include "compat/libdb/shared/shared_store.h"
#include "compat/libdb/shared/tp_failure.h"

namespace tmh::db {
namespace {

constexpr unsigned kNoEffect = DB_LOCK | DB_SHMEM | DB_TXN;
constexpr unsigned kOpenFlags = O_ACCMODE | O_CREAT | O_EXCL | O_NONBLOCK | O_TRUNC;

// "DB_SHARED|DB_TP", "3": of TP_DBFLAGS.
[[nodiscard]] unsigned parsed_flags(std::string_view text) {
  unsigned flags = 0;
  while (!text.empty()) {
    const std::size_t end = text.find_first_of("|, ");
    const std::string_view word = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    unsigned number = 0;
    const auto parsed = std::from_chars(word.data(), word.data() + word.size(), number);
    if (word.empty()) continue;
    if (word == "DB_SHARED") {
      flags |= DB_SHARED;
    } else if (word == "DB_TP") {
      flags |= DB_TP;
    } else if (word == "DB_RECORD_LOCKS") {
      flags |= DB_RECORD_LOCKS;
    } else if (word == "DB_BLINK") {
      flags |= DB_BLINK;
    } else if (parsed.ec == std::errc() && parsed.ptr == word.data() + word.size()) {
      flags |= number;
    } else {
      throw Failure{EINVAL};
    }
  }
  return flags;
}

// text: the user's file, where it is one of records.
[[nodiscard]] std::unique_ptr<Store> open_store(StoreSettings settings, const StoreSettings &user,
                                                bool is_text, unsigned dbflags) {
  if (is_text) {
    settings.path = user.path;
    settings.flags = user.flags;
    settings.mode = user.mode;
  }
  // No environment is made beside what is refused.
  struct stat found {};
  const bool is_there = ::stat(settings.path.c_str(), &found) == 0;
  if (!is_there && (settings.flags & O_CREAT) == 0) throw Failure{errno};
  if (is_there && !S_ISREG(found.st_mode)) throw Failure{EINVAL};
  const auto kind =
      (dbflags & DB_TP) != 0 ? SharedStore::Kind::kTransactions : SharedStore::Kind::kShared;
  const auto content = is_text ? SharedFile::Content::kText : SharedFile::Content::kPages;
  return std::make_unique<SharedStore>(Environment::of(settings.path), settings, content, kind);
}

[[nodiscard]] std::unique_ptr<Handle> make_handle(const StoreOpener &opener,
                                                  const StoreSettings &settings, DBTYPE type,
                                                  const void *openinfo) {
  if (type == DB_RECNO) {
    const TextFile::Settings text{
        .path = settings.path, .flags = settings.flags, .mode = settings.mode};
    return std::make_unique<RecnoHandle>(opener, text, static_cast<const RECNOINFO *>(openinfo));
  }
  if (type == DB_HASH) {
    const HASHINFO info =
        openinfo != nullptr ? *static_cast<const HASHINFO *>(openinfo) : HASHINFO{};
    return std::make_unique<HashHandle>(opener, settings, info);
  }
  if (type != DB_BTREE) throw Failure{EINVAL};
  const BTREEINFO info =
      openinfo != nullptr ? *static_cast<const BTREEINFO *>(openinfo) : BTREEINFO{};
  return std::make_unique<BtreeHandle>(opener, settings, info);
}

// Handles of the user's functions, over pages that are opened already: of no file or text.
[[nodiscard]] Handle::Maker maker_of(DBTYPE type, const void *openinfo) {
  const auto make = [type](std::unique_ptr<Store> store, const void *info) {
    return make_handle([&](const StoreSettings &) { return std::move(store); }, {}, type, info);
  };
  if (openinfo == nullptr)
    return [make](std::unique_ptr<Store> store) { return make(std::move(store), nullptr); };
  const auto copied = [&](auto info) -> Handle::Maker {
    return [make, info](std::unique_ptr<Store> store) { return make(std::move(store), &info); };
  };
  switch (type) {
    case DB_RECNO: {
      RECNOINFO info = *static_cast<const RECNOINFO *>(openinfo);
      info.bfname = nullptr;
      return copied(info);
    }
    case DB_HASH:
      return copied(*static_cast<const HASHINFO *>(openinfo));
    case DB_BTREE:
      break;
  }
  return copied(*static_cast<const BTREEINFO *>(openinfo));
}

[[nodiscard]] bool has_file(const char *file, DBTYPE type, const void *openinfo) noexcept {
  return file != nullptr || (type == DB_RECNO && openinfo != nullptr &&
                             static_cast<const RECNOINFO *>(openinfo)->bfname != nullptr);
}

[[nodiscard]] unsigned flags_of_all_opens() {
  const char *const more = std::getenv("TP_DBFLAGS");
  return more != nullptr ? parsed_flags(more) : 0;
}

// TP_SERVER is set: named files are the server's.
[[nodiscard]] bool is_remote() noexcept {
  const char *const server = std::getenv("TP_SERVER");
  return server != nullptr && *server != '\0';
}

[[nodiscard]] std::unique_ptr<Handle> open_handle(const char *file, int flags, int mode,
                                                  DBTYPE type, unsigned dbflags,
                                                  const void *openinfo) {
  const unsigned given = static_cast<unsigned>(flags) & ~kNoEffect;
  if ((given & ~kOpenFlags) != 0 || (given & O_ACCMODE) == O_WRONLY ||
      ((given & O_TRUNC) != 0 && (given & O_ACCMODE) != O_RDWR))
    throw Failure{EINVAL};
  const std::string path = file != nullptr ? file : "";
  if (file != nullptr && path.empty()) throw Failure{ENOENT};
  const bool is_named = has_file(file, type, openinfo);
  if (is_named) dbflags |= flags_of_all_opens();
  if ((dbflags & ~(0u + DB_SHARED + DB_TP + DB_RECORD_LOCKS + DB_BLINK)) != 0)
    throw Failure{EINVAL};
  if ((dbflags & (0u + DB_SHARED + DB_TP)) == 0) dbflags = 0;
  StoreSettings settings;
  settings.path = path;
  settings.flags = static_cast<int>(given);
  settings.mode = mode;
  settings.locks_records = type == DB_BTREE && (dbflags & DB_RECORD_LOCKS) != 0;
  settings.passes_inner = type == DB_BTREE && (dbflags & DB_BLINK) != 0;
  const StoreOpener opener = [&](const StoreSettings &wanted) -> std::unique_ptr<Store> {
    if (dbflags == 0 || !is_named) return std::make_unique<PrivateStore>(wanted);
    return open_store(wanted, settings, type == DB_RECNO && !path.empty(), dbflags);
  };
  std::unique_ptr<Handle> opened = make_handle(opener, settings, type, openinfo);
  if (dbflags == 0 || !is_named) return opened;
  opened->set_maker(maker_of(type, openinfo));
  return opened;
}

// A file that an environment has newer pages of is read there.
[[nodiscard]] std::unique_ptr<Store> open_to_look(const char *file) {
  StoreSettings settings;
  settings.path = file;
  settings.flags = O_RDONLY;
  settings.is_sound = &Items::is_sound;
  if (settings.path.empty()) throw Failure{ENOENT};
  try {
    return std::make_unique<PrivateStore>(settings);
  } catch (const Failure &failure) {
    if (failure.number != EBUSY) throw;
  }
  try {
    return open_store(settings, settings, false, DB_SHARED | DB_TP);
  } catch (const Failure &failure) {
    if (failure.number != EBUSY) throw;
    return open_store(settings, settings, false, DB_SHARED);
  }
}

}  // namespace

[[nodiscard]] tp_db_info look_at(const char *file) {
  const std::unique_ptr<Store> store = open_to_look(file);
  if (store->is_new()) throw Failure{EINVAL};
  store->opened();
  tp_db_info info{};
  (void)store->run(
      false,
      [&] {
        info = check_file(store.get());
        return 0;
      },
      [] {});
  store->close([] {});
  return info;
}

}  // namespace tmh::db

extern "C" {

DB *tp_dbopen(const char *file, int flags, int mode, DBTYPE type, int dbflags,
              const void *openinfo) {
  try {
    if (tmh::db::is_remote() && tmh::db::has_file(file, type, openinfo)) {
      const int all = dbflags | static_cast<int>(tmh::db::flags_of_all_opens());
      return tmh::db::RemoteHandle::open(file, flags, mode, type, all, openinfo).release()->db();
    }
    // The handle's end is DB.close().
    return tmh::db::open_handle(file, flags, mode, type, static_cast<unsigned>(dbflags), openinfo)
        .release()
        ->db();
  } catch (const tmh::db::Failure &failure) {
    errno = failure.number;
  } catch (const std::bad_alloc &) {
    errno = ENOMEM;
  } catch (const tmh::Error &error) {
    errno = tmh::db::errno_of(static_cast<int>(error.errc()));
  }
  return nullptr;
}

DB *dbopen(const char *file, int flags, int mode, DBTYPE type, const void *openinfo) {
  return tp_dbopen(file, flags, mode, type, 0, openinfo);
}

int tp_db_check(const char *file, tp_db_info *info) {
  try {
    if (file == nullptr || info == nullptr) throw tmh::db::Failure{EINVAL};
    *info = tmh::db::look_at(file);
    return RET_SUCCESS;
  } catch (const tmh::db::Failure &failure) {
    errno = failure.number;
  } catch (const std::bad_alloc &) {
    errno = ENOMEM;
  }
  return RET_ERROR;
}

}  // extern "C"
