// storage/log/log_reader.cpp -- reading forward, and judging the end.
#include "storage/log/log_reader.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "observe/planted.h"
#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/try.h"
#include "storage/log/log_items.h"

namespace tmh::storage {

using observe::is_planted;
using observe::Planted;
using platform::fail;

LogReader::LogReader(LogSource *source, const CheckpointV1 &from, Depth depth) noexcept
    : source_(source),
      depth_(depth),
      file_bytes_(source->log().file_bytes),
      start_(from.lsn),
      end_(from.lsn),
      durable_lsn_(from.durable_lsn),
      first_file_promised_(promises_log_file(from)),
      generation_(from.generation),
      generation_max_(from.generation),
      stamp_(from.stamp) {
  TMH_ASSERT(source->is_open());
}

Errc LogReader::next(RecordView *record) noexcept {
  TMH_ASSERT(record != nullptr);
  record->at = nullptr;
  if (error_ != Errc::kOk) return fail(error_, error_detail_);
  if (ended_) return Errc::kOk;
  bool found = false;
  TMH_TRY(load(position(), record, &found));
  found = found &&
          (record->header.generation == generation_ || is_planted(Planted::kNoGeneration)) &&
          continues(*record);
  if (found && record->kind() == RecordKind::kFileEnd) {
    TMH_TRY(look_past_file_end(record));
  }
  if (!found) {
    TMH_TRY(find_opening(end_, record, &found));
  }
  if (!found) {
    record->at = nullptr;
    return judge_end();
  }
  accept(*record);
  return Errc::kOk;
}

// A record at lsn that is right by itself, of whatever generation and place in its transaction.
Errc LogReader::load(Lsn lsn, RecordView *record, bool *is_whole) noexcept {
  *is_whole = false;
  const LogSource::File *file = nullptr;
  TMH_TRY(source_->file_at(lsn, &file));
  if (!file->usable()) return Errc::kOk;
  std::size_t got = 0;
  TMH_TRY(source_->view(lsn, kRecordHeaderBytes, &record->at, &got));
  if (got < kRecordHeaderBytes) return Errc::kOk;
  std::memcpy(&record->header, record->at, sizeof record->header);
  if (!is_header_sane(record->header, lsn, file_bytes_ - lsn % file_bytes_)) return Errc::kOk;
  TMH_TRY(source_->view(lsn, record->header.length, &record->at, &got));
  if (got < record->header.length) return Errc::kOk;
  *is_whole = (is_crc_right(record->header, record->at) || is_planted(Planted::kNoChecksum)) &&
              is_payload_sane(*record);
  return Errc::kOk;
}

// Does the record follow what was read, within its generation?
bool LogReader::continues(const RecordView &record) const noexcept {
  const RecordHeaderV1 &header = record.header;
  switch (record.kind()) {
    case RecordKind::kOpen:
      return !read_any_;  // the first of the generation that the checkpoint names
    case RecordKind::kFileEnd:
      return true;  // also between the parts of a transaction
    case RecordKind::kPart:
      if (header.part != parts_.count) return false;
      return parts_.count == 0 ? header.stamp > stamp_ : header.stamp == parts_.stamp;
    case RecordKind::kCommit:
      if (header.part != parts_.count || header.total_bytes != parts_.bytes + header.length)
        return false;
      return header.stamp > stamp_ && (parts_.count == 0 || header.stamp == parts_.stamp);
  }
  return false;
}

void LogReader::accept(const RecordView &record) noexcept {
  const RecordHeaderV1 &header = record.header;
  // load() looked: it lies in one file
  TMH_ASSERT(file_of(header.lsn, file_bytes_) == file_of(record.end() - 1, file_bytes_));
  read_any_ = true;
  end_ = record.end();
  switch (record.kind()) {
    case RecordKind::kOpen:
      if (header.generation != generation_) {
        generation_ = header.generation;
        generation_max_ = std::max(generation_max_, generation_);
        // What the checkpoint knew of an earlier generation may have been undone.
        durable_lsn_ = header.lsn;
        stamp_ = std::min(stamp_, header.stamp);  // lower when transactions were dropped
      }
      parts_ = {};
      break;
    case RecordKind::kFileEnd:
      end_ = (file_of(header.lsn, file_bytes_) + 1) * file_bytes_;
      break;
    case RecordKind::kPart:
      ++parts_.count;
      parts_.bytes += header.length;
      parts_.stamp = header.stamp;
      break;
    case RecordKind::kCommit:
      parts_ = {};
      stamp_ = header.stamp;
      break;
  }
}

// A point in time before the next file was recovered when a generation opens right behind a
// kFileEnd record: in its file, where no reader that follows it would look.
Errc LogReader::look_past_file_end(RecordView *record) noexcept {
  const RecordView file_end = *record;
  if (file_of(open_position(file_end.end(), file_bytes_), file_bytes_) !=
      file_of(file_end.header.lsn, file_bytes_))
    return Errc::kOk;  // it would be where the next record is looked for anyway
  bool opened = false;
  TMH_TRY(find_opening(file_end.end(), record, &opened));
  opening_says_ = 0;  // not judged here: the kFileEnd record is valid
  if (!opened) *record = file_end;
  return Errc::kOk;
}

// A later generation that opens in the block behind `behind`. previous_generation ties it to the
// one that was read: an opening record of some other history does not fit.
Errc LogReader::find_opening(Lsn behind, RecordView *record, bool *found) noexcept {
  const Lsn at = open_position(behind, file_bytes_);
  *found = false;
  bool is_whole = false;
  TMH_TRY(load(at, record, &is_whole));
  if (!is_whole || record->kind() != RecordKind::kOpen || record->header.generation <= generation_)
    return Errc::kOk;
  const OpenPayloadV1 payload = record->open_payload();
  if (open_position(payload.previous_end, file_bytes_) != at) return Errc::kOk;
  // Generations between the checkpoint's and this one were opened, but never used.
  if (!read_any_ && at == start_) {
    *found = true;
    return Errc::kOk;
  }
  if (payload.previous_generation != generation_) return Errc::kOk;
  if (payload.previous_end > behind) opening_says_ = payload.previous_end;
  *found = payload.previous_end <= behind && payload.previous_end >= start_;
  return Errc::kOk;
}

Errc LogReader::refuse(Errc error, const std::string &why) noexcept {
  TMH_ASSERT(error != Errc::kOk && !why.empty());
  const Lsn at = position();
  const LogSource::File *file = nullptr;
  TMH_TRY(source_->file_at(at, &file));
  error_ = error;
  error_detail_ = file->path + ", offset " + std::to_string(at % file_bytes_) + " (LSN " +
                  std::to_string(at) + "): " + why;
  return fail(error_, error_detail_);
}

// Nothing valid at position(), and no generation opens behind it.
Errc LogReader::judge_end() noexcept {
  TMH_ASSERT(!ended_ && error_ == Errc::kOk);
  const Lsn at = position();
  const LogSource::File *file = nullptr;
  TMH_TRY(source_->file_at(at, &file));
  if (file->exists && (file->header == Errc::kNotADomain || file->header == Errc::kForeignVersion))
    return refuse(file->header, file->why);
  const bool missing = !file->exists;
  const bool cut = file->exists && at % file_bytes_ + kRecordHeaderBytes > file->bytes;
  const bool bad_header = file->exists && !file->usable();
  const std::string header_why = file->why;
  RecordHeaderV1 header{};
  std::size_t got = 0;
  TMH_TRY(source_->read(at, &header, sizeof header, &got));
  torn_ = parts_.count > 0 || bad_header || cut ||
          (got == sizeof header && header.lsn == at && header.generation == generation_);
  // A file gets its name after its header is durable: a wrong header is damage. It matters if the
  // file held anything.
  if (bad_header) suspect_file_ = file_of(at, file_bytes_);
  Proof proof;
  // Also when the proof is here already: generation_max() is to know every generation.
  bool is_scanned = false;
  TMH_TRY(is_to_be_scanned(&is_scanned));
  if (is_scanned) {
    TMH_TRY(scan(&proof));
  }
  if (opening_says_ != 0)
    proof = {Errc::kLogDamaged, "the next generation's first record says that records up to LSN " +
                                    std::to_string(opening_says_) + " were valid"};
  if (at < durable_lsn_)
    proof = {Errc::kLogDamaged, "the log was durable up to LSN " + std::to_string(durable_lsn_)};
  if (missing && proof.error == Errc::kOk && source_->has_file_behind(file_of(at, file_bytes_)))
    proof = {Errc::kLogMissing, "a later log file exists"};
  if (missing && !read_any_ && first_file_promised_ && proof.error == Errc::kOk)
    proof = {Errc::kLogMissing,
             "it was there when the checkpoint was written, which is not one of a clean close"};
  ended_ = true;
  if (proof.error == Errc::kOk) return Errc::kOk;
  if (missing) return refuse(Errc::kLogMissing, "the file is gone, but " + proof.what);
  if (cut) return refuse(Errc::kLogMissing, "the file is cut short, but " + proof.what);
  if (bad_header)
    return refuse(proof.error,
                  "the file's header is wrong (" + header_why + "), but " + proof.what);
  return refuse(proof.error, "no valid record, but " + proof.what);
}

// A log that was closed cleanly ends there, but for what came later to a copy of the folder: then
// something was read, or a later file begins with a record.
Errc LogReader::is_to_be_scanned(bool *is_so) noexcept {
  *is_so = depth_ == Depth::kWhole || read_any_;
  for (const std::uint64_t index : source_->indexes()) {
    if (*is_so || index <= file_of(position(), file_bytes_)) continue;
    const Lsn first = index * file_bytes_ + kLogBlockBytes;
    RecordHeaderV1 header{};
    std::size_t got = 0;
    TMH_TRY(source_->read(first, &header, sizeof header, &got));
    *is_so = got == sizeof header && is_header_sane(header, first, file_bytes_ - kLogBlockBytes) &&
             header.generation >= generation_;
  }
  return Errc::kOk;
}

// Everything behind the end, in every file: a record that was written when the log was durable
// beyond the end proves that something valid was there. A record that merely was written later
// proves nothing: unsynced writes reach the disk in any order.
Errc LogReader::scan(Proof *proof) noexcept {
  const Lsn at = position();
  for (const std::uint64_t index : source_->indexes()) {
    if (index < file_of(at, file_bytes_)) continue;
    const Lsn file_end = (index + 1) * file_bytes_;
    const Lsn behind = index == suspect_file_ ? at : at + 8;
    const Lsn from = std::max(behind, index * file_bytes_ + kLogBlockBytes);
    TMH_TRY(scan_file(from, file_end, proof));
  }
  return Errc::kOk;
}

Errc LogReader::scan_file(Lsn from, Lsn file_end, Proof *proof) noexcept {
  constexpr std::size_t kStepBytes = kRecordBytesMax;
  constexpr std::size_t kLsnAt = offsetof(RecordHeaderV1, lsn);
  for (Lsn at = from; at + kRecordHeaderBytes <= file_end;) {
    const std::byte *data = nullptr;
    std::size_t got = 0;
    TMH_TRY(source_->view(at, kStepBytes, &data, &got));
    if (got < kRecordHeaderBytes) return Errc::kOk;
    const std::size_t heads = (got - kRecordHeaderBytes) / 8 + 1;
    for (std::size_t i = 0; i < heads; ++i) {
      std::uint64_t lsn;
      std::memcpy(&lsn, data + 8 * i + kLsnAt, sizeof lsn);
      if (lsn != at + 8 * i) [[likely]]
        continue;
      RecordHeaderV1 header;
      std::memcpy(&header, data + 8 * i, sizeof header);
      TMH_TRY(weigh(header, lsn, file_end, proof));
    }
    at += 8 * heads;
  }
  return Errc::kOk;
}

// A header that claims to lie at lsn, behind the end.
Errc LogReader::weigh(const RecordHeaderV1 &header, Lsn lsn, Lsn file_end, Proof *proof) noexcept {
  TMH_ASSERT(proof != nullptr && lsn + kRecordHeaderBytes <= file_end);
  if (header.generation < generation_ || !is_header_sane(header, lsn, file_end - lsn))
    return Errc::kOk;
  if (candidate_ == nullptr) candidate_.reset(new (std::nothrow) std::byte[kRecordBytesAccepted]);
  if (candidate_ == nullptr)
    return fail(Errc::kOutOfMemory, "checking records behind the log's end");
  std::size_t got = 0;  // read(): the window stays where scan_file() has it
  TMH_TRY(source_->read(lsn, candidate_.get(), header.length, &got));
  if (got < header.length || !is_crc_right(header, candidate_.get())) return Errc::kOk;
  generation_max_ = std::max(generation_max_, header.generation);
  const bool same = header.generation == generation_;
  torn_ = torn_ || same;
  if (file_of(lsn, file_bytes_) == suspect_file_ && proof->error == Errc::kOk)
    *proof = {Errc::kLogDamaged, "a valid record lies in it, at LSN " + std::to_string(lsn)};
  // A later generation began at open_position(): everything in front of that was known to be
  // durable, or given up, when it began.
  const Lsn proved = same ? position() : open_position(end_, file_bytes_);
  if (header.durable_before > proved && proof->error == Errc::kOk)
    *proof = {Errc::kLogDamaged, "the valid record at LSN " + std::to_string(lsn) +
                                     " was written when the log was durable up to LSN " +
                                     std::to_string(header.durable_before)};
  return Errc::kOk;
}

}  // namespace tmh::storage
