// compat/libdb/counted_tree.cpp -- by number through the tree.
#include "compat/libdb/counted_tree.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "compat/libdb/failure.h"
#include "compat/libdb/store.h"

namespace tmh::db {

void CountedTree::make() { make_root(&store_); }

std::uint64_t CountedTree::count() { return records_of(page(kTreeRoot)); }

std::uint64_t CountedTree::records_below(const Slots &slots, std::uint32_t index) {
  const Item item = items_.parse(slots, index);
  std::uint64_t records = 0;
  if (item.key.size() != sizeof records) throw Failure{EINVAL};
  std::memcpy(&records, item.key.data(), sizeof records);
  return records;
}

std::uint64_t CountedTree::records_of(const Slots &slots) {
  if (slots.kind() == PageKind::kLeaf) return slots.count() - 1;
  if (slots.kind() != PageKind::kInner) throw Failure{EINVAL};
  std::uint64_t records = 0;
  for (std::uint32_t i = 1; i < slots.count(); ++i) records += records_below(slots, i);
  return records;
}

void CountedTree::make_child(PageId child, std::uint64_t records, std::vector<std::byte> *item) {
  items_.make_child(child, {reinterpret_cast<const std::byte *>(&records), sizeof records}, item);
}

void CountedTree::put_child(PageId parent, std::uint32_t index, PageId child,
                            std::uint64_t records) {
  std::vector<std::byte> item;
  make_child(child, records, &item);
  page_to_write(parent).replace(index, item);
}

// To the record of that number, or behind the last one.
void CountedTree::find(std::uint64_t number, Path *path, Access access) {
  path->count = 0;
  std::uint32_t level = 0;
  for (PageId id = kTreeRoot;;) {
    const Slots slots = page(id);
    const bool is_leaf = slots.kind() == PageKind::kLeaf;
    if (path->count == kTreeLevelsMax || (!is_leaf && slots.kind() != PageKind::kInner) ||
        (path->count != 0 && slots.level() + 1U != level))
      throw Failure{EINVAL};
    level = slots.level();
    if (is_leaf) {
      store_.guard().lock(id, access);
      // The counts of a damaged file may promise more.
      if (number > slots.count() - 1) throw Failure{EINVAL};
      path->places[path->count++] = {id, static_cast<std::uint32_t>(number) + 1};
      return;
    }
    std::uint32_t index = 1;
    for (; index + 1 < slots.count(); ++index) {
      const std::uint64_t records = records_below(slots, index);
      if (number < records) break;
      number -= records;
    }
    path->places[path->count++] = {id, index};
    id = items_.parse(slots, index).child;
  }
}

void CountedTree::get(std::uint64_t number, std::vector<std::byte> *data) {
  Path path;
  find(number, &path, Access::kLook);
  TMH_ASSERT(data != nullptr);
  const Slots slots = page(path.last().page);
  if (path.last().index >= slots.count()) throw Failure{EINVAL};
  items_.load_data(slots, path.last().index, data);
}

void CountedTree::add_to_counts(Path *path, std::int64_t records) {
  TMH_ASSERT(records == 1 || records == -1);
  for (std::uint32_t i = 0; i + 1 < path->count; ++i) {
    const Place &place = path->places[i];
    const Slots slots = page(place.page);
    const std::uint64_t before = records_below(slots, place.index);
    put_child(place.page, place.index, items_.parse(slots, place.index).child,
              before + static_cast<std::uint64_t>(records));
  }
}

void CountedTree::insert(std::uint64_t number, Bytes data) {
  Store::Change change(store_);
  store_.guard().lock_all(Access::kChange);
  Path path;
  find(number, &path, Access::kChange);
  note(UndoKind::kNumberInserted, number, {});
  items_.make_record({}, data, &item_);
  add_to_counts(&path, 1);
  insert_item(&path, path.count - 1, item_);
  change.commit();
}

void CountedTree::replace(std::uint64_t number, Bytes data) {
  Store::Change change(store_);
  Path path;
  find(number, &path, Access::kChange);
  const Place place = path.last();
  items_.make_record({}, data, &item_);
  Slots slots = page_to_write(place.page);
  if (place.index >= slots.count()) throw Failure{EINVAL};
  note_data(UndoKind::kNumberReplaced, number, slots, place.index);
  items_.release_bigs(slots, place.index);
  if (slots.room() + slots.item_bytes(place.index) >= item_.size()) {
    slots.replace(place.index, item_);
  } else {
    slots.erase(place.index);
    insert_item(&path, path.count - 1, item_);
  }
  change.commit();
}

// At path->places[at], which the item goes before. The counts above have it already.
void CountedTree::insert_item(Path *path, std::uint32_t at, const std::vector<std::byte> &item) {
  TMH_ASSERT(at < path->count);
  const Place place = path->places[at];
  Slots slots = page_to_write(place.page);
  if (slots.room() < item.size()) return split(path, at, item);
  slots.insert(place.index, item);
}

void CountedTree::note(UndoKind kind, std::uint64_t number, Bytes data) {
  if (store_.guard().keeps_undo())
    store_.guard().note({.kind = kind, .number = number, .key = {}, .data = {}}, data);
}

void CountedTree::note_data(UndoKind kind, std::uint64_t number, const Slots &slots,
                            std::uint32_t index) {
  if (!store_.guard().keeps_undo()) return;
  std::vector<std::byte> data;
  items_.load_data(slots, index, &data);
  note(kind, number, data);
}

void CountedTree::undo(const UndoRecord &record, Bytes data) {
  TMH_ASSERT(!store_.guard().keeps_undo());
  const std::uint64_t all = count();
  const bool is_insert = record.kind == UndoKind::kNumberErased;
  if (record.number > all || (!is_insert && record.number == all)) throw Failure{EINVAL};
  if (is_insert) {
    insert(record.number, data);
  } else if (record.kind == UndoKind::kNumberInserted) {
    erase(record.number);
  } else {
    replace(record.number, data);
  }
}

void CountedTree::grow_root(Path *path) {
  TMH_ASSERT(path->count != 0);
  if (path->count == kTreeLevelsMax) throw Failure{EFBIG};
  const PageId id = move_root_down(&store_);
  store_.guard().lock(id, Access::kChange);
  std::vector<std::byte> item;
  make_child(id, 0, &item);  // until it has been split
  page_to_write(kTreeRoot).insert(1, item);
  path->grow(kTreeRoot, id);
}

void CountedTree::split(Path *path, std::uint32_t at, const std::vector<std::byte> &item) {
  if (at == 0) {
    grow_root(path);
    ++at;
  }
  const Place place = path->places[at];
  const PageId id = store_.make();
  store_.guard().lock(id, Access::kChange);
  Slots left = page_to_write(place.page), right = page_to_write(id);
  right.make(left.kind(), left.level(), id);
  std::vector<std::byte> copy, high;
  items_.make_high({}, &high);
  right.insert(0, left.item(0));
  right.set_right(left.right());
  right.set_left(place.page);
  if (left.right() != 0) linked(page_to_write(left.right()), left).set_left(id);

  // The first that moves: by bytes, or nothing when the new one stands behind all.
  std::uint32_t first = left.count();
  const bool is_appended = left.right() == 0 && place.index == left.count();
  if (!is_appended) {
    std::uint32_t bytes = 0;
    for (first = 1; first + 1 < left.count() && bytes < left.used_bytes() / 2; ++first)
      bytes += left.item_bytes(first) + Slots::kSlotBytes;
    first = std::max(first, 2U);
  }
  left.set_right(id);
  // An append leaves no room for as much as a high key in a page that is full to its last byte.
  while (first > 2 && left.item_bytes(0) == 0 && first == left.count() && left.room() < high.size())
    --first;
  for (std::uint32_t i = first; i < left.count(); ++i) right.insert(right.count(), left.item(i));
  left.truncate(std::min(first, left.count()));
  left.replace(0, high);
  const bool is_new_left = place.index < first;
  Slots &target = is_new_left ? left : right;
  TMH_ASSERT(target.room() >= item.size());
  target.insert(is_new_left ? place.index : place.index - first + 1, item);

  put_child(path->places[at - 1].page, path->places[at - 1].index, place.page, records_of(left));
  std::vector<std::byte> made;
  make_child(id, records_of(right), &made);
  path->places[at - 1].index += 1;
  insert_item(path, at - 1, made);
}

void CountedTree::erase(std::uint64_t number) {
  Store::Change change(store_);
  store_.guard().lock_all(Access::kChange);
  Path path;
  find(number, &path, Access::kChange);
  const Place place = path.last();
  Slots slots = page_to_write(place.page);
  if (place.index >= slots.count()) throw Failure{EINVAL};
  note_data(UndoKind::kNumberErased, number, slots, place.index);
  items_.release_bigs(slots, place.index);
  slots.erase(place.index);
  add_to_counts(&path, -1);
  if (slots.count() == 1 && path.count > 1) erase_empty(&path);
  change.commit();
}

// The leaf of the path, and the pages above that have no other child.
void CountedTree::erase_empty(Path *path) {
  TMH_ASSERT(path->count > 1 && page(path->last().page).count() == 1);
  for (std::uint32_t at = path->count - 1; at > 0; --at) {
    const PageId id = path->places[at].page;
    const Slots gone = page(id);
    const PageId left = gone.left(), right = gone.right();
    if (left != 0) {
      Slots before = linked(page_to_write(left), gone);
      before.set_right(right);
      if (right == 0) before.replace(0, {});
    }
    if (right != 0) linked(page_to_write(right), gone).set_left(left);
    store_.release(id);
    const Place above = path->places[at - 1];
    Slots parent = page_to_write(above.page);
    parent.erase(above.index);
    if (parent.count() > 1) return;
  }
  Slots root = page_to_write(kTreeRoot);
  root.make(PageKind::kLeaf, 0, kTreeRoot);
  root.insert(0, {});
}

}  // namespace tmh::db
