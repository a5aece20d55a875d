// compat/libdb/counted_tree.h -- records in an order that their callers choose, found by their
// number: a tree that counts.
// Shape:     as btree.h, but for keys: a child's is how many records lie below it, u64, and high
//            keys are empty. Records have empty keys. The root is page 1.
// Invariant: a child's count is the number of records below it.
// Method:    a record that is appended to a full page gets a page of its own: loads in order leave
//            full pages. A page without records goes.
// Errors:    Failure. Pages are then as before (Store::Change).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compat/libdb/items.h"
#include "compat/libdb/slots.h"
#include "compat/libdb/store.h"
#include "compat/libdb/tree_path.h"
#include "compat/libdb/tree_root.h"
#include "platform/assert.h"

namespace tmh::db {

class CountedTree {
 public:
  static constexpr std::uint32_t kRecordsMin = 2;  // that a page has room for

  explicit CountedTree(Store *store) : store_(*store), items_(store, kRecordsMin) {}

  // Of an empty store.
  void make();
  [[nodiscard]] std::uint64_t count();
  // REQUIRES, here and below: number < count(), insert(): <= count(). The first is 0.
  void get(std::uint64_t number, std::vector<std::byte> *data);
  void insert(std::uint64_t number, Bytes data);
  void replace(std::uint64_t number, Bytes data);
  void erase(std::uint64_t number);
  void undo(const UndoRecord &record, Bytes data);

 private:
  [[nodiscard]] Slots page(PageId id) { return Slots(store_.read(id)); }
  [[nodiscard]] Slots page_to_write(PageId id) { return Slots(store_.write(id)); }
  [[nodiscard]] std::uint64_t records_of(const Slots &slots);
  [[nodiscard]] std::uint64_t records_below(const Slots &slots, std::uint32_t index);
  void put_child(PageId parent, std::uint32_t index, PageId child, std::uint64_t records);
  void find(std::uint64_t number, Path *path, Access access);
  void note(UndoKind kind, std::uint64_t number, Bytes data);
  void note_data(UndoKind kind, std::uint64_t number, const Slots &slots, std::uint32_t index);
  void add_to_counts(Path *path, std::int64_t records);
  void insert_item(Path *path, std::uint32_t at, const std::vector<std::byte> &item);
  void split(Path *path, std::uint32_t at, const std::vector<std::byte> &item);
  void grow_root(Path *path);
  void make_child(PageId child, std::uint64_t records, std::vector<std::byte> *item);
  void erase_empty(Path *path);

  Store &store_;
  Items items_;
  std::vector<std::byte> item_;
};

}  // namespace tmh::db
