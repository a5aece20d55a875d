// compat/libdb/hash_handle.cpp -- flags and numbers of hash(3), and what a table's head says.
#include "compat/libdb/hash_handle.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "compat/libdb/failure.h"
#include "compat/libdb/items.h"
#include "compat/libdb/open_numbers.h"
#include "platform/assert.h"

namespace tmh::db {

namespace {

// Buckets are split when their pages are full, where nobody says how many records they have.
constexpr std::uint32_t kFill = 1u << 16;
constexpr char kProbe[] = "a key that tells one hash function from another";

[[nodiscard]] PrivateStore::Settings checked(PrivateStore::Settings file, const HASHINFO &info) {
  if (info.bsize > kPageBytesMax) throw Failure{EINVAL};
  // As 1.85: the next power of two.
  file.page_bytes = info.bsize == 0 ? 0 : std::bit_ceil(std::max(info.bsize, kPageBytesMin));
  check_order(info.lorder);
  file.cache_bytes = info.cachesize;
  file.is_sound = &Items<PrivateStore>::is_sound;
  return file;
}

}  // namespace

HashHandle::HashHandle(PrivateStore::Settings file, const HASHINFO &info)
    : Handle(DB_HASH),
      store_(checked(std::move(file), info)),
      hash_(info.hash, &calls_),
      head_(head(info)),
      table_(&store_, &hash_, head_.fill, head_.numbers) {
  if (!store_.is_new()) return;
  table_.make();
  keep_numbers();
}

HashHandle::TableHead HashHandle::head(const HASHINFO &info) {
  const auto *const probe = reinterpret_cast<const std::byte *>(kProbe);
  TableHead made{};
  made.type = DB_HASH;
  made.fill = info.ffactor == 0 ? kFill : info.ffactor;
  made.probe = hash_.hash({probe, sizeof kProbe});
  if (store_.is_new()) return made;
  TableHead found{};
  std::memcpy(&found, store_.own().data(), sizeof found);
  if (found.type != made.type || found.probe != made.probe || found.fill == 0) refuse(EINVAL);
  return found;
}

void HashHandle::keep_numbers() {
  TMH_ASSERT(store_.is_writable() && head_.type == DB_HASH);
  head_.numbers = table_.numbers();
  std::byte own[PrivateStore::kOwnBytes] = {};
  std::memcpy(own, &head_, sizeof head_);
  store_.set_own(own);
}

int HashHandle::get(const DBT *key, DBT *data, unsigned flags) {
  if (flags != 0 || data == nullptr) refuse(EINVAL);
  const Found found = table_.get(bytes_of(key), &data_);
  if (found == Found::kYes) deliver(data_, data);
  return result_of(found);
}

int HashHandle::put(DBT *key, const DBT *data, unsigned flags) {
  if (flags != 0 && flags != R_NOOVERWRITE) refuse(EINVAL);
  if (!store_.is_writable()) refuse(EPERM);
  const Found found = table_.put(bytes_of(key), bytes_of(data), flags == R_NOOVERWRITE);
  keep_numbers();
  return result_of(found);
}

int HashHandle::del(const DBT *key, unsigned flags) {
  if (flags != 0 && flags != R_CURSOR) refuse(EINVAL);
  if (flags == R_CURSOR && table_.scanned() == nullptr) refuse(EINVAL);
  if (!store_.is_writable()) refuse(EPERM);
  const Found found = table_.erase(flags == R_CURSOR ? Bytes(*table_.scanned()) : bytes_of(key));
  keep_numbers();
  return result_of(found);
}

int HashHandle::seq(DBT *key, DBT *data, unsigned flags) {
  if (key == nullptr || data == nullptr) refuse(EINVAL);
  if (flags != 0 && flags != R_FIRST && flags != R_NEXT) refuse(EINVAL);
  const Found found = table_.next(flags == R_FIRST, &key_, &data_);
  if (found == Found::kYes) {
    deliver(key_, key);
    deliver(data_, data);
  }
  return result_of(found);
}

int HashHandle::sync(unsigned flags) {
  if (flags != 0) refuse(EINVAL);
  TMH_ASSERT(!calls_.is_in_callback);
  store_.sync();
  return RET_SUCCESS;
}

}  // namespace tmh::db
