// tools/log_walk.cpp -- reading on where the log is being written.
#include "tools/log_walk.h"

#include <time.h>

#include <algorithm>

#include "platform/assert.h"
#include "platform/failure.h"
#include "storage/log/log_start.h"
#include "tools/domain_files.h"
#include "tools/failure.h"

namespace tmh::tools {

using storage::CheckpointV1;
using storage::LogIdentity;
using storage::LogReader;
using storage::LogSource;
using storage::Lsn;
using storage::RecordHeaderV1;
using storage::RecordKind;
using storage::RecordView;

namespace {

// 100 looks of 20 ms: a writer that stays ahead of us for 2 s is not waited for.
constexpr unsigned kResumesMax = 100;
constexpr timespec kSecondLook{0, 20'000'000};
static_assert(kResumesMax * kSecondLook.tv_nsec == 2'000'000'000);

LogIdentity identity(const CheckpointV1 &checkpoint) noexcept {
  return {{checkpoint.domain_id[0], checkpoint.domain_id[1]}, checkpoint.log_file_bytes};
}

}  // namespace

LogWalk::LogWalk(std::string folder, std::string archive, const storage::ControlFile &control,
                 const CheckpointV1 &from)
    : folder_(std::move(folder)), archive_(std::move(archive)), control_(control), from_(from) {
  start(from);
}

void LogWalk::start(const CheckpointV1 &from) {
  TMH_ASSERT(from.log_file_bytes >= storage::kLogFileBytesMin);
  from_ = from;
  whole_ = from.lsn;
  generation_ = from.generation;
  stamp_ = from.stamp;
  building_ = {};
  source_ = std::make_unique<LogSource>(folder_, archive_, identity(from));
  check(source_->open());
  reader_ = std::make_unique<LogReader>(source_.get(), from_, LogReader::Depth::kWhole);
}

bool LogWalk::next(LogEntry *entry) {
  TMH_ASSERT(entry != nullptr && reader_ != nullptr);
  for (;;) {
    RecordView record;
    const Errc error = reader_->next(&record);
    if (error == Errc::kOk && record.at != nullptr) {
      if (take(record, entry)) return true;
      continue;
    }
    end_.error = error;
    end_.why = error == Errc::kOk ? std::string() : platform::failure_detail();
    end_.torn = error == Errc::kOk && reader_->tail_is_torn();
    end_.lsn = whole_;
    end_.generation = generation_;
    if (!resume(error)) return false;
  }
}

void add_record(const RecordView &record, LogEntry *entry) {
  TMH_ASSERT(record.at != nullptr && entry != nullptr);
  ++entry->records;
  entry->bytes += record.header.length;
  if (record.kind() == RecordKind::kOpen) return;
  storage::ItemCursor cursor(record);
  for (storage::Item item; cursor.next(&item);) {
    const storage::PageDelta &change = item.difference;
    if (item.kind == storage::ItemKind::kPageDifference)
      entry->changes.push_back({change.page, change.lines, change.word_count});
    else
      entry->others.push_back({std::string(storage::item_name(item.kind)), item_text(item)});
  }
  entry->pages = entry->changes.size();
}

// True: an entry is whole.
bool LogWalk::take(const RecordView &record, LogEntry *entry) {
  const RecordHeaderV1 &header = record.header;
  if (record.kind() == RecordKind::kFileEnd) {
    if (building_.records == 0) whole_ = std::max(whole_, header.lsn);  // between transactions
    return false;
  }
  if (building_.records == 0 || record.kind() == RecordKind::kOpen) building_ = {};
  if (building_.records == 0) building_.lsn = header.lsn;
  add_record(record, &building_);
  if (record.kind() != RecordKind::kOpen) {
    if (record.kind() == RecordKind::kPart) return false;
    stamp_ = header.stamp;
  } else {
    building_.kind = LogEntry::Kind::kOpen;
    building_.open = record.open_payload();
    stamp_ = std::min(stamp_, header.stamp);
  }
  building_.end = record.end();
  building_.generation = header.generation;
  building_.stamp = header.stamp;
  building_.time_ns = header.time_ns;
  whole_ = record.end();
  generation_ = header.generation;
  TMH_ASSERT(building_.records != 0 && building_.lsn < building_.end);
  *entry = std::move(building_);
  building_ = {};
  return true;
}

// At an end that may be one because a writer is at it.
bool LogWalk::resume(Errc error) {
  TMH_ASSERT(resumes_ <= kResumesMax);
  const bool in_doubt =
      error == Errc::kLogDamaged || error == Errc::kLogMissing || (error == Errc::kOk && end_.torn);
  if (!in_doubt || stopped_at_ == whole_ || resumes_ == kResumesMax) return false;
  ++resumes_;
  stopped_at_ = whole_;
  nanosleep(&kSecondLook, nullptr);
  const CheckpointSlots slots = read_checkpoint(folder_, control_);
  if (slots.current >= 0) {
    const CheckpointV1 &now = slots.slot[slots.current].content;
    if (now.lsn > whole_ && error != Errc::kOk && now.sequence > from_.sequence) {
      // What we were about to read is not needed any more, and may be gone.
      if (end_.skipped_to == 0) end_.skipped_from = whole_;
      end_.skipped_to = now.lsn;
      start(now);
      return true;
    }
  }
  CheckpointV1 here = from_;
  here.lsn = whole_;
  here.durable_lsn = std::max(whole_, generation_ == from_.generation ? from_.durable_lsn : 0);
  here.generation = generation_;
  here.stamp = stamp_;
  start(here);
  return true;
}

CheckpointV1 start_before(const std::string &folder, const std::string &archive,
                          const CheckpointV1 &checkpoint, Lsn lsn) {
  LogSource source(folder, archive, identity(checkpoint));
  check(source.open());
  CheckpointV1 from;
  const Errc error = storage::find_start(&source, checkpoint, lsn, &from);
  if (error == Errc::kBadArgument) refuse(error, platform::failure_detail());
  check(error);
  return from;
}

}  // namespace tmh::tools
