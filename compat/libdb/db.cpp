// compat/libdb/db.cpp -- tp/db.h on a tree: handles, and what flags are allowed.
// Invariant: no Failure leaves a call. An exception of a callback does, and the call has not been.
// Contexts:  NOT async-signal-safe.
#include <tp/db.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <vector>

#include "compat/libdb/btree.h"
#include "compat/libdb/failure.h"
#include "compat/libdb/items.h"
#include "compat/libdb/private_store.h"
#include "compat/libdb/user_order.h"

namespace tmh::db {
namespace {

constexpr unsigned kNoEffect = DB_LOCK | DB_SHMEM | DB_TXN;
constexpr unsigned kOpenFlags = O_ACCMODE | O_CREAT | O_EXCL | O_NONBLOCK | O_TRUNC;

// What the head says of a tree.
struct TreeHead {
  std::uint8_t type, has_duplicates;
  std::uint16_t keys_min;
};
static_assert(sizeof(TreeHead) <= PrivateStore::kOwnBytes);

[[noreturn]] void refuse(int number) { throw Failure{number}; }

class Handle {
 public:
  Handle(const PrivateStore::Settings &file, const BTREEINFO &info)
      : store_(file),
        order_(info.compare, info.prefix, &calls_),
        tree_(&store_, &order_, tree_settings(info)) {
    if (store_.is_new()) tree_.make();
    db_.type = DB_BTREE;
    db_.internal = this;
    db_.close = [](DB *db) { return close(db); };
    db_.del = [](const DB *db, const DBT *key, unsigned flags) {
      return of(db).call([&](Handle &self) { return self.del(key, flags); });
    };
    db_.get = [](const DB *db, const DBT *key, DBT *data, unsigned flags) {
      return of(db).call([&](Handle &self) { return self.get(key, data, flags); });
    };
    db_.put = [](const DB *db, DBT *key, const DBT *data, unsigned flags) {
      return of(db).call([&](Handle &self) { return self.put(key, data, flags); });
    };
    db_.seq = [](const DB *db, DBT *key, DBT *data, unsigned flags) {
      return of(db).call([&](Handle &self) { return self.seq(key, data, flags); });
    };
    db_.sync = [](const DB *db, unsigned flags) {
      return of(db).call([&](Handle &self) { return self.sync(flags); });
    };
    db_.fd = [](const DB *db) {
      const int number = of(db).store_.file();
      if (number < 0) errno = ENOENT;
      return number;
    };
  }
  [[nodiscard]] DB *db() noexcept { return &db_; }

 private:
  static Handle &of(const DB *db) noexcept { return *static_cast<Handle *>(db->internal); }

  // A new file's own are the user's; another one's are its own.
  Btree<PrivateStore>::Settings tree_settings(const BTREEINFO &info) {
    TreeHead head{DB_BTREE, (info.flags & R_DUP) != 0,
                  static_cast<std::uint16_t>(info.minkeypage == 0 ? 2 : info.minkeypage)};
    std::byte own[PrivateStore::kOwnBytes] = {};
    if (store_.is_new()) {
      std::memcpy(own, &head, sizeof head);
      store_.set_own(own);
    } else {
      std::memcpy(&head, store_.own().data(), sizeof head);
      if (head.type != DB_BTREE || head.keys_min < 2) refuse(EINVAL);
    }
    return {head.has_duplicates != 0, head.keys_min};
  }

  template <class Body>
  int call(const Body &body) {
    try {
      // A call in a callback, or behind one that was left by longjmp(): the other one is over.
      store_.begin_operation(calls_.is_in_callback);
      calls_.is_in_callback = false;
      ++calls_.serial;
      return body(*this);
    } catch (const Failure &failure) {
      errno = failure.number;
    } catch (const std::bad_alloc &) {
      errno = ENOMEM;
    } catch (const std::length_error &) {
      errno = ENOMEM;
    } catch (...) {
      calls_.is_in_callback = false;
      throw;
    }
    return RET_ERROR;
  }
  static int close(DB *db) {
    if (of(db).calls_.is_in_callback) {
      errno = EBUSY;
      return RET_ERROR;
    }
    const std::unique_ptr<Handle> gone(&of(db));
    return gone->call([](Handle &self) { return self.sync(0); });
  }

  [[nodiscard]] static Bytes bytes_of(const DBT *dbt) {
    if (dbt == nullptr || (dbt->data == nullptr && dbt->size != 0)) refuse(EINVAL);
    return {static_cast<const std::byte *>(dbt->data), dbt->size};
  }
  static int result_of(Found found) noexcept {
    return found == Found::kYes ? RET_SUCCESS : RET_SPECIAL;
  }
  void deliver(const std::vector<std::byte> &from, DBT *to) noexcept {
    // Never null, as nothing that is there is.
    to->data = from.empty() ? &nothing_ : const_cast<std::byte *>(from.data());
    to->size = from.size();
  }
  void expect_writable() const {
    TMH_ASSERT(!calls_.is_in_callback);
    if (!store_.is_writable()) refuse(EPERM);
  }

  int get(const DBT *key, DBT *data, unsigned flags) {
    if (flags != 0 || data == nullptr) refuse(EINVAL);
    const Found found = tree_.get(bytes_of(key), &data_);
    if (found == Found::kYes) deliver(data_, data);
    return result_of(found);
  }

  int put(const DBT *key, const DBT *data, unsigned flags) {
    Put how = Put::kAny;
    switch (flags) {
      case 0:
        break;
      case R_NOOVERWRITE:
        how = Put::kNew;
        break;
      case R_SETCURSOR:
        how = Put::kAnySetCursor;
        break;
      case R_CURSOR:
        how = Put::kAtCursor;
        break;
      default:
        refuse(EINVAL);
    }
    if (how == Put::kAtCursor && !tree_.is_on_record()) refuse(EINVAL);
    expect_writable();
    return result_of(tree_.put(bytes_of(key), bytes_of(data), how));
  }

  int del(const DBT *key, unsigned flags) {
    if (flags != 0 && flags != R_CURSOR) refuse(EINVAL);
    if (flags == R_CURSOR && !tree_.has_cursor()) refuse(EINVAL);
    expect_writable();
    return result_of(flags == R_CURSOR ? tree_.erase_at_cursor() : tree_.erase(bytes_of(key)));
  }

  int seq(DBT *key, DBT *data, unsigned flags) {
    if (key == nullptr || data == nullptr) refuse(EINVAL);
    Seek how = Seek::kAt;
    switch (flags) {
      case R_CURSOR:
        break;
      case R_FIRST:
        how = Seek::kFirst;
        break;
      case R_LAST:
        how = Seek::kLast;
        break;
      case R_NEXT:
        how = Seek::kNext;
        break;
      case R_PREV:
        how = Seek::kPrevious;
        break;
      default:
        refuse(EINVAL);
    }
    const Bytes at = how == Seek::kAt ? bytes_of(key) : Bytes{};
    const Found found = tree_.seek(how, at, &key_, &data_);
    if (found == Found::kYes) {
      deliver(key_, key);
      deliver(data_, data);
    }
    return result_of(found);
  }

  int sync(unsigned flags) {
    if (flags != 0) refuse(EINVAL);
    store_.sync();
    return RET_SUCCESS;
  }

  DB db_{};
  Calls calls_;
  PrivateStore store_;
  UserOrder order_;
  Btree<PrivateStore> tree_;
  std::vector<std::byte> key_, data_;  // what the last call has delivered
  std::byte nothing_{};
};

void check(const BTREEINFO &info) {
  if ((info.flags & ~static_cast<unsigned long>(R_DUP)) != 0) refuse(EINVAL);
  if (info.minkeypage != 0 && (info.minkeypage < 2 || info.minkeypage > 0x7fff)) refuse(EINVAL);
  if (info.psize != 0 &&
      (info.psize < kPageBytesMin || info.psize > kPageBytesMax || info.psize % 2 != 0))
    refuse(EINVAL);
  if (info.lorder != 0 && info.lorder != 1234 && info.lorder != 4321) refuse(EINVAL);
}

}  // namespace
}  // namespace tmh::db

extern "C" DB *dbopen(const char *file, int flags, int mode, DBTYPE type, const void *openinfo) {
  using namespace tmh::db;  // NOLINT(google-build-using-namespace): in one function
  try {
    const unsigned given = static_cast<unsigned>(flags) & ~kNoEffect;
    if ((given & ~kOpenFlags) != 0 || (given & O_ACCMODE) == O_WRONLY) refuse(EINVAL);
    if (type != DB_BTREE) refuse(ENOSYS);
    const BTREEINFO info =
        openinfo != nullptr ? *static_cast<const BTREEINFO *>(openinfo) : BTREEINFO{};
    check(info);
    PrivateStore::Settings settings;
    if (file != nullptr) settings.path = file;
    if (file != nullptr && settings.path.empty()) refuse(ENOENT);
    settings.flags = static_cast<int>(given);
    settings.mode = mode;
    settings.page_bytes = info.psize;
    settings.cache_bytes = info.cachesize;
    settings.is_sound = [](const PlainPage &page) { return Items<PrivateStore>::is_sound(page); };
    auto handle = std::make_unique<Handle>(settings, info);
    return handle.release()->db();
  } catch (const Failure &failure) {
    errno = failure.number;
  } catch (const std::bad_alloc &) {
    errno = ENOMEM;
  }
  return nullptr;
}
