// storage/log/log_items.h -- what a record's payload is made of: items, each of a kind. One table
// says of each kind what is right, what a recovery does with it, and how it reads.
// Shape:     log_format.h. An ItemCursor walks a payload; redo_items() hands each item to a Redo,
//            which overrides what it wants of; item_text() is what tools print. A new kind is a row
//            of the table, a function of Redo, and a higher kLogVersion.
// Invariant: whatever the bytes are, walking reads nothing outside the bytes given, and ends. An
//            item of an unknown kind is malformed: only a log of a later version has one, and its
//            files are refused by their header.
// Sharing:   one thread. Contexts of cursor and redo_items(): async-signal-safe, as far as the Redo
//            is; no allocation, no errno. item_text() allocates.
// Source:    docs/design.md D7; LIBTP, section 3.1.1 (a record says by its type which function
//            recovers it).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "platform/assert.h"
#include "storage/log/log_format.h"
#include "storage/log/log_record.h"

namespace tmh::storage {

struct Item {
  ItemKind kind = ItemKind::kPageDifference;
  PageDelta difference{};           // kPageDifference
  const std::byte *body = nullptr;  // the others
  std::size_t bytes = 0;            // of body
};

class ItemCursor {
 public:
  explicit ItemCursor(const RecordView &record) noexcept
      : ItemCursor(record.at + kRecordHeaderBytes, record.header.length - kRecordHeaderBytes) {
    TMH_ASSERT(record.at != nullptr && record.kind() != RecordKind::kOpen);
  }
  ItemCursor(const std::byte *payload, std::size_t bytes) noexcept
      : at_(payload), end_(payload + bytes) {}
  // False at the end, and where the bytes are no item: is_malformed() tells which.
  [[nodiscard]] bool next(Item *item) noexcept;
  [[nodiscard]] bool is_malformed() const noexcept { return is_malformed_; }

 private:
  [[nodiscard]] bool take(Item *item) noexcept;

  const std::byte *at_;
  const std::byte *end_;
  bool is_malformed_ = false;
};

// Do items fill the payload exactly, `header.items` of them, each well formed? kOpen, kFileEnd: are
// payload and length right?
[[nodiscard]] bool is_payload_sane(const RecordView &record) noexcept;

// What a reader of the log does with the items of a record. False: it cannot, and the walk ends.
class Redo {
 public:
  virtual ~Redo() = default;
  [[nodiscard]] virtual bool page_difference(const PageDelta &difference) = 0;
  [[nodiscard]] virtual bool note(const NoteV2 &, const std::byte * /*text*/,
                                  std::size_t /*bytes*/) {
    return true;
  }
  [[nodiscard]] virtual bool segment_made(const SegmentMadeV2 &) { return true; }
  [[nodiscard]] virtual bool segment_grown(const SegmentGrownV2 &) { return true; }
  [[nodiscard]] virtual bool moment_named(const MomentNamedV2 &) { return true; }
};
// In order, up to the first that it cannot take; that one is *failed. True for records without
// items.
[[nodiscard]] bool redo_items(const RecordView &record, Redo &redo, Item *failed);

// Of items that are about one; kSegmentsMax otherwise, and where the domain can have none of its
// number.
[[nodiscard]] std::uint32_t item_segment(const Item &item) noexcept;
[[nodiscard]] std::string_view item_name(ItemKind kind) noexcept;
// "segment 3 grown to 8192 bytes"
[[nodiscard]] std::string item_text(const Item &item);

}  // namespace tmh::storage
