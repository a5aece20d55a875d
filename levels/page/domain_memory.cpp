// levels/page/domain_memory.cpp -- opening, creating and removing the domain's files.
#include "levels/page/domain_memory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "levels/page/changed_pages.h"
#include "levels/page/lines.h"
#include "platform/failure.h"
#include "platform/fence.h"

namespace tmh::page {

using platform::fail;
using platform::fail_errno;

namespace {

using Blocks = platform::GrowingFile::Blocks;

constexpr const char *kRebuildable[] = {"tmh.state",   "tmh.participants", "tmh.versions.head", "tmh.versions.data",
                                        "tmh.commits", "tmh.accesses",     "tmh.log.state",     "tmh.latency"};

std::string meta_name(std::uint32_t segment) { return "tmh.pages." + std::to_string(segment); }

std::string folder_of(const std::string &file) { return file.substr(0, file.find_last_of('/')); }

Errc make_folder(const std::string &folder) noexcept {
  struct stat info {};
  if (stat(folder.c_str(), &info) == 0) {
    if (!S_ISDIR(info.st_mode)) return fail(Errc::kBadArgument, folder + " is not a folder");
    return Errc::kOk;
  }
  if (mkdir(folder.c_str(), 0770) != 0 && errno != EEXIST) return fail_errno(Errc::kIo, folder);
  return Errc::kOk;
}

// The whole file, verified.
Errc read_control(const std::string &file, std::string *bytes) noexcept {
  if (const Errc error = platform::read_file(file, 2 * storage::kControlBytes, bytes); error != Errc::kOk) return error;
  std::string why;
  if (const Errc error = storage::verify_control(bytes->data(), bytes->size(), &why); error != Errc::kOk)
    return fail(error, file + ": " + why);
  return Errc::kOk;
}

}  // namespace

Errc DomainMemory::read_durable(const std::string &folder, bool *is_durable) noexcept {
  std::string bytes;
  if (const Errc error = read_control(folder + "/tmh.control", &bytes); error != Errc::kOk) return error;
  storage::ControlHeaderV1 header;
  std::memcpy(&header, bytes.data() + offsetof(storage::ControlFile, header), sizeof header);
  *is_durable = header.durability != 0;
  return Errc::kOk;
}

Errc DomainMemory::check_owner(const std::string &folder) noexcept {
  struct stat info {};
  if (stat((folder + "/tmh.control").c_str(), &info) != 0 || info.st_uid == geteuid()) return Errc::kOk;
  for (const char *name : {"/tmh.control", "/tmh.lock"}) {
    const std::string file = folder + name;
    if (::access(file.c_str(), F_OK) != 0 || ::access(file.c_str(), R_OK | W_OK) == 0) continue;
    return fail(Errc::kWrongOwner, file + " belongs to user " + std::to_string(info.st_uid));
  }
  return Errc::kOk;
}

Errc DomainMemory::open(const std::string &folder, std::uint64_t address_base, std::uint32_t durability,
                        bool *fresh) noexcept {
  folder_ = folder;
  segments_ = std::make_unique<SegmentMemory[]>(storage::kSegmentsMax);
  if (const Errc error = make_folder(folder); error != Errc::kOk) return error;
  if (const Errc error = open_control(address_base, durability); error != Errc::kOk) return error;
  if (const Errc error = open_state(fresh); error != Errc::kOk) return error;
  // What an earlier life of the domain could not sync is in the control file all the same, and will be relied on.
  if (*fresh)
    if (const Errc error = sync_control(control_, sizeof *control_); error != Errc::kOk) return error;
  // The first participant decides anew, once the data files are right.
  separate_homes_ = !*fresh && is_durable() && has_level_below();
  return open_segments();
}

Errc DomainMemory::open_control(std::uint64_t address_base, std::uint32_t durability) noexcept {
  const std::string file = path("tmh.control");
  struct stat info {};
  if (stat(file.c_str(), &info) != 0) {
    if (errno != ENOENT) return fail_errno(Errc::kIo, file);
    const auto made = std::make_unique<storage::ControlFile>(storage::new_control(geteuid(), address_base, durability));
    remove_rebuildable_files();
    if (const Errc error = platform::replace_file(file, made.get(), sizeof *made); error != Errc::kOk) return error;
  }
  std::string bytes;
  if (const Errc error = read_control(file, &bytes); error != Errc::kOk) return error;
  if (const Errc error = control_file_.open(file, storage::kControlBytes, storage::kControlBytes, Blocks::kAllocated);
      error != Errc::kOk)
    return error;
  control_ = reinterpret_cast<storage::ControlFile *>(control_file_.base());
  return settle_sizes();
}

// REQUIRES the folder lock: nobody is growing a segment.
Errc DomainMemory::settle_sizes() noexcept {
  for (storage::SegmentRecordV1 &record : control_->segments) {
    if (record.state == 0 || record.size_check == ~record.size_bytes) continue;
    struct stat info {};
    const bool exists = stat(segment_path(record).c_str(), &info) == 0;
    // Whoever promised may have died before it was on disk; others may be here and use the size at once.
    if (const Errc error = sync_control(&record, sizeof record); error != Errc::kOk) return error;
    std::string why;
    if (const Errc error = storage::settle_size(&record, exists ? static_cast<std::uint64_t>(info.st_size) : 0, &why);
        error != Errc::kOk)
      return fail(error, path("tmh.control") + ": " + why);
  }
  return Errc::kOk;
}

Errc DomainMemory::open_state(bool *fresh) noexcept {
  const platform::BootId boot = platform::this_boot();
  std::string bytes;
  DomainState *usable = nullptr;
  // Whatever hinders us from reading the file is an error: others may be using it.
  if (::access(path("tmh.state").c_str(), F_OK) == 0) {
    if (const Errc error = platform::read_file(path("tmh.state"), 1u << 20, &bytes); error != Errc::kOk) return error;
  } else if (errno != ENOENT) {
    return fail_errno(Errc::kIo, path("tmh.state"));
  }
  if (bytes.size() >= offsetof(DomainState, incarnation_next)) {
    // Only the identity line is looked at before the file is mapped.
    usable = reinterpret_cast<DomainState *>(bytes.data());
    if (usable->magic != kStateMagic || std::memcmp(usable->boot_id, boot.text, sizeof boot.text) != 0) {
      usable = nullptr;  // damaged, or of another boot: nobody can be attached, so what is rebuildable is made anew
    } else if (usable->version != kStateVersion || usable->state_bytes != sizeof(DomainState) ||
               bytes.size() < sizeof(DomainState)) {
      return fail(Errc::kForeignVersion,
                  path("tmh.state") + " is of another version that is, or was, in use since this boot");
    } else if (std::memcmp(usable->domain_id, control_->header.domain_id, sizeof usable->domain_id) != 0) {
      usable = nullptr;
      if (const Errc error = refuse_anothers(); error != Errc::kOk) return error;
    }
  }
  if (usable == nullptr) remove_rebuildable_files();
  if (const Errc error = open_rebuildable(); error != Errc::kOk) return error;
  if (usable == nullptr) {
    state_->version = kStateVersion;
    state_->state_bytes = sizeof(DomainState);
    std::memcpy(state_->boot_id, boot.text, sizeof boot.text);
    std::memcpy(state_->domain_id, control_->header.domain_id, sizeof state_->domain_id);
    state_->incarnation_next.store(1, std::memory_order_relaxed);
    state_->age_next.store(1, std::memory_order_relaxed);
    state_->clock.store(1, std::memory_order_relaxed);
    state_->version_capacity.store(1, std::memory_order_relaxed);  // slot 0 means none
    state_->access_capacity = 1;
    state_->magic = kStateMagic;
  }
  *fresh = !anyone_alive();
  // Only when alone: a living participant grows files and capacity together, and a capacity cut in between would lose its versions.
  if (!*fresh) return Errc::kOk;
  // Page metadata is about versions, which a repair links anew, and about the living, of whom there are none.
  for (std::uint32_t i = 0; i < storage::kSegmentsMax; ++i) unlink(path(meta_name(i).c_str()).c_str());
  return bound_state();
}

// The durable files are another domain's than those that all participants share: somebody has copied them here.
Errc DomainMemory::refuse_anothers() noexcept {
  if (const Errc error = open_rebuildable(); error != Errc::kOk) return error;
  const bool is_used = anyone_alive();
  close_rebuildable();
  return !is_used
             ? Errc::kOk
             : fail(Errc::kDomainInUse, folder_ + ": processes use the domain whose files were here before this one's");
}

// Numbers that index files must fit the files, whatever damaged them. Links are not believed at all: the first participant repairs.
Errc DomainMemory::bound_state() noexcept {
  const auto items_of = [](const platform::GrowingFile &file, std::uint64_t item_bytes) {
    struct stat info {};
    return fstat(file.fd(), &info) == 0 ? static_cast<std::uint64_t>(info.st_size) / item_bytes : 0;
  };
  const std::uint64_t slots =
      std::min(items_of(version_heads_file_, sizeof(VersionHead)), items_of(version_data_, kPageBytes));
  const std::uint64_t capacity = state_->version_capacity.load(std::memory_order_relaxed);
  if (capacity > slots && versions_live() > 0)
    return fail(Errc::kCorrupt, path("tmh.versions.*") + " are shorter than tmh.state says, and hold committed data");
  if (capacity > slots || capacity == 0)
    state_->version_capacity.store(
        static_cast<std::uint32_t>(std::max<std::uint64_t>(1, std::min(slots, kVersionsMax))),
        std::memory_order_relaxed);
  const std::uint64_t entries = items_of(accesses_file_, sizeof(AccessEntry));
  if (state_->access_capacity > entries || state_->access_capacity == 0)
    state_->access_capacity = static_cast<std::uint32_t>(std::max<std::uint64_t>(1, std::min(entries, kAccessesMax)));
  return Errc::kOk;
}

Errc DomainMemory::open_rebuildable() noexcept {
  struct File {
    platform::GrowingFile *file;
    const char *name;
    std::uint64_t bytes_min, bytes_max;
    Blocks blocks;
  };
  const std::uint64_t participants_bytes = storage::kParticipantsMax * sizeof(storage::Participant);
  const File files[] = {
      {&state_file_, "tmh.state", sizeof(DomainState), 4096, Blocks::kAllocated},
      {&participants_file_, "tmh.participants", participants_bytes, participants_bytes, Blocks::kSparse},
      {&version_heads_file_, "tmh.versions.head", sizeof(VersionHead), kVersionsMax * sizeof(VersionHead),
       Blocks::kAllocated},
      {&version_data_, "tmh.versions.data", kPageBytes, kVersionsMax * kPageBytes, Blocks::kSparse},
      {&log_file_, "tmh.commits", kLogEntries * sizeof(CommitLogEntry), kLogEntries * sizeof(CommitLogEntry),
       Blocks::kAllocated},
      {&accesses_file_, "tmh.accesses", sizeof(AccessEntry), kAccessesMax * sizeof(AccessEntry), Blocks::kAllocated},
  };
  for (const File &f : files) {
    if (const Errc error = f.file->open(path(f.name), f.bytes_min, f.bytes_max, f.blocks); error != Errc::kOk)
      return error;
  }
  loads_take_blocks_ = platform::loads_take_blocks(state_file_.fd());
  state_ = reinterpret_cast<DomainState *>(state_file_.base());
  participants_ = reinterpret_cast<storage::Participant *>(participants_file_.base());
  version_heads_ = reinterpret_cast<VersionHead *>(version_heads_file_.base());
  log_ = reinterpret_cast<CommitLogEntry *>(log_file_.base());
  accesses_ = reinterpret_cast<AccessEntry *>(accesses_file_.base());
  if (participants_high() > storage::kParticipantsMax)  // damaged
    state_->participants_high.store(storage::kParticipantsMax, std::memory_order_relaxed);
  return Errc::kOk;
}

void DomainMemory::remove_rebuildable_files() noexcept {
  for (const char *name : kRebuildable) unlink(path(name).c_str());
  for (std::uint32_t i = 0; i < storage::kSegmentsMax; ++i) {
    for (const std::string &file : {path(meta_name(i).c_str()), home_path(i), home_path(i) + ".new"})
      unlink(file.c_str());
  }
  ChangedPages::remove_files(folder_);
}

void DomainMemory::remove_new() noexcept {
  remove_rebuildable_files();
  unlink(path("tmh.control").c_str());
}

void DomainMemory::close(bool remove_rebuildable) noexcept {
  if (remove_rebuildable) remove_rebuildable_files();
  segments_.reset();
  control_file_.close();
  close_rebuildable();
}

void DomainMemory::close_rebuildable() noexcept {
  for (auto *file : {&state_file_, &participants_file_, &version_heads_file_, &version_data_, &log_file_,
                     &accesses_file_, &log_state_file_})
    file->close();
  state_ = nullptr;
  log_state_ = nullptr;
}

Errc DomainMemory::open_log_state(bool *usable) noexcept {
  const bool existed = ::access(path("tmh.log.state").c_str(), F_OK) == 0;
  if (const Errc error = log_state_file_.open(path("tmh.log.state"), storage::kLogStateBytes, storage::kLogStateBytes,
                                              Blocks::kAllocated);
      error != Errc::kOk)
    return error;
  log_state_ = reinterpret_cast<storage::LogState *>(log_state_file_.base());
  for (std::uint32_t i = 0; i < storage::kSegmentsMax; ++i)
    if (segments_[i].is_open.load(std::memory_order_relaxed)) segments_[i].opened_at = data_syncs_begun();
  *usable = existed && log_state_->magic == storage::kLogStateMagic && log_state_->version == storage::kLogStateVersion;
  return Errc::kOk;
}

Errc DomainMemory::start_over() noexcept {
  for (std::uint32_t i = 0; i < storage::kSegmentsMax; ++i) segments_[i].meta_file.close();
  segments_ = std::make_unique<SegmentMemory[]>(storage::kSegmentsMax);
  close_rebuildable();
  separate_homes_ = false;
  remove_rebuildable_files();
  bool fresh = false;
  if (const Errc error = open_state(&fresh); error != Errc::kOk) return error;
  return open_segments();
}

Errc DomainMemory::promise_size(std::uint32_t number, std::uint64_t size_bytes) noexcept {
  if (!is_durable()) return Errc::kOk;
  storage::promise_size(&control_->segments[number], size_bytes);
  return sync_control(&control_->segments[number], sizeof control_->segments[number]);
}

Errc DomainMemory::sync_control(const void *from, std::size_t bytes) noexcept {
  if (!is_durable()) return Errc::kOk;
  const std::string file = path("tmh.control");
  const auto earlier =
      log_state_ != nullptr ? static_cast<Errc>(log_state_->control_error.load(std::memory_order_acquire)) : Errc::kOk;
  if (earlier != Errc::kOk) return fail(earlier, file + ": an earlier sync failed; all have to close the domain");
  const auto offset = static_cast<std::uint64_t>(static_cast<const std::byte *>(from) - control_file_.base());
  platform::home_written(file, offset, from, bytes);
  make_control_dirty();
  platform::DiskFile control;
  Errc error = control.open(file, platform::DiskFile::Mode::kRead);
  if (error != Errc::kOk) return error;
  error = control.sync();
  if (error != Errc::kOk && log_state_ != nullptr)
    log_state_->control_error.store(static_cast<std::uint32_t>(error), std::memory_order_release);
  return error;
}

// Pages that could not be written are clean ever after, and syncing them succeeds. So each sync writes all of the file: what failed in an earlier
// life of the domain, or in a process that died before it could say so.
void DomainMemory::make_control_dirty() noexcept {
  for (std::uint64_t at = 0; at < storage::kControlBytes; at += kPageBytes) {
    const std::atomic_ref<std::uint64_t> word(*reinterpret_cast<std::uint64_t *>(control_file_.base() + at));
    std::uint64_t as_it_is = word.load(std::memory_order_relaxed);
    (void)word.compare_exchange_strong(as_it_is, as_it_is, std::memory_order_relaxed);
  }
}

std::uint32_t DomainMemory::file_of(std::uint32_t segment, const storage::SegmentRecordV1 &record) const noexcept {
  for (std::uint32_t i = 0; i < segment; ++i) {
    storage::SegmentRecordV1 &other = control_->segments[i];
    // acquire: pairs with the release in add_segment()
    if (std::atomic_ref<std::uint32_t>(other.state).load(std::memory_order_acquire) != 0 &&
        std::strcmp(other.name, record.name) == 0)
      return i;
  }
  return segment;
}

Errc DomainMemory::sync_data(storage::Home *home, std::uint32_t file) noexcept {
  if (log_state_ == nullptr) return home->sync();
  storage::DataSyncs &syncs = log_state_->data_syncs;
  syncs.begin(storage::DataSyncer::kSegment, file);
  const Errc error = home->sync();
  if (error != Errc::kOk) syncs.fail(error);
  syncs.end(storage::DataSyncer::kSegment);
  return error;
}

Errc DomainMemory::make_sizes_durable() noexcept {
  std::array<std::uint64_t, storage::kSegmentsMax> now{};  // before the sync
  for (std::uint32_t i = 0; i < storage::kSegmentsMax; ++i) {
    if (std::atomic_ref<std::uint32_t>(control_->segments[i].state).load(std::memory_order_acquire) == 1)
      now[i] = segment_size(i).load(std::memory_order_acquire);
  }
  if (const Errc error = sync_control(control_, sizeof *control_); error != Errc::kOk) return error;
  // relaxed: another thread's older look may win, which costs a sync more
  for (std::uint32_t i = 0; i < storage::kSegmentsMax; ++i) durable_bytes_[i].store(now[i], std::memory_order_relaxed);
  return Errc::kOk;
}

void DomainMemory::tell_home_written(PageId page, LineMask lines) const noexcept {
  if (separate_homes_) return;
  const storage::SegmentRecordV1 &record = control_->segments[storage::segment_number(page)];
  const std::string file = segment_path(record);
  for (; lines != 0; lines &= lines - 1) {
    const auto in_page = static_cast<std::uint64_t>(std::countr_zero(lines)) * kLineBytes;
    platform::home_written(file, record.offset_bytes + storage::page_offset(page) + in_page, home(page) + in_page,
                           kLineBytes);
  }
}

bool DomainMemory::holder_alive(void *context, platform::LockTag holder) noexcept {
  const auto *memory = static_cast<const DomainMemory *>(context);
  const std::uint32_t slot = platform::slot_of(holder);
  if (slot >= storage::kParticipantsMax) return false;
  const storage::Participant &record = memory->participant(slot);
  // Whatever the record's state says: a process may die between giving its slot back and unlocking.
  const auto names_holder = [&] {
    return platform::lock_tag(slot, record.incarnation.load(std::memory_order_acquire)) == holder;
  };
  if (!names_holder()) return false;
  const bool is_alive = record.is_alive();
  platform::fence(std::memory_order_acquire);  // pid and start time were read before the incarnation is read again
  return is_alive && names_holder();
}

Errc DomainMemory::open_segments() noexcept {
  const std::scoped_lock guard(opening_);
  const std::uint32_t generation = segment_generation();
  for (std::uint32_t i = 0; i < storage::kSegmentsMax; ++i) {
    const storage::SegmentRecordV1 &record = control_->segments[i];
    SegmentMemory &memory = segments_[i];
    if (record.state == 0 || memory.is_open.load(std::memory_order_relaxed)) continue;
    const std::uint64_t size = segment_size(i).load(std::memory_order_acquire);
    if (const Errc error = memory.home.open(segment_path(record), record.offset_bytes, size, record.max_bytes, false);
        error != Errc::kOk)
      return error;
    const std::uint64_t meta_bytes = record.max_bytes / kPageBytes * sizeof(PageMeta);
    if (const Errc error = memory.meta_file.open(path(meta_name(i).c_str()), meta_bytes, meta_bytes, Blocks::kSparse);
        error != Errc::kOk)
      return error;
    memory.meta = reinterpret_cast<PageMeta *>(memory.meta_file.base());
    if (separate_homes_)
      if (const Errc error = open_separate(i); error != Errc::kOk) return error;
    memory.opened_at = data_syncs_begun();
    memory.is_open.store(true, std::memory_order_release);  // pairs with knows()
  }
  opened_generation_.store(generation, std::memory_order_release);
  return Errc::kOk;
}

std::string DomainMemory::home_path(std::uint32_t segment) const {
  return folder_ + "/tmh.home." + std::to_string(segment);
}

// REQUIRES the folder lock, unless whoever made the segment has done it.
Errc DomainMemory::open_separate(std::uint32_t segment) noexcept {
  return segments_[segment].home.separate(home_path(segment));
}

Errc DomainMemory::separate_homes() noexcept {
  separate_homes_ = true;
  for (std::uint32_t i = 0; i < storage::kSegmentsMax; ++i) {
    if (!segments_[i].is_open.load(std::memory_order_relaxed)) continue;
    if (const Errc error = open_separate(i); error != Errc::kOk) return error;
    if (const Errc error = prepare_changes(i, segment_size(i).load(std::memory_order_relaxed)); error != Errc::kOk)
      return error;
  }
  return Errc::kOk;
}

Errc DomainMemory::prepare_changes(std::uint32_t number, std::uint64_t size_bytes) const noexcept {
  return separate_homes_ ? ChangedPages::prepare(folder_, number, control_->segments[number], size_bytes) : Errc::kOk;
}

std::string DomainMemory::segment_path(const storage::SegmentRecordV1 &record) const {
  return record.name[0] == '/' ? std::string(record.name) : path(record.name);
}

Errc DomainMemory::add_segment(std::uint32_t number, const storage::SegmentRecordV1 &record) noexcept {
  {
    storage::Home made;  // creates or extends the file before the record that promises it
    if (const Errc error =
            made.open(segment_path(record), record.offset_bytes, record.size_bytes, record.max_bytes, true);
        error != Errc::kOk)
      return error;
    if (is_durable()) {
      const std::uint32_t file = file_of(number, record);
      if (file == number && log_state_ != nullptr) log_state_->data_syncs.forget(file);
      if (const Errc error = sync_data(&made, file); error != Errc::kOk) return error;
      if (const Errc error = platform::sync_folder(folder_of(segment_path(record))); error != Errc::kOk) return error;
    }
    // Before anybody sees the segment: others open it without the folder lock.
    if (separate_homes_) {
      unlink(home_path(number).c_str());  // of one who died making a segment of this number
      if (const Errc error = made.separate(home_path(number)); error != Errc::kOk) return error;
      const Errc error = ChangedPages::prepare(folder_, number, record, record.size_bytes);
      if (error != Errc::kOk) return error;
    }
  }
  // address_next before the record: one that reaches beyond it would be refused.
  if (const Errc error = sync_control(&control_->header, 512); error != Errc::kOk) return error;
  storage::SegmentRecordV1 &entry = control_->segments[number];
  storage::SegmentRecordV1 sealed = record;
  sealed.state = 0;
  sealed.size_check = ~record.size_bytes;
  entry = sealed;
  sealed.state = 1;
  storage::seal(&sealed);
  entry.checksum = sealed.checksum;
  // release: whoever sees state 1 sees the rest. Death before it leaves a free record.
  std::atomic_ref<std::uint32_t>(entry.state).store(1, std::memory_order_release);
  if (const Errc error = tell_of_segment(number); error != Errc::kOk) return error;
  return open_segments();
}

Errc DomainMemory::tell_of_segment(std::uint32_t number) noexcept {
  // Within one sector: a power cut leaves the old or the new one.
  const storage::SegmentRecordV1 &record = control_->segments[number];
  if (const Errc error = sync_control(&record, sizeof record); error != Errc::kOk) return error;
  // release: pairs with segment_generation()
  std::atomic_ref<std::uint32_t>(control_->header.segment_generation).fetch_add(1, std::memory_order_release);
  return Errc::kOk;
}

Errc DomainMemory::attach_slot(const std::string &name, std::uint32_t *slot) noexcept {
  for (std::uint32_t i = 0; i < storage::kParticipantsMax; ++i) {
    storage::Participant &record = participants_[i];
    // Before the first look: see loads_take_blocks().
    if (const Errc room = participants_file_.reserve(i * sizeof record, sizeof record); room != Errc::kOk)
      return fail(room, path("tmh.participants"));
    if (record.state.load(std::memory_order_acquire) != 0) continue;
    platform::ProcessId self;
    if (!platform::this_process(&self)) return fail_errno(Errc::kIo, "/proc/self/stat");
    record.incarnation.store(state_->incarnation_next.fetch_add(1, std::memory_order_relaxed),
                             std::memory_order_relaxed);
    platform::fence(std::memory_order_release);  // pairs with the fence in is_gone(): incarnation before pid
    record.pid = self.pid;
    record.start_time = self.start_time;
    record.stack_start = self.stack_start;
    std::memset(record.name, 0, sizeof record.name);
    std::memcpy(record.name, name.data(), std::min(name.size(), sizeof record.name - 1));
    record.pin.store(storage::kNoPin, std::memory_order_relaxed);
    record.instance.store(0, std::memory_order_relaxed);
    record.failed_instance.store(0, std::memory_order_relaxed);
    record.accesses.store(0, std::memory_order_relaxed);
    record.in_line_mode.store(0, std::memory_order_relaxed);
    record.waits_for.store(0, std::memory_order_relaxed);
    record.last_flush.store(0, std::memory_order_relaxed);
    record.line_waits_for.store(0, std::memory_order_relaxed);
    record.line_waiters.store(0, std::memory_order_relaxed);  // of threads that died waiting
    for (std::size_t count = 0; count < storage::kCountsMax; ++count)
      record.counts_before[count].store(record.counts[count].load(std::memory_order_relaxed),
                                        std::memory_order_relaxed);
    record.state.store(1, std::memory_order_release);
    if (i >= participants_high()) {
      // Nobody has ever looked at this slot's list, so whatever is there nobody vouches for.
      record.versions.oldest = record.versions.newest = 0;
      record.versions.live_count.store(0, std::memory_order_relaxed);
      state_->participants_high.store(i + 1, std::memory_order_release);
    }
    *slot = i;
    return Errc::kOk;
  }
  return fail(Errc::kTooManyParticipants, "65536 processes are attached");
}

std::uint64_t DomainMemory::versions_live() const noexcept {
  std::uint64_t live = 0;
  for (std::uint32_t i = 0; i < participants_high(); ++i)
    live += participants_[i].versions.live_count.load(std::memory_order_relaxed);
  return live;
}

bool DomainMemory::anyone_alive() const noexcept {
  for (std::uint32_t i = 0; i < participants_high(); ++i) {
    if (participants_[i].state.load(std::memory_order_acquire) != 0 && participants_[i].is_alive()) return true;
  }
  return false;
}

Errc DomainMemory::allocate_blocks(PageId first, std::uint64_t page_count) noexcept {
  SegmentMemory &memory = segments_[storage::segment_number(first)];
  if (const Errc error = memory.home.allocate_blocks(storage::page_offset(first), page_count * kPageBytes);
      error != Errc::kOk)
    return error;
  // Metadata is 1/64 of home. Home's blocks never straddle two of its.
  return memory.meta_file.reserve(static_cast<std::uint64_t>(storage::page_index(first)) * sizeof(PageMeta),
                                  page_count * sizeof(PageMeta));
}

Errc DomainMemory::reserve_links() const noexcept {
  for (Slot slot = 1; slot < state_->version_capacity.load(std::memory_order_relaxed); ++slot) {
    const PageId page{version(slot).page};
    if (!knows(page)) continue;
    if (const Errc error = reserve_meta(page); error != Errc::kOk)
      return fail(error, path(meta_name(storage::segment_number(page)).c_str()));
  }
  return Errc::kOk;
}

void DomainMemory::read_home(PageId page, std::byte *to) const noexcept {
  const storage::Home &home = segments_[storage::segment_number(page)].home;
  if (home.loads_take_blocks() && !home.has_data(storage::page_offset(page), kPageBytes))
    std::memset(to, 0, kPageBytes);
  else
    copy_lines_of_home(to, home.base() + storage::page_offset(page), ~LineMask{0});
}

Errc DomainMemory::grow_versions(std::uint32_t capacity) noexcept {
  if (capacity > kVersionsMax) return Errc::kOutOfMemory;
  if (const Errc error = version_heads_file_.grow(std::uint64_t{capacity} * sizeof(VersionHead)); error != Errc::kOk)
    return error;
  return version_data_.grow(std::uint64_t{capacity} * kPageBytes);
}

Errc DomainMemory::grow_accesses(std::uint32_t capacity) noexcept {
  if (capacity > kAccessesMax) return Errc::kOutOfMemory;
  return accesses_file_.grow(std::uint64_t{capacity} * sizeof(AccessEntry));
}

}  // namespace tmh::page
