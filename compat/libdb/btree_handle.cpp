// compat/libdb/btree_handle.cpp -- flags and numbers of btree(3), and what a tree's head says.
#include "compat/libdb/btree_handle.h"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

#include "compat/libdb/failure.h"
#include "compat/libdb/items.h"
#include "compat/libdb/open_numbers.h"
#include "compat/libdb/tree_root.h"
#include "platform/assert.h"

namespace tmh::db {

namespace {

[[nodiscard]] StoreSettings checked(StoreSettings file, const BTREEINFO &info) {
  if ((info.flags & ~static_cast<unsigned long>(R_DUP)) != 0) throw Failure{EINVAL};
  if (info.minkeypage != 0 && (info.minkeypage < 2 || info.minkeypage > 0x7fff))
    throw Failure{EINVAL};
  file.page_bytes = checked_page_bytes(info.psize);
  check_order(info.lorder);
  file.cache_bytes = info.cachesize;
  // Keys of other bytes may be the same to the user's order.
  if (info.compare != nullptr) file.locks_records = false;
  file.is_sound = &Items::is_sound;
  return file;
}

}  // namespace

BtreeHandle::BtreeHandle(const StoreOpener &opener, StoreSettings file, const BTREEINFO &info)
    : Handle(DB_BTREE, opener(checked(std::move(file), info))),
      order_(info.compare, info.prefix, &calls_),
      tree_(&store(), &order_, settings(info)) {
  if (store().is_new()) {
    const TreeHead head{DB_BTREE, (info.flags & R_DUP) != 0,
                        static_cast<std::uint16_t>(info.minkeypage == 0 ? 2 : info.minkeypage),
                        info.compare != nullptr};
    make_database([&] {
      set_head(head);
      make_root(&store());
    });
  }
  store().opened();
}

// A new file's own are the user's; another one's are its own.
Btree::Settings BtreeHandle::settings(const BTREEINFO &info) {
  if (store().is_new())
    return {(info.flags & R_DUP) != 0,
            static_cast<std::uint32_t>(info.minkeypage == 0 ? 2 : info.minkeypage)};
  return tree_settings(store());
}

void BtreeHandle::set_head(const TreeHead &head) {
  std::byte own[Store::kOwnBytes] = {};
  std::memcpy(own, &head, sizeof head);
  store().set_own(own);
}

int BtreeHandle::get(const DBT *key, DBT *data, unsigned flags) {
  if (flags != 0 || data == nullptr) refuse(EINVAL);
  const Found found = tree_.get(bytes_of(key), &delivery().data);
  if (found == Found::kYes) deliver(delivery().data, data);
  return result_of(found);
}

int BtreeHandle::put(DBT *key, const DBT *data, unsigned flags) {
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
  if (!store().is_writable()) refuse(EPERM);
  return result_of(tree_.put(bytes_of(key), bytes_of(data), how));
}

int BtreeHandle::del(const DBT *key, unsigned flags) {
  if (flags != 0 && flags != R_CURSOR) refuse(EINVAL);
  if (flags == R_CURSOR && !tree_.has_cursor()) refuse(EINVAL);
  if (!store().is_writable()) refuse(EPERM);
  return result_of(flags == R_CURSOR ? tree_.erase_at_cursor() : tree_.erase(bytes_of(key)));
}

int BtreeHandle::seq(DBT *key, DBT *data, unsigned flags) {
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
  const Found found = tree_.seek(how, at, &delivery().key, &delivery().data);
  if (found == Found::kYes) {
    deliver(delivery().key, key);
    deliver(delivery().data, data);
  }
  return result_of(found);
}

int BtreeHandle::sync(unsigned flags) {
  if (flags != 0) refuse(EINVAL);
  TMH_ASSERT(!calls_.is_in_callback);
  store().sync([] {});
  return RET_SUCCESS;
}

}  // namespace tmh::db
