// compat/libdb/tree_undo.cpp -- from the page that a record was in to the right.
#include "compat/libdb/tree_undo.h"

#include <cerrno>

#include "compat/libdb/failure.h"
#include "compat/libdb/slots.h"
#include "compat/libdb/tree_root.h"
#include "platform/assert.h"

namespace tmh::db {

// The page that it was in is perhaps the root, or was it.
void TreeUndo::undo(const UndoRecord &record, Bytes payload) {
  TMH_ASSERT(record.page != 0);
  if (record.page < store_.page_end() &&
      Slots(store_.read(record.page)).kind() == PageKind::kLeaf &&
      undo_from(record.page, record, payload))
    return;
  if (!undo_from(first_leaf(), record, payload)) throw Failure{EINVAL};
}

PageId TreeUndo::first_leaf() {
  PageId id = kTreeRoot;
  for (std::uint32_t levels = 0; levels < kTreeLevelsMax; ++levels) {
    const Slots slots(store_.read(id));
    if (slots.kind() == PageKind::kLeaf) return id;
    if (slots.kind() != PageKind::kInner) break;
    id = items_.parse(slots, 1).child;
  }
  throw Failure{EINVAL};
}

bool TreeUndo::undo_from(PageId id, const UndoRecord &record, Bytes payload) {
  const bool is_ghost = record.kind == UndoKind::kTreeErased;
  for (PageId steps = 0; id != 0 && steps < store_.page_end(); ++steps) {
    const Slots slots(store_.read(id));
    if (slots.kind() != PageKind::kLeaf) return false;
    for (std::uint32_t i = 1; i < slots.count(); ++i) {
      if (Items::is_ghost(slots, i) != is_ghost || items_.key_digest(slots, i) != record.key ||
          items_.data_digest(slots, i) != record.data)
        continue;
      Slots written(store_.write(id));
      if (record.kind == UndoKind::kTreeReplaced) {
        written.replace(i, payload);
      } else {
        Items::set_ghost(&written, i, !is_ghost);
      }
      return true;
    }
    id = slots.right();
  }
  return false;
}

}  // namespace tmh::db
