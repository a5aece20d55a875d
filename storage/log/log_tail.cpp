// storage/log/log_tail.cpp -- see log_tail.h.
#include "storage/log/log_tail.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/try.h"

namespace tmh::storage {

using platform::fail;
using Kind = TailEntry::Kind;

namespace {
// Read before they are given, where one look at shared memory is for all of them.
constexpr std::size_t kBatch = 64;
// A file that is moved to the archive while both folders are looked at is in neither once.
constexpr unsigned kStopsMax = 3;
}  // namespace

RecordView TailEntry::record(std::size_t index) const noexcept {
  TMH_ASSERT(index < records());
  RecordView view;
  view.at = bytes_.data() + starts_[index];
  std::memcpy(&view.header, view.at, sizeof view.header);
  return view;
}

LogTail::LogTail(std::string folder, std::string archive_folder, const LogIdentity &log,
                 const TailStart &start)
    : folder_(std::move(folder)),
      archive_(std::move(archive_folder)),
      log_(log),
      start_(start),
      bound_of_(folder_, log) {}

void LogTail::wait(std::uint64_t timeout_ns) noexcept { bound_of_.wait(timeout_ns); }

Errc LogTail::next(TailEntry *entry) noexcept try {
  TMH_ASSERT(entry != nullptr);
  *entry = {};
  if (reader_ == nullptr) TMH_TRY(start());
  for (bool has_looked = false;;) {
    if (!ready_.empty()) {
      TMH_TRY(give(entry));
      if (entry->kind != Kind::kNothing || !ready_.empty()) return Errc::kOk;
    }
    if (bound_.generation > generation_ && sought_at_ != key_of(bound_)) {
      TMH_TRY(find_successor());
    } else if (is_at_successor()) {
      TMH_TRY(follow_successor());
    } else if (may_read()) {
      TMH_TRY(read_entries());
    } else if (!has_looked) {
      has_looked = true;
      TMH_TRY(look());
    } else if (bound_.source == Source::kShared && bound_.generation > generation_ && !successor_) {
      // The records that would say how this generation ended are gone.
      TMH_TRY(skip_to_checkpoint());
    } else {
      return check_start();
    }
  }
} catch (const std::bad_alloc &) {
  return platform::fail_for_memory("reading the log");
}

// The first entry of ready_, if it is durable.
Errc LogTail::give(TailEntry *entry) {
  TMH_ASSERT(!ready_.empty() && durable_count_ <= ready_.size());
  if (durable_count_ == 0) {
    const bool is_closed = bound_.source == Source::kClosed;
    if (is_closed && bound_of_.is_still_closed()) {
      durable_count_ = ready_.size();
    } else {
      if (!is_durable(ready_.front())) TMH_TRY(look());
      if (bound_.generation > generation_ && sought_at_ != key_of(bound_))
        TMH_TRY(find_successor());
      // look() may have dropped what was undone.
      for (const TailEntry &one : ready_) {
        if (!is_durable(one)) break;
        ++durable_count_;
      }
    }
  }
  if (durable_count_ == 0) return Errc::kOk;
  --durable_count_;
  *entry = std::move(ready_.front());
  ready_.pop_front();
  if (entry->kind == Kind::kTransaction) given_end_ = entry->end;
  return Errc::kOk;
}

bool LogTail::is_durable(const TailEntry &entry) const noexcept {
  if (entry.kind == Kind::kGap || entry.kind == Kind::kUndone) return true;
  if (bound_.source == Source::kClosed) return false;  // give() asks whether it is still so
  if (entry.generation == generation_ && successor_)
    return entry.end <= successor_->says.previous_end;
  return entry.generation == bound_.generation && entry.end <= bound_.lsn;
}

// -- where reading starts ----------------------------------------------------------------------

Errc LogTail::start() {
  ready_.clear();
  durable_count_ = 0;
  TMH_TRY(bound_of_.look(&bound_));
  CheckpointV1 slots[2];
  std::size_t count = 0;
  TMH_TRY(bound_of_.read_checkpoints(slots, &count));
  CheckpointV1 from = slots[0];
  is_skipping_ = start_.kind == TailStart::Kind::kLsn || start_.kind == TailStart::Kind::kStamp;
  switch (start_.kind) {
    case TailStart::Kind::kCheckpoint:
      return read_from(from);
    case TailStart::Kind::kLsn:
      return start_.value < from.lsn ? start_at(from, start_.value) : read_from(from);
    case TailStart::Kind::kStamp:
      return start_.value < from.stamp ? start_at(from, from.lsn) : read_from(from);
    case TailStart::Kind::kResume:
      from.lsn = from.durable_lsn = given_end_ = start_.value;
      from.generation = start_.generation;
      from.stamp = 0;
      from.is_clean = 1;
      return read_from(from);
  }
  return Errc::kOk;
}

// In front of the checkpoint, as far as there are files.
Errc LogTail::start_at(const CheckpointV1 &checkpoint, Lsn lsn) {
  TMH_ASSERT(start_.kind == TailStart::Kind::kLsn || start_.kind == TailStart::Kind::kStamp);
  LogSource source(folder_, archive_, log_);
  TMH_TRY(source.open());
  if (bound_.source != Source::kClosed) source.read_up_to(bound_.lsn);
  CheckpointV1 from;
  TMH_TRY(find_start(&source, checkpoint, lsn, &from));
  const bool is_stamp = start_.kind == TailStart::Kind::kStamp;
  const bool is_asked =
      is_stamp ? from.stamp > start_.value : start_.value != 0 && from.lsn > start_.value;
  if (is_asked && file_of(from.lsn, log_.file_bytes) != 0) {
    TailEntry gap;
    gap.kind = Kind::kGap;
    gap.lsn = is_stamp ? 0 : start_.value;
    gap.end = from.lsn;
    gap.generation = from.generation;
    ready_.push_back(std::move(gap));
  }
  return read_from(from);
}

// After a failure everything is as it was.
Errc LogTail::read_from(const CheckpointV1 &from) {
  auto source = std::make_unique<LogSource>(folder_, archive_, log_);
  TMH_TRY(source->open());
  source_ = std::move(source);
  building_ = {};
  from_ = from;
  whole_ = from.lsn;
  stamp_ = from.stamp;
  enter_generation(from.generation);
  synced_file_ = ~0ull;
  ended_at_.reset();
  if (bound_.source != Source::kClosed) {
    source_->read_up_to(bound_.lsn);
    from_.durable_lsn = successor_                         ? successor_->says.previous_end
                        : bound_.generation == generation_ ? bound_.lsn
                                                           : whole_;
  }
  reader_ = std::make_unique<LogReader>(source_.get(), from_, LogReader::Depth::kWhole);
  return Errc::kOk;
}

void LogTail::enter_generation(std::uint32_t generation) noexcept {
  if (std::exchange(generation_, generation) == generation) return;
  successor_.reset();
  sought_at_.reset();
}

// From the last whole entry, with nothing remembered of the files.
Errc LogTail::read_on() {
  TMH_ASSERT(reader_ != nullptr && whole_ >= from_.lsn);
  CheckpointV1 here = from_;
  here.lsn = whole_;
  if (generation_ != from_.generation || here.durable_lsn < whole_) here.durable_lsn = whole_;
  here.generation = generation_;
  here.stamp = stamp_;
  here.is_clean = 1;
  return read_from(here);
}

// -- how far it is durable, and which generation comes next ------------------------------------

// What a search for the successor depends on.
DurableBound LogTail::key_of(DurableBound bound) noexcept {
  bound.lsn = 0;
  return bound;
}

Errc LogTail::look() {
  DurableBound now;
  TMH_TRY(bound_of_.look(&now));
  if (now == bound_) return Errc::kOk;
  const bool is_more_of_it = now.source == Source::kShared && bound_.source == Source::kShared &&
                             now.generation == bound_.generation && now.lsn >= bound_.lsn;
  durable_count_ = 0;
  const DurableBound before = std::exchange(bound_, now);
  if (is_more_of_it) {
    source_->read_up_to(now.lsn);
    return Errc::kOk;
  }
  const Errc error = read_on();
  if (error != Errc::kOk) bound_ = before;
  return error;
}

// A recovery has begun a later generation: where did this one end? What a recoverer stored as a
// checkpoint says it, where this generation, or an earlier one, is the last in front of it: each
// generation in between is undone by it. Else the first of the records that open one.
Errc LogTail::find_successor() {
  successor_.reset();
  CheckpointV1 slots[2];
  std::size_t count = 0;
  TMH_TRY(bound_of_.read_checkpoints(slots, &count));
  for (std::size_t i = 0; i < count; ++i) {
    const CheckpointV1 &slot = slots[i];
    const bool is_of_recovery = slot.previous_generation != 0 &&
                                open_position(slot.previous_end, log_.file_bytes) == slot.lsn;
    if (!is_of_recovery || slot.generation <= generation_ ||
        slot.previous_generation > generation_ ||
        (successor_ && successor_->generation > slot.generation))
      continue;
    successor_ = Opening{
        slot.lsn, slot.generation, slot.stamp, {slot.previous_end, slot.previous_generation, 0}};
  }
  if (!successor_) TMH_TRY(find_successor_in_log());
  sought_at_ = key_of(bound_);
  if (successor_) undo_behind(successor_->says.previous_end, successor_->generation);
  return Errc::kOk;
}

// Each of them undid what lies behind its previous_end, also one that was undone itself: the
// smallest one says where the history of this generation ends.
Errc LogTail::find_successor_in_log() {
  if (openings_at_ != key_of(bound_)) {
    LogSource source(folder_, archive_, log_);
    TMH_TRY(source.open());
    if (bound_.source != Source::kClosed) source.read_up_to(bound_.lsn);
    TMH_TRY(find_openings(&source, generation_, &openings_));
    openings_at_ = key_of(bound_);
  }
  for (const Opening &one : openings_) {
    if (one.generation <= generation_) continue;
    const bool is_earlier = !successor_ || one.says.previous_end < successor_->says.previous_end;
    const bool is_newer = successor_ && one.says.previous_end == successor_->says.previous_end &&
                          one.generation > successor_->generation;
    if (is_earlier || is_newer) successor_ = one;
  }
  return Errc::kOk;
}

bool LogTail::is_at_successor() const noexcept {
  return successor_ && (whole_ >= successor_->says.previous_end ||
                        reader_->position() >= successor_->says.previous_end);
}

Errc LogTail::follow_successor() {
  TMH_ASSERT(successor_ && successor_->generation > generation_);
  CheckpointV1 from = from_;
  from.lsn = from.durable_lsn = successor_->lsn;
  from.generation = successor_->generation;
  from.stamp = successor_->stamp;
  from.is_clean = 1;
  return read_from(from);
}

void LogTail::undo_behind(Lsn end, std::uint32_t generation) {
  std::erase_if(ready_, [end](const TailEntry &one) {
    return (one.kind == Kind::kTransaction || one.kind == Kind::kOpening) && one.end > end;
  });
  durable_count_ = 0;
  if (given_end_ <= end) return;
  given_end_ = end;
  TailEntry undone;
  undone.kind = Kind::kUndone;
  undone.lsn = end;
  undone.generation = generation;
  ready_.push_back(std::move(undone));
}

// -- reading -----------------------------------------------------------------------------------

// Is there a record that counts in front of the bound? Where no participant writes, the reader says
// so.
bool LogTail::may_read() const noexcept {
  if (bound_.source == Source::kClosed) return ended_at_ != bound_;
  if (successor_) return reader_->position() < successor_->says.previous_end;
  return bound_.generation == generation_ && reader_->position() < bound_.lsn;
}

Errc LogTail::read_entries() {
  const bool is_closed = bound_.source == Source::kClosed;
  const std::size_t wanted = is_closed ? kBatch : 1;
  while (ready_.size() < wanted && !is_at_successor() && may_read()) {
    const Lsn at = reader_->position();
    if (is_closed && synced_file_ != file_of(at, log_.file_bytes)) {
      // A writer that died may have left what is in the page cache only.
      synced_file_ = file_of(at, log_.file_bytes);
      source_->sync_file_at(at);
    }
    RecordView record;
    const Errc error = reader_->next(&record);
    if (error != Errc::kOk || record.at == nullptr) return find_out(error);
    take(record);
  }
  return Errc::kOk;
}

void LogTail::take(const RecordView &record) {
  TMH_ASSERT(record.at != nullptr);
  const RecordHeaderV1 &header = record.header;
  if (record.kind() == RecordKind::kFileEnd) {
    if (building_.records() == 0)
      whole_ = std::max(whole_, reader_->end());  // between transactions
    return;
  }
  if (record.kind() == RecordKind::kOpen) building_ = {};
  if (building_.records() == 0) building_.lsn = header.lsn;
  building_.starts_.push_back(building_.bytes_.size());
  building_.bytes_.insert(building_.bytes_.end(), record.at, record.at + header.length);
  building_.bytes += header.length;
  if (record.kind() == RecordKind::kPart) return;
  if (record.kind() == RecordKind::kOpen) {
    building_.kind = Kind::kOpening;
    building_.opening = record.open_payload();
    stamp_ = std::min(stamp_, header.stamp);
  } else {
    building_.kind = Kind::kTransaction;
    stamp_ = header.stamp;
  }
  building_.end = whole_ = record.end();
  building_.generation = header.generation;
  building_.stamp = header.stamp;
  building_.time_ns = header.time_ns;
  enter_generation(header.generation);
  put(std::exchange(building_, {}));
}

void LogTail::put(TailEntry &&entry) {
  TMH_ASSERT(entry.kind == Kind::kOpening || entry.kind == Kind::kTransaction);
  TMH_ASSERT(entry.records() != 0 && entry.lsn < entry.end);
  if (entry.kind == Kind::kOpening) undo_behind(entry.opening.previous_end, entry.generation);
  if (!is_in_front_of_start(entry)) ready_.push_back(std::move(entry));
}

bool LogTail::is_in_front_of_start(const TailEntry &entry) noexcept {
  if (!is_skipping_) return false;
  const bool is_lsn = start_.kind == TailStart::Kind::kLsn;
  const bool is_opening = entry.kind == Kind::kOpening;
  const bool is_in_front = is_lsn       ? entry.lsn < start_.value
                           : is_opening ? entry.stamp < start_.value
                                        : entry.stamp <= start_.value;
  if (!is_in_front && !is_opening) is_skipping_ = false;
  return is_in_front;
}

// The reader has stopped: at the end, where no participant writes; else in front of the bound,
// where a record must be.
Errc LogTail::find_out(Errc error) {
  const std::string detail = error == Errc::kOk ? std::string() : platform::failure_detail();
  const DurableBound before = bound_;
  TMH_TRY(look());
  const bool is_changed = bound_.source != before.source || bound_.generation != before.generation;
  if (is_changed) return Errc::kOk;  // look() has begun anew
  const bool is_closed = bound_.source == Source::kClosed;
  if (is_closed && error == Errc::kOk && bound_.generation <= generation_) {
    ended_at_ = bound_;
    building_ = {};
    return Errc::kOk;
  }
  if (stopped_at_ != whole_) stops_ = 0;
  stopped_at_ = whole_;
  if (++stops_ < kStopsMax) return read_on();
  CheckpointV1 slots[2];
  std::size_t count = 0;
  TMH_TRY(bound_of_.read_checkpoints(slots, &count));
  if (slots[0].lsn > whole_) return skip_to_checkpoint();
  if (is_closed && error == Errc::kOk) {
    ended_at_ = bound_;
    return Errc::kOk;
  }
  TMH_TRY(read_on());  // the next call looks again
  if (error != Errc::kOk) return fail(error, detail);
  return fail(Errc::kLogDamaged, log_file_path(folder_, file_of(whole_, log_.file_bytes)) +
                                     ": no valid record behind LSN " + std::to_string(whole_) +
                                     ", but the log is durable up to LSN " +
                                     std::to_string(bound_.lsn));
}

// Recovery needs nothing in front of the checkpoint, and it is gone: reading goes on at the oldest
// record that is left of its generation, else at the checkpoint.
Errc LogTail::skip_to_checkpoint() {
  CheckpointV1 slots[2];
  std::size_t count = 0;
  TMH_TRY(bound_of_.read_checkpoints(slots, &count));
  CheckpointV1 to = slots[0];
  if (to.lsn > whole_) {
    LogSource source(folder_, archive_, log_);
    TMH_TRY(source.open());
    if (bound_.source != Source::kClosed) source.read_up_to(bound_.lsn);
    CheckpointV1 oldest{};
    if (find_start(&source, to, to.lsn, &oldest) == Errc::kOk && oldest.generation == generation_ &&
        oldest.lsn > whole_ && oldest.lsn < to.lsn)
      to = oldest;
  }
  TailEntry entry;
  entry.may_undo = to.generation != generation_;
  entry.generation = to.generation;
  const bool is_back = to.lsn < given_end_;
  if (to.lsn > whole_) {
    entry.kind = Kind::kGap;
    entry.lsn = whole_;
    entry.end = to.lsn;
  } else {
    entry.kind = Kind::kUndone;
    entry.lsn = to.lsn;
    if (is_back) given_end_ = to.lsn;
  }
  const bool is_asked =
      !(is_skipping_ && start_.kind == TailStart::Kind::kLsn && start_.value >= to.lsn);
  if (is_asked && (entry.kind == Kind::kGap || is_back)) ready_.push_back(std::move(entry));
  durable_count_ = 0;
  return read_from(to);
}

// All that is durable has been read.
Errc LogTail::check_start() const {
  const bool is_known = bound_.source != Source::kCheckpoint && bound_.generation == generation_;
  const Lsn end = bound_.source == Source::kClosed ? whole_ : std::max(whole_, bound_.lsn);
  if (!is_skipping_ || start_.kind != TailStart::Kind::kLsn || !is_known || start_.value <= end)
    return Errc::kOk;
  if (start_.value <= reader_->position()) return Errc::kOk;
  return fail(Errc::kBadArgument, "LSN " + std::to_string(start_.value) +
                                      " lies behind the end of the log at LSN " +
                                      std::to_string(end));
}

}  // namespace tmh::storage
