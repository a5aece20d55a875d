// compat/libdb/tree_root.h -- a tree's root, which is always page 1.
#pragma once

#include <cerrno>
#include <cstdint>

#include "compat/libdb/failure.h"
#include "compat/libdb/slots.h"
#include "compat/libdb/store.h"

namespace tmh::db {

inline constexpr PageId kTreeRoot = 1;

// An empty leaf. REQUIRES: the store is empty.
inline void make_root(Store *store) {
  Store::Change change(*store);
  const PageId root = store->make();
  if (root != kTreeRoot) throw Failure{EINVAL};
  Slots slots(store->write(root));
  slots.make(PageKind::kLeaf, 0, root);
  slots.insert(0, {});
  change.commit();
}

// Its content moves to a page of its own, which is returned. The root is an inner page without
// children then. REQUIRES: a Change.
[[nodiscard]] inline PageId move_root_down(Store *store) {
  const PageId id = store->make();
  Slots child(store->write(id)), root(store->write(kTreeRoot));
  child.page().copy_from(root.page());
  child.set_own(id);
  root.make(PageKind::kInner, static_cast<std::uint8_t>(child.level() + 1), kTreeRoot);
  root.insert(0, {});
  return id;
}

}  // namespace tmh::db
