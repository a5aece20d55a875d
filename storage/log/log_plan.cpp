// storage/log/log_plan.cpp -- the first reading of the log: what counts, up to where.
#include "storage/log/log_plan.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "platform/assert.h"
#include "platform/disk.h"
#include "platform/failure.h"
#include "platform/try.h"
#include "storage/log/log_record.h"

namespace tmh::storage {

using platform::DiskFile;
using platform::fail;

namespace {

// Notes what the data files must have for the items of a record.
class Needs final : public Redo {
 public:
  Needs(const ControlFile &control, DataFiles *files) noexcept
      : control_(control), files_(*files) {}
  bool page_difference(const PageDelta &difference) override {
    return files_.note(difference.page);
  }
  bool segment_made(const SegmentMadeV2 &made) override {
    return is_used(control_.segments[made.segment]);
  }
  bool segment_grown(const SegmentGrownV2 &grown) override {
    return files_.note_size(grown.segment, grown.size_bytes);
  }

 private:
  const ControlFile &control_;
  DataFiles &files_;
};

}  // namespace

Errc LogPlanner::make(LogReader::Depth depth, const std::function<void(Lsn)> &checked) {
  TMH_ASSERT(source_.is_open() && plan_.spans.empty() && checked != nullptr);
  Lsn held = 0;
  TMH_TRY(find_held_end(&held));
  if (point_.until_lsn < held)
    return refuse_early("until LSN " + std::to_string(point_.until_lsn) +
                        ": the data files hold everything up to LSN " + std::to_string(held));
  TMH_TRY(check(depth, checked));
  if (plan_.is_cut && plan_.end < from_.durable_lsn)
    return refuse_early("the point in time ends at LSN " + std::to_string(plan_.end) +
                        ", and the data files may hold commits up to LSN " +
                        std::to_string(from_.durable_lsn));
  if (plan_.is_cut && plan_.is_held)
    return refuse_early(
        "the point in time ends at LSN " + std::to_string(plan_.end) + ", and " + source_.folder() +
        " was not closed: its data files may hold all of its log; restore a backup");
  return Errc::kOk;
}

Errc LogPlanner::refuse_early(const std::string &why) noexcept {
  plan_.is_too_early = true;
  return fail(Errc::kBadArgument, why);
}

// *end: behind the last transaction in front of the checkpoint. A recovery stores its checkpoint
// in the block behind that transaction. Several recoveries with no transaction between them store
// theirs one block behind the other, each at an opening record, which says where the one before
// ended.
Errc LogPlanner::find_held_end(Lsn *end) {
  const bool is_recoverys = from_.previous_generation != 0 &&
                            open_position(from_.previous_end, file_bytes()) == from_.lsn;
  *end = is_recoverys ? from_.previous_end : from_.lsn;
  for (Lsn earlier = *end; point_.until_lsn < *end; *end = earlier) {
    TMH_TRY(look_for_opening(*end, &earlier));
    if (earlier == *end) break;
  }
  return Errc::kOk;
}

// Where the generation before ended, if the record that ends at `end` is one that opens a
// generation.
Errc LogPlanner::look_for_opening(Lsn end, Lsn *previous_end) {
  const Lsn at = end - kOpenRecordBytes;
  if (end < kFirstLsn + kOpenRecordBytes || file_of(at, file_bytes()) != file_of(end, file_bytes()))
    return Errc::kOk;
  std::array<std::byte, kOpenRecordBytes> bytes{};
  std::size_t got = 0;
  TMH_TRY(source_.read(at, bytes.data(), bytes.size(), &got));
  RecordView record{{}, bytes.data()};
  std::memcpy(&record.header, bytes.data(), sizeof record.header);
  const bool is_opening = got == bytes.size() && is_header_sane(record.header, at, bytes.size()) &&
                          record.kind() == RecordKind::kOpen &&
                          is_crc_right(record.header, bytes.data());
  if (is_opening && open_position(record.open_payload().previous_end, file_bytes()) == at)
    *previous_end = record.open_payload().previous_end;
  return Errc::kOk;
}

// All of the log, also behind a point in time, because the new generation is to be above every one
// in it.
Errc LogPlanner::check(LogReader::Depth depth, const std::function<void(Lsn)> &checked) {
  LogReader reader(&source_, from_, depth);
  plan_.spans.push_back({from_.lsn, from_.lsn});
  plan_.end = from_.lsn;
  plan_.generation = from_.generation;
  RecordView record;
  for (;;) {
    const Errc error = reader.next(&record);
    if (error != Errc::kOk) {  // behind the point in time that was asked for it does not matter
      if (error != Errc::kLogDamaged && error != Errc::kLogMissing) return error;
      if (!plan_.is_cut && (point_.until_lsn == ~0ull || point_.until_lsn > reader.position()))
        return error;
      plan_.is_cut = true;
      break;
    }
    if (record.at == nullptr) break;
    TMH_TRY(check_record(reader, record));
    checked(record.end());
  }
  plan_.generation_max = reader.generation_max();
  plan_.was_read = reader.read_any();
  if (!plan_.is_cut) {
    plan_.torn = reader.tail_is_torn();
    plan_.torn_at = plan_.torn ? reader.position() : 0;
    plan_.end = reader.end();
    plan_.generation = reader.generation();
  }
  return Errc::kOk;
}

Errc LogPlanner::check_record(const LogReader &reader, const RecordView &record) {
  const bool first = !plan_.any && !plan_.is_cut;
  if (first && from_.is_clean != 0 && record.header.generation == from_.generation)
    return fail(Errc::kLogDamaged,
                log_file_path(source_.folder(), file_of(record.header.lsn, file_bytes())) +
                    ", LSN " + std::to_string(record.header.lsn) +
                    ": a record follows, but the checkpoint says that the log was closed there");
  if (record.kind() == RecordKind::kOpen) open_generation(record);
  if (record.ends_transaction() && (plan_.is_cut || is_beyond(record.header)))
    return note_cut(record);
  if (plan_.is_cut) return Errc::kOk;
  Needs needs(data_.control, &data_.files);
  Item item;
  if (!redo_items(record, needs, &item)) return no_place_for(record, item);
  if (record.kind() == RecordKind::kPart || record.kind() == RecordKind::kFileEnd) return Errc::kOk;
  plan_.any = true;
  plan_.spans.back().to = record.end();
  plan_.end = record.end();
  plan_.generation = reader.generation();
  return Errc::kOk;
}

// Behind the point. Who commits writes to the folder's own log: what that does not have is in no
// data file here.
Errc LogPlanner::note_cut(const RecordView &record) {
  TMH_ASSERT(record.ends_transaction());
  const bool is_first = !plan_.is_cut;
  plan_.is_cut = true;
  const std::string own_path =
      log_file_path(source_.folder(), file_of(record.header.lsn, file_bytes()));
  if (!is_first || !data_.was_in_use || ::access(own_path.c_str(), F_OK) != 0) return Errc::kOk;
  DiskFile own;
  TMH_TRY(own.open(own_path, DiskFile::Mode::kRead, platform::FileRole::kOwnLog));
  RecordHeaderV1 there{};
  std::size_t got = 0;
  TMH_TRY(own.read(record.header.lsn % file_bytes(), &there, sizeof there, &got));
  plan_.is_held = got == sizeof there && std::memcmp(&there, &record.header, sizeof there) == 0;
  return Errc::kOk;
}

Errc LogPlanner::no_place_for(const RecordView &record, const Item &item) const {
  const std::uint32_t segment = item_segment(item);
  const std::string at = "LSN " + std::to_string(record.header.lsn) + ": ";
  if (data_.may_grow && segment < kSegmentsMax && !is_used(data_.control.segments[segment]))
    return fail(Errc::kBadArgument,
                at + "segment " + std::to_string(segment) +
                    " was made after this backup, which can be brought to earlier moments only");
  return fail(Errc::kLogDamaged, at + item_text(item) + ": not in this domain");
}

// What lies behind the end that the record names was undone by an earlier recovery of a point in
// time, or was a torn tail.
void LogPlanner::open_generation(const RecordView &record) {
  TMH_ASSERT(record.kind() == RecordKind::kOpen && !plan_.spans.empty());
  const Lsn previous_end = record.open_payload().previous_end;
  LogSpan &last = plan_.spans.back();
  if (record.header.lsn == last.from) return;       // the first record there is
  if (plan_.is_cut && plan_.end >= previous_end) {  // the cut was in what was undone
    plan_.is_cut = false;
    plan_.is_held = false;
  }
  last.to = std::max(last.from, std::min(last.to, previous_end));
  if (!plan_.is_cut) plan_.spans.push_back({record.header.lsn, record.header.lsn});
}

}  // namespace tmh::storage
