// compat/libdb/btree.cpp -- the tree's search, records, splits and what becomes of empty pages.
#include "compat/libdb/btree.h"

#include <algorithm>
#include <cerrno>

#include "compat/libdb/failure.h"
#include "compat/libdb/private_store.h"

namespace tmh::db {

template <class Store>
class Btree<Store>::Changing {
 public:
  explicit Changing(Btree &tree) noexcept : tree_(tree), change_(tree.store_) {
    tree.cursor_before_ = tree.cursor_;
    tree.is_changing_ = true;
  }
  ~Changing() { tree_.begin_call(); }
  Changing(const Changing &) = delete;
  Changing &operator=(const Changing &) = delete;
  void commit() noexcept {
    change_.commit();
    tree_.is_changing_ = false;
  }

 private:
  Btree &tree_;
  typename Store::Change change_;
};

// A change that was left, perhaps by longjmp(), has not been.
template <class Store>
void Btree<Store>::begin_call() noexcept {
  if (is_changing_) cursor_ = cursor_before_;
  is_changing_ = false;
}

// ---- Search ------------------------------------------------------------------------------------

template <class Store>
int Btree<Store>::compare_at(Bytes key, const S &slots, std::uint32_t index) {
  return order_.compare(key, items_.key_of(slots, index, &key_copy_));
}

template <class Store>
void Btree<Store>::make() {
  make_root(&store_);
}

// To the first record whose key is not below, or behind the last one of its page; whether it has
// that key. With duplicates a separator may stand in the middle of a group: its left side has the
// first ones.
template <class Store>
bool Btree<Store>::find(Bytes key, Path *path) {
  path->count = 0;
  std::uint32_t level = 0;
  for (PageId id = kTreeRoot;;) {
    const S slots = page(id);
    const bool is_leaf = slots.kind() == PageKind::kLeaf;
    if (path->count == kTreeLevelsMax || (!is_leaf && slots.kind() != PageKind::kInner) ||
        (path->count != 0 && slots.level() + 1U != level))
      throw Failure{EINVAL};
    level = slots.level();
    // The first of (low, end) that is not passed.
    std::uint32_t low = is_leaf ? 1 : 2, end = slots.count();
    while (low < end) {
      const std::uint32_t middle = low + (end - low) / 2;
      const int against = compare_at(key, slots, middle);
      const bool is_passed = is_leaf || settings_.has_duplicates ? against > 0 : against >= 0;
      if (is_passed) {
        low = middle + 1;
      } else {
        end = middle;
      }
    }
    const std::uint32_t index = is_leaf ? low : low - 1;
    path->places[path->count++] = {id, index};
    if (is_leaf) return index < slots.count() && compare_at(key, slots, index) == 0;
    id = items_.parse(slots, index).child;
  }
}

// From a place behind a page's last record to the first one of the pages to its right.
template <class Store>
bool Btree<Store>::is_at_record(Place *place) {
  for (PageId steps = 0; steps < store_.page_end(); ++steps) {
    const S slots = page(place->page);
    if (place->index < slots.count()) return true;
    if (slots.right() == 0) return false;
    *place = {slots.right(), 1};
  }
  throw Failure{EINVAL};
}

// The same with the way from the root.
template <class Store>
void Btree<Store>::step_right(Path *path) {
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
template <class Store>
void Btree<Store>::path_to(PageId leaf, Bytes key, Path *path) {
  (void)find(key, path);
  for (PageId steps = 0; path->last().page != leaf; ++steps) {
    if (steps == store_.page_end()) throw Failure{EINVAL};
    step_right(path);
  }
}

// The first record of the key. place: where, else behind the last one that is below.
template <class Store>
bool Btree<Store>::find_first(Bytes key, Path *path, Place *place) {
  const bool is_there = find(key, path);
  *place = path->last();
  if (is_there || !settings_.has_duplicates || place->index < page(place->page).count())
    return is_there;
  return is_at_record(place) && compare_at(key, page(place->page), place->index) == 0;
}

template <class Store>
Found Btree<Store>::get(Bytes key, std::vector<std::byte> *data) {
  begin_call();
  Path path;
  Place place;
  if (!find_first(key, &path, &place)) return Found::kNo;
  items_.load_data(page(place.page), place.index, data);
  return Found::kYes;
}

// ---- Records come ------------------------------------------------------------------------------

template <class Store>
Found Btree<Store>::put(Bytes key, Bytes data, Put how) {
  begin_call();
  Changing change(*this);
  if (how == Put::kAtCursor) {
    put_at_cursor(key, data);
  } else {
    const bool is_there = put_at_key(key, data, how == Put::kNew);
    if (how == Put::kNew && is_there) return Found::kNo;
  }
  if (how == Put::kAtCursor || how == Put::kAnySetCursor) cursor_ = {Cursor::State::kOn, stored_};
  change.commit();
  return Found::kYes;
}

// Whether the key was there. is_new: then nothing changes.
template <class Store>
bool Btree<Store>::put_at_key(Bytes key, Bytes data, bool is_new) {
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
  }
  return is_there;
}

template <class Store>
void Btree<Store>::put_at_cursor(Bytes key, Bytes data) {
  TMH_ASSERT(is_on_record());
  const Place place = cursor_.place;
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

template <class Store>
void Btree<Store>::replace(Path *path, Bytes key, Bytes data) {
  const Place place = path->last();
  const bool is_cursor_here = cursor_.state == Cursor::State::kOn &&
                              cursor_.place.page == place.page &&
                              cursor_.place.index == place.index;
  items_.make_record(key, data, &item_);
  S slots = page_to_write(place.page);
  items_.release_bigs(slots, place.index);
  if (slots.room() + slots.item_bytes(place.index) >= item_.size()) {
    slots.replace(place.index, item_);
    stored_ = place;
  } else {
    slots.erase(place.index);
    cursor_erased(place.page, place.index);
    insert_item(path, path->count - 1, item_);
    if (is_cursor_here) cursor_ = {Cursor::State::kOn, stored_};
  }
}

// At path->places[at], which the item goes before.
template <class Store>
void Btree<Store>::insert_item(Path *path, std::uint32_t at, const std::vector<std::byte> &item) {
  TMH_ASSERT(at < path->count && is_changing_);
  const Place place = path->places[at];
  S slots = page_to_write(place.page);
  if (slots.room() < item.size()) return split(path, at, item);
  slots.insert(place.index, item);
  if (slots.kind() == PageKind::kLeaf) {
    cursor_inserted(place.page, place.index);
    stored_ = place;
  }
}

// The root's content moves to a page of its own, whose parent the root becomes.
template <class Store>
void Btree<Store>::grow_root(Path *path) {
  TMH_ASSERT(is_changing_);
  if (path->count == kTreeLevelsMax) throw Failure{EFBIG};
  const PageId id = move_root_down(&store_);
  if (page(id).kind() == PageKind::kLeaf) cursor_moved(kTreeRoot, 0, id, 0);
  std::vector<std::byte> item;
  items_.make_child(id, {}, &item);
  page_to_write(kTreeRoot).insert(1, item);
  path->grow(kTreeRoot, id);
}

// Where the right page begins, counting the new item, which goes before `index`. The left page has
// room for a high key then.
template <class Store>
std::uint32_t Btree<Store>::split_at(const S &slots, std::uint32_t index, Bytes item) {
  const std::uint32_t count = slots.count() + 1;  // with it
  const auto bytes_of = [&](std::uint32_t i) -> std::size_t {
    const std::size_t bytes = i == index ? item.size() : slots.item_bytes(i < index ? i : i - 1);
    return bytes + S::kSlotBytes;
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
  const std::size_t room = slots.page_bytes() - S::kHeadBytes;
  while (at > 2 && left + S::kSlotBytes + separator_bytes(at) > room) left -= bytes_of(--at);
  return at;
}

template <class Store>
void Btree<Store>::split(Path *path, std::uint32_t at, const std::vector<std::byte> &item) {
  // The callers' item may be a member: what follows uses others.
  if (at == 0) {
    grow_root(path);
    ++at;
  }
  const Place place = path->places[at];
  S left = page_to_write(place.page);
  const bool is_leaf = left.kind() == PageKind::kLeaf;
  const std::uint32_t from = split_at(left, place.index, item);
  const PageId id = store_.make();
  S right = page_to_write(id);
  right.make(left.kind(), left.level(), id);
  std::vector<std::byte> copy;
  // The right page takes the high key, with what is big of it.
  right.insert(0, left.item(0, &copy));
  right.set_right(left.right());
  right.set_left(place.page);
  if (left.right() != 0) page_to_write(left.right()).set_left(id);
  left.set_right(id);
  left.replace(0, {});

  const bool is_new_left = place.index < from;
  const std::uint32_t first = is_new_left ? from - 1 : from;  // that moves, as it is numbered now
  for (std::uint32_t i = first; i < left.count(); ++i)
    right.insert(right.count(), left.item(i, &copy));
  left.truncate(first);
  if (is_leaf) cursor_moved(place.page, first, id, 1);
  const Place where = is_new_left ? place : Place{id, place.index - first + 1};
  S &target = is_new_left ? left : right;
  TMH_ASSERT(target.room() >= item.size());
  target.insert(where.index, item);
  if (is_leaf) {
    cursor_inserted(where.page, where.index);
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
  if (!is_leaf) clear_first_key(id);
  std::vector<std::byte> made;
  items_.make_high(separator, &made);
  page_to_write(place.page).replace(0, made);
  items_.make_child(id, separator, &made);
  path->places[at - 1].index += 1;
  insert_item(path, at - 1, made);
}

template <class Store>
void Btree<Store>::clear_first_key(PageId id) {
  S slots = page_to_write(id);
  items_.release_bigs(slots, 1);
  std::vector<std::byte> made;
  items_.make_child(items_.parse(slots, 1).child, {}, &made);
  slots.replace(1, made);
}

// ---- Records go --------------------------------------------------------------------------------

template <class Store>
Found Btree<Store>::erase(Bytes key) {
  begin_call();
  Changing change(*this);
  Found found = Found::kNo;
  Path path;
  Place place;
  while (find_first(key, &path, &place)) {
    erase_at(place);
    found = Found::kYes;
    if (!settings_.has_duplicates) break;
  }
  change.commit();
  return found;
}

template <class Store>
Found Btree<Store>::erase_at_cursor() {
  begin_call();
  TMH_ASSERT(has_cursor());
  if (!is_on_record()) return Found::kNo;
  Changing change(*this);
  erase_at(cursor_.place);
  change.commit();
  return Found::kYes;
}

template <class Store>
void Btree<Store>::erase_at(Place place) {
  Path path;
  TMH_ASSERT(is_changing_ && place.index != 0);
  const bool is_last = page(place.page).count() == 2 && place.page != kTreeRoot;
  if (is_last) path_to(place.page, items_.copied_key(page(place.page), place.index), &path);
  S slots = page_to_write(place.page);
  items_.release_bigs(slots, place.index);
  slots.erase(place.index);
  cursor_erased(place.page, place.index);
  if (is_last) erase_page(&path);
}

// The leaf of the path is empty. It goes, with the pages above that have no other child. Its range
// becomes that of the page behind it, where both have a parent in common, or of the one before it.
template <class Store>
void Btree<Store>::erase_page(Path *path) {
  std::uint32_t top = path->count - 1;  // the highest level that goes
  while (top > 0 && page(path->places[top - 1].page).count() == 2) --top;
  if (top == 0) {
    // Nothing is left.
    cursor_moved(path->last().page, 0, kTreeRoot, 0);
    for (std::uint32_t i = 1; i < path->count; ++i) release_page(path->places[i].page);
    S root = page_to_write(kTreeRoot);
    items_.release_bigs(root, 1);
    root.make(PageKind::kLeaf, 0, kTreeRoot);
    root.insert(0, {});
    return;
  }
  const Place above = path->places[top - 1];
  S parent = page_to_write(above.page);
  const bool is_left_heir = above.index + 1 == parent.count();
  // A full page to the left has no room for the high key. The leaf stays, without records.
  if (is_left_heir && !has_room_for_highs(path, top)) return;
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

template <class Store>
bool Btree<Store>::has_room_for_highs(Path *path, std::uint32_t top) {
  for (std::uint32_t i = top; i < path->count; ++i) {
    const S gone = page(path->places[i].page);
    const S left = page(gone.left());
    if (left.room() + left.item_bytes(0) < gone.item_bytes(0)) return false;
  }
  return true;
}

template <class Store>
void Btree<Store>::unlink(PageId id, bool is_left_heir) {
  S gone = page_to_write(id);
  const PageId left = gone.left(), right = gone.right();
  if (left != 0) page_to_write(left).set_right(right);
  if (right != 0) page_to_write(right).set_left(left);
  if (is_left_heir) {
    TMH_ASSERT(left != 0);
    S heir = page_to_write(left);
    if (heir.item_bytes(0) != 0) items_.release_bigs(heir, 0);
    std::vector<std::byte> copy;
    // With what is big of it.
    heir.replace(0, gone.item(0, &copy));
    gone.replace(0, {});
  }
  if (cursor_.state != Cursor::State::kNone && cursor_.place.page == id)
    cursor_.place = right != 0 ? Place{right, 1} : Place{left, page(left).count()};
  release_page(id);
}

template <class Store>
void Btree<Store>::release_page(PageId id) {
  const S slots = page(id);
  if (slots.item_bytes(0) != 0) items_.release_bigs(slots, 0);
  // A page that goes with its only child.
  if (slots.kind() == PageKind::kInner && slots.count() == 2) items_.release_bigs(slots, 1);
  store_.release(id);
}

// A root with one child takes its place.
template <class Store>
void Btree<Store>::lower_root() {
  for (;;) {
    S root = page_to_write(kTreeRoot);
    if (root.kind() != PageKind::kInner || root.count() != 2) return;
    const PageId id = items_.parse(root, 1).child;
    items_.release_bigs(root, 1);
    S child = page_to_write(id);
    root.page().copy_from(child.page());
    root.set_own(kTreeRoot);
    if (root.kind() == PageKind::kLeaf) cursor_moved(id, 0, kTreeRoot, 0);
    store_.release(id);
  }
}

// ---- The cursor --------------------------------------------------------------------------------

template <class Store>
void Btree<Store>::cursor_inserted(PageId page, std::uint32_t index) noexcept {
  if (cursor_.place.page != page) return;
  const bool is_behind = cursor_.state == Cursor::State::kOn ? cursor_.place.index >= index
                                                             : cursor_.place.index > index;
  if (is_behind) ++cursor_.place.index;
}

template <class Store>
void Btree<Store>::cursor_erased(PageId page, std::uint32_t index) noexcept {
  if (cursor_.state == Cursor::State::kNone || cursor_.place.page != page) return;
  if (cursor_.place.index > index) {
    --cursor_.place.index;
  } else if (cursor_.place.index == index) {
    cursor_.state = Cursor::State::kBetween;
  }
}

template <class Store>
void Btree<Store>::cursor_moved(PageId from, std::uint32_t first, PageId to,
                                std::uint32_t to_first) noexcept {
  if (cursor_.place.page != from || cursor_.place.index < first) return;
  cursor_.place = {to, cursor_.place.index - first + to_first};
}

template <class Store>
Found Btree<Store>::seek(Seek how, Bytes at, std::vector<std::byte> *key,
                         std::vector<std::byte> *data) {
  begin_call();
  if (!has_cursor() && how == Seek::kNext) how = Seek::kFirst;
  if (!has_cursor() && how == Seek::kPrevious) how = Seek::kLast;
  Place place = cursor_.place;
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
    // Before the place; empty pages are none of a sound tree's, but the root.
    for (PageId steps = 0; place.index <= 1; ++steps) {
      const PageId left = page(place.page).left();
      if (left == 0) return Found::kNo;
      if (steps == store_.page_end()) throw Failure{EINVAL};
      place = {left, page(left).count()};
    }
    --place.index;
    if (place.index >= page(place.page).count()) throw Failure{EINVAL};
  } else if (!is_at_record(&place)) {
    return Found::kNo;
  }
  if (page(place.page).kind() != PageKind::kLeaf) throw Failure{EINVAL};
  const S slots = page(place.page);
  const Bytes lying = items_.key_of(slots, place.index, &key_copy_);
  key->assign(lying.begin(), lying.end());
  items_.load_data(page(place.page), place.index, data);
  cursor_ = {Cursor::State::kOn, place};
  return Found::kYes;
}

// The first leaf's first record, or behind the last one's last.
template <class Store>
Place Btree<Store>::end_of_tree(bool is_last) {
  PageId id = kTreeRoot;
  for (std::uint32_t levels = 0; levels < kTreeLevelsMax; ++levels) {
    const S slots = page(id);
    if (slots.kind() == PageKind::kLeaf) return {id, is_last ? slots.count() : 1};
    if (slots.kind() != PageKind::kInner) break;
    id = items_.parse(slots, is_last ? slots.count() - 1 : 1).child;
  }
  throw Failure{EINVAL};
}

// ---- Verify ------------------------------------------------------------------------------------

template <class Store>
const char *Btree<Store>::verify() {
  std::vector<PageId> level{kTreeRoot};
  for (std::uint32_t depth = 0; depth < kTreeLevelsMax; ++depth) {
    std::vector<PageId> below;
    PageId left = 0;
    for (std::size_t i = 0; i < level.size(); ++i) {
      const PageId right = i + 1 < level.size() ? level[i + 1] : 0;
      const char *const wrong = verify_page(level[i], left, right, &below);
      if (wrong != nullptr) return wrong;
      left = level[i];
    }
    if (below.empty()) return nullptr;
    level = std::move(below);
    if (level.size() >= store_.page_end()) return "there are more children than pages";
  }
  return "too many levels";
}

template <class Store>
const char *Btree<Store>::verify_page(PageId id, PageId left, PageId right,
                                      std::vector<PageId> *below) {
  const S slots = page(id);
  if (slots.kind() != PageKind::kLeaf && slots.kind() != PageKind::kInner)
    return "a page of another kind";
  const bool is_leaf = slots.kind() == PageKind::kLeaf;
  if (slots.left() != left || slots.right() != right) return "links differ from the parents' order";
  std::vector<std::byte> copies[3];
  const auto copied = [&](const S &of, std::uint32_t index, std::vector<std::byte> *to) {
    const Bytes lying = items_.key_of(of, index, &key_copy_);
    to->assign(lying.begin(), lying.end());
  };
  const int least = settings_.has_duplicates ? 0 : -1;
  for (std::uint32_t i = is_leaf ? 1 : 2; i < slots.count(); ++i) {
    copied(slots, i, &copies[i % 2]);
    if (i > (is_leaf ? 1U : 2U) && order_.compare(copies[1 - i % 2], copies[i % 2]) > least)
      return "keys out of order";
    std::vector<std::byte> data;
    if (is_leaf) items_.load_data(slots, i, &data);
  }
  const std::uint32_t last = slots.count() - 1;
  if (right != 0) {
    copied(slots, 0, &copies[2]);
    if (last >= (is_leaf ? 1U : 2U) && order_.compare(copies[last % 2], copies[2]) > least)
      return "a key above its page's high key";
    const S next = page(right);
    if (is_leaf && next.count() > 1) {
      copied(next, 1, &copies[0]);
      if (order_.compare(copies[2], copies[0]) > 0)
        return "a key below the left neighbour's high key";
    }
  }
  if (!is_leaf)
    for (std::uint32_t i = 1; i < slots.count(); ++i)
      below->push_back(items_.parse(slots, i).child);
  return nullptr;
}

template class Btree<PrivateStore>;

}  // namespace tmh::db
