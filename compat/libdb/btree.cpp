// compat/libdb/btree.cpp -- the tree's search, records, splits and what becomes of empty pages.
#include "compat/libdb/btree.h"

#include <algorithm>
#include <cerrno>

#include "compat/libdb/failure.h"
#include "compat/libdb/store.h"

namespace tmh::db {

// ---- Search ------------------------------------------------------------------------------------

int Btree::compare_at(Bytes key, const Slots &slots, std::uint32_t index) {
  return order_.compare(key, items_.key_of(slots, index, &key_copy_));
}

// To the first record whose key is not below, or behind the last one of its page; whether it has
// that key. A separator may stand in the middle of a group of equal keys, duplicates or ghosts: its
// left side has the first ones.
bool Btree::find(Bytes key, Path *path) {
  TMH_ASSERT(path != nullptr);
  path->count = 0;
  std::uint32_t level = 0;
  for (PageId id = kTreeRoot;;) {
    const Slots slots = page(id);
    const bool is_leaf = slots.kind() == PageKind::kLeaf;
    if (path->count == kTreeLevelsMax || (!is_leaf && slots.kind() != PageKind::kInner) ||
        (path->count != 0 && slots.level() + 1U != level))
      throw Failure{EINVAL};
    level = slots.level();
    if (is_leaf)
      locks_.come_to_leaf(id);
    else
      locks_.come_to_inner(id);
    // The first of (low, end) that is not passed.
    std::uint32_t low = is_leaf ? 1 : 2, end = slots.count();
    bool is_equal = false;  // to what is at `end`
    while (low < end) {
      const std::uint32_t middle = low + (end - low) / 2;
      const int against = compare_at(key, slots, middle);
      if (against > 0) {
        low = middle + 1;
      } else {
        end = middle;
        is_equal = against == 0;
      }
    }
    const std::uint32_t index = is_leaf ? low : low - 1;
    path->places[path->count++] = {id, index};
    if (is_leaf) {
      std::uint32_t &at = path->last().index;
      while (is_equal) {
        if (!Items::is_ghost(slots, at)) return true;
        ++at;
        is_equal = at < slots.count() && compare_at(key, slots, at) == 0;
      }
      return false;
    }
    id = items_.parse(slots, index).child;
  }
}

// From a place behind a page's last record to the first one of the pages to its right.
bool Btree::is_at_record(Place *place) {
  for (PageId steps = 0; steps < store_.page_end(); ++steps) {
    const Slots slots = page(place->page);
    if (slots.kind() != PageKind::kLeaf) throw Failure{EINVAL};
    while (place->index < slots.count() && Items::is_ghost(slots, place->index)) ++place->index;
    if (place->index < slots.count()) return true;
    if (slots.right() == 0) return false;
    const PageId left = place->page;
    *place = {slots.right(), 1};
    locks_.come_to_leaf(place->page);
    // Links that lead in a circle do not agree.
    if (linked(page(place->page), slots).left() != left) throw Failure{EINVAL};
  }
  throw Failure{EINVAL};
}

// The same with the way from the root.
void Btree::step_right(Path *path) {
  std::uint32_t at = path->count - 1;
  do {
    if (at == 0) throw Failure{EINVAL};
    --at;
    ++path->places[at].index;
  } while (path->places[at].index >= page(path->places[at].page).count());
  for (; at + 1 < path->count; ++at) {
    const Place &place = path->places[at];
    path->places[at + 1] = {items_.parse(page(place.page), place.index).child, 1};
  }
}

// To a leaf that has, or had, that key.
void Btree::path_to(PageId leaf, Bytes key, Path *path) {
  TMH_ASSERT(leaf != 0);
  (void)find(key, path);
  for (PageId steps = 0; path->last().page != leaf; ++steps) {
    if (steps == store_.page_end()) throw Failure{EINVAL};
    step_right(path);
  }
}

// The first record of the key. place: where, else behind the last one that is below.
bool Btree::find_first(Bytes key, Path *path, Place *place) {
  const bool is_there = find(key, path);
  *place = path->last();
  if (is_there) return true;
  return is_at_record(place) && compare_at(key, page(place->page), place->index) == 0;
}

Found Btree::get(Bytes key, std::vector<std::byte> *data) {
  locks_.begin_of_key(Access::kLook, key);
  Path path;
  Place place;
  if (!find_first(key, &path, &place)) return Found::kNo;
  items_.load_data(page(place.page), place.index, data);
  return Found::kYes;
}

// ---- Records come ------------------------------------------------------------------------------

Found Btree::put(Bytes key, Bytes data, Put how) {
  Store::Change change(store_);
  if (how == Put::kAtCursor) {
    locks_.begin(Access::kChange);
    put_at_cursor(key, data);
  } else {
    locks_.begin_of_key(Access::kChange, key);
    const bool is_there = put_at_key(key, data, how == Put::kNew);
    if (how == Put::kNew && is_there) return Found::kNo;
  }
  if (how == Put::kAtCursor || how == Put::kAnySetCursor) {
    cursor_.set(stored_, true);
    count_behind();
  }
  cursor_.end_change();
  change.commit();
  return Found::kYes;
}

// Whether the key was there. is_new: then nothing changes.
bool Btree::put_at_key(Bytes key, Bytes data, bool is_new) {
  Path path;
  Place place;
  const bool is_there = find_first(key, &path, &place);
  if (is_there && is_new) return true;
  if (is_there && place.page != path.last().page) path_to(place.page, key, &path);
  if (is_there) path.last() = place;
  if (is_there && !settings_.has_duplicates) {
    replace(&path, key, data);
  } else {
    items_.make_record(key, data, &item_);
    insert_item(&path, path.count - 1, item_);
    if (store_.guard().keeps_undo()) note_inserted(key, data);
  }
  return is_there;
}

void Btree::put_at_cursor(Bytes key, Bytes data) {
  find_cursor();
  // Another process has erased it.
  if (!is_on_record()) throw Failure{EINVAL};
  const Place place = cursor_.place();
  const std::vector<std::byte> before = items_.copied_key(page(place.page), place.index);
  if (order_.compare(key, before) != 0) {
    // It would stand in the wrong place.
    erase_at(place);
    (void)put_at_key(key, data, false);
    return;
  }
  Path path;
  path_to(place.page, before, &path);
  path.last() = place;
  replace(&path, key, data);
}

// Of the same key, or one that is equal to it.
void Btree::replace(Path *path, Bytes key, Bytes data) {
  TMH_ASSERT(path->count != 0 && path->last().index != 0);
  const Place place = path->last();
  const bool is_cursor_here = cursor_.is_on(place);
  items_.make_record(key, data, &item_);
  Slots slots = page_to_write(place.page);
  const bool keeps_undo = store_.guard().keeps_undo();
  const std::uint32_t before = slots.item_bytes(place.index);
  // What is as long can be put back where it was.
  if (keeps_undo &&
      (settings_.has_duplicates || item_.size() < before || slots.room() + before < item_.size() ||
       !Items::is_inline(slots.item(place.index)) || !Items::is_inline(item_))) {
    note(UndoKind::kTreeErased, slots, place);
    make_ghost(&slots, place);
    ++path->last().index;
    insert_item(path, path->count - 1, item_);
    note_inserted(key, data);
  } else if (slots.room() + before >= item_.size()) {
    if (keeps_undo) {
      const Bytes old = slots.item(place.index);
      store_.guard().note({.kind = UndoKind::kTreeReplaced,
                           .page = place.page,
                           .key = digest_of(key),
                           .data = digest_of(data)},
                          old);
    }
    items_.release_bigs(slots, place.index);
    slots.replace(place.index, item_);
    stored_ = place;
    return;
  } else {
    items_.release_bigs(slots, place.index);
    slots.erase(place.index);
    cursor_.erased(place.page, place.index);
    insert_item(path, path->count - 1, item_);
  }
  if (is_cursor_here) cursor_.set(stored_, true);
}

// At path->places[at], which the item goes before.
void Btree::insert_item(Path *path, std::uint32_t at, const std::vector<std::byte> &item) {
  TMH_ASSERT(at < path->count);
  Slots slots = page_to_write(path->places[at].page);
  if (slots.room() < item.size() && slots.kind() == PageKind::kLeaf)
    purge(&slots, &path->places[at]);
  const Place place = path->places[at];
  if (slots.room() < item.size()) return split(path, at, item);
  if (slots.kind() == PageKind::kInner) locks_.change_page(place.page);
  slots.insert(place.index, item);
  if (slots.kind() == PageKind::kLeaf) {
    cursor_.inserted(place.page, place.index);
    stored_ = place;
  }
}

// The root's content moves to a page of its own, whose parent the root becomes.
void Btree::grow_root(Path *path) {
  TMH_ASSERT(path->count != 0);
  if (path->count == kTreeLevelsMax) throw Failure{EFBIG};
  locks_.change_page(kTreeRoot);
  const PageId id = move_root_down(&store_);
  if (page(id).kind() == PageKind::kLeaf) {
    cursor_.moved(kTreeRoot, 0, id, 0);
    take_over(kTreeRoot, id);
  }
  std::vector<std::byte> item;
  items_.make_child(id, {}, &item);
  page_to_write(kTreeRoot).insert(1, item);
  path->grow(kTreeRoot, id);
}

// Where the right page begins, counting the new item, which goes before `index`. The left page has
// room for a high key then.
std::uint32_t Btree::split_at(const Slots &slots, std::uint32_t index, Bytes item) {
  const std::uint32_t count = slots.count() + 1;  // with it
  const auto bytes_of = [&](std::uint32_t i) -> std::size_t {
    const std::size_t bytes = i == index ? item.size() : slots.item_bytes(i < index ? i : i - 1);
    return bytes + Slots::kSlotBytes;
  };
  const auto separator_bytes = [&](std::uint32_t i) {
    const bool is_new = i == index;
    return items_.separator_bytes_max(
        is_new ? items_.parse_item(item, slots.kind() == PageKind::kInner)
               : items_.parse(slots, i < index ? i : i - 1));
  };
  std::size_t all = 0, left = 0;
  for (std::uint32_t i = 1; i < count; ++i) all += bytes_of(i);
  std::uint32_t at = 1;
  if (slots.right() == 0 && index == slots.count()) {
    at = index;
    left = all - bytes_of(index);
  } else if (slots.left() == 0 && index == 1 && slots.kind() == PageKind::kLeaf) {
    at = 2;
    left = bytes_of(1);
  } else {
    while (at < count - 1 && (at == 1 || left + bytes_of(at) / 2 <= all / 2))
      left += bytes_of(at++);
  }
  const std::size_t room = slots.page_bytes() - Slots::kHeadBytes;
  while (at > 2 && left + Slots::kSlotBytes + separator_bytes(at) > room) left -= bytes_of(--at);
  return at;
}

void Btree::split(Path *path, std::uint32_t at, const std::vector<std::byte> &item) {
  // The callers' item may be a member: what follows uses others.
  if (at == 0) {
    grow_root(path);
    ++at;
  }
  const Place place = path->places[at];
  const bool is_leaf = page(place.page).kind() == PageKind::kLeaf;
  locks_.change_page(place.page);
  Slots left = page_to_write(place.page);
  const std::uint32_t from = split_at(left, place.index, item);
  const PageId id = store_.make();
  Slots right = page_to_write(id);
  right.make(left.kind(), left.level(), id);
  std::vector<std::byte> copy;
  // The right page takes the high key, with what is big of it.
  right.insert(0, left.item(0));
  right.set_right(left.right());
  right.set_left(place.page);
  if (left.right() != 0) linked(page_to_write(left.right()), left).set_left(id);
  left.set_right(id);
  left.replace(0, {});

  const bool is_new_left = place.index < from;
  const std::uint32_t first = is_new_left ? from - 1 : from;  // that moves, as it is numbered now
  for (std::uint32_t i = first; i < left.count(); ++i) right.insert(right.count(), left.item(i));
  left.truncate(first);
  if (is_leaf) {
    cursor_.moved(place.page, first, id, 1);
    take_over(place.page, id);
  }
  const Place where = is_new_left ? place : Place{id, place.index - first + 1};
  Slots &target = is_new_left ? left : right;
  TMH_ASSERT(target.room() >= item.size());
  target.insert(where.index, item);
  if (is_leaf) {
    cursor_.inserted(where.page, where.index);
    stored_ = where;
  }

  // What tells the sides apart.
  std::vector<std::byte> low_copy, high_copy, separator;
  Bytes high = items_.key_of(right, 1, &high_copy);
  if (is_leaf) {
    const Bytes low = items_.key_of(left, left.count() - 1, &low_copy);
    const std::size_t telling = std::min(order_.telling_bytes(low, high), high.size());
    high = high.first(telling);
  }
  separator.assign(high.begin(), high.end());
  if (!is_leaf) items_.clear_child_key(&right, 1);
  std::vector<std::byte> made;
  items_.make_high(separator, &made);
  page_to_write(place.page).replace(0, made);
  items_.make_child(id, separator, &made);
  path->places[at - 1].index += 1;
  insert_item(path, at - 1, made);
}

// ---- Records go --------------------------------------------------------------------------------

Found Btree::erase(Bytes key) {
  locks_.begin_of_key(Access::kChange, key);
  Store::Change change(store_);
  Found found = Found::kNo;
  Path path;
  Place place;
  while (find_first(key, &path, &place)) {
    erase_at(place);
    found = Found::kYes;
    if (!settings_.has_duplicates) break;
  }
  cursor_.end_change();
  change.commit();
  return found;
}

Found Btree::erase_at_cursor() {
  locks_.begin(Access::kChange);
  TMH_ASSERT(has_cursor());
  find_cursor();
  if (!is_on_record()) return Found::kNo;
  Store::Change change(store_);
  erase_at(cursor_.place());
  cursor_.end_change();
  change.commit();
  return Found::kYes;
}

void Btree::erase_at(Place place) {
  Path path;
  TMH_ASSERT(place.index != 0);
  if (store_.guard().keeps_undo()) {
    Slots slots = page_to_write(place.page);
    note(UndoKind::kTreeErased, slots, place);
    make_ghost(&slots, place);
    sweep_left(place.page);
    return;
  }
  const bool is_last = page(place.page).count() == 2 && place.page != kTreeRoot;
  if (is_last) locks_.change_page(place.page);
  if (is_last) path_to(place.page, items_.copied_key(page(place.page), place.index), &path);
  Slots slots = page_to_write(place.page);
  items_.release_bigs(slots, place.index);
  slots.erase(place.index);
  cursor_.erased(place.page, place.index);
  if (is_last) {
    erase_page(&path);
  } else {
    sweep_left(place.page);
  }
}

// ---- Ghosts ------------------------------------------------------------------------------------

void Btree::note(UndoKind kind, const Slots &slots, Place place) {
  store_.guard().note({.kind = kind,
                       .page = place.page,
                       .key = items_.key_digest(slots, place.index),
                       .data = items_.data_digest(slots, place.index)},
                      {});
}

void Btree::note_inserted(Bytes key, Bytes data) {
  store_.guard().note({.kind = UndoKind::kTreeInserted,
                       .page = stored_.page,
                       .key = digest_of(key),
                       .data = digest_of(data)},
                      {});
}

void Btree::make_ghost(Slots *slots, Place place) {
  TMH_ASSERT(slots->kind() == PageKind::kLeaf);
  Items::set_ghost(slots, place.index, true);
  store_.guard().note_ghost(place.page);
  cursor_.became_ghost(place);
}

// The splitting transaction, which has the old page's lock, takes that of the new one.
void Btree::take_over(PageId from, PageId to) {
  TMH_ASSERT(from != to);
  store_.guard().lock(to, Access::kChange);
  if (store_.guard().has_ghosts_in(from)) store_.guard().note_ghost(to);
}

// Ghosts of transactions that have ended go: the page's lock says that there are no others. One
// record stays, so that the page keeps a key.
void Btree::purge(Slots *slots, Place *place) {
  TMH_ASSERT(slots->kind() == PageKind::kLeaf);
  Guard &guard = store_.guard();
  if (guard.has_ghosts_in(place->page) || !guard.try_lock(place->page, Access::kChange)) return;
  for (std::uint32_t i = slots->count(); i-- > 1 && slots->count() > 2;) {
    if (!Items::is_ghost(*slots, i)) continue;
    items_.release_bigs(*slots, i);
    slots->erase(i);
    cursor_.erased(place->page, i);
    if (place->index > i) --place->index;
  }
}

// The leaf to the left has nothing but ghosts of transactions that have ended: it goes.
void Btree::sweep_left(PageId id) {
  if (!store_.is_shared()) return;
  Guard &guard = store_.guard();
  const PageId left = page(id).left();
  if (left == 0) return;
  const Slots gone = linked(page(left), page(id));
  if (gone.count() < 2 || !Items::are_all_ghosts(gone)) return;
  if (guard.has_ghosts_in(left) || !guard.try_lock(left, Access::kChange)) return;
  Path path;
  path_to(left, items_.copied_key(page(left), 1), &path);
  Slots slots = page_to_write(left);
  for (std::uint32_t i = slots.count(); i-- > 1;) {
    items_.release_bigs(slots, i);
    slots.erase(i);
    cursor_.erased(left, i);
  }
  erase_page(&path);
}

// ---- Empty pages ------------------------------------------------------------------------------

// The leaf of the path is empty. It goes, with the pages above that have no other child. Its range
// becomes that of the page behind it, where both have a parent in common, or of the one before it.
void Btree::erase_page(Path *path) {
  std::uint32_t top = path->count - 1;  // the highest level that goes
  while (top > 0 && page(path->places[top - 1].page).count() == 2) --top;
  if (top == 0) {
    // Nothing is left.
    store_.guard().lock(kTreeRoot, Access::kChange);
    cursor_.moved(path->last().page, 0, kTreeRoot, 0);
    for (std::uint32_t i = 1; i < path->count; ++i) release_page(path->places[i].page);
    Slots root = page_to_write(kTreeRoot);
    items_.release_bigs(root, 1);
    root.make(PageKind::kLeaf, 0, kTreeRoot);
    root.insert(0, {});
    return;
  }
  const Place above = path->places[top - 1];
  Slots parent = page_to_write(above.page);
  const bool is_left_heir = above.index + 1 == parent.count();
  // A full page to the left has no room for the high key. The leaf stays, without records.
  if (is_left_heir && !has_room_for_highs(path, top)) return;
  // What the transaction has seen to be missing stays so, and the heir's records are its holder's.
  const Slots gone = page(path->last().page);
  if (!store_.guard().try_lock(is_left_heir ? gone.left() : gone.right(), Access::kChange)) return;
  if (is_left_heir) {
    items_.release_bigs(parent, above.index);
    parent.erase(above.index);
  } else {
    // Its key now leads to the page behind it.
    const PageId heir = items_.parse(parent, above.index + 1).child;
    items_.release_bigs(parent, above.index + 1);
    parent.erase(above.index + 1);
    parent.page().store(parent.offset(above.index) + 2, heir);
  }
  for (std::uint32_t i = top; i < path->count; ++i) unlink(path->places[i].page, is_left_heir);
  lower_root();
}

bool Btree::has_room_for_highs(Path *path, std::uint32_t top) {
  for (std::uint32_t i = top; i < path->count; ++i) {
    const Slots gone = page(path->places[i].page);
    const Slots left = linked(page(gone.left()), gone);
    if (left.room() + left.item_bytes(0) < gone.item_bytes(0)) return false;
  }
  return true;
}

void Btree::unlink(PageId id, bool is_left_heir) {
  Slots gone = page_to_write(id);
  const PageId left = gone.left(), right = gone.right();
  if (left != 0) linked(page_to_write(left), gone).set_right(right);
  if (right != 0) linked(page_to_write(right), gone).set_left(left);
  if (is_left_heir) {
    if (left == 0) throw Failure{EINVAL};
    Slots heir = linked(page_to_write(left), gone);
    if (heir.item_bytes(0) != 0) items_.release_bigs(heir, 0);
    std::vector<std::byte> copy;
    // With what is big of it.
    heir.replace(0, gone.item(0));
    gone.replace(0, {});
  }
  cursor_.moved_off(id, right != 0 ? Place{right, 1} : Place{left, page(left).count()});
  release_page(id);
}

void Btree::release_page(PageId id) {
  TMH_ASSERT(id != kTreeRoot);
  const Slots slots = page(id);
  if (slots.item_bytes(0) != 0) items_.release_bigs(slots, 0);
  // A page that goes with its only child.
  if (slots.kind() == PageKind::kInner && slots.count() == 2) items_.release_bigs(slots, 1);
  store_.release(id);
}

// A root with one child takes its place.
void Btree::lower_root() {
  for (;;) {
    if (page(kTreeRoot).kind() != PageKind::kInner || page(kTreeRoot).count() != 2) return;
    Slots root = page_to_write(kTreeRoot);
    const PageId id = items_.parse(root, 1).child;
    if (page(id).kind() == PageKind::kLeaf &&
        !(store_.guard().try_lock(id, Access::kChange) &&
          store_.guard().try_lock(kTreeRoot, Access::kChange)))
      return;
    items_.release_bigs(root, 1);
    Slots child = page_to_write(id);
    root.page().copy_from(child.page());
    root.set_own(kTreeRoot);
    if (root.kind() == PageKind::kLeaf) {
      cursor_.moved(id, 0, kTreeRoot, 0);
      if (store_.guard().has_ghosts_in(id)) store_.guard().note_ghost(kTreeRoot);
    }
    store_.release(id);
  }
}

// ---- The cursor --------------------------------------------------------------------------------

// Its page has changed: by its key.
void Btree::find_cursor() {
  if (!cursor_.is_there()) return;
  store_.guard().lock(cursor_.place().page, locks_.access());
  if (cursor_.is_current()) return;
  Path path;
  Place place;
  bool is_there = find_first(cursor_.key(), &path, &place);
  std::vector<Place> group;
  while (is_there) {
    group.push_back(place);
    ++place.index;
    is_there = settings_.has_duplicates && is_at_record(&place) &&
               compare_at(cursor_.key(), page(place.page), place.index) == 0;
  }
  // New ones come first, so it is the same number of them that follow.
  const std::size_t behind = cursor_.behind();
  const bool is_on = cursor_.is_on_record();
  const auto is_it = [&](Place at) {
    return !settings_.has_duplicates ||
           items_.data_digest(page(at.page), at.index) == cursor_.data();
  };
  if (is_on && group.size() > behind && is_it(group[group.size() - 1 - behind]))
    return cursor_.found_again(TreeCursor::State::kOn, group[group.size() - 1 - behind]);
  for (std::size_t i = 0; is_on && i < group.size(); ++i)
    if (is_it(group[i])) return cursor_.found_again(TreeCursor::State::kOn, group[i]);
  if (behind != 0 && behind <= group.size())
    place = group[group.size() - behind];
  else if (group.empty())
    place = path.last();
  cursor_.found_again(TreeCursor::State::kBetween, place);
}

// Shared, with duplicates: how many of its key follow.
void Btree::count_behind() {
  if (!store_.is_shared() || !settings_.has_duplicates) return;
  const std::vector<std::byte> key(cursor_.key().begin(), cursor_.key().end());
  TMH_ASSERT(cursor_.is_on_record());
  Place place = cursor_.place();
  std::size_t behind = 0;
  for (++place.index; is_at_record(&place) && compare_at(key, page(place.page), place.index) == 0;
       ++place.index)
    ++behind;
  cursor_.set_behind(behind);
}

Found Btree::seek(Seek how, Bytes at, std::vector<std::byte> *key, std::vector<std::byte> *data) {
  locks_.begin(Access::kLook);
  if (how == Seek::kNext || how == Seek::kPrevious) find_cursor();
  if (!cursor_.is_there() && how == Seek::kNext) how = Seek::kFirst;
  if (!cursor_.is_there() && how == Seek::kPrevious) how = Seek::kLast;
  Place place = cursor_.place();
  switch (how) {
    case Seek::kAt: {
      Path path;
      (void)find(at, &path);
      place = path.last();
      break;
    }
    case Seek::kFirst:
      place = end_of_tree(false);
      break;
    case Seek::kLast:
      place = end_of_tree(true);
      break;
    case Seek::kNext:
      place.index += is_on_record() ? 1U : 0U;
      break;
    case Seek::kPrevious:
      break;
  }
  if (how == Seek::kLast || how == Seek::kPrevious) {
    if (!is_before(&place)) return Found::kNo;
  } else if (!is_at_record(&place)) {
    return Found::kNo;
  }
  if (page(place.page).kind() != PageKind::kLeaf) throw Failure{EINVAL};
  const Slots slots = page(place.page);
  const Bytes lying = items_.key_of(slots, place.index, &key_copy_);
  key->assign(lying.begin(), lying.end());
  items_.load_data(page(place.page), place.index, data);
  cursor_.set(place, false);
  count_behind();
  return Found::kYes;
}

// To the record before the place.
bool Btree::is_before(Place *place) {
  TMH_ASSERT(place->page != 0);
  for (PageId steps = 0; steps < store_.page_end();) {
    if (place->index > 1) {
      --place->index;
      const Slots slots = page(place->page);
      if (place->index >= slots.count()) break;
      if (!Items::is_ghost(slots, place->index)) return true;
      continue;
    }
    const Slots here = page(place->page);
    const PageId left = here.left();
    if (left == 0) return false;
    store_.guard().lock(left, locks_.access());
    const Slots before = linked(page(left), here);
    if (before.right() != place->page) throw Failure{EINVAL};
    *place = {left, before.count()};
    ++steps;
  }
  throw Failure{EINVAL};
}

// The first leaf's first record, or behind the last one's last.
Place Btree::end_of_tree(bool is_last) {
  PageId id = kTreeRoot;
  for (std::uint32_t levels = 0; levels < kTreeLevelsMax; ++levels) {
    const Slots slots = page(id);
    if (slots.kind() == PageKind::kLeaf) {
      store_.guard().lock(id, locks_.access());
      return {id, is_last ? slots.count() : 1};
    }
    if (slots.kind() != PageKind::kInner) break;
    id = items_.parse(slots, is_last ? slots.count() - 1 : 1).child;
  }
  throw Failure{EINVAL};
}

}  // namespace tmh::db
