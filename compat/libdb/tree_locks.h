// compat/libdb/tree_locks.h -- what a call of a B-tree locks: the leaves that it looks at, or the
// records of one key.
// Contexts:  one thread.
// Source:    LIBTP 4.4: leaves are locked to the end, inner pages for a moment.
#pragma once

#include "compat/libdb/guard.h"
#include "compat/libdb/slots.h"
#include "compat/libdb/store.h"
#include "platform/assert.h"

namespace tmh::db {

class TreeLocks {
 public:
  explicit TreeLocks(Store *store) noexcept : store_(*store) {}

  // A call begins. of_key: it looks for the records of that key alone.
  void begin(Access access) noexcept {
    access_ = access;
    is_of_key_ = false;
  }
  void begin_of_key(Access access, Bytes key) noexcept {
    access_ = access;
    is_of_key_ = true;
    key_ = key;
  }
  [[nodiscard]] Access access() const noexcept { return access_; }

  // It comes to that page.
  void come_to_leaf(PageId id) {
    if (is_of_key_)
      store_.guard().lock_key(id, key_, access_);
    else
      store_.guard().lock(id, access_);
  }
  void come_to_inner(PageId id) { store_.guard().pass(id, Access::kLook); }
  // Its items go to another page, or it goes: transactions that hold a leaf for some records of it
  // end first.
  void change_page(PageId id) {
    TMH_ASSERT(id != 0);
    if (Slots(store_.read(id)).kind() == PageKind::kLeaf)
      store_.guard().lock(id, Access::kChange);
    else
      store_.guard().pass(id, Access::kChange);
  }

 private:
  Store &store_;
  Access access_ = Access::kLook;
  bool is_of_key_ = false;
  Bytes key_;
};

}  // namespace tmh::db
