// storage/log/log_record.cpp -- building and checking records.
#include "storage/log/log_record.h"
#include "platform/bit_count.h"

#include <algorithm>
#include <array>

#include "platform/assert.h"
#include "storage/crc32c.h"

namespace tmh::storage {

static_assert(kLineWords == 8 && kWordMasks == 64,
              "a word mask is one byte, a line mask one 64-bit word");
static_assert(kDeltaBytesMax + kRecordHeaderBytes <= kRecordBytesMax,
              "any page's difference fits an empty record");
static_assert(kRecordBytesAccepted < kLogFileBytesMin - kLogBlockBytes,
              "any record fits an empty file");

namespace {

constexpr std::size_t kCrcBytes = sizeof(RecordHeaderV1::crc);

std::size_t seal(std::byte *record, RecordHeaderV1 header) noexcept {
  TMH_ASSERT(header.length >= kRecordHeaderBytes && header.length <= kRecordBytesAccepted);
  TMH_ASSERT(header.length % 8 == 0);
  header.reserved_zero = 0;
  std::memcpy(record, &header, sizeof header);
  header.crc = crc32c(0, record + kCrcBytes, header.length - kCrcBytes);
  std::memcpy(record, &header.crc, kCrcBytes);
  return header.length;
}

bool all_zero(const std::byte *from, const std::byte *to) noexcept {
  return std::all_of(from, to, [](std::byte b) { return b == std::byte{0}; });
}

}  // namespace

RecordBuilder::RecordBuilder(std::byte *buffer, std::size_t capacity) noexcept
    : buffer_(buffer), limit_(std::min<std::size_t>(capacity, kRecordBytesMax) / 8 * 8) {
  TMH_ASSERT(buffer != nullptr && capacity >= kRecordHeaderBytes);
}

void RecordBuilder::clear() noexcept {
  bytes_ = kRecordHeaderBytes;
  items_ = 0;
}

bool RecordBuilder::add(PageId page, LineMask lines, const std::uint8_t *words,
                        const std::byte *page_data) noexcept {
  TMH_ASSERT(bytes_ >= kRecordHeaderBytes && bytes_ <= limit_);
  TMH_ASSERT(lines == 0 || (words != nullptr && page_data != nullptr));
  std::array<std::uint8_t, kWordMasks> masks;  // those of `kept`, packed
  std::size_t mask_count = 0;
  std::uint64_t word_count = 0;
  LineMask kept = 0;
  for (LineMask rest = lines; rest != 0; rest &= rest - 1) {
    const int line = std::countr_zero(rest);
    if (words[line] == 0) continue;  // touched, but every word is what it was
    masks[mask_count++] = words[line];
    word_count += platform::bit_count(words[line]);
    kept |= LineMask{1} << line;
  }
  if (kept == 0) return true;
  const std::uint64_t bytes = delta_bytes(kept, word_count);
  if (bytes > limit_ - bytes_) return false;
  std::byte *to = buffer_ + bytes_;
  const PageDeltaV1 head{static_cast<std::uint64_t>(page), kept};
  std::memcpy(to, &head, sizeof head);
  to += sizeof head;
  std::memcpy(to, masks.data(), mask_count);
  std::memset(to + mask_count, 0, round_up_8(mask_count) - mask_count);
  to += round_up_8(mask_count);
  std::size_t i = 0;
  for (LineMask rest = kept; rest != 0; rest &= rest - 1, ++i) {
    const std::byte *line =
        page_data + static_cast<std::size_t>(std::countr_zero(rest)) * kLineBytes;
    for (unsigned mask = masks[i]; mask != 0; mask &= mask - 1, to += 8)
      std::memcpy(to, line + 8 * static_cast<std::size_t>(std::countr_zero(mask)), 8);
  }
  TMH_ASSERT(to == buffer_ + bytes_ + bytes);
  bytes_ += bytes;
  ++items_;
  return true;
}

bool RecordBuilder::add(ItemKind kind, const void *body, std::size_t bytes) noexcept {
  TMH_ASSERT(kind != ItemKind::kPageDifference && bytes >= 8 && bytes <= kItemBodyBytesMax);
  TMH_ASSERT(body != nullptr && bytes_ <= limit_);
  if (item_bytes(bytes) > limit_ - bytes_) return false;
  std::byte *to = buffer_ + bytes_;
  const std::uint64_t head = item_head(kind, bytes);
  std::memcpy(to, &head, sizeof head);
  std::memcpy(to + kItemHeadBytes, body, bytes);
  std::memset(to + kItemHeadBytes + bytes, 0, round_up_8(bytes) - bytes);
  bytes_ += item_bytes(bytes);
  ++items_;
  return true;
}

std::size_t RecordBuilder::finish(const RecordHeaderV1 &fields) noexcept {
  TMH_ASSERT(RecordKind{fields.kind} == RecordKind::kCommit ||
             RecordKind{fields.kind} == RecordKind::kPart);
  RecordHeaderV1 header = fields;
  header.length = static_cast<std::uint32_t>(bytes_);
  header.items = items_;
  return seal(buffer_, header);
}

std::size_t write_open_record(std::byte *buffer, const RecordHeaderV1 &fields,
                              const OpenPayloadV1 &payload) noexcept {
  TMH_ASSERT(buffer != nullptr);
  RecordHeaderV1 header = fields;
  header.kind = static_cast<std::uint16_t>(RecordKind::kOpen);
  header.length = kOpenRecordBytes;
  header.items = header.part = 0;
  header.total_bytes = 0;
  std::memcpy(buffer + kRecordHeaderBytes, &payload, sizeof payload);
  return seal(buffer, header);
}

std::size_t write_file_end_record(std::byte *buffer, const RecordHeaderV1 &fields) noexcept {
  TMH_ASSERT(buffer != nullptr);
  RecordHeaderV1 header = fields;
  header.kind = static_cast<std::uint16_t>(RecordKind::kFileEnd);
  header.length = kFileEndRecordBytes;
  header.items = header.part = 0;
  header.total_bytes = 0;
  return seal(buffer, header);
}

OpenPayloadV1 RecordView::open_payload() const noexcept {
  TMH_ASSERT(kind() == RecordKind::kOpen && at != nullptr);
  OpenPayloadV1 payload;
  std::memcpy(&payload, at + kRecordHeaderBytes, sizeof payload);
  return payload;
}

bool is_header_sane(const RecordHeaderV1 &header, Lsn lsn, std::uint64_t room) noexcept {
  if (header.lsn != lsn || header.reserved_zero != 0 || header.generation == 0) return false;
  if (header.length < kRecordHeaderBytes || header.length > kRecordBytesAccepted ||
      header.length % 8 != 0 || header.length > room)
    return false;
  if (header.items > (header.length - kRecordHeaderBytes) / kItemBytesMin) return false;
  switch (RecordKind{header.kind}) {
    case RecordKind::kCommit:
      return header.total_bytes >= header.length;
    case RecordKind::kPart:
      return header.total_bytes == 0;
    case RecordKind::kOpen:
      return header.length == kOpenRecordBytes && header.items == 0 && header.part == 0 &&
             header.total_bytes == 0;
    case RecordKind::kFileEnd:
      return header.length == kFileEndRecordBytes && header.part == 0 && header.total_bytes == 0;
  }
  return false;
}

bool is_crc_right(const RecordHeaderV1 &header, const std::byte *record) noexcept {
  TMH_ASSERT(record != nullptr && header.length >= kRecordHeaderBytes);  // is_header_sane() said so
  return header.crc == crc32c(0, record + kCrcBytes, header.length - kCrcBytes);
}

bool DeltaCursor::next(PageDelta *delta) noexcept {
  TMH_ASSERT(delta != nullptr && at_ <= end_);
  if (at_ == end_ || malformed_) return false;
  malformed_ = true;  // until everything was found right
  auto room = static_cast<std::size_t>(end_ - at_);
  PageDeltaV1 head;
  if (room < sizeof head) return false;
  std::memcpy(&head, at_, sizeof head);
  room -= sizeof head;
  const auto line_count = std::size_t{platform::bit_count(head.lines)};
  const std::size_t mask_bytes = round_up_8(line_count);
  if (line_count == 0 || mask_bytes > room) return false;
  const std::byte *masks = at_ + sizeof head;
  std::uint32_t word_count = 0;
  for (std::size_t i = 0; i < line_count; ++i) {
    if (masks[i] == std::byte{0}) return false;
    word_count += platform::bit_count(static_cast<std::uint8_t>(masks[i]));
  }
  if (!all_zero(masks + line_count, masks + mask_bytes) ||
      8 * std::size_t{word_count} > room - mask_bytes)
    return false;
  *delta = {PageId{head.page}, head.lines, masks, masks + mask_bytes, word_count};
  at_ = delta->words + 8 * std::size_t{word_count};
  malformed_ = false;
  return true;
}

}  // namespace tmh::storage
