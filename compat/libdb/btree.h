// compat/libdb/btree.h -- records in the order of their keys, in pages of a store: a B-link tree.
// Shape:     slot 0 of a page is its high key, empty where no page is to its right; records or
//            children follow (items.h). The root is always page 1. The first child of an inner
//            page has an empty key, which is below all others.
// Invariant: (1) keys of a page are at least its left neighbour's high key and at most its own;
//            without duplicates they are less than it.
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
#include "compat/libdb/items.h"
#include "compat/libdb/key_order.h"
#include "compat/libdb/slots.h"
#include "compat/libdb/tree_path.h"
#include "compat/libdb/tree_root.h"
#include "platform/assert.h"

namespace tmh::db {

enum class Put : std::uint8_t { kAny, kNew, kAtCursor, kAnySetCursor };
enum class Seek : std::uint8_t { kAt, kFirst, kLast, kNext, kPrevious };

template <class Store>
class Btree {
 public:
  using Page = typename Store::Page;

  struct Settings {
    bool has_duplicates = false;
    std::uint32_t keys_min = 2;  // that a page has room for
  };

  Btree(Store *store, const KeyOrder *order, const Settings &settings)
      : store_(*store), order_(*order), settings_(settings), items_(store, settings.keys_min) {}

  // Of an empty store.
  void make();

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
  [[nodiscard]] bool has_cursor() const noexcept { return cursor_.state != Cursor::State::kNone; }
  [[nodiscard]] bool is_on_record() const noexcept { return cursor_.state == Cursor::State::kOn; }

  // What is wrong with the tree, in words; empty: nothing. Reads all of it.
  [[nodiscard]] const char *verify();

 private:
  using S = Slots<Page>;
  // kBetween: its record is gone. It stands before the one at `place`, or behind the page's last.
  struct Cursor {
    enum class State : std::uint8_t { kNone, kOn, kBetween } state = State::kNone;
    Place place;
  };
  // Pages and the cursor change together, or not at all: its destructor, or the next call.
  class Changing;

  [[nodiscard]] S page(PageId id) { return S(store_.read(id)); }
  [[nodiscard]] S page_to_write(PageId id) { return S(store_.write(id)); }
  void begin_call() noexcept;

  [[nodiscard]] int compare_at(Bytes key, const S &slots, std::uint32_t index);
  [[nodiscard]] bool find(Bytes key, Path *path);
  [[nodiscard]] bool find_first(Bytes key, Path *path, Place *place);
  void step_right(Path *path);
  [[nodiscard]] bool is_at_record(Place *place);
  void path_to(PageId leaf, Bytes key, Path *path);
  [[nodiscard]] Place end_of_tree(bool is_last);

  [[nodiscard]] bool put_at_key(Bytes key, Bytes data, bool is_new);
  void put_at_cursor(Bytes key, Bytes data);
  void replace(Path *path, Bytes key, Bytes data);
  void insert_item(Path *path, std::uint32_t at, const std::vector<std::byte> &item);
  [[nodiscard]] std::uint32_t split_at(const S &slots, std::uint32_t index, Bytes item);
  void split(Path *path, std::uint32_t at, const std::vector<std::byte> &item);
  void grow_root(Path *path);
  void clear_first_key(PageId id);
  void erase_at(Place place);
  void erase_page(Path *path);
  [[nodiscard]] bool has_room_for_highs(Path *path, std::uint32_t top);
  void unlink(PageId id, bool is_left_heir);
  void release_page(PageId id);
  void lower_root();

  void cursor_inserted(PageId page, std::uint32_t index) noexcept;
  void cursor_erased(PageId page, std::uint32_t index) noexcept;
  void cursor_moved(PageId from, std::uint32_t first, PageId to, std::uint32_t to_first) noexcept;

  [[nodiscard]] const char *verify_page(PageId id, PageId left, PageId right,
                                        std::vector<PageId> *below);

  Store &store_;
  const KeyOrder &order_;
  Settings settings_;
  Items<Store> items_;
  Cursor cursor_;
  Place stored_;  // where the last record has been put
  Cursor cursor_before_;
  bool is_changing_ = false;
  std::vector<std::byte> key_copy_, item_;
};

}  // namespace tmh::db
