// levels/page/shared/shared_files.cpp -- opening, creating, growing and removing the domain's
// files.
#include "levels/page/shared/shared_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <new>

#include "levels/page/shared/changed_pages.h"
#include "levels/page/shared/found_files.h"
#include "platform/assert.h"
#include "platform/disk.h"
#include "platform/failure.h"
#include "platform/fence.h"
#include "platform/try.h"
#include "storage/checkpoint_file.h"
#include "storage/latency.h"
#include "storage/segment_files.h"

namespace tmh::page {

using platform::fail;
using platform::fail_errno;

namespace {

using Blocks = platform::GrowingFile::Blocks;
using storage::DomainFile;
using storage::SegmentFile;

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
  TMH_TRY(platform::read_file(file, 2 * storage::kControlBytes, bytes));
  std::string why;
  try {
    const Errc error = storage::verify_control(bytes->data(), bytes->size(), &why);
    return error == Errc::kOk ? error : fail(error, file + ": " + why);
  } catch (const std::bad_alloc &) {
    return fail(Errc::kOutOfMemory, file);
  }
}

// tmh.latency is one as well, and holds nothing that a commit needs: it is in no FileTable.
constexpr DomainFile kRebuildable[] = {DomainFile::kState,        DomainFile::kParticipants,
                                       DomainFile::kVersionHeads, DomainFile::kVersionData,
                                       DomainFile::kCommits,      DomainFile::kAccesses,
                                       DomainFile::kLogState,     DomainFile::kLocks};

// With zeros.
Errc overwrite(const std::string &path, std::size_t offset, std::size_t bytes) noexcept {
  platform::FileDescriptor file;
  TMH_TRY(platform::open_regular(path, O_RDWR, platform::FileRole::kOwn, &file));
  const std::string zeros(bytes, '\0');
  return pwrite(file.get(), zeros.data(), bytes, static_cast<off_t>(offset)) ==
                 static_cast<ssize_t>(bytes)
             ? Errc::kOk
             : fail_errno(Errc::kIo, path);
}

std::string file_in(const std::string &folder, DomainFile file) {
  return folder + "/" + storage::name_of(file);
}

}  // namespace

Errc SharedFiles::read_durable(const std::string &folder, bool *is_durable) noexcept {
  std::string bytes;
  TMH_TRY(read_control(folder + "/tmh.control", &bytes));
  storage::ControlHeaderV1 header;
  std::memcpy(&header, bytes.data() + offsetof(storage::ControlFile, header), sizeof header);
  *is_durable = header.durability != 0;
  return Errc::kOk;
}

Errc SharedFiles::check_owner(const std::string &folder) noexcept {
  struct stat info {};
  const bool is_there = lstat((folder + "/tmh.control").c_str(), &info) == 0;
  if (!is_there || !S_ISREG(info.st_mode) || info.st_uid == geteuid()) return Errc::kOk;
  for (const char *name : {"/tmh.control", "/tmh.lock"}) {
    const std::string file = folder + name;
    struct stat entry {};
    if (lstat(file.c_str(), &entry) != 0 || !S_ISREG(entry.st_mode) ||
        ::access(file.c_str(), R_OK | W_OK) == 0)
      continue;
    return fail(Errc::kWrongOwner, file + " belongs to user " + std::to_string(info.st_uid));
  }
  return Errc::kOk;
}

Errc SharedFiles::open(const platform::FolderLock::Held &lock, const std::string &folder,
                       std::uint64_t address_base, std::uint32_t durability, bool *fresh) noexcept {
  TMH_ASSERT(lock.is_valid());
  folder_ = folder;
  segments_.reset(new (std::nothrow) SegmentMemory[storage::kSegmentsMax]);
  if (segments_ == nullptr) return fail(Errc::kOutOfMemory, folder);
  TMH_TRY(make_folder(folder));
  TMH_TRY(in_place_.open_folder());
  TMH_TRY(platform::this_place(&place_));
  TMH_TRY(open_control(lock, address_base, durability));
  TMH_TRY(open_state(lock, fresh));
  // What an earlier life of the domain could not sync is in the control file all the same, and will
  // be relied on.
  if (*fresh) TMH_TRY(durable_control_.sync(control_, sizeof *control_));
  // The first participant decides anew, once the data files are right.
  separate_homes_ = !*fresh && is_durable() && has_level_below();
  return open_segments();
}

Errc SharedFiles::open_control(const platform::FolderLock::Held &lock, std::uint64_t address_base,
                               std::uint32_t durability) noexcept {
  TMH_ASSERT(lock.is_valid());
  const std::string file = path("tmh.control");
  struct stat info {};
  if (lstat(file.c_str(), &info) != 0) {
    if (errno != ENOENT) return fail_errno(Errc::kIo, file);
    TMH_TRY(FoundFiles(folder_).look_without_control());
    TMH_TRY(storage::refuse_remains(folder_));
    is_new_ = true;
    const auto made = storage::new_control(geteuid(), address_base, durability);
    remove_rebuildable_files(lock);
    TMH_TRY(platform::replace_file(file, made.get(), sizeof *made));
  }
  std::string bytes;
  TMH_TRY(read_control(file, &bytes));
  TMH_TRY(
      control_file_.open(file, storage::kControlBytes, storage::kControlBytes, Blocks::kAllocated));
  control_ = reinterpret_cast<storage::ControlFile *>(control_file_.base());
  found_life_ = storage::life_of(control_->header);
  return durable_control_.settle_sizes(lock);
}

void SharedFiles::remove_new(const platform::FolderLock::Held &lock) noexcept {
  TMH_ASSERT(lock.is_valid());
  TMH_ASSERT(is_new_);
  remove_rebuildable_files(lock);
  unlink(path("tmh.control").c_str());
}

void SharedFiles::close() noexcept {
  segments_.reset();
  control_file_.close();
  close_rebuildable();
  in_place_.close();
}

bool SharedFiles::is_of_found_life(const std::uint64_t (&domain_id)[2],
                                   std::uint64_t life) const noexcept {
  return std::memcmp(domain_id, control_->header.domain_id, sizeof domain_id) == 0 &&
         life == found_life_;
}

Errc SharedFiles::sync_data(storage::Home *home, std::uint32_t file) noexcept {
  TMH_ASSERT(home != nullptr);
  TMH_ASSERT(file < storage::kSegmentsMax);
  if (log_state_ == nullptr) return home->sync();
  storage::DataSyncs &syncs = log_state_->data_syncs;
  syncs.begin(storage::DataSyncer::kSegment, file);
  const Errc error = home->sync();
  if (error != Errc::kOk) syncs.fail(error);
  syncs.end(storage::DataSyncer::kSegment);
  return error;
}

Errc SharedFiles::open_segments() noexcept {
  const std::scoped_lock guard(opening_);
  const std::uint32_t generation = segment_generation();
  for (std::uint32_t i = 0; i < storage::kSegmentsMax; ++i) {
    const storage::SegmentRecordV1 &record = control_->segments[i];
    SegmentMemory &memory = segments_[i];
    if (!storage::is_used(record) || memory.is_open.load(std::memory_order_relaxed)) continue;
    const std::uint64_t size = segment_size(i).load(std::memory_order_acquire);
    TMH_TRY(
        memory.home.open(segment_path(record), record.offset_bytes, size, record.max_bytes, false));
    TMH_TRY(in_place_.enter(SegmentFile::kData, i, memory.home.fd(), record.offset_bytes + size));
    const std::uint64_t meta_bytes = record.max_bytes / kPageBytes * sizeof(PageMeta);
    TMH_TRY(memory.meta_file.open(meta_path(i), meta_bytes, meta_bytes, Blocks::kSparse));
    TMH_TRY(in_place_.enter(SegmentFile::kPages, i, memory.meta_file.fd(), meta_bytes));
    memory.meta = reinterpret_cast<PageMeta *>(memory.meta_file.base());
    if (separate_homes_) TMH_TRY(open_separate(i));
    memory.opened_at = data_syncs_begun();
    memory.is_open.store(true, std::memory_order_release);  // pairs with knows()
  }
  opened_generation_.store(generation, std::memory_order_release);
  return Errc::kOk;
}

// REQUIRES the folder lock, unless the maker of the segment has done it.
Errc SharedFiles::open_separate(std::uint32_t segment) noexcept {
  TMH_ASSERT(separate_homes_);
  TMH_ASSERT(segment < storage::kSegmentsMax);
  storage::Home &home = segments_[segment].home;
  TMH_TRY(home.separate(home_path(segment)));
  return in_place_.enter(SegmentFile::kHome, segment, home.separate_fd(),
                         segment_size(segment).load(std::memory_order_acquire));
}

Errc SharedFiles::separate_homes(const platform::FolderLock::Held &lock) noexcept {
  TMH_ASSERT(lock.is_valid());
  TMH_ASSERT(is_durable() && has_level_below());
  separate_homes_ = true;
  for (std::uint32_t i = 0; i < storage::kSegmentsMax; ++i) {
    if (!segments_[i].is_open.load(std::memory_order_relaxed)) continue;
    TMH_TRY(open_separate(i));
    TMH_TRY(prepare_changes(lock, i, segment_size(i).load(std::memory_order_relaxed)));
  }
  return Errc::kOk;
}

Errc SharedFiles::prepare_changes(const platform::FolderLock::Held &lock, std::uint32_t number,
                                  std::uint64_t size_bytes) const noexcept {
  TMH_ASSERT(lock.is_valid());
  TMH_ASSERT(number < storage::kSegmentsMax);
  return separate_homes_
             ? ChangedPages::prepare(folder_, number, control_->segments[number], size_bytes)
             : Errc::kOk;
}

Errc SharedFiles::add_segment(const platform::FolderLock::Held &lock, std::uint32_t number,
                              const storage::SegmentRecordV1 &record) noexcept {
  TMH_ASSERT(lock.is_valid());
  {
    storage::Home made;  // creates or extends the file before the record that promises it
    TMH_TRY(made.open(segment_path(record), record.offset_bytes, record.size_bytes,
                      record.max_bytes, true));
    if (is_durable()) {
      const std::uint32_t file = file_of(number, record);
      if (file == number && log_state_ != nullptr) log_state_->data_syncs.forget(file);
      TMH_TRY(sync_data(&made, file));
      std::string file_made;  // in another folder, if a symbolic link leads there
      TMH_TRY(platform::follow_links(segment_path(record), &file_made));
      for (const std::string &named : {segment_path(record), file_made})
        TMH_TRY(platform::sync_folder(folder_of(named)));
    }
    // Before other participants see the segment: they open it without the folder lock.
    if (separate_homes_) {
      unlink(home_path(number).c_str());  // of one who died making a segment of this number
      TMH_TRY(made.separate(home_path(number)));
      const Errc error = ChangedPages::prepare(folder_, number, record, record.size_bytes);
      if (error != Errc::kOk) return error;
    }
  }
  storage::SegmentRecordV1 *const entry = &control_->segments[number];
  storage::begin_record(entry);
  TMH_TRY(durable_control_.sync(entry, sizeof *entry));
  storage::SegmentRecordV1 sealed = record;
  sealed.state = static_cast<std::uint32_t>(storage::RecordState::kUsed);
  storage::seal(&sealed);
  storage::store_size(&sealed, record.size_bytes);
  storage::store_record(entry, sealed);
  TMH_TRY(durable_control_.tell_of_segment(lock, number));
  return open_segments();
}

Errc SharedFiles::attach_slot(const platform::FolderLock::Held &lock, const std::string &name,
                              std::uint32_t *slot) noexcept {
  TMH_ASSERT(lock.is_valid());
  for (std::uint32_t i = 0; i < storage::kParticipantsMax; ++i) {
    storage::Participant &record = participants_[i];
    // Before the first look: see loads_take_blocks().
    if (const Errc room = participants_file_.reserve(i * sizeof record, sizeof record);
        room != Errc::kOk)
      return fail(room, path("tmh.participants"));
    if (record.state.load(std::memory_order_acquire) != 0) continue;
    platform::ProcessId self;
    if (!platform::this_process(&self)) return fail_errno(Errc::kIo, "/proc/self/stat");
    record.incarnation.store(state_->incarnation_next.fetch_add(1, std::memory_order_relaxed),
                             std::memory_order_relaxed);
    // pairs with the fence in is_gone(): incarnation before pid
    platform::fence(std::memory_order_release);
    record.pid = self.pid;
    record.start_time = self.start_time;
    record.stack_start = self.stack_start;
    std::memset(record.name, 0, sizeof record.name);
    std::memcpy(record.name, name.data(), std::min(name.size(), sizeof record.name - 1));
    record.pin.store(storage::kNoPin, std::memory_order_relaxed);
    record.instance.store(0, std::memory_order_relaxed);
    record.failed_instance.store(0, std::memory_order_relaxed);
    record.accesses.store(0, std::memory_order_relaxed);
    record.shown.in_line_mode.store(0, std::memory_order_relaxed);
    record.past.store(0, std::memory_order_relaxed);
    record.waits_for.store(0, std::memory_order_relaxed);
    record.company.last_flush.store(0, std::memory_order_relaxed);
    record.company.line_waits_for.store(0, std::memory_order_relaxed);
    record.shown.page_cache_pages.store(0, std::memory_order_relaxed);
    record.line_waiters.store(0, std::memory_order_relaxed);  // of threads that died waiting
    for (std::size_t count = 0; count < storage::kCountsMax; ++count)
      record.counts_before[count].store(record.counts[count].load(std::memory_order_relaxed),
                                        std::memory_order_relaxed);
    record.state.store(1, std::memory_order_release);
    if (i >= participants_high()) {
      // No participant has had this slot, so its list may hold any bytes.
      record.versions.oldest = record.versions.newest = 0;
      record.versions.live_count.store(0, std::memory_order_relaxed);
      state_->participants_high.store(i + 1, std::memory_order_release);
    }
    *slot = i;
    return Errc::kOk;
  }
  return fail(Errc::kTooManyParticipants, "65536 processes are attached");
}

Errc SharedFiles::allocate_blocks(PageId first, std::uint64_t page_count) noexcept {
  TMH_ASSERT(page_count > 0);
  TMH_ASSERT(storage::segment_number(first) < storage::kSegmentsMax);
  SegmentMemory &memory = segments_[storage::segment_number(first)];
  TMH_TRY(memory.home.allocate_blocks(storage::page_offset(first), page_count * kPageBytes));
  // Metadata is 1/64 of home. Home's blocks never straddle two of its.
  return memory.meta_file.reserve(
      static_cast<std::uint64_t>(storage::page_index(first)) * sizeof(PageMeta),
      page_count * sizeof(PageMeta));
}

Errc SharedFiles::open_state(const platform::FolderLock::Held &lock, bool *fresh) noexcept {
  TMH_ASSERT(lock.is_valid());
  FoundFiles found(folder_);
  TMH_TRY(found.look(*control_, control_file_.fd()));
  const bool is_made_anew = found.state() == FoundFiles::State::kNone;
  if (is_made_anew) remove_rebuildable_files(lock);
  TMH_TRY(open_rebuildable());
  if (is_made_anew) begin_state();
  bool is_used = false;
  TMH_TRY(look_for_users(lock, &is_used));
  *fresh = !is_used;
  if (!*fresh && found.is_copy())
    return fail(
        Errc::kDomainInUse,
        folder_ + " is a copy of the folder of a domain that is in use: make it by backup()");
  TMH_TRY(control_hold_.acquire(path("tmh.control"), control_file_.fd()));
  TMH_TRY(participants_hold_.acquire(path("tmh.participants"), participants_file_.fd()));
  if (!*fresh) return enter_rebuildable(false);
  state_->pid_namespace = place_.pids;
  state_->time_namespace = place_.clock;
  in_place_.forget(found.is_copy());  // before what it lists goes
  // Page metadata is about versions, which a repair links anew, and about the living, of whom there
  // are none.
  storage::remove_segment_files(folder_, {storage::name_before(SegmentFile::kPages)});
  // Only when alone: a living participant grows files and capacity together, and a capacity cut in
  // between would lose its versions.
  TMH_TRY(bound_state());
  TMH_TRY(enter_rebuildable(true));
  storage::store_open_mark(&control_->header, storage::open_mark(control_file_.fd()));
  has_begun_ = true;
  return Errc::kOk;
}

// Files that grow and shrink have their length from the first participant, and from the participant
// that changes it.
Errc SharedFiles::enter_rebuildable(bool is_first) noexcept {
  const std::uint64_t slots =
      is_first ? state_->version_capacity.load(std::memory_order_relaxed) : 0;
  const std::uint64_t entries = is_first ? state_->log_capacity : 0;
  const std::uint64_t accesses = is_first ? state_->access_capacity : 0;
  TMH_TRY(in_place_.enter(DomainFile::kControl, control_file_.fd(), storage::kControlBytes));
  TMH_TRY(in_place_.enter(DomainFile::kState, state_file_.fd(), sizeof(DomainState)));
  TMH_TRY(in_place_.enter(DomainFile::kParticipants, participants_file_.fd(),
                          storage::kParticipantsMax * sizeof(storage::Participant)));
  TMH_TRY(in_place_.enter(DomainFile::kVersionHeads, version_heads_file_.fd(),
                          slots * sizeof(VersionHead)));
  TMH_TRY(in_place_.enter(DomainFile::kVersionData, version_data_file_.fd(), slots * kPageBytes));
  TMH_TRY(in_place_.enter(DomainFile::kCommits, commits_.file().fd(),
                          entries * sizeof(CommitLogEntry)));
  return in_place_.enter(DomainFile::kAccesses, accesses_file_.fd(),
                         accesses * sizeof(AccessEntry));
}

// What the domain cannot do without is looked at before anything goes: it may be put back instead.
// Shared memory goes only where a part of it has gone already.
Errc SharedFiles::accept_files(const platform::FolderLock::Held &lock, const std::string &folder,
                               bool *keeps_shared) noexcept {
  TMH_ASSERT(lock.is_valid());
  bool is_held = false;
  TMH_TRY(FoundFiles::look_for_holder(folder, &is_held));
  if (is_held) return fail(Errc::kDomainInUse, folder);
  const std::string path = file_in(folder, DomainFile::kControl);
  std::string bytes;
  TMH_TRY(read_control(path, &bytes));
  const auto control = storage::new_control(0, 0);
  std::memcpy(static_cast<void *>(control.get()), bytes.data(), sizeof *control);
  const auto need = [](const std::string &file, std::uint64_t least) {
    struct stat info {};
    return stat(file.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
                   static_cast<std::uint64_t>(info.st_size) >= least
               ? Errc::kOk
               : fail(Errc::kFileReplaced, file + " is not there as a whole: put it back first");
  };
  for (const storage::SegmentRecordV1 &record : control->segments) {
    if (!storage::is_used(record)) continue;
    const std::string name = record.name;
    TMH_TRY(need(name.front() == '/' ? name : folder + "/" + name,
                 record.offset_bytes + record.size_bytes));
  }
  if (control->header.durability != 0)
    TMH_TRY(need(file_in(folder, DomainFile::kCheckpoint), 2 * sizeof(storage::CheckpointV1)));
  TMH_TRY(FoundFiles(folder).look_for_shared(*control, keeps_shared));
  if (*keeps_shared)
    return overwrite(file_in(folder, DomainFile::kState), offsetof(DomainState, files),
                     sizeof(storage::FileTable));
  // The mark last: death before that leaves the folder refused.
  remove_rebuildable_files(lock, folder);
  return overwrite(path,
                   offsetof(storage::ControlFile, header) +
                       offsetof(storage::ControlHeaderV1, acknowledged_early),
                   offsetof(storage::ControlHeaderV1, reserved_zero) -
                       offsetof(storage::ControlHeaderV1, acknowledged_early));
}

void SharedFiles::begin_state() noexcept {
  TMH_ASSERT(control_ != nullptr && state_ != nullptr);
  const platform::BootId boot = platform::this_boot();
  state_->version = kStateVersion;
  state_->state_bytes = sizeof(DomainState);
  std::memcpy(state_->boot_id, boot.text, sizeof boot.text);
  std::memcpy(state_->domain_id, control_->header.domain_id, sizeof state_->domain_id);
  state_->life = storage::new_life();
  state_->pid_namespace = place_.pids;
  state_->time_namespace = place_.clock;
  state_->incarnation_next.store(1, std::memory_order_relaxed);
  state_->age_next.store(1, std::memory_order_relaxed);
  state_->clock.store(1, std::memory_order_relaxed);
  state_->version_capacity.store(1, std::memory_order_relaxed);  // slot 0 means none
  state_->access_capacity = 1;
  state_->log_capacity = kLogChunk;
  storage::store_life(&control_->header, state_->life);
  std::atomic_signal_fence(std::memory_order_seq_cst);  // death before this: made anew once more
  state_->magic = kStateMagic;
}

// A participant in another container cannot be looked up by pid: then the kernel tells whether a
// process holds the table. (Not otherwise: a forked child would be taken for its parent.)
Errc SharedFiles::look_for_users(const platform::FolderLock::Held &lock,
                                 bool *is_used) const noexcept {
  TMH_ASSERT(lock.is_valid());
  if (state_->pid_namespace == place_.pids && state_->time_namespace == place_.clock) {
    *is_used = anyone_alive();
    return Errc::kOk;
  }
  *is_used = false;
  bool is_held = false;
  TMH_TRY(FoundFiles::look_for_holder(folder_, &is_held));
  return !is_held ? Errc::kOk
                  : fail(Errc::kDomainInUse, folder_ +
                                                 ": the processes that use it are in another pid "
                                                 "or time namespace (container) than this "
                                                 "one; a domain's share one of each");
}

// Numbers that index files must fit the files, whatever damaged them. Links are not believed at
// all: the first participant repairs.
Errc SharedFiles::bound_state() noexcept {
  const auto items_of = [](const platform::GrowingFile &file, std::uint64_t item_bytes) {
    struct stat info {};
    return fstat(file.fd(), &info) == 0 ? static_cast<std::uint64_t>(info.st_size) / item_bytes : 0;
  };
  const std::uint64_t slots = std::min(items_of(version_heads_file_, sizeof(VersionHead)),
                                       items_of(version_data_file_, kPageBytes));
  const std::uint64_t capacity = state_->version_capacity.load(std::memory_order_relaxed);
  if (capacity > slots && versions_live() > 0)
    return fail(Errc::kCorrupt, path("tmh.versions.*") +
                                    " are shorter than tmh.state says, and hold committed data");
  if (capacity > slots || capacity == 0)
    state_->version_capacity.store(
        static_cast<std::uint32_t>(std::max<std::uint64_t>(1, std::min(slots, kVersionsMax))),
        std::memory_order_relaxed);
  const std::uint64_t entries = items_of(accesses_file_, sizeof(AccessEntry));
  if (state_->access_capacity > entries || state_->access_capacity == 0)
    state_->access_capacity =
        static_cast<std::uint32_t>(std::max<std::uint64_t>(1, std::min(entries, kAccessesMax)));
  const Errc error = commits_.bound();
  return error == Errc::kOk ? error : fail(error, path("tmh.commits"));
}

Errc SharedFiles::open_rebuildable() noexcept {
  struct File {
    platform::GrowingFile *file;
    const char *name;
    std::uint64_t bytes_min, bytes_max;
    Blocks blocks;
  };
  const std::uint64_t participants_bytes = storage::kParticipantsMax * sizeof(storage::Participant);
  const File files[] = {
      {&state_file_, "tmh.state", sizeof(DomainState), kStateBytesMax, Blocks::kAllocated},
      {&participants_file_, "tmh.participants", participants_bytes, participants_bytes,
       Blocks::kSparse},
      {&version_heads_file_, "tmh.versions.head", sizeof(VersionHead),
       kVersionsMax * sizeof(VersionHead), Blocks::kAllocated},
      {&version_data_file_, "tmh.versions.data", kPageBytes, kVersionsMax * kPageBytes,
       Blocks::kSparse},
      {&commits_.file(), "tmh.commits", kLogChunk * sizeof(CommitLogEntry),
       kLogEntries * sizeof(CommitLogEntry), Blocks::kAllocated},
      {&accesses_file_, "tmh.accesses", sizeof(AccessEntry), kAccessesMax * sizeof(AccessEntry),
       Blocks::kAllocated},
  };
  for (const File &f : files) {
    TMH_TRY(f.file->open(path(f.name), f.bytes_min, f.bytes_max, f.blocks));
  }
  loads_take_blocks_ = platform::loads_take_blocks(state_file_.fd());
  state_ = reinterpret_cast<DomainState *>(state_file_.base());
  participants_ = reinterpret_cast<storage::Participant *>(participants_file_.base());
  version_heads_ = reinterpret_cast<VersionHead *>(version_heads_file_.base());
  version_data_ = version_data_file_.base();
  commits_.use(*state_);
  accesses_ = reinterpret_cast<AccessEntry *>(accesses_file_.base());
  if (participants_high() > storage::kParticipantsMax)  // damaged
    state_->participants_high.store(storage::kParticipantsMax, std::memory_order_relaxed);
  return Errc::kOk;
}

bool SharedFiles::has_rebuildable_files(const std::string &folder) noexcept {
  return platform::has_entry(storage::latency_path(folder)) ||
         std::any_of(std::begin(kRebuildable), std::end(kRebuildable),
                     [&](DomainFile file) { return platform::has_entry(file_in(folder, file)); });
}

// The mark first: shared memory that is gone while it stands was taken away.
void SharedFiles::remove_rebuildable_files(const platform::FolderLock::Held &lock) noexcept {
  TMH_ASSERT(lock.is_valid());
  if (control_ != nullptr) storage::store_open_mark(&control_->header, 0);
  remove_rebuildable_files(lock, folder_);
}

void SharedFiles::remove_rebuildable_files(const platform::FolderLock::Held &lock,
                                           const std::string &folder) noexcept {
  TMH_ASSERT(lock.is_valid());
  for (const DomainFile file : kRebuildable) unlink(file_in(folder, file).c_str());
  unlink(storage::latency_path(folder).c_str());
  const char *const home = storage::name_before(SegmentFile::kHome);
  // new: made, and not yet in its place
  for (const storage::SegmentFileName name :
       {storage::SegmentFileName{storage::name_before(SegmentFile::kPages)},
        {home},
        {home, ".new"},
        {storage::name_before(SegmentFile::kChanges)}})
    storage::remove_segment_files(folder, name);
}

void SharedFiles::close_rebuildable() noexcept {
  for (auto *file : {&state_file_, &participants_file_, &version_heads_file_, &version_data_file_,
                     &commits_.file(), &accesses_file_, &log_state_file_})
    file->close();
  participants_hold_.reset();
  control_hold_.reset();
  state_ = nullptr;
  log_state_ = nullptr;
}

Errc SharedFiles::open_log_state(bool *usable) noexcept {
  TMH_ASSERT(state_ != nullptr);
  TMH_ASSERT(is_durable());
  const bool existed = platform::has_entry(path("tmh.log.state"));
  TMH_TRY(log_state_file_.open(path("tmh.log.state"), storage::kLogStateBytes,
                               storage::kLogStateBytes, Blocks::kAllocated));
  log_state_ = reinterpret_cast<storage::LogState *>(log_state_file_.base());
  TMH_TRY(in_place_.enter(DomainFile::kLogState, log_state_file_.fd(), storage::kLogStateBytes));
  for (std::uint32_t i = 0; i < storage::kSegmentsMax; ++i)
    if (segments_[i].is_open.load(std::memory_order_relaxed))
      segments_[i].opened_at = data_syncs_begun();
  *usable = existed && log_state_->magic == storage::kLogStateMagic &&
            log_state_->version == storage::kLogStateVersion;
  return Errc::kOk;
}

Errc SharedFiles::start_over(const platform::FolderLock::Held &lock) noexcept {
  TMH_ASSERT(lock.is_valid());
  TMH_ASSERT(control_ != nullptr);
  for (std::uint32_t i = 0; i < storage::kSegmentsMax; ++i) segments_[i].meta_file.close();
  segments_ = std::make_unique<SegmentMemory[]>(storage::kSegmentsMax);
  close_rebuildable();
  separate_homes_ = false;
  remove_rebuildable_files(lock);
  bool fresh = false;
  TMH_TRY(open_state(lock, &fresh));
  return open_segments();
}

Errc SharedFiles::grow_versions(const DomainLock::Held &held, std::uint32_t capacity) noexcept {
  TMH_ASSERT(held.is_valid());
  if (capacity > kVersionsMax) return Errc::kOutOfMemory;
  TMH_TRY(version_heads_file_.grow(std::uint64_t{capacity} * sizeof(VersionHead)));
  TMH_TRY(version_data_file_.grow(std::uint64_t{capacity} * kPageBytes));
  in_place_.note_versions(held, capacity);
  return Errc::kOk;
}

void SharedFiles::shrink_versions(const DomainLock::Held &held, std::uint32_t capacity) noexcept {
  TMH_ASSERT(held.is_valid());
  TMH_ASSERT(capacity > 0 && capacity <= kVersionsMax);
  in_place_.note_versions(held, capacity);
  version_data_file_.shrink(std::uint64_t{capacity} * kPageBytes);
  version_heads_file_.shrink(std::uint64_t{capacity} * sizeof(VersionHead));
}

Errc SharedFiles::grow_accesses(const DomainLock::Held &held, std::uint32_t capacity) noexcept {
  TMH_ASSERT(held.is_valid());
  TMH_ASSERT(capacity > 0);
  if (capacity > kAccessesMax) return Errc::kOutOfMemory;
  TMH_TRY(accesses_file_.grow(std::uint64_t{capacity} * sizeof(AccessEntry)));
  in_place_.note_accesses(held, capacity);
  return Errc::kOk;
}

}  // namespace tmh::page
