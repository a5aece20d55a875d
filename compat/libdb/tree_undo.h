// compat/libdb/tree_undo.h -- takes changes of a tree's records back, in whatever order its keys
// are: records are told apart by their bytes.
// Errors:    Failure(EINVAL): the record is not there.
// Contexts:  one thread, in a Change.
#pragma once

#include <cstdint>

#include "compat/libdb/items.h"
#include "compat/libdb/page.h"
#include "compat/libdb/store.h"
#include "compat/libdb/undo_record.h"

namespace tmh::db {

class TreeUndo {
 public:
  TreeUndo(Store *store, std::uint32_t keys_min) : store_(*store), items_(store, keys_min) {}

  void undo(const UndoRecord &record, Bytes payload);

 private:
  [[nodiscard]] PageId first_leaf();
  // In that page, or to the right of it.
  [[nodiscard]] bool undo_from(PageId id, const UndoRecord &record, Bytes payload);

  Store &store_;
  Items items_;
};

}  // namespace tmh::db
