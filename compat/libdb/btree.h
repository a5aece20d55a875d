// compat/libdb/btree.h -- records in the order of their keys, in pages of a store: a B-link tree.
// Shape:     slot 0 of a page is its high key, empty where no page is to its right; records or
//            children follow (items.h). The root is always page 1. The first child of an inner
//            page has an empty key, which is below all others.
// Invariant: (1) keys of a page are at least its left neighbour's high key and at most its own.
//            (2) left and right lead through all pages of a level.
// Method:    one search, written once; callbacks are called before anything changes, so that one
//            that leaves by longjmp() leaves the tree as it was. The search has nothing to destroy.
//            Loads that come in order leave full pages: a record behind all others, or before them,
//            gets a page of its own.
// Errors:    Failure. Pages are then as before (Store::Change).
// Source:    LIBTP 4.4; Lehman and Yao: high keys and right links.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compat/libdb/found.h"
#include "compat/libdb/guard.h"
#include "compat/libdb/items.h"
#include "compat/libdb/key_order.h"
#include "compat/libdb/slots.h"
#include "compat/libdb/tree_cursor.h"
#include "compat/libdb/tree_locks.h"
#include "compat/libdb/tree_path.h"
#include "compat/libdb/tree_root.h"
#include "platform/assert.h"

namespace tmh::db {

enum class Put : std::uint8_t { kAny, kNew, kAtCursor, kAnySetCursor };
enum class Seek : std::uint8_t { kAt, kFirst, kLast, kNext, kPrevious };

class Btree {
 public:
  struct Settings {
    bool has_duplicates = false;
    std::uint32_t keys_min = 2;  // that a page has room for
  };

  Btree(Store *store, const KeyOrder *order, const Settings &settings)
      : store_(*store),
        order_(*order),
        settings_(settings),
        items_(store, settings.keys_min),
        cursor_(store, &items_),
        locks_(store) {}

  [[nodiscard]] Found get(Bytes key, std::vector<std::byte> *data);
  // kNo: with kNew, the key is there.
  [[nodiscard]] Found put(Bytes key, Bytes data, Put how);
  // All records of the key.
  [[nodiscard]] Found erase(Bytes key);
  // kNo: the cursor's record is gone already.
  [[nodiscard]] Found erase_at_cursor();
  // kAt: the first key that is not below.
  [[nodiscard]] Found seek(Seek how, Bytes at, std::vector<std::byte> *key,
                           std::vector<std::byte> *data);
  [[nodiscard]] bool has_cursor() const noexcept { return cursor_.is_there(); }
  [[nodiscard]] bool is_on_record() const noexcept { return cursor_.is_on_record(); }
  // The cursor as it is now, and as it was then.
  void keep_position() noexcept { cursor_.keep(); }
  void reset_position() noexcept { cursor_.reset(); }

 private:
  [[nodiscard]] Slots page(PageId id) { return Slots(store_.read(id)); }
  [[nodiscard]] Slots page_to_write(PageId id) { return Slots(store_.write(id)); }

  [[nodiscard]] int compare_at(Bytes key, const Slots &slots, std::uint32_t index);
  [[nodiscard]] bool find(Bytes key, Path *path);
  [[nodiscard]] bool find_first(Bytes key, Path *path, Place *place);
  void step_right(Path *path);
  [[nodiscard]] bool is_at_record(Place *place);
  [[nodiscard]] bool is_before(Place *place);
  void path_to(PageId leaf, Bytes key, Path *path);
  [[nodiscard]] Place end_of_tree(bool is_last);

  [[nodiscard]] bool put_at_key(Bytes key, Bytes data, bool is_new);
  void put_at_cursor(Bytes key, Bytes data);
  void replace(Path *path, Bytes key, Bytes data);
  void insert_item(Path *path, std::uint32_t at, const std::vector<std::byte> &item);
  [[nodiscard]] std::uint32_t split_at(const Slots &slots, std::uint32_t index, Bytes item);
  void split(Path *path, std::uint32_t at, const std::vector<std::byte> &item);
  void grow_root(Path *path);
  void erase_at(Place place);
  void erase_page(Path *path);
  [[nodiscard]] bool has_room_for_highs(Path *path, std::uint32_t top);
  void unlink(PageId id, bool is_left_heir);
  void release_page(PageId id);
  void lower_root();

  void note(UndoKind kind, const Slots &slots, Place place);
  void note_inserted(Bytes key, Bytes data);
  void make_ghost(Slots *slots, Place place);
  void take_over(PageId from, PageId to);
  void purge(Slots *slots, Place *place);
  void sweep_left(PageId id);
  void find_cursor();
  void count_behind();

  Store &store_;
  const KeyOrder &order_;
  Settings settings_;
  Items items_;
  TreeCursor cursor_;
  Place stored_;  // where the last record has been put
  TreeLocks locks_;
  std::vector<std::byte> key_copy_, item_;
};

}  // namespace tmh::db
