// storage/log/log_items.cpp -- the table of kinds.
#include "storage/log/log_items.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "platform/assert.h"
#include "storage/control.h"

namespace tmh::storage {

namespace {

static_assert(sizeof(SegmentMadeV2::name) == sizeof(SegmentRecordV1::name));

struct ItemType {
  std::string_view name;
  bool (*is_sane)(const Item &);
  bool (*redo)(const Item &, Redo &);
  std::string (*text)(const Item &);
};

// REQUIRES: the item is sane.
template <class Body>
Body body_of(const Item &item) noexcept {
  static_assert(std::is_trivially_copyable_v<Body>);
  TMH_ASSERT(item.bytes >= sizeof(Body));
  Body body;
  std::memcpy(&body, item.body, sizeof body);
  return body;
}

// A name that ends within its bytes, and zeros behind it.
template <std::size_t size>
bool is_name(const char (&name)[size]) noexcept {
  const char *const end = std::find(name, name + size, '\0');
  return end != name && end != name + size &&
         std::all_of(end, name + size, [](char c) { return c == '\0'; });
}

bool is_segment_size(std::uint64_t bytes) noexcept {
  return bytes != 0 && bytes <= kSegmentBytesMax && bytes % kPageBytes == 0;
}

// The cursor has looked at it.
bool is_difference_sane(const Item &) { return true; }
bool redo_difference(const Item &item, Redo &redo) { return redo.page_difference(item.difference); }
std::string difference_text(const Item &item) {
  const PageDelta &difference = item.difference;
  return "page " + std::to_string(static_cast<std::uint64_t>(page_index(difference.page))) +
         " of segment " + std::to_string(segment_number(difference.page)) + ", " +
         std::to_string(difference.word_count) + " words";
}

bool is_note_sane(const Item &item) { return item.bytes >= sizeof(NoteV2); }
bool redo_note(const Item &item, Redo &redo) {
  return redo.note(body_of<NoteV2>(item), item.body + sizeof(NoteV2), item.bytes - sizeof(NoteV2));
}
std::string note_text(const Item &item) {
  return "note of topic " + std::to_string(body_of<NoteV2>(item).topic) + ", " +
         std::to_string(item.bytes - sizeof(NoteV2)) + " bytes";
}

bool is_segment_made_sane(const Item &item) {
  if (item.bytes != sizeof(SegmentMadeV2)) return false;
  const auto made = body_of<SegmentMadeV2>(item);
  return made.segment < kSegmentsMax && is_name(made.name) && is_segment_size(made.size_bytes) &&
         is_segment_size(made.max_bytes) && made.size_bytes <= made.max_bytes;
}
bool redo_segment_made(const Item &item, Redo &redo) {
  return redo.segment_made(body_of<SegmentMadeV2>(item));
}
std::string segment_made_text(const Item &item) {
  const auto made = body_of<SegmentMadeV2>(item);
  return "segment " + std::to_string(made.segment) + " made, " + std::string(made.name) + ", " +
         std::to_string(made.size_bytes) + " of at most " + std::to_string(made.max_bytes) +
         " bytes";
}

bool is_segment_grown_sane(const Item &item) {
  if (item.bytes != sizeof(SegmentGrownV2)) return false;
  const auto grown = body_of<SegmentGrownV2>(item);
  return grown.segment < kSegmentsMax && grown.reserved_zero == 0 &&
         is_segment_size(grown.size_bytes);
}
bool redo_segment_grown(const Item &item, Redo &redo) {
  return redo.segment_grown(body_of<SegmentGrownV2>(item));
}
std::string segment_grown_text(const Item &item) {
  const auto grown = body_of<SegmentGrownV2>(item);
  return "segment " + std::to_string(grown.segment) + " grown to " +
         std::to_string(grown.size_bytes) + " bytes";
}

bool is_moment_named_sane(const Item &item) {
  if (item.bytes != sizeof(MomentNamedV2)) return false;
  const auto named = body_of<MomentNamedV2>(item);
  return named.clock != 0 && is_name(named.name);
}
bool redo_moment_named(const Item &item, Redo &redo) {
  return redo.moment_named(body_of<MomentNamedV2>(item));
}
std::string moment_named_text(const Item &item) {
  const auto named = body_of<MomentNamedV2>(item);
  return "the moment of commit " + std::to_string(named.clock) + " named " +
         std::string(named.name);
}

// By kind.
constexpr std::array<ItemType, 5> kItemTypes{{
    {"page difference", is_difference_sane, redo_difference, difference_text},
    {"note", is_note_sane, redo_note, note_text},
    {"segment made", is_segment_made_sane, redo_segment_made, segment_made_text},
    {"segment grown", is_segment_grown_sane, redo_segment_grown, segment_grown_text},
    {"moment named", is_moment_named_sane, redo_moment_named, moment_named_text},
}};
static_assert(kItemTypes.size() == static_cast<std::size_t>(ItemKind::kMomentNamed) + 1);

const ItemType &type_of(ItemKind kind) noexcept {
  const auto number = static_cast<std::size_t>(kind);
  TMH_ASSERT(number < kItemTypes.size());
  return kItemTypes[number];
}

}  // namespace

bool ItemCursor::next(Item *item) noexcept {
  TMH_ASSERT(item != nullptr && at_ <= end_);
  if (at_ == end_ || is_malformed_) return false;
  is_malformed_ = !take(item);
  return !is_malformed_;
}

bool ItemCursor::take(Item *item) noexcept {
  const auto room = static_cast<std::size_t>(end_ - at_);
  std::uint64_t head = 0;
  if (room < sizeof head) return false;
  std::memcpy(&head, at_, sizeof head);
  const std::uint64_t kind = head >> kItemKindShift;
  if (kind >= kItemTypes.size()) return false;
  item->kind = ItemKind{static_cast<std::uint8_t>(kind)};
  if (item->kind == ItemKind::kPageDifference) {
    DeltaCursor cursor(at_, room);
    if (!cursor.next(&item->difference)) return false;
    at_ = cursor.at();
    return true;
  }
  const std::uint64_t bytes = head & ~(std::uint64_t{0xff} << kItemKindShift);
  if (bytes > kItemBodyBytesMax || item_bytes(bytes) > room) return false;
  item->body = at_ + kItemHeadBytes;
  item->bytes = static_cast<std::size_t>(bytes);
  at_ += item_bytes(bytes);
  return std::all_of(item->body + bytes, at_, [](std::byte b) { return b == std::byte{0}; }) &&
         type_of(item->kind).is_sane(*item);
}

bool is_payload_sane(const RecordView &record) noexcept {
  if (record.kind() == RecordKind::kOpen) return record.open_payload().reserved_zero == 0;
  ItemCursor cursor(record);
  Item item;
  std::uint32_t items = 0;
  while (cursor.next(&item)) ++items;
  return !cursor.is_malformed() && items == record.header.items;
}

bool redo_items(const RecordView &record, Redo &redo, Item *failed) {
  TMH_ASSERT(failed != nullptr);
  if (!record.has_items()) return true;
  ItemCursor cursor(record);
  while (cursor.next(failed))
    if (!type_of(failed->kind).redo(*failed, redo)) return false;
  return true;
}

std::uint32_t item_segment(const Item &item) noexcept {
  switch (item.kind) {
    case ItemKind::kPageDifference:
      return std::min(segment_number(item.difference.page), kSegmentsMax);
    case ItemKind::kSegmentMade:
      return body_of<SegmentMadeV2>(item).segment;
    case ItemKind::kSegmentGrown:
      return body_of<SegmentGrownV2>(item).segment;
    case ItemKind::kNote:
    case ItemKind::kMomentNamed:
      break;
  }
  return kSegmentsMax;
}

std::string_view item_name(ItemKind kind) noexcept { return type_of(kind).name; }

std::string item_text(const Item &item) { return type_of(item.kind).text(item); }

}  // namespace tmh::storage
