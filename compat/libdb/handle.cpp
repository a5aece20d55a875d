// compat/libdb/handle.cpp -- from the functions of a DB to those of its class.
#include "compat/libdb/handle.h"

#include <cerrno>
#include <memory>
#include <new>
#include <stdexcept>
#include <utility>

#include "compat/libdb/failure.h"
#include "platform/assert.h"

namespace tmh::db {

Handle::Handle(DBTYPE type, std::unique_ptr<Store> store) noexcept : store_(std::move(store)) {
  TMH_ASSERT(store_ != nullptr);
  db_.type = type;
  db_.internal = this;
  db_.close = [](DB *db) { return close(db); };
  db_.del = [](const DB *db, const DBT *key, unsigned flags) {
    DBT given = key != nullptr ? *key : DBT{};
    Handle *const self = viewed(db);
    if (self == nullptr) return RET_ERROR;
    return self->call(key != nullptr ? &given : nullptr, nullptr,
                      [&](Handle &of_call, DBT *k, DBT *) { return of_call.del(k, flags); });
  };
  db_.get = [](const DB *db, const DBT *key, DBT *data, unsigned flags) {
    DBT given = key != nullptr ? *key : DBT{};
    Handle *const self = viewed(db);
    if (self == nullptr) return RET_ERROR;
    return self->call(key != nullptr ? &given : nullptr, data,
                      [&](Handle &of_call, DBT *k, DBT *d) { return of_call.get(k, d, flags); });
  };
  db_.put = [](const DB *db, DBT *key, const DBT *data, unsigned flags) {
    DBT given = data != nullptr ? *data : DBT{};
    Handle *const self = viewed(db);
    if (self == nullptr) return RET_ERROR;
    return self->call(key, data != nullptr ? &given : nullptr,
                      [&](Handle &of_call, DBT *k, DBT *d) { return of_call.put(k, d, flags); });
  };
  db_.seq = [](const DB *db, DBT *key, DBT *data, unsigned flags) {
    Handle *const self = viewed(db);
    if (self == nullptr) return RET_ERROR;
    return self->call(key, data,
                      [&](Handle &of_call, DBT *k, DBT *d) { return of_call.seq(k, d, flags); });
  };
  db_.sync = [](const DB *db, unsigned flags) {
    return of(db).guarded([&](Handle &self) { return self.sync(flags); });
  };
  db_.fd = [](const DB *db) {
    const int number = of(db).file();
    if (number < 0) errno = ENOENT;
    return number;
  };
}

template <class Body>
int Handle::guarded(const Body &body) {
  try {
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

template <class Body>
int Handle::call(DBT *key, DBT *data, const Body &body) {
  return guarded([&](Handle &) {
    // A call in a callback, or behind one that was left by longjmp(): the other one is over.
    const bool is_in_callback = calls_.is_in_callback;
    calls_.is_in_callback = false;
    ++calls_.serial;
    if (is_running_) reset_position();
    is_running_ = true;
    keep_position();
    // An attempt that does not count has delivered nothing.
    DBT k{}, d{};
    const int result = store_->run(
        is_in_callback,
        [&] {
          if (key != nullptr) k = *key;
          if (data != nullptr) d = *data;
          return body(*this, key != nullptr ? &k : nullptr, data != nullptr ? &d : nullptr);
        },
        [&] { reset_position(); });
    if (key != nullptr) *key = k;
    if (data != nullptr) *data = d;
    is_running_ = false;
    return result;
  });
}

Handle *Handle::viewed(const DB *db) {
  Handle &self = of(db);
  const int result = self.guarded([&](Handle &) {
    const std::uint64_t query = self.store_->running_query();
    if (query != self.view_of_) {
      std::erase_if(self.old_views_, [](const auto &view) { return !view->calls_.is_in_callback; });
      if (self.view_ != nullptr) self.old_views_.push_back(std::move(self.view_));
      self.view_of_ = 0;
      if (query != 0) self.view_ = self.maker_(self.store_->view());
      self.view_of_ = query;
    }
    return RET_SUCCESS;
  });
  if (result != RET_SUCCESS) return nullptr;
  return self.view_ != nullptr ? self.view_.get() : &self;
}

int Handle::close(DB *db) {
  if (of(db).calls_.is_in_callback) {
    errno = EBUSY;
    return RET_ERROR;
  }
  const auto leave = [](Handle &self) {
    self.store_->leave_transaction();
    return RET_SUCCESS;
  };
  if (of(db).guarded(leave) != RET_SUCCESS) return RET_ERROR;
  const std::unique_ptr<Handle> gone(&of(db));
  const int synced = gone->guarded([](Handle &self) { return self.sync(0); });
  const int error = errno;
  const int closed = gone->guarded([](Handle &self) {
    self.store_->close([&] { self.write_text(); });
    return RET_SUCCESS;
  });
  if (synced == RET_SUCCESS) return closed;
  errno = error;
  return RET_ERROR;
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
