// storage/log/recovery.cpp -- check the log, store its differences, mark the checkpoint.
#include "storage/log/recovery.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <thread>
#include <vector>

#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/try.h"
#include "storage/data_files.h"
#include "storage/heap/heap_layout.h"
#include "storage/log/log_plan.h"
#include "storage/log/replay.h"

namespace tmh::storage {

using platform::DiskFile;
using platform::fail;

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kQuietTime = std::chrono::seconds(2);            // before the first progress report
constexpr auto kProgressStep = std::chrono::milliseconds(100);  // between two

std::uint64_t us_since(Clock::time_point start) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start).count());
}

std::uint64_t wall_clock_ns() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

// The log is read twice; a byte counts half each time.
class Progress {
 public:
  explicit Progress(const RecoveryOptions &options) : options_(options) {}
  void expect(std::uint64_t log_bytes) noexcept { total_ = std::max<std::uint64_t>(log_bytes, 1); }
  void checked(std::uint64_t log_bytes) { tick(log_bytes / 2); }
  void replayed(std::uint64_t log_bytes) { tick(total_ / 2 + log_bytes / 2); }

 private:
  void tick(std::uint64_t done) {
    if (!options_.progress) return;
    const auto now = Clock::now();
    if (now < next_) return;
    next_ = now + kProgressStep;
    options_.progress(std::min(done, total_), total_);
  }
  const RecoveryOptions &options_;
  Clock::time_point next_ = Clock::now() + kQuietTime;
  std::uint64_t total_ = 1;
};

class Recovery {
 public:
  Recovery(const std::string &folder, const ControlFile &control, CheckpointFile *checkpoint,
           const RecoveryOptions &options, RecoveryReport *report)
      : folder_(folder),
        options_(options),
        checkpoint_(checkpoint),
        from_(checkpoint->current()),
        log_{{from_.domain_id[0], from_.domain_id[1]}, from_.log_file_bytes},
        source_(folder, options.log_folder, log_),
        control_(control),
        files_(folder, control, options.grow != nullptr),
        progress_(options),
        report_(report) {}

  Errc run() {
    const auto start = Clock::now();
    *report_ = {};
    report_->start_lsn = from_.lsn;
    report_->last_stamp = from_.stamp;
    TMH_TRY(source_.open());
    TMH_TRY(check());
    report_->read_us = us_since(start);
    TMH_TRY(store());
    TMH_TRY(mark());
    report_->total_us = us_since(start);
    return Errc::kOk;
  }

 private:
  [[nodiscard]] Errc check();
  [[nodiscard]] Errc announce();
  [[nodiscard]] Errc store();
  [[nodiscard]] Errc grow_segments() const;
  [[nodiscard]] Errc grow_heaps() const;
  [[nodiscard]] Errc mark();
  [[nodiscard]] Errc mend_file(Lsn next_lsn);
  [[nodiscard]] Errc make_whole(const std::string &path, std::uint64_t index) const;

  const std::string &folder_;
  const RecoveryOptions &options_;
  CheckpointFile *checkpoint_;
  const CheckpointV1 from_;
  const LogIdentity log_;
  LogSource source_;
  const ControlFile &control_;
  DataFiles files_;
  Progress progress_;
  LogPlan plan_;
  RecoveryReport *report_;
};

// First reading.
Errc Recovery::check() {
  const bool brief = from_.is_clean != 0 && checkpoint_->both_slots_valid();
  if (!source_.indexes().empty())
    progress_.expect(std::max((source_.indexes().back() + 1) * log_.file_bytes, from_.lsn) -
                     from_.lsn);
  const LogPoint point{options_.until_lsn, options_.until_time_ns};
  LogPlanner planner(source_, from_, point,
                     {control_, files_, options_.grow != nullptr, options_.was_in_use}, &plan_);
  TMH_TRY(planner.make(brief ? LogReader::Depth::kBrief : LogReader::Depth::kWhole,
                       [this](Lsn end) { progress_.checked(end - from_.lsn); }));
  report_->was_clean = from_.is_clean != 0 && !plan_.was_read;
  progress_.expect(plan_.end - from_.lsn);
  return Errc::kOk;
}

// A recoverer that is cut from here on leaves data files that hold some of what comes up to the
// plan's end. So no later recovery may end before that: of an earlier moment, or without the
// archived files. Otherwise the end is that of all there is, and each recovery's.
Errc Recovery::announce() {
  if ((!plan_.is_cut && options_.log_folder.empty()) || plan_.end <= from_.durable_lsn)
    return Errc::kOk;
  CheckpointV1 next = from_;
  next.durable_lsn = plan_.end;
  next.is_clean = 0;
  return checkpoint_->store(next);
}

// Second reading.
Errc Recovery::store() {
  const auto start = Clock::now();
  std::erase_if(plan_.spans, [](const LogSpan &span) { return span.from == span.to; });
  TMH_TRY(grow_segments());
  TMH_TRY(files_.open());
  TMH_TRY(announce());
  const unsigned cores = std::max(std::thread::hardware_concurrency(), 1u);
  ReplayCounts counts;
  const Errc error = replay(
      &source_, plan_.spans, files_, options_.threads != 0 ? options_.threads : cores,
      [this](std::uint64_t done) { progress_.replayed(done); }, &counts);
  report_->transactions = counts.transactions;
  report_->records = counts.records;
  report_->log_bytes = counts.log_bytes;
  report_->pages = counts.pages;
  report_->bytes_applied = counts.bytes_applied;
  if (counts.transactions != 0) {
    report_->last_stamp = counts.last_stamp;
    report_->last_time_ns = counts.last_time_ns;
  }
  if (error != Errc::kOk) return error;
  TMH_TRY(grow_heaps());
  report_->apply_us = us_since(start);
  const auto stored = Clock::now();
  TMH_TRY(files_.sync());
  report_->sync_us = us_since(stored);
  return Errc::kOk;
}

Errc Recovery::grow_segments() const {
  for (std::uint32_t i = 0; i < kSegmentsMax; ++i) {
    const std::uint64_t bytes = files_.bytes_to_grow_to(i);
    if (bytes == 0) continue;
    TMH_ASSERT(options_.grow != nullptr && bytes % kPageBytes == 0);  // else note_size() refuses
    TMH_TRY(options_.grow(i, bytes));
  }
  return Errc::kOk;
}

// A heap knows how far it reaches, also where no instance has stored to its last pages.
Errc Recovery::grow_heaps() const {
  for (std::uint32_t i = 0; options_.grow != nullptr && i < kSegmentsMax; ++i) {
    const SegmentRecordV1 &record = control_.segments[i];
    if (!is_used(record) || record.layout != static_cast<std::uint32_t>(Layout::kHeap)) continue;
    DiskFile file;
    MapHeaderV1 map{};
    std::size_t got = 0;
    TMH_TRY(file.open(data_file_path(folder_, record), DiskFile::Mode::kRead,
                      platform::FileRole::kSegment));
    const std::uint64_t at = record.offset_bytes + std::uint64_t{raw(kMapPage)} * kPageBytes;
    TMH_TRY(file.read(at, &map, sizeof map, &got));
    const std::uint64_t bytes = std::uint64_t{map.top_page} * kPageBytes;
    if (got != sizeof map || map.magic != kMapMagic || bytes <= record.size_bytes ||
        bytes > record.max_bytes)
      continue;
    TMH_TRY(options_.grow(i, bytes));
  }
  return Errc::kOk;
}

// The data files hold everything up to the end: from now on recovery starts behind it.
Errc Recovery::mark() {
  TMH_ASSERT(plan_.end >= from_.lsn && plan_.generation <= plan_.generation_max);
  report_->end_lsn = plan_.end;
  report_->tail_was_torn = plan_.torn;
  report_->torn_at = plan_.torn_at;
  report_->generation = std::max(plan_.generation_max, from_.generation) + 1;
  report_->next_lsn = open_position(plan_.end, log_.file_bytes);
  report_->open = {plan_.end, plan_.generation, 0};
  // Nothing there, and the checkpoint is a recovery's: its opening record was never written, and
  // what it was to say still holds.
  if (plan_.end == from_.lsn && !plan_.any && from_.previous_generation != 0 &&
      open_position(from_.previous_end, log_.file_bytes) == from_.lsn)
    report_->open = {from_.previous_end, from_.previous_generation, 0};
  TMH_TRY(mend_file(report_->next_lsn));
  CheckpointV1 next = from_;
  next.generation = report_->generation;
  next.lsn = next.durable_lsn = report_->next_lsn;
  next.stamp = report_->last_stamp;
  next.time_ns = wall_clock_ns();
  next.is_clean = 0;
  next.previous_end = report_->open.previous_end;
  next.previous_generation = report_->open.previous_generation;
  TMH_TRY(checkpoint_->store(next));
  // After a point in time, falling back to the older slot would bring back what was undone: both
  // slots say the same.
  return plan_.is_cut ? checkpoint_->store(next) : Errc::kOk;
}

Errc Recovery::make_whole(const std::string &path, std::uint64_t index) const {
  alignas(platform::kDiskBlockBytes) const LogFileHeaderV1 header =
      make_log_file_header(log_, index);
  DiskFile file;
  TMH_TRY(file.open(path, DiskFile::Mode::kReadWrite));
  TMH_TRY(file.truncate(log_.file_bytes));
  TMH_TRY(file.write_durable(0, &header, sizeof header));
  return file.sync();
}

// Writers take a log file's name for a promise that it is whole. The file of next_lsn, which will
// be written next, is made so: where it was replayed from it gets back what it lacks, else it holds
// nothing and goes. (Files behind it the writer checks itself.)
Errc Recovery::mend_file(Lsn next_lsn) {
  const std::uint64_t index = file_of(next_lsn, log_.file_bytes);
  const bool in_use = file_of(plan_.end - 1, log_.file_bytes) == index &&
                      plan_.end % log_.file_bytes != kLogBlockBytes;
  const LogSource::File *file = nullptr;
  TMH_TRY(source_.file_at(next_lsn, &file));
  if (!file->exists) return Errc::kOk;
  const std::string path = log_file_path(folder_, index);
  if (file->path != path) {
    if (!in_use) return Errc::kOk;
    // Of an archive that was copied in part, this may be a part of a file.
    TMH_TRY(copy_log_file(options_.log_folder, folder_, index));
  }
  const Errc found = verify_log_file(path, log_, index);
  if (found != Errc::kShortFile && found != Errc::kCorrupt) return found;
  if (in_use) return make_whole(path, index);
  const Errc error = platform::disk_unlink(path);
  return error == Errc::kOk ? platform::sync_folder(folder_) : error;
}

}  // namespace

Errc recover(const std::string &folder, const ControlFile &control, CheckpointFile *checkpoint,
             const RecoveryOptions &options, RecoveryReport *report) noexcept {
  TMH_ASSERT(checkpoint != nullptr && report != nullptr);
  try {
    return Recovery(folder, control, checkpoint, options, report).run();
  } catch (const std::bad_alloc &) {
    return fail(Errc::kOutOfMemory, "recovering " + folder);
  } catch (const std::exception &error) {  // a progress function that throws
    return fail(Errc::kBadArgument, std::string("recovering ") + folder + ": " + error.what());
  }
}

}  // namespace tmh::storage
