// storage/log/log_start.cpp -- see log_start.h.
#include "storage/log/log_start.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/try.h"
#include "storage/log/log_items.h"
#include "storage/log/log_record.h"

namespace tmh::storage {

using platform::fail;

namespace {

// The record at lsn, if one is there that is right by itself; its bytes go to `to`.
Errc read_record(LogSource *source, Lsn lsn, std::byte *to, RecordView *record, bool *is_there) {
  *is_there = false;
  const std::uint64_t file_bytes = source->log().file_bytes;
  const std::byte *data = nullptr;
  std::size_t got = 0;
  TMH_TRY(source->view(lsn, kRecordHeaderBytes, &data, &got));
  if (got < kRecordHeaderBytes) return Errc::kOk;
  std::memcpy(&record->header, data, sizeof record->header);
  if (record->header.lsn != lsn ||
      !is_header_sane(record->header, lsn, file_bytes - lsn % file_bytes))
    return Errc::kOk;
  TMH_TRY(source->read(lsn, to, record->header.length, &got));
  record->at = to;
  *is_there =
      got == record->header.length && is_crc_right(record->header, to) && is_payload_sane(*record);
  return Errc::kOk;
}

// The first whole record at or behind `at` in its file with which reading can begin. REQUIRES: the
// source was asked for that file.
Errc find_first(LogSource *source, Lsn at, std::byte *buffer, RecordHeaderV1 *found,
                bool *is_found) {
  *is_found = false;
  const Lsn end = source->readable_end();
  while (at + kRecordHeaderBytes <= end) {
    RecordView record;
    bool is_there = false;
    TMH_TRY(read_record(source, at, buffer, &record, &is_there));
    if (is_there && record.header.part == 0 && record.kind() != RecordKind::kFileEnd) {
      *found = record.header;
      *is_found = true;
      return Errc::kOk;
    }
    // Else the rest of a transaction that began in a file that is not there.
    at += is_there ? record.header.length : 8;
  }
  return Errc::kOk;
}

}  // namespace

Errc find_start(LogSource *source, const CheckpointV1 &checkpoint, Lsn lsn,
                CheckpointV1 *from) noexcept try {
  TMH_ASSERT(source != nullptr && source->is_open() && from != nullptr);
  const std::vector<std::uint64_t> &indexes = source->indexes();
  const std::uint64_t file_bytes = source->log().file_bytes;
  const auto wanted = std::lower_bound(indexes.begin(), indexes.end(), file_of(lsn, file_bytes));
  if (wanted == indexes.end())
    return fail(Errc::kBadArgument,
                "no log file holds LSN " + std::to_string(lsn) + " or a later one");
  auto first = wanted;
  while (first != indexes.begin() && *(first - 1) + 1 == *first) --first;
  const auto buffer = std::make_unique<std::byte[]>(kRecordBytesAccepted);
  for (; first != indexes.end(); ++first) {
    const LogSource::File *file = nullptr;
    const Lsn begin = *first * file_bytes + kLogBlockBytes;
    TMH_TRY(source->file_at(begin, &file));
    if (!file->usable()) continue;
    RecordHeaderV1 header{};
    bool is_found = false;
    TMH_TRY(find_first(source, begin, buffer.get(), &header, &is_found));
    if (!is_found) continue;
    *from = checkpoint;
    from->lsn = from->durable_lsn = header.lsn;
    from->generation = header.generation;
    from->stamp = RecordKind{header.kind} == RecordKind::kOpen ? header.stamp : header.stamp - 1;
    from->is_clean = 0;
    return Errc::kOk;
  }
  return fail(Errc::kBadArgument, "no record is left at or behind LSN " + std::to_string(lsn));
} catch (const std::bad_alloc &) {
  return platform::fail_for_memory("reading the log");
}

Errc find_openings(LogSource *source, std::uint32_t generation,
                   std::vector<Opening> *openings) noexcept try {
  TMH_ASSERT(source != nullptr && source->is_open() && openings != nullptr);
  openings->clear();
  const std::uint64_t file_bytes = source->log().file_bytes;
  const auto buffer = std::make_unique<std::byte[]>(kRecordBytesAccepted);
  for (const std::uint64_t index : source->indexes()) {
    const LogSource::File *file = nullptr;
    TMH_TRY(source->file_at(index * file_bytes, &file));
    if (!file->usable()) continue;
    const Lsn end = source->readable_end();
    for (Lsn at = index * file_bytes + kLogBlockBytes; at < end; at += kLogBlockBytes) {
      RecordView record;
      bool is_there = false;
      TMH_TRY(read_record(source, at, buffer.get(), &record, &is_there));
      if (is_there && record.kind() == RecordKind::kOpen && record.header.generation > generation)
        openings->push_back(
            {at, record.header.generation, record.header.stamp, record.open_payload()});
    }
  }
  return Errc::kOk;
} catch (const std::bad_alloc &) {
  return platform::fail_for_memory("reading the log");
}

}  // namespace tmh::storage
