// compat/libdb/items.cpp -- items and chains, loaded and stored through a store's pages.
#include "compat/libdb/items.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "compat/libdb/failure.h"
#include "compat/libdb/store.h"

namespace tmh::db {

namespace {

template <class T>
[[nodiscard]] T load(Bytes from, std::size_t at) noexcept {
  TMH_ASSERT(at + sizeof(T) <= from.size());
  T value;
  std::memcpy(&value, from.data() + at, sizeof value);
  return value;
}
void append(std::vector<std::byte> *to, Bytes bytes) {
  const std::size_t before = to->size();
  to->resize(before + bytes.size());
  if (!bytes.empty()) std::memcpy(to->data() + before, bytes.data(), bytes.size());
}
template <class T>
void append_value(std::vector<std::byte> *to, const T &value) {
  append(to, {reinterpret_cast<const std::byte *>(&value), sizeof value});
}

// An overflow page: the next one at 8, its bytes at 16, they begin behind the head.
constexpr std::uint32_t kChainNext = 8, kChainBytes = 16;

}  // namespace

Item Items::parse(const Slots &slots, std::uint32_t index) {
  if (index >= slots.count()) throw Failure{EINVAL};
  return parse_item(slots.item(index), slots.kind() == PageKind::kInner && index != 0);
}

Item Items::parse_item(Bytes item, bool has_child) {
  Item parsed;
  parsed.head = load<std::uint16_t>(item, 0);
  std::size_t at = 2;
  if (has_child) {
    parsed.child = load<PageId>(item, at);
    at += sizeof(PageId);
  }
  const std::size_t key_bytes =
      (parsed.head & kBigKey) != 0 ? kBigBytes : std::size_t{parsed.head} & kKeyBytes;
  parsed.key = item.subspan(at, key_bytes);
  parsed.data = item.subspan(at + key_bytes);
  return parsed;
}

bool Items::is_sound(const Page &page) noexcept {
  Slots slots(page);
  switch (slots.kind()) {
    case PageKind::kFree:
    case PageKind::kDirectory:
      return true;
    case PageKind::kOverflow:
      return page.load<std::uint32_t>(kChainBytes) <= page.bytes() - Slots::kHeadBytes;
    case PageKind::kLeaf:
    case PageKind::kInner:
      break;
    default:
      return false;
  }
  const bool is_inner = slots.kind() == PageKind::kInner;
  if (!slots.check() || slots.count() == 0 || (slots.level() != 0) != is_inner ||
      slots.level() >= kTreeLevelsMax || (is_inner && slots.count() < 2))
    return false;
  if ((slots.item_bytes(0) == 0) != (slots.right() == 0)) return false;
  for (std::uint32_t i = slots.item_bytes(0) == 0 ? 1 : 0; i < slots.count(); ++i) {
    const std::size_t fixed = is_inner && i != 0 ? 2 + sizeof(PageId) : 2;
    const std::size_t bytes = slots.item_bytes(i);
    if (bytes < fixed) return false;
    const auto head = page.load<std::uint16_t>(slots.offset(i));
    const std::size_t key = (head & kBigKey) != 0 ? kBigBytes : std::size_t{head} & kKeyBytes;
    const bool has_data = !is_inner && i != 0;
    if (bytes < fixed + key || (!has_data && bytes != fixed + key)) return false;
    if ((head & kBigData) != 0 && (!has_data || bytes != fixed + key + kBigBytes)) return false;
  }
  return true;
}

void Items::load_big(Bytes reference, std::vector<std::byte> *to) {
  TMH_ASSERT(reference.size() == kBigBytes && to != nullptr);
  const Big big = load<Big>(reference, 0);
  to->clear();
  PageId pages = 0;
  for (PageId id = big.first; to->size() < big.bytes;) {
    const Page chain = store_.read(id);
    // More pages than there are: a ring.
    if (Slots(chain).kind() != PageKind::kOverflow || ++pages >= store_.page_end())
      throw Failure{EINVAL};
    const auto bytes = chain.load<std::uint32_t>(kChainBytes);
    if (bytes == 0 || bytes > big.bytes - to->size()) throw Failure{EINVAL};
    append(to, chain.view(Slots::kHeadBytes, bytes));
    id = chain.load<PageId>(kChainNext);
  }
}

Big Items::store_big(Bytes bytes) {
  if (bytes.size() > ~std::uint32_t{0}) throw Failure{EFBIG};
  Big big{0, static_cast<std::uint32_t>(bytes.size())};
  const std::size_t room = store_.page_bytes() - Slots::kHeadBytes;
  // The last page first, so that each knows the next one.
  const std::size_t pages = std::max<std::size_t>(1, (bytes.size() + room - 1) / room);
  for (std::size_t i = pages; i-- > 0;) {
    const Bytes part = bytes.subspan(i * room, std::min(room, bytes.size() - i * room));
    const PageId id = store_.make();
    Slots slots(store_.write(id));
    slots.make(PageKind::kOverflow, 0, id);
    slots.page().store(kChainNext, big.first);
    slots.page().store(kChainBytes, static_cast<std::uint32_t>(part.size()));
    slots.page().store_bytes(Slots::kHeadBytes, part);
    big.first = id;
  }
  return big;
}

void Items::release_big(Bytes reference) {
  TMH_ASSERT(reference.size() == kBigBytes);
  const Big big = load<Big>(reference, 0);
  std::uint64_t done = 0;
  for (PageId id = big.first; done < big.bytes;) {
    const Page chain = store_.read(id);
    const auto bytes = chain.load<std::uint32_t>(kChainBytes);
    if (Slots(chain).kind() != PageKind::kOverflow || bytes == 0) throw Failure{EINVAL};
    const auto next = chain.load<PageId>(kChainNext);
    store_.release(id);
    done += bytes;
    id = next;
  }
}

void Items::load_data(const Slots &slots, std::uint32_t index, std::vector<std::byte> *to) {
  const Item item = parse(slots, index);
  if ((item.head & kBigData) != 0) {
    load_big(item.data, to);
  } else {
    to->assign(item.data.begin(), item.data.end());
  }
}

void Items::set_ghost(Slots *slots, std::uint32_t index, bool is_ghost) noexcept {
  TMH_ASSERT(index != 0);
  const std::uint32_t at = slots->offset(index);
  const auto head = slots->page().load<std::uint16_t>(at);
  slots->page().store(at, static_cast<std::uint16_t>(is_ghost ? head | kGhost : head & ~kGhost));
}

bool Items::are_all_ghosts(const Slots &slots) noexcept {
  TMH_ASSERT(slots.kind() == PageKind::kLeaf);
  for (std::uint32_t i = 1; i < slots.count(); ++i)
    if (!is_ghost(slots, i)) return false;
  return true;
}

bool Items::is_inline(Bytes item) noexcept {
  return (load<std::uint16_t>(item, 0) & (kBigKey | kBigData)) == 0;
}

Digest Items::key_digest(const Slots &slots, std::uint32_t index) {
  std::vector<std::byte> copy;
  return digest_of(key_of(slots, index, &copy));
}

Digest Items::data_digest(const Slots &slots, std::uint32_t index) {
  const Item item = parse(slots, index);
  if ((item.head & kBigData) == 0) return digest_of(item.data);
  std::vector<std::byte> copy;
  load_big(item.data, &copy);
  return digest_of(copy);
}

// Of the item's key, and its data.
void Items::release_bigs(const Slots &slots, std::uint32_t index) {
  const Item item = parse(slots, index);
  if ((item.head & kBigKey) != 0) release_big(item.key);
  if ((item.head & kBigData) != 0) release_big(item.data);
}

void Items::put_key(Bytes key, std::vector<std::byte> *item) {
  std::uint16_t head = load<std::uint16_t>(*item, 0);
  if (key.size() > inline_max_) {
    head |= kBigKey;
    append_value(item, store_big(key));
  } else {
    head |= static_cast<std::uint16_t>(key.size());
    append(item, key);
  }
  std::memcpy(item->data(), &head, sizeof head);
}

void Items::make_record(Bytes key, Bytes data, std::vector<std::byte> *item) {
  const std::size_t key_bytes = key.size() > inline_max_ ? kBigBytes : key.size();
  const bool is_data_big = key_bytes + data.size() > inline_max_;
  TMH_ASSERT(item != nullptr);
  item->clear();
  append_value(item, static_cast<std::uint16_t>(is_data_big ? kBigData : 0));
  // A key that leaves no room for where its data lies goes, too.
  if (is_data_big && key.size() <= inline_max_ && key.size() + kBigBytes > inline_max_) {
    const auto head = static_cast<std::uint16_t>(kBigData | kBigKey);
    std::memcpy(item->data(), &head, sizeof head);
    append_value(item, store_big(key));
  } else {
    put_key(key, item);
  }
  if (is_data_big) {
    append_value(item, store_big(data));
  } else {
    append(item, data);
  }
}

void Items::clear_child_key(Slots *slots, std::uint32_t index) {
  TMH_ASSERT(slots->kind() == PageKind::kInner && index != 0);
  release_bigs(*slots, index);
  std::vector<std::byte> made;
  make_child(parse(*slots, index).child, {}, &made);
  slots->replace(index, made);
}

void Items::make_child(PageId child, Bytes key, std::vector<std::byte> *item) {
  item->clear();
  append_value(item, std::uint16_t{0});
  append_value(item, child);
  put_key(key, item);
}

void Items::make_high(Bytes key, std::vector<std::byte> *item) {
  item->clear();
  append_value(item, std::uint16_t{0});
  put_key(key, item);
}

Bytes Items::key_of(const Slots &slots, std::uint32_t index, std::vector<std::byte> *copy) {
  const Item item = parse(slots, index);
  if ((item.head & kBigKey) == 0) return item.key;
  load_big(item.key, copy);
  return *copy;
}

std::vector<std::byte> Items::copied_key(const Slots &slots, std::uint32_t index) {
  std::vector<std::byte> copy;
  const Bytes key = key_of(slots, index, &copy);
  return {key.begin(), key.end()};
}

std::size_t Items::separator_bytes_max(const Item &item) const noexcept {
  // Of a big key the first bytes may do, which lie in the page.
  return 2 + ((item.head & kBigKey) != 0 ? inline_max_ : item.key.size());
}

}  // namespace tmh::db
