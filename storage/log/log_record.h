// storage/log/log_record.h -- one record of the redo log as bytes: built from items, and checked.
// Shape:     log_format.h. A builder writes into the caller's buffer and allocates nothing; a
//            DeltaCursor walks page differences. log_items.h takes payloads apart.
// Invariant: whatever the bytes are, checking and walking read nothing outside the bytes given, and
//            end.
// Sharing:   builder, view and cursor belong to one thread. The page data may be private or shared
//            memory; it must not change meanwhile.
// Contexts:  async-signal-safe; no allocation, no errno.
// Source:    docs/design.md D7; thesis, section 3.2 (checksum per transaction) and appendix B
//            (metadata that data cannot imitate).
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "platform/assert.h"
#include "storage/log/log_format.h"
#include "storage/page_id.h"

namespace tmh::storage {

inline constexpr std::size_t kLineWords = kLineBytes / 8;  // a word mask is one byte
// Masks that add() is given: one per line number.
inline constexpr std::size_t kWordMasks = kLinesPerPage;
inline constexpr std::size_t kRecordHeaderBytes = sizeof(RecordHeaderV1);
// A reader takes a record of up to this; writers stay within kRecordBytesMax.
inline constexpr std::uint32_t kRecordBytesAccepted = kRecordBytesMax + 64;

class RecordBuilder {
 public:
  // capacity: at least kRecordHeaderBytes. The buffer needs no alignment.
  RecordBuilder(std::byte *buffer, std::size_t capacity) noexcept;
  // Appends one page's difference. words: 64 masks by line number, read for the lines in `lines`
  // only; lines whose mask is 0 are left out. page_data: the page's 4096 bytes after the commit.
  // False, and nothing changed: the record would outgrow `capacity` or kRecordBytesMax.
  // kRecordHeaderBytes + kDeltaBytesMax is always enough for one.
  [[nodiscard]] bool add(PageId page, LineMask lines, const std::uint8_t *words,
                         const std::byte *page_data) noexcept;
  // Appends an item of another kind, of `bytes` of body; false as above.
  [[nodiscard]] bool add(ItemKind kind, const void *body, std::size_t bytes) noexcept;
  // Writes the header: `fields` with length, items, reserved_zero and crc filled in. Returns the
  // record's length. May be called again, for instance when the record's place has changed; add()
  // may follow too. For kCommit and kPart.
  std::size_t finish(const RecordHeaderV1 &fields) noexcept;
  // Empty again, in the same buffer.
  void clear() noexcept;

  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }  // header included
  [[nodiscard]] std::uint32_t items() const noexcept { return items_; }
  [[nodiscard]] const std::byte *buffer() const noexcept { return buffer_; }

 private:
  std::byte *buffer_;
  std::size_t limit_;
  std::size_t bytes_ = kRecordHeaderBytes;
  std::uint32_t items_ = 0;
};

inline constexpr std::size_t kOpenRecordBytes = kRecordHeaderBytes + sizeof(OpenPayloadV1);
inline constexpr std::size_t kFileEndRecordBytes = kRecordHeaderBytes;
// The two records without items. Of `fields`, kind, length, crc, items, part and total_bytes are
// filled in.
std::size_t write_open_record(std::byte *buffer, const RecordHeaderV1 &fields,
                              const OpenPayloadV1 &payload) noexcept;
std::size_t write_file_end_record(std::byte *buffer, const RecordHeaderV1 &fields) noexcept;

// A record's bytes, after check_record(): `at` points to the header, header.length bytes are there.
struct RecordView {
  RecordHeaderV1 header{};
  const std::byte *at = nullptr;
  [[nodiscard]] RecordKind kind() const noexcept { return RecordKind{header.kind}; }
  [[nodiscard]] bool has_items() const noexcept {
    return kind() == RecordKind::kCommit || kind() == RecordKind::kPart;
  }
  [[nodiscard]] bool ends_transaction() const noexcept { return kind() == RecordKind::kCommit; }
  [[nodiscard]] Lsn end() const noexcept { return header.lsn + header.length; }
  [[nodiscard]] OpenPayloadV1 open_payload() const noexcept;  // of a kOpen
};

// Could these 64 bytes head a record at `lsn`? Looks at every field but the CRC; `room`: bytes up
// to the end of the log file.
[[nodiscard]] bool is_header_sane(const RecordHeaderV1 &header, Lsn lsn,
                                  std::uint64_t room) noexcept;
[[nodiscard]] bool is_crc_right(const RecordHeaderV1 &header, const std::byte *record) noexcept;

// One page's difference.
struct PageDelta {
  PageId page{};
  LineMask lines = 0;
  const std::byte *masks = nullptr;  // a byte per line in `lines`, from the lowest
  const std::byte *words = nullptr;  // their words
  std::uint32_t word_count = 0;
};

class DeltaCursor {
 public:
  DeltaCursor(const std::byte *payload, std::size_t bytes) noexcept
      : at_(payload), end_(payload + bytes) {
    TMH_ASSERT(payload != nullptr || bytes == 0);
  }
  // False at the end, and where the bytes are no difference: is_malformed() tells which.
  [[nodiscard]] bool next(PageDelta *delta) noexcept;
  [[nodiscard]] bool is_malformed() const noexcept { return malformed_; }
  // Behind the last difference that was right.
  [[nodiscard]] const std::byte *at() const noexcept { return at_; }

 private:
  const std::byte *at_;
  const std::byte *end_;
  bool malformed_ = false;
};

// Calls store(offset in the page, bytes, count) for every run of neighbouring words of one line.
template <class Store>
void for_each_run(const PageDelta &delta, const Store &store) {
  TMH_ASSERT(delta.lines == 0 || (delta.masks != nullptr && delta.words != nullptr));
  const std::byte *from = delta.words;
  const std::byte *mask_at = delta.masks;
  for (LineMask lines = delta.lines; lines != 0; lines &= lines - 1) {
    const auto line = static_cast<std::size_t>(std::countr_zero(lines)) * kLineBytes;
    auto mask = static_cast<unsigned>(*mask_at++);
    while (mask != 0) {
      const auto first = static_cast<std::size_t>(std::countr_zero(mask));
      const auto run = static_cast<std::size_t>(std::countr_one(mask >> first));
      store(line + 8 * first, from, 8 * run);
      from += 8 * run;
      mask &= ~(((1u << run) - 1) << first);
    }
  }
}
// What RecordBuilder::add() was given: masks by line number (64, zero before), words where they lie
// in the page's 4096 bytes.
inline void unpack_delta(const PageDelta &delta, std::uint8_t *words, std::byte *page) noexcept {
  TMH_ASSERT(words != nullptr && page != nullptr);
  const std::byte *mask_at = delta.masks;
  for (LineMask lines = delta.lines; lines != 0; lines &= lines - 1)
    words[std::countr_zero(lines)] = static_cast<std::uint8_t>(*mask_at++);
  for_each_run(delta, [page](std::size_t offset, const std::byte *from, std::size_t bytes) {
    std::memcpy(page + offset, from, bytes);
  });
}
// Stores the words into the page's 4096 bytes. Idempotent.
inline void apply_delta(const PageDelta &delta, std::byte *page) noexcept {
  TMH_ASSERT(page != nullptr);
  for_each_run(delta, [page](std::size_t offset, const std::byte *from, std::size_t bytes) {
    std::memcpy(page + offset, from, bytes);
  });
}

}  // namespace tmh::storage
