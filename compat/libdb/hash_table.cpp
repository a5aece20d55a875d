// compat/libdb/hash_table.cpp -- buckets, their lists of pages, and their directory.
#include "compat/libdb/hash_table.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "compat/libdb/failure.h"
#include "compat/libdb/store.h"

namespace tmh::db {

namespace {

constexpr PageId kRoot = 1;
constexpr std::uint32_t kLevelsMax = 8, kIdBytes = sizeof(PageId);

}  // namespace

HashTable::Head HashTable::head() {
  Head head;
  std::memcpy(&head, store_.own().data(), sizeof head);
  if (head.fill == 0 || head.levels == 0 || head.levels > kLevelsMax) throw Failure{EINVAL};
  return head;
}

void HashTable::set_head(const Head &head) {
  TMH_ASSERT(head.fill != 0 && head.levels != 0);
  std::byte own[Store::kOwnBytes] = {};
  std::memcpy(own, &head, sizeof head);
  store_.set_own(own);
}

void HashTable::make(Head head) {
  TMH_ASSERT(head.fill != 0 && head.last_bucket == 0);
  Store::Change change(store_);
  if (make_directory() != kRoot) throw Failure{EINVAL};
  set_first_page(&head, 0, make_leaf());
  // Two, as 1.85.
  head.last_bucket = 1;
  set_first_page(&head, 1, make_leaf());
  set_head(head);
  change.commit();
}

PageId HashTable::make_leaf() {
  const PageId id = store_.make();
  Slots slots = page_to_write(id);
  slots.make(PageKind::kLeaf, 0, id);
  slots.insert(0, {});
  return id;
}

PageId HashTable::make_directory() {
  const PageId id = store_.make();
  page_to_write(id).make(PageKind::kDirectory, 0, id);
  return id;
}

// ---- Buckets -----------------------------------------------------------------------------------

// As many bits as the last bucket has; those that are not there yet are in the one without the
// highest bit.
std::uint32_t HashTable::bucket_of(std::uint32_t hash, std::uint32_t last) noexcept {
  const std::uint32_t all = last == 0 ? 0 : std::bit_ceil(last + 1) - 1;
  const std::uint32_t bucket = hash & all;
  return bucket <= last ? bucket : bucket & (all >> 1);
}

// Page numbers of a directory.
std::uint32_t HashTable::digits_end() const noexcept {
  return (store_.page_bytes() - Slots::kHeadBytes) / kIdBytes;
}

PageId HashTable::first_page(const Head &head, std::uint32_t bucket) {
  TMH_ASSERT(bucket <= head.last_bucket);
  PageId id = kRoot;
  std::uint64_t below = 1;
  for (std::uint32_t level = 1; level < head.levels; ++level) below *= digits_end();
  for (std::uint32_t level = 0; level < head.levels; ++level) {
    const Slots directory = page(id);
    const std::uint64_t digit = bucket / below % digits_end();
    if (directory.kind() != PageKind::kDirectory) throw Failure{EINVAL};
    id = store_.read(id).load<PageId>(Slots::kHeadBytes +
                                      static_cast<std::uint32_t>(digit) * kIdBytes);
    below /= digits_end();
  }
  if (page(id).kind() != PageKind::kLeaf) throw Failure{EINVAL};
  return id;
}

void HashTable::set_first_page(Head *head, std::uint32_t bucket, PageId first) {
  TMH_ASSERT(first != 0);
  std::uint64_t below = 1;
  for (std::uint32_t level = 1; level < head->levels; ++level) below *= digits_end();
  if (bucket / below >= digits_end()) {
    if (head->levels == kLevelsMax) throw Failure{EFBIG};
    // The root's numbers move down.
    const PageId moved = make_directory();
    Slots down = page_to_write(moved), root = page_to_write(kRoot);
    down.page().copy_from(root.page());
    down.set_own(moved);
    for (std::uint32_t i = 0; i < digits_end(); ++i)
      root.page().store(Slots::kHeadBytes + i * kIdBytes, PageId{0});
    root.page().store(Slots::kHeadBytes, moved);
    ++head->levels;
    below *= digits_end();
  }
  PageId id = kRoot;
  for (; below != 0; below /= digits_end()) {
    const std::uint32_t at =
        Slots::kHeadBytes + static_cast<std::uint32_t>(bucket / below % digits_end()) * kIdBytes;
    if (page(id).kind() != PageKind::kDirectory) throw Failure{EINVAL};
    PageId next = below == 1 ? first : store_.read(id).load<PageId>(at);
    if (next == 0) next = make_directory();
    page_to_write(id).page().store(at, next);
    id = next;
  }
}

// visit(page) says whether to go on.
template <class Visit>
void HashTable::for_each_page(PageId first, const Visit &visit) {
  PageId steps = 0;
  for (PageId id = first; id != 0;) {
    const Slots slots = page(id);
    if (slots.kind() != PageKind::kLeaf || ++steps > store_.page_end()) throw Failure{EINVAL};
    const PageId next = slots.right();
    if (!visit(id, slots)) return;
    id = next;
  }
}

bool HashTable::find(Bytes key, PageId first, Place *place) {
  TMH_ASSERT(place != nullptr);
  bool is_there = false;
  for_each_page(first, [&](PageId id, const Slots &slots) {
    for (std::uint32_t i = 1; i < slots.count() && !is_there; ++i) {
      const Bytes other = items_.key_of(slots, i, &key_copy_);
      is_there = std::equal(key.begin(), key.end(), other.begin(), other.end());
      if (is_there) *place = {id, i};
    }
    return !is_there;
  });
  return is_there;
}

bool HashTable::add(PageId first, const std::vector<std::byte> &item) {
  TMH_ASSERT(first != 0 && !item.empty());
  PageId to = 0, last = first;
  std::uint64_t records = 1;
  for_each_page(first, [&](PageId id, const Slots &slots) {
    last = id;
    records += slots.count() - 1;
    // A page keeps room for a high key, should one come behind it.
    if (to == 0 && slots.room() >= item.size() + Slots::kSlotBytes) to = id;
    return true;
  });
  const bool is_full = to == 0 || records > head().fill;
  if (to == 0) {
    to = make_leaf();
    Slots before = page_to_write(last);
    std::vector<std::byte> high;
    items_.make_high({}, &high);
    before.replace(0, high);
    before.set_right(to);
    page_to_write(to).set_left(last);
  }
  Slots slots = page_to_write(to);
  slots.insert(slots.count(), item);
  return is_full;
}

void HashTable::take_out(Place place) {
  TMH_ASSERT(place.index != 0);
  Slots slots = page_to_write(place.page);
  slots.erase(place.index);
  const PageId left = slots.left(), right = slots.right();
  if (slots.count() != 1 || left == 0) return;
  Slots before = linked(page_to_write(left), slots);
  before.set_right(right);
  if (right == 0) before.replace(0, {});
  if (right != 0) linked(page_to_write(right), slots).set_left(left);
  store_.release(place.page);
}

// The next one, of what lies in the one that it is split off of. full: whose lock there is.
void HashTable::add_bucket(PageId full) {
  TMH_ASSERT(full != 0);
  Head all = head();
  if (all.last_bucket == ~std::uint32_t{0} >> 1) return;
  const std::uint32_t bucket = all.last_bucket + 1;
  const PageId old = first_page(all, bucket & (std::bit_floor(bucket) - 1));
  // Another transaction has the records that would move: some other time.
  if (old != full && !store_.guard().try_lock(old, Access::kChange)) return;
  const PageId made = make_leaf();
  store_.guard().lock(made, Access::kChange);
  set_first_page(&all, bucket, made);
  all.last_bucket = bucket;
  set_head(all);
  std::vector<std::vector<std::byte>> stay, move;
  std::vector<PageId> more;
  for_each_page(old, [&](PageId id, const Slots &slots) {
    if (id != old) more.push_back(id);
    for (std::uint32_t i = 1; i < slots.count(); ++i) {
      const std::uint32_t hash = hash_.hash(items_.key_of(slots, i, &key_copy_));
      const Bytes item = slots.item(i);
      auto &to = bucket_of(hash, bucket) == bucket ? move : stay;
      to.emplace_back(item.begin(), item.end());
    }
    return true;
  });
  for (const PageId id : more) store_.release(id);
  Slots slots = page_to_write(old);
  slots.make(PageKind::kLeaf, 0, old);
  slots.insert(0, {});
  for (const auto &item : stay) (void)add(old, item);
  for (const auto &item : move) (void)add(made, item);
}

// ---- Calls -------------------------------------------------------------------------------------

Found HashTable::get(Bytes key, std::vector<std::byte> *data) {
  const std::uint32_t hash = hash_.hash(key);
  const Head all = head();
  const PageId first = first_page(all, bucket_of(hash, all.last_bucket));
  store_.guard().lock(first, Access::kLook);
  Place place;
  if (!find(key, first, &place)) return Found::kNo;
  items_.load_data(page(place.page), place.index, data);
  return Found::kYes;
}

void HashTable::note(UndoKind kind, std::uint32_t hash, Bytes key, Bytes data) {
  if (!store_.guard().keeps_undo()) return;
  std::vector<std::byte> payload(key.begin(), key.end());
  payload.insert(payload.end(), data.begin(), data.end());
  store_.guard().note({.kind = kind,
                       .number = hash,
                       .key = {},
                       .data = {},
                       .key_bytes = static_cast<std::uint32_t>(key.size())},
                      payload);
}

// With the data of the record that is there.
void HashTable::note_data(UndoKind kind, std::uint32_t hash, Bytes key, Place place) {
  if (!store_.guard().keeps_undo()) return;
  std::vector<std::byte> data;
  items_.load_data(page(place.page), place.index, &data);
  note(kind, hash, key, data);
}

void HashTable::put_record(PageId first, Place place, bool is_there, bool *is_full) {
  TMH_ASSERT(is_full != nullptr && first != 0);
  if (is_there) {
    Slots slots = page_to_write(place.page);
    items_.release_bigs(slots, place.index);
    if (slots.room() + slots.item_bytes(place.index) >= item_.size() + Slots::kSlotBytes) {
      slots.replace(place.index, item_);
      return;
    }
    take_out(place);
  }
  *is_full = add(first, item_);
}

Found HashTable::put(Bytes key, Bytes data, bool is_new) {
  const std::uint32_t hash = hash_.hash(key);
  Store::Change change(store_);
  const Head all = head();
  const PageId first = first_page(all, bucket_of(hash, all.last_bucket));
  store_.guard().lock(first, Access::kChange);
  Place place;
  const bool is_there = find(key, first, &place);
  if (is_there && is_new) return Found::kNo;
  if (is_there) {
    note_data(UndoKind::kHashReplaced, hash, key, place);
  } else {
    note(UndoKind::kHashInserted, hash, key, {});
  }
  items_.make_record(key, data, &item_);
  bool is_full = false;
  put_record(first, place, is_there, &is_full);
  if (is_full) add_bucket(first);
  change.commit();
  return Found::kYes;
}

Found HashTable::erase(Bytes key) {
  const std::uint32_t hash = hash_.hash(key);
  Store::Change change(store_);
  const Head all = head();
  const PageId first = first_page(all, bucket_of(hash, all.last_bucket));
  store_.guard().lock(first, Access::kChange);
  Place place;
  if (!find(key, first, &place)) return Found::kNo;
  note_data(UndoKind::kHashErased, hash, key, place);
  items_.release_bigs(page(place.page), place.index);
  take_out(place);
  change.commit();
  return Found::kYes;
}

void HashTable::undo(const UndoRecord &record, Bytes key, Bytes data) {
  const Head all = head();
  const PageId first =
      first_page(all, bucket_of(static_cast<std::uint32_t>(record.number), all.last_bucket));
  Place place;
  const bool is_there = find(key, first, &place);
  if (is_there != (record.kind != UndoKind::kHashErased)) throw Failure{EINVAL};
  if (record.kind == UndoKind::kHashInserted) {
    items_.release_bigs(page(place.page), place.index);
    take_out(place);
    return;
  }
  items_.make_record(key, data, &item_);
  bool is_full = false;
  put_record(first, place, is_there, &is_full);
}

// ---- Scans -------------------------------------------------------------------------------------

// A bucket's keys are taken together, so that what goes meanwhile moves nothing under the scan.
void HashTable::enter_buckets(std::uint32_t begun_as) {
  if (!are_keys_kept_) std::swap(scan_keys_, scan_keys_before_);
  are_keys_kept_ = true;
  scan_.bucket = begun_as;
  scan_.at = 0;
  scan_keys_.clear();
  TMH_ASSERT(begun_as <= scan_.last_bucket);
  const Head all = head();
  // Those that were split off of it have its bits, and others above them.
  const std::uint32_t bits = scan_.last_bucket == 0 ? 0 : std::bit_ceil(scan_.last_bucket + 1) - 1;
  const bool has_all_bits = (begun_as | (bits ^ (bits >> 1))) <= scan_.last_bucket;
  const std::uint64_t step = std::uint64_t{has_all_bits ? bits : bits >> 1} + 1;
  for (std::uint64_t bucket = begun_as; bucket <= all.last_bucket; bucket += step) {
    const PageId first = first_page(all, static_cast<std::uint32_t>(bucket));
    store_.guard().lock(first, Access::kLook);
    for_each_page(first, [&](PageId, const Slots &slots) {
      for (std::uint32_t i = 1; i < slots.count(); ++i)
        scan_keys_.push_back(items_.copied_key(slots, i));
      return true;
    });
  }
}

void HashTable::keep_position() noexcept {
  scan_before_ = scan_;
  was_on_record_ = is_on_record_;
  are_keys_kept_ = false;
  is_scanned_kept_ = false;
}

void HashTable::reset_position() noexcept {
  scan_ = scan_before_;
  is_on_record_ = was_on_record_;
  if (are_keys_kept_) std::swap(scan_keys_, scan_keys_before_);
  if (is_scanned_kept_) std::swap(scanned_, scanned_before_);
  are_keys_kept_ = is_scanned_kept_ = false;
}

Found HashTable::next(bool is_first, std::vector<std::byte> *key, std::vector<std::byte> *data) {
  if (is_first || !scan_.is_going) {
    scan_ = {true, head().last_bucket, 0, 0};
    enter_buckets(0);
  }
  for (;;) {
    while (scan_.at < scan_keys_.size()) {
      *key = scan_keys_[scan_.at++];
      if (get(*key, data) != Found::kYes) continue;
      if (!is_scanned_kept_) std::swap(scanned_, scanned_before_);
      is_scanned_kept_ = is_on_record_ = true;
      scanned_ = *key;
      return Found::kYes;
    }
    if (scan_.bucket >= scan_.last_bucket) break;
    enter_buckets(scan_.bucket + 1);
  }
  scan_.is_going = is_on_record_ = false;
  return Found::kNo;
}

}  // namespace tmh::db
