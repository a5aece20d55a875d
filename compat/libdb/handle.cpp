// compat/libdb/handle.cpp -- from the functions of a DB to those of its class.
#include "compat/libdb/handle.h"

#include <cerrno>
#include <memory>
#include <new>
#include <stdexcept>

#include "compat/libdb/failure.h"
#include "platform/assert.h"

namespace tmh::db {

Handle::Handle(DBTYPE type) noexcept {
  db_.type = type;
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
    const int number = of(db).file();
    if (number < 0) errno = ENOENT;
    return number;
  };
}

template <class Body>
int Handle::call(const Body &body) {
  try {
    // A call in a callback, or behind one that was left by longjmp(): the other one is over.
    store().begin_operation(calls_.is_in_callback);
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

int Handle::close(DB *db) {
  if (of(db).calls_.is_in_callback) {
    errno = EBUSY;
    return RET_ERROR;
  }
  const std::unique_ptr<Handle> gone(&of(db));
  return gone->call([](Handle &self) { return self.sync(0); });
}

Bytes Handle::bytes_of(const DBT *dbt) {
  if (dbt == nullptr || (dbt->data == nullptr && dbt->size != 0)) throw Failure{EINVAL};
  return {static_cast<const std::byte *>(dbt->data), dbt->size};
}

void Handle::deliver(const std::vector<std::byte> &from, DBT *to) noexcept {
  TMH_ASSERT(to != nullptr);
  // Never null, as nothing that is there is.
  to->data = from.empty() ? &nothing_ : const_cast<std::byte *>(from.data());
  to->size = from.size();
}

}  // namespace tmh::db
