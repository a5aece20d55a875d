// compat/libdb/hash_handle.cpp -- flags and numbers of hash(3), and what a table's head says.
#include "compat/libdb/hash_handle.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "compat/libdb/failure.h"
#include "compat/libdb/hash_probe.h"
#include "compat/libdb/items.h"
#include "compat/libdb/open_numbers.h"
#include "platform/assert.h"

namespace tmh::db {

namespace {

// Buckets are split when their pages are full, where nobody says how many records they have.
constexpr std::uint32_t kFill = 1u << 16;

[[nodiscard]] StoreSettings checked(StoreSettings file, const HASHINFO &info) {
  if (info.bsize > kPageBytesMax) throw Failure{EINVAL};
  // As 1.85: the next power of two.
  file.page_bytes = info.bsize == 0 ? 0 : std::bit_ceil(std::max(info.bsize, kPageBytesMin));
  check_order(info.lorder);
  file.cache_bytes = info.cachesize;
  file.is_sound = &Items::is_sound;
  return file;
}

}  // namespace

HashHandle::HashHandle(const StoreOpener &opener, StoreSettings file, const HASHINFO &info)
    : Handle(DB_HASH, opener(checked(std::move(file), info))),
      hash_(info.hash, &calls_),
      table_(&store(), &hash_) {
  HashTable::Head head;
  head.type = DB_HASH;
  head.fill = info.ffactor == 0 ? kFill : info.ffactor;
  head.probe = probe_of(hash_);
  if (store().is_new()) {
    make_database([&] { table_.make(head); });
  } else {
    const HashTable::Head found = table_.head();
    if (found.type != head.type || found.probe != head.probe) refuse(EINVAL);
  }
  store().opened();
}

int HashHandle::get(const DBT *key, DBT *data, unsigned flags) {
  if (flags != 0 || data == nullptr) refuse(EINVAL);
  const Found found = table_.get(bytes_of(key), &delivery().data);
  if (found == Found::kYes) deliver(delivery().data, data);
  return result_of(found);
}

int HashHandle::put(DBT *key, const DBT *data, unsigned flags) {
  if (flags != 0 && flags != R_NOOVERWRITE) refuse(EINVAL);
  if (!store().is_writable()) refuse(EPERM);
  const Found found = table_.put(bytes_of(key), bytes_of(data), flags == R_NOOVERWRITE);
  return result_of(found);
}

int HashHandle::del(const DBT *key, unsigned flags) {
  if (flags != 0 && flags != R_CURSOR) refuse(EINVAL);
  if (flags == R_CURSOR && table_.scanned() == nullptr) refuse(EINVAL);
  if (!store().is_writable()) refuse(EPERM);
  const Found found = table_.erase(flags == R_CURSOR ? Bytes(*table_.scanned()) : bytes_of(key));
  return result_of(found);
}

int HashHandle::seq(DBT *key, DBT *data, unsigned flags) {
  if (key == nullptr || data == nullptr) refuse(EINVAL);
  if (flags != 0 && flags != R_FIRST && flags != R_NEXT) refuse(EINVAL);
  const Found found = table_.next(flags == R_FIRST, &delivery().key, &delivery().data);
  if (found == Found::kYes) {
    deliver(delivery().key, key);
    deliver(delivery().data, data);
  }
  return result_of(found);
}

int HashHandle::sync(unsigned flags) {
  if (flags != 0) refuse(EINVAL);
  TMH_ASSERT(!calls_.is_in_callback);
  store().sync([] {});
  return RET_SUCCESS;
}

}  // namespace tmh::db
