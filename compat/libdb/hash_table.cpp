// compat/libdb/hash_table.cpp -- buckets, their lists of pages, and their directory.
#include "compat/libdb/hash_table.h"

#include <algorithm>
#include <bit>
#include <cerrno>

#include "compat/libdb/failure.h"
#include "compat/libdb/private_store.h"

namespace tmh::db {

namespace {

constexpr PageId kRoot = 1;
constexpr std::uint32_t kLevelsMax = 8, kIdBytes = sizeof(PageId);
// A program that scans stores to what it has just seen. One that stores more does not scan.
constexpr std::uint32_t kPutsOfScan = 64;

}  // namespace

template <class Store>
class HashTable<Store>::Changing {
 public:
  explicit Changing(HashTable &table) noexcept : table_(table), change_(table.store_) {
    table.numbers_before_ = table.numbers_;
    table.is_changing_ = true;
  }
  ~Changing() { table_.begin_call(); }
  Changing(const Changing &) = delete;
  Changing &operator=(const Changing &) = delete;
  void commit() noexcept {
    change_.commit();
    table_.is_changing_ = false;
  }

 private:
  HashTable &table_;
  typename Store::Change change_;
};

// A change that was left, perhaps by longjmp(), has not been.
template <class Store>
void HashTable<Store>::begin_call() noexcept {
  if (is_changing_) numbers_ = numbers_before_;
  is_changing_ = false;
}

template <class Store>
HashTable<Store>::HashTable(Store *store, const KeyHash *hash, std::uint32_t fill,
                            const Numbers &numbers)
    : store_(*store), hash_(*hash), fill_(fill), items_(store, 2), numbers_(numbers) {
  TMH_ASSERT(fill_ != 0);
  if (numbers_.levels == 0 || numbers_.levels > kLevelsMax) throw Failure{EINVAL};
}

template <class Store>
void HashTable<Store>::make() {
  typename Store::Change change(store_);
  if (make_directory() != kRoot) throw Failure{EINVAL};
  numbers_ = {};
  set_first_page(0, make_leaf());
  change.commit();
}

template <class Store>
PageId HashTable<Store>::make_leaf() {
  const PageId id = store_.make();
  S slots = page_to_write(id);
  slots.make(PageKind::kLeaf, 0, id);
  slots.insert(0, {});
  return id;
}

template <class Store>
PageId HashTable<Store>::make_directory() {
  const PageId id = store_.make();
  page_to_write(id).make(PageKind::kDirectory, 0, id);
  return id;
}

// ---- Buckets -----------------------------------------------------------------------------------

template <class Store>
std::uint32_t HashTable<Store>::bucket_of(Bytes key) const {
  const std::uint32_t hash = hash_.hash(key);
  // As many bits as the last bucket has; those that are not there yet are in the one without the
  // highest bit.
  const std::uint32_t all =
      numbers_.last_bucket == 0 ? 0 : std::bit_ceil(numbers_.last_bucket + 1) - 1;
  const std::uint32_t bucket = hash & all;
  return bucket <= numbers_.last_bucket ? bucket : bucket & (all >> 1);
}

// Page numbers of a directory.
template <class Store>
std::uint32_t HashTable<Store>::digits_end() const noexcept {
  return (store_.page_bytes() - S::kHeadBytes) / kIdBytes;
}

template <class Store>
PageId HashTable<Store>::first_page(std::uint32_t bucket) {
  TMH_ASSERT(bucket <= numbers_.last_bucket);
  PageId id = kRoot;
  std::uint64_t below = 1;
  for (std::uint32_t level = 1; level < numbers_.levels; ++level) below *= digits_end();
  for (std::uint32_t level = 0; level < numbers_.levels; ++level) {
    const S directory = page(id);
    const std::uint64_t digit = bucket / below % digits_end();
    if (directory.kind() != PageKind::kDirectory) throw Failure{EINVAL};
    id = store_.read(id).template load<PageId>(S::kHeadBytes +
                                               static_cast<std::uint32_t>(digit) * kIdBytes);
    below /= digits_end();
  }
  if (page(id).kind() != PageKind::kLeaf) throw Failure{EINVAL};
  return id;
}

template <class Store>
void HashTable<Store>::set_first_page(std::uint32_t bucket, PageId first) {
  TMH_ASSERT(first != 0);
  std::uint64_t below = 1;
  for (std::uint32_t level = 1; level < numbers_.levels; ++level) below *= digits_end();
  if (bucket / below >= digits_end()) {
    if (numbers_.levels == kLevelsMax) throw Failure{EFBIG};
    // The root's numbers move down.
    const PageId moved = make_directory();
    S down = page_to_write(moved), root = page_to_write(kRoot);
    down.page().copy_from(root.page());
    down.set_own(moved);
    for (std::uint32_t i = 0; i < digits_end(); ++i)
      root.page().store(S::kHeadBytes + i * kIdBytes, PageId{0});
    root.page().store(S::kHeadBytes, moved);
    ++numbers_.levels;
    below *= digits_end();
  }
  PageId id = kRoot;
  for (; below != 0; below /= digits_end()) {
    const std::uint32_t at =
        S::kHeadBytes + static_cast<std::uint32_t>(bucket / below % digits_end()) * kIdBytes;
    if (page(id).kind() != PageKind::kDirectory) throw Failure{EINVAL};
    PageId next = below == 1 ? first : store_.read(id).template load<PageId>(at);
    if (next == 0) next = make_directory();
    page_to_write(id).page().store(at, next);
    id = next;
  }
}

// visit(page) says whether to go on.
template <class Store>
template <class Visit>
void HashTable<Store>::for_each_page(PageId first, const Visit &visit) {
  PageId steps = 0;
  for (PageId id = first; id != 0;) {
    const S slots = page(id);
    if (slots.kind() != PageKind::kLeaf || ++steps > store_.page_end()) throw Failure{EINVAL};
    const PageId next = slots.right();
    if (!visit(id, slots)) return;
    id = next;
  }
}

template <class Store>
bool HashTable<Store>::find(Bytes key, PageId first, Place *place) {
  TMH_ASSERT(place != nullptr);
  bool is_there = false;
  for_each_page(first, [&](PageId id, const S &slots) {
    for (std::uint32_t i = 1; i < slots.count() && !is_there; ++i) {
      const Bytes other = items_.key_of(slots, i, &key_copy_);
      is_there = std::equal(key.begin(), key.end(), other.begin(), other.end());
      if (is_there) *place = {id, i};
    }
    return !is_there;
  });
  return is_there;
}

template <class Store>
bool HashTable<Store>::add(PageId first, const std::vector<std::byte> &item) {
  TMH_ASSERT(first != 0 && !item.empty());
  PageId to = 0, last = first;
  for_each_page(first, [&](PageId id, const S &slots) {
    last = id;
    // A page keeps room for a high key, should one come behind it.
    if (slots.room() >= item.size() + S::kSlotBytes) to = id;
    return to == 0;
  });
  const bool is_full = to == 0;
  if (is_full) {
    to = make_leaf();
    S before = page_to_write(last);
    std::vector<std::byte> high;
    items_.make_high({}, &high);
    before.replace(0, high);
    before.set_right(to);
    page_to_write(to).set_left(last);
  }
  S slots = page_to_write(to);
  slots.insert(slots.count(), item);
  return is_full;
}

template <class Store>
void HashTable<Store>::take_out(Place place) {
  TMH_ASSERT(place.index != 0);
  S slots = page_to_write(place.page);
  slots.erase(place.index);
  const PageId left = slots.left(), right = slots.right();
  if (slots.count() != 1 || left == 0) return;
  S before = page_to_write(left);
  before.set_right(right);
  if (right == 0) before.replace(0, {});
  if (right != 0) page_to_write(right).set_left(left);
  store_.release(place.page);
}

// The next one, of what lies in the one that it is split off of.
template <class Store>
void HashTable<Store>::add_bucket() {
  TMH_ASSERT(is_changing_);
  if (numbers_.last_bucket == ~std::uint32_t{0} >> 1) return;
  const std::uint32_t bucket = numbers_.last_bucket + 1;
  const std::uint32_t from = bucket & (std::bit_floor(bucket) - 1);
  const PageId old = first_page(from), made = make_leaf();
  set_first_page(bucket, made);
  numbers_.last_bucket = bucket;
  std::vector<std::vector<std::byte>> stay, move;
  std::vector<PageId> more;
  for_each_page(old, [&](PageId id, const S &slots) {
    if (id != old) more.push_back(id);
    for (std::uint32_t i = 1; i < slots.count(); ++i) {
      std::vector<std::byte> copy;
      const Bytes item = slots.item(i, &copy);
      auto &to = bucket_of(items_.key_of(slots, i, &key_copy_)) == bucket ? move : stay;
      to.emplace_back(item.begin(), item.end());
    }
    return true;
  });
  for (const PageId id : more) store_.release(id);
  S slots = page_to_write(old);
  slots.make(PageKind::kLeaf, 0, old);
  slots.insert(0, {});
  for (const auto &item : stay) (void)add(old, item);
  for (const auto &item : move) (void)add(made, item);
}

// ---- Calls -------------------------------------------------------------------------------------

template <class Store>
Found HashTable<Store>::get(Bytes key, std::vector<std::byte> *data) {
  begin_call();
  Place place;
  if (!find(key, first_page(bucket_of(key)), &place)) return Found::kNo;
  items_.load_data(page(place.page), place.index, data);
  return Found::kYes;
}

template <class Store>
Found HashTable<Store>::put(Bytes key, Bytes data, bool is_new) {
  begin_call();
  Changing change(*this);
  const PageId first = first_page(bucket_of(key));
  Place place;
  const bool is_there = find(key, first, &place);
  if (is_there && is_new) return Found::kNo;
  items_.make_record(key, data, &item_);
  bool is_full = false;
  if (is_there) {
    S slots = page_to_write(place.page);
    items_.release_bigs(slots, place.index);
    if (slots.room() + slots.item_bytes(place.index) >= item_.size() + S::kSlotBytes) {
      slots.replace(place.index, item_);
    } else {
      take_out(place);
      is_full = add(first, item_);
    }
  } else {
    is_full = add(first, item_);
    ++numbers_.records;
  }
  const bool is_scanned = is_scanning_ && puts_since_scan_ < kPutsOfScan;
  ++puts_since_scan_;
  const bool is_filled =
      numbers_.records > std::uint64_t{fill_} * (std::uint64_t{numbers_.last_bucket} + 1);
  if ((is_full || is_filled) && !is_scanned) add_bucket();
  change.commit();
  return Found::kYes;
}

template <class Store>
Found HashTable<Store>::erase(Bytes key) {
  begin_call();
  Changing change(*this);
  Place place;
  if (!find(key, first_page(bucket_of(key)), &place)) return Found::kNo;
  items_.release_bigs(page(place.page), place.index);
  take_out(place);
  if (numbers_.records != 0) --numbers_.records;
  change.commit();
  return Found::kYes;
}

// A bucket's keys are taken together, so that what goes meanwhile moves nothing under the scan.
template <class Store>
void HashTable<Store>::enter_bucket(std::uint32_t bucket) {
  scan_bucket_ = bucket;
  scan_keys_.clear();
  scan_at_ = 0;
  for_each_page(first_page(bucket), [&](PageId, const S &slots) {
    for (std::uint32_t i = 1; i < slots.count(); ++i)
      scan_keys_.push_back(items_.copied_key(slots, i));
    return true;
  });
}

template <class Store>
Found HashTable<Store>::next(bool is_first, std::vector<std::byte> *key,
                             std::vector<std::byte> *data) {
  begin_call();
  puts_since_scan_ = 0;
  if (is_first || !is_scanning_) enter_bucket(0);
  is_scanning_ = true;
  for (;;) {
    while (scan_at_ < scan_keys_.size()) {
      *key = scan_keys_[scan_at_++];
      if (get(*key, data) == Found::kYes) return Found::kYes;
    }
    if (scan_bucket_ >= numbers_.last_bucket) break;
    enter_bucket(scan_bucket_ + 1);
  }
  is_scanning_ = false;
  return Found::kNo;
}

template class HashTable<PrivateStore>;

}  // namespace tmh::db
