// storage/log/backup_image.cpp -- reading a backup and its log, and mapping what comes of them.
#include "storage/log/backup_image.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "platform/assert.h"
#include "platform/disk.h"
#include "platform/failure.h"
#include "platform/files.h"
#include "platform/process.h"
#include "platform/try.h"
#include "storage/heap/heap_layout.h"
#include "storage/log/log_items.h"
#include "storage/log/log_reader.h"
#include "storage/moments_file.h"

namespace tmh::storage {

using platform::DiskFile;
using platform::fail;
using platform::fail_errno;

namespace {

constexpr int kPrivate = MAP_PRIVATE | MAP_NORESERVE;

std::string moment_text(const Moment &moment) {
  switch (moment.kind()) {
    case Moment::Kind::kName:
      return "'" + std::string(moment.name()) + "'";
    case Moment::Kind::kLsn:
      return "LSN " + std::to_string(moment.number());
    case Moment::Kind::kTime:
      return "time " + std::to_string(moment.number()) + " ns";
    default:
      return "commit " + std::to_string(moment.number());
  }
}

}  // namespace

BackupImage::~BackupImage() {
  for (const Segment &segment : segments_)
    if (segment.base != nullptr) munmap(segment.base, segment.reserved_bytes);
}

Errc BackupImage::open(const std::string &folder, const Moment &moment, const Options &options) {
  TMH_ASSERT(segments_.empty());
  folder_ = folder;
  options_ = options;
  segments_.resize(kSegmentsMax);
  TMH_TRY(read_control());
  TMH_TRY(read_checkpoint());
  LogPoint point;
  TMH_TRY(find_point(moment, &point));
  TMH_TRY(make_plan(moment, point));
  for (std::uint32_t number = 0; number < kSegmentsMax; ++number)
    if (is_used(control_->segments[number])) TMH_TRY(map(number));
  TMH_TRY(replay());
  TMH_TRY(check_reach(moment, point));
  TMH_TRY(grow_heaps());
  return protect();
}

// In memory sizes are settled as the next open would settle them in the file.
Errc BackupImage::read_control() {
  const std::string path = folder_ + "/tmh.control";
  if (!platform::has_entry(folder_)) return fail(Errc::kNotADomain, folder_ + ": no such folder");
  if (!platform::has_entry(path)) {
    TMH_TRY(refuse_remains(folder_));
    return fail(Errc::kNotADomain, folder_ + " holds no tmh.control");
  }
  std::string bytes, why;
  TMH_TRY(platform::read_file(path, 2 * kControlBytes, &bytes));
  Errc error = verify_control(bytes.data(), bytes.size(), &why);
  if (error != Errc::kOk) return fail(error, path + ": " + why);
  control_ = std::make_unique<ControlFile>();
  std::memcpy(control_.get(), bytes.data(), sizeof *control_);
  if (control_->header.durability == 0)
    return fail(Errc::kNotDurable, folder_ + " is volatile: it has no log");
  for (SegmentRecordV1 &record : control_->segments) {
    if (!is_used(record)) continue;
    DiskFile file;
    std::uint64_t file_bytes = 0;
    TMH_TRY(file.open(data_file_path(folder_, record), DiskFile::Mode::kRead,
                      platform::FileRole::kSegment));
    TMH_TRY(file.size(&file_bytes));
    error = settle_size(&record, file_bytes, &why);
    if (error != Errc::kOk) return fail(error, path + ": " + why);
  }
  return Errc::kOk;
}

// As CheckpointFile, which opens it to write.
Errc BackupImage::read_checkpoint() {
  const std::string path = checkpoint_path(folder_);
  if (!platform::has_entry(path)) return fail(Errc::kLogMissing, path + ": no such file");
  DiskFile file;
  TMH_TRY(file.open(path, DiskFile::Mode::kRead));
  std::string whys;
  bool is_found = false;
  for (std::uint64_t index = 0; index < 2; ++index) {
    CheckpointV1 slot{};
    std::size_t got = 0;
    TMH_TRY(file.read(index * sizeof slot, &slot, sizeof slot, &got));
    std::string why = "slot " + std::to_string(index) + ": cut short";
    const Errc error = got < sizeof slot ? Errc::kCorrupt : verify_checkpoint(slot, index, &why);
    if (error == Errc::kForeignVersion) return fail(error, path + ": " + why);
    if (error != Errc::kOk) {
      whys += ": " + why;
      continue;
    }
    if (std::memcmp(slot.domain_id, control_->header.domain_id, sizeof slot.domain_id) != 0)
      return fail(Errc::kNotADomain, path + ": of another domain");
    if (!is_found || slot.sequence > from_.sequence) from_ = slot;
    is_found = true;
  }
  return is_found ? Errc::kOk : fail(Errc::kCorrupt, path + whys);
}

// Of two the later one, as recovery has it. The name's LSN is only about where its moment ends:
// other commits may lie before it.
Errc BackupImage::find_named(std::string_view name, LogPoint *point) {
  TMH_ASSERT(point != nullptr && control_ != nullptr);
  std::string known;
  Lsn found_lsn = 0;
  bool is_found = false;
  for (const std::string *folder : {&options_.log_folder, &folder_}) {
    if (folder->empty()) continue;
    KeptMoments moments;
    TMH_TRY(read_moments(*folder, control_->header.domain_id, &moments));
    const KeptMoment *const found = find_moment(moments, name);
    if (found != nullptr && (!is_found || found->lsn > found_lsn)) {
      is_found = true;
      point->until_stamp = found->clock;
      found_lsn = found->lsn;
    }
    for (const KeptMoment &each : moments) known += " " + each.name;
  }
  if (is_found) return Errc::kOk;
  return fail(Errc::kNotHeld, "no moment is called '" + std::string(name) +
                                  "'; names:" + (known.empty() ? " none" : known));
}

Errc BackupImage::find_point(const Moment &moment, LogPoint *point) {
  switch (moment.kind()) {
    case Moment::Kind::kName:
      return find_named(moment.name(), point);
    case Moment::Kind::kLsn:
      point->until_lsn = moment.number();
      return Errc::kOk;
    case Moment::Kind::kTime:
      point->until_time_ns = moment.number();
      if (moment.number() > platform::wall_clock_ns())
        return fail(Errc::kNotHeld, moment_text(moment) + " is still to come");
      return Errc::kOk;
    default:
      point->until_stamp = moment.number();
      return Errc::kOk;
  }
}

Errc BackupImage::make_plan(const Moment &moment, const LogPoint &point) {
  TMH_ASSERT(control_ != nullptr && source_ == nullptr);
  // What the data files hold is not in the log that is read.
  if (point.until_stamp < from_.stamp)
    return fail(Errc::kNotHeld, moment_text(moment) + ": the data files hold everything up to " +
                                    "commit " + std::to_string(from_.stamp) +
                                    "; take an older backup");
  if (moment.kind() == Moment::Kind::kTime && moment.number() < from_.time_ns)
    return fail(Errc::kNotHeld, moment_text(moment) + ": the data files are of time " +
                                    std::to_string(from_.time_ns) + " ns; take an older backup");
  source_ = std::make_unique<LogSource>(
      folder_, options_.log_folder,
      LogIdentity{{from_.domain_id[0], from_.domain_id[1]}, from_.log_file_bytes});
  TMH_TRY(source_->open());
  noted_ = std::make_unique<DataFiles>(folder_, *control_, true);
  const bool was_in_use = life_of(control_->header) != 0 && from_.is_clean == 0;
  LogPlanner planner(*source_, from_, point, {*control_, *noted_, true, was_in_use}, &plan_);
  const Errc error = planner.make(LogReader::Depth::kWhole, [](Lsn) {});
  if (plan_.is_too_early) {
    const std::string why = platform::failure_detail();
    return fail(Errc::kNotHeld, moment_text(moment) + ": " + why);
  }
  return error;
}

// What the log does not reach was never, or is in a log file that is not here.
Errc BackupImage::check_reach(const Moment &moment, const LogPoint &point) const {
  if (plan_.is_cut || moment.kind() == Moment::Kind::kTime) return Errc::kOk;
  const bool is_reached = moment.kind() == Moment::Kind::kLsn ? plan_.end >= point.until_lsn
                                                              : stamp_ >= point.until_stamp;
  if (is_reached) return Errc::kOk;
  return fail(Errc::kNotHeld,
              moment_text(moment) + ": the log of " + folder_ +
                  (options_.log_folder.empty() ? std::string() : " and " + options_.log_folder) +
                  " ends at LSN " + std::to_string(plan_.end) + " and commit " +
                  std::to_string(stamp_));
}

Errc BackupImage::map(std::uint32_t number) {
  TMH_ASSERT(number < kSegmentsMax && segments_[number].base == nullptr);
  const SegmentRecordV1 &record = control_->segments[number];
  Segment &segment = segments_[number];
  segment.record = record;
  const std::string path = data_file_path(folder_, record);
  DiskFile file;
  TMH_TRY(file.open(path, DiskFile::Mode::kRead, platform::FileRole::kSegment));
  if (!file.is_whole(record.offset_bytes + record.size_bytes))
    return fail(Errc::kFileShrunk, path + " is shorter than its segment");
  std::uint64_t file_bytes = 0;
  TMH_TRY(file.size(&file_bytes));
  const std::uint64_t reserved = std::max(record.max_bytes, record.size_bytes);
  constexpr int kReserve = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void *at = MAP_FAILED;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the address that the domain's pointers mean
  auto *const wanted = reinterpret_cast<void *>(record.address);
  if (record.address != 0)
    at = mmap(wanted, reserved, PROT_NONE, kReserve | MAP_FIXED_NOREPLACE, -1, 0);
  if (at == MAP_FAILED && record.address != 0 && !options_.is_relocated)
    return fail(errno == EEXIST ? Errc::kAddressInUse : Errc::kOutOfMemory,
                path + ": the segment's addresses are taken in this process");
  if (at == MAP_FAILED) at = mmap(nullptr, reserved, PROT_NONE, kReserve, -1, 0);
  if (at == MAP_FAILED) return fail_errno(Errc::kOutOfMemory, "mapping " + path);
  segment.base = static_cast<std::byte *>(at);
  segment.reserved_bytes = reserved;
  // The part that the file has; where the segment has grown since, zeros follow.
  const std::uint64_t bytes = std::max(record.size_bytes, noted_->bytes_to_grow_to(number));
  const std::uint64_t there =
      (file_bytes - record.offset_bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  const std::uint64_t from_file = std::min(bytes, there);
  if (from_file != 0 && mmap(segment.base, from_file, PROT_READ | PROT_WRITE, kPrivate | MAP_FIXED,
                             file.fd(), static_cast<off_t>(record.offset_bytes)) == MAP_FAILED)
    return fail_errno(Errc::kOutOfMemory, "mapping " + path);
  segment.bytes = from_file;
  return extend(&segment, bytes);
}

Errc BackupImage::extend(Segment *segment, std::uint64_t bytes) const noexcept {
  TMH_ASSERT(bytes <= segment->reserved_bytes);
  if (bytes <= segment->bytes) return Errc::kOk;
  if (mprotect(segment->base + segment->bytes, bytes - segment->bytes, PROT_READ | PROT_WRITE) != 0)
    return fail_errno(Errc::kOutOfMemory, "an image of " + std::string(segment->record.name));
  segment->bytes = bytes;
  return Errc::kOk;
}

// Second reading.
Errc BackupImage::replay() {
  TMH_ASSERT(source_ != nullptr && source_->is_open());
  stamp_ = from_.stamp;
  std::erase_if(plan_.spans, [](const LogSpan &span) { return span.from == span.to; });
  if (plan_.spans.empty()) return Errc::kOk;
  const Lsn end = plan_.spans.back().to;
  LogReader reader(source_.get(), from_, LogReader::Depth::kBrief);
  RecordView record;
  auto span = plan_.spans.begin();
  while (span != plan_.spans.end()) {
    TMH_TRY(reader.next(&record));
    if (record.at == nullptr)
      return fail(Errc::kLogDamaged,
                  "LSN " + std::to_string(reader.position()) + " has changed since it was checked");
    while (span != plan_.spans.end() && record.header.lsn >= span->to) ++span;
    if (span == plan_.spans.end() || record.header.lsn < span->from) continue;
    TMH_TRY(apply(record));
    if (record.end() >= end) break;
  }
  return Errc::kOk;
}

// Stores into the segments' mappings, which are as large as the log makes them.
class BackupImage::Stores final : public Redo {
 public:
  explicit Stores(std::vector<Segment> &segments) noexcept : segments_(segments) {}
  bool page_difference(const PageDelta &difference) override {
    const std::uint64_t number = segment_number(difference.page);
    if (number >= kSegmentsMax) return false;
    Segment &segment = segments_[number];
    if (page_offset(difference.page) + kPageBytes > segment.bytes) return false;
    apply_delta(difference, segment.base + page_offset(difference.page));
    const auto page = static_cast<std::uint64_t>(page_index(difference.page));
    if (segment.changed.size() <= page) segment.changed.resize(segment.bytes / kPageBytes);
    if (!segment.changed[page]) ++segment.changed_count;
    segment.changed[page] = true;
    return true;
  }

 private:
  std::vector<Segment> &segments_;
};

Errc BackupImage::apply(const RecordView &record) {
  log_bytes_ += record.header.length;
  Stores stores(segments_);
  Item item;
  if (!redo_items(record, stores, &item))
    return fail(Errc::kLogDamaged,
                "LSN " + std::to_string(record.header.lsn) + " has changed since it was checked");
  if (!record.ends_transaction()) return Errc::kOk;
  ++transactions_;
  stamp_ = record.header.stamp;
  time_ns_ = record.header.time_ns;
  return Errc::kOk;
}

// A heap knows how far it reaches, also where no instance has stored to its last pages.
Errc BackupImage::grow_heaps() {
  for (Segment &segment : segments_) {
    constexpr std::uint64_t kAt = std::uint64_t{raw(kMapPage)} * kPageBytes;
    if (segment.base == nullptr || segment.bytes < kAt + kPageBytes ||
        segment.record.layout != static_cast<std::uint32_t>(Layout::kHeap))
      continue;
    MapHeaderV1 map{};
    std::memcpy(&map, segment.base + kAt, sizeof map);
    const std::uint64_t bytes = std::uint64_t{map.top_page} * kPageBytes;
    if (map.magic == kMapMagic && bytes <= segment.record.max_bytes)
      TMH_TRY(extend(&segment, bytes));
  }
  return Errc::kOk;
}

Errc BackupImage::protect() const noexcept {
  for (const Segment &segment : segments_)
    if (segment.bytes != 0 && mprotect(segment.base, segment.bytes, PROT_READ) != 0)
      return fail_errno(Errc::kOutOfMemory, "an image of " + std::string(segment.record.name));
  return Errc::kOk;
}

}  // namespace tmh::storage
