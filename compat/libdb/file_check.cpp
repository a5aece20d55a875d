// compat/libdb/file_check.cpp -- page by page, then as its type reads it.
#include "compat/libdb/file_check.h"

#include <cerrno>
#include <cstring>
#include <vector>

#include "compat/libdb/calls.h"
#include "compat/libdb/counted_tree.h"
#include "compat/libdb/failure.h"
#include "compat/libdb/hash_probe.h"
#include "compat/libdb/hash_table.h"
#include "compat/libdb/items.h"
#include "compat/libdb/slots.h"
#include "compat/libdb/tree_check.h"
#include "compat/libdb/tree_head.h"
#include "compat/libdb/user_hash.h"
#include "compat/libdb/user_order.h"
#include "platform/assert.h"

namespace tmh::db {

namespace {

// Records of all leaves, wherever these belong.
[[nodiscard]] std::uint64_t records_of(Store &store) {
  std::uint64_t records = 0;
  for (PageId page = 1; page < store.page_end(); ++page) {
    const Slots slots(store.read(page));
    for (std::uint32_t i = 1; slots.kind() == PageKind::kLeaf && i < slots.count(); ++i)
      if (!Items::is_ghost(slots, i)) ++records;
  }
  return records;
}

[[nodiscard]] const char *check_tree(Store *store, tp_db_info *info) {
  TreeHead head{};
  std::memcpy(&head, store->own().data(), sizeof head);
  const Btree::Settings settings = tree_settings(*store);
  info->has_duplicates = settings.has_duplicates ? 1 : 0;
  Calls calls;
  const UserOrder order(nullptr, nullptr, &calls);
  return TreeCheck(store, head.has_users_order != 0 ? nullptr : &order, settings).run();
}

[[nodiscard]] const char *check_table(Store *store, const tp_db_info &info) {
  Calls calls;
  const UserHash hash(nullptr, &calls);
  HashTable table(store, &hash);
  if (table.head().probe != probe_of(hash)) return nullptr;
  std::vector<std::byte> key, data;
  std::uint64_t found = 0;
  for (bool is_first = true; table.next(is_first, &key, &data) == Found::kYes; is_first = false)
    ++found;
  return found == info.records ? nullptr : "a record that its key does not lead to";
}

[[nodiscard]] const char *check_numbers(Store *store, const tp_db_info &info) {
  CountedTree tree(store);
  if (tree.count() != info.records) return "counts that are not the records'";
  std::vector<std::byte> data;
  for (std::uint64_t number = 0; number < info.records; ++number) tree.get(number, &data);
  return nullptr;
}

}  // namespace

tp_db_info check_file(Store *store) {
  TMH_ASSERT(store != nullptr);
  tp_db_info info{};
  info.psize = store->page_bytes();
  info.type = static_cast<DBTYPE>(store->own()[0]);
  try {
    info.records = records_of(*store);
    switch (info.type) {
      case DB_BTREE:
        info.wrong = check_tree(store, &info);
        return info;
      case DB_HASH:
        info.wrong = check_table(store, info);
        return info;
      case DB_RECNO:
        info.wrong = check_numbers(store, info);
        return info;
    }
  } catch (const Failure &failure) {
    // Of a file that is one of ours.
    if (failure.number != EINVAL) throw;
    info.wrong = "a page that leads nowhere, or is none";
    return info;
  }
  throw Failure{EINVAL};
}

}  // namespace tmh::db
