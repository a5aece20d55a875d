// levels/page/domain_memory.cpp -- opening, creating and removing the domain's files: control,
// segments, homes, slots.
#include "levels/page/domain_memory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <new>
#include <set>

#include "levels/page/changed_pages.h"
#include "levels/page/lines.h"
#include "platform/disk.h"
#include "platform/failure.h"
#include "platform/fence.h"

namespace tmh::page {

using platform::fail;
using platform::fail_errno;

namespace {

using Blocks = platform::GrowingFile::Blocks;

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
  if (const Errc error = platform::read_file(file, 2 * storage::kControlBytes, bytes);
      error != Errc::kOk)
    return error;
  std::string why;
  try {
    const Errc error = storage::verify_control(bytes->data(), bytes->size(), &why);
    return error == Errc::kOk ? error : fail(error, file + ": " + why);
  } catch (const std::bad_alloc &) {
    return fail(Errc::kOutOfMemory, file);
  }
}

}  // namespace

Errc DomainMemory::read_durable(const std::string &folder, bool *is_durable) noexcept {
  std::string bytes;
  if (const Errc error = read_control(folder + "/tmh.control", &bytes); error != Errc::kOk)
    return error;
  storage::ControlHeaderV1 header;
  std::memcpy(&header, bytes.data() + offsetof(storage::ControlFile, header), sizeof header);
  *is_durable = header.durability != 0;
  return Errc::kOk;
}

Errc DomainMemory::check_owner(const std::string &folder) noexcept {
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

Errc DomainMemory::open(const std::string &folder, std::uint64_t address_base,
                        std::uint32_t durability, bool *fresh) noexcept {
  folder_ = folder;
  segments_.reset(new (std::nothrow) SegmentMemory[storage::kSegmentsMax]);
  if (segments_ == nullptr) return fail(Errc::kOutOfMemory, folder);
  if (const Errc error = make_folder(folder); error != Errc::kOk) return error;
  if (const Errc error = platform::this_place(&place_); error != Errc::kOk) return error;
  if (const Errc error = open_control(address_base, durability); error != Errc::kOk) return error;
  if (const Errc error = open_state(fresh); error != Errc::kOk) return error;
  // What an earlier life of the domain could not sync is in the control file all the same, and will
  // be relied on.
  if (*fresh)
    if (const Errc error = sync_control(control_, sizeof *control_); error != Errc::kOk)
      return error;
  // The first participant decides anew, once the data files are right.
  separate_homes_ = !*fresh && is_durable() && has_level_below();
  return open_segments();
}

Errc DomainMemory::open_control(std::uint64_t address_base, std::uint32_t durability) noexcept {
  const std::string file = path("tmh.control");
  struct stat info {};
  if (lstat(file.c_str(), &info) != 0) {
    if (errno != ENOENT) return fail_errno(Errc::kIo, file);
    if (const Errc error = refuse_orphaned(); error != Errc::kOk) return error;
    if (const Errc error = storage::refuse_remains(folder_); error != Errc::kOk) return error;
    is_new_ = true;
    const auto made = storage::new_control(geteuid(), address_base, durability);
    remove_rebuildable_files();
    if (const Errc error = platform::replace_file(file, made.get(), sizeof *made);
        error != Errc::kOk)
      return error;
  }
  std::string bytes;
  if (const Errc error = read_control(file, &bytes); error != Errc::kOk) return error;
  if (const Errc error = control_file_.open(file, storage::kControlBytes, storage::kControlBytes,
                                            Blocks::kAllocated);
      error != Errc::kOk)
    return error;
  control_ = reinterpret_cast<storage::ControlFile *>(control_file_.base());
  found_life_ = storage::life_of(control_->header);
  return settle_sizes();
}

Errc DomainMemory::tell_life(bool is_lived_in) noexcept {
  storage::store_life(&control_->header, is_lived_in ? state_->life : 0);
  return sync_control(&control_->header, sizeof control_->header);
}

// REQUIRES the folder lock: no participant is growing a segment.
Errc DomainMemory::settle_sizes() noexcept {
  for (storage::SegmentRecordV1 &record : control_->segments) {
    if (!storage::is_used(record) || storage::promised_size(record) == record.size_bytes) continue;
    struct stat info {};
    const bool exists = stat(segment_path(record).c_str(), &info) == 0;
    // The promiser may have died before it was on disk; others may be here and use the size at
    // once.
    if (const Errc error = sync_control(&record, sizeof record); error != Errc::kOk) return error;
    std::string why;
    if (const Errc error = storage::settle_size(
            &record, exists ? static_cast<std::uint64_t>(info.st_size) : 0, &why);
        error != Errc::kOk)
      return fail(error, path("tmh.control") + ": " + why);
  }
  return Errc::kOk;
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

Errc DomainMemory::check_in_place() const {
  const auto is_named = [this](const platform::GrowingFile &file, const char *name) {
    struct stat here {};
    struct stat there {};
    return fstat(file.fd(), &here) == 0 && stat(path(name).c_str(), &there) == 0 &&
           here.st_dev == there.st_dev && here.st_ino == there.st_ino;
  };
  const bool is_in_place =
      is_named(control_file_, "tmh.control") && is_named(state_file_, "tmh.state") &&
      std::memcmp(state_->domain_id, control_->header.domain_id, sizeof state_->domain_id) == 0 &&
      state_->life == storage::life_of(control_->header);
  return is_in_place ? Errc::kOk
                     : fail(Errc::kNotADomain,
                            folder_ +
                                " is not the folder that this process opened: its files were "
                                "removed or replaced");
}

bool DomainMemory::is_of_found_life(const std::uint64_t (&domain_id)[2],
                                    std::uint64_t life) const noexcept {
  return std::memcmp(domain_id, control_->header.domain_id, sizeof domain_id) == 0 &&
         life == found_life_;
}

Errc DomainMemory::promise_size(std::uint32_t number, std::uint64_t size_bytes) noexcept {
  if (!is_durable()) return Errc::kOk;
  storage::promise_size(&control_->segments[number], size_bytes);
  return sync_control(&control_->segments[number], sizeof control_->segments[number]);
}

Errc DomainMemory::sync_control(const void *from, std::size_t bytes) noexcept try {
  if (!is_durable()) return Errc::kOk;
  const std::string file = path("tmh.control");
  const auto earlier =
      log_state_ != nullptr
          ? static_cast<Errc>(log_state_->control_error.load(std::memory_order_acquire))
          : Errc::kOk;
  if (earlier != Errc::kOk)
    return fail(earlier, file + ": an earlier sync failed; all have to close the domain");
  const auto offset =
      static_cast<std::uint64_t>(static_cast<const std::byte *>(from) - control_file_.base());
  platform::home_written(file, offset, from, bytes);
  make_control_dirty();
  platform::DiskFile control;
  // It has been looked at when the domain was opened. A second name that it got since, as by a
  // snapshot of hard links, is no reason to stop.
  Errc error = control.open(file, platform::DiskFile::Mode::kRead, platform::FileRole::kSegment);
  if (error != Errc::kOk) return error;
  error = control.sync();
  if (error != Errc::kOk && log_state_ != nullptr)
    log_state_->control_error.store(static_cast<std::uint32_t>(error), std::memory_order_release);
  return error;
} catch (const std::bad_alloc &) {
  return platform::fail_for_memory("the name of tmh.control");
}

// Pages that could not be written are clean ever after, and syncing them succeeds. So each sync
// writes all of the file: what failed in an earlier life of the domain, or in a process that died
// before it could say so. A page's last word is reserved: no instance reads it plainly.
void DomainMemory::make_control_dirty() noexcept {
  for (std::uint64_t page = 0; page < storage::kControlBytes; page += kPageBytes) {
    std::byte *const last = control_file_.base() + page + kPageBytes - sizeof(std::uint64_t);
    const std::atomic_ref<std::uint64_t> word(*reinterpret_cast<std::uint64_t *>(last));
    std::uint64_t as_it_is = word.load(std::memory_order_relaxed);
    (void)word.compare_exchange_strong(as_it_is, as_it_is, std::memory_order_relaxed);
  }
}

// By any of its names: through links, too, the kernel knows one file.
std::uint32_t DomainMemory::file_of(std::uint32_t segment,
                                    const storage::SegmentRecordV1 &record) const noexcept {
  struct stat mine {};
  const bool exists = segment > 0 && stat(segment_path(record).c_str(), &mine) == 0;
  for (std::uint32_t i = 0; i < segment; ++i) {
    const storage::SegmentRecordV1 &other = control_->segments[i];
    if (!storage::is_used(other)) continue;
    if (std::strcmp(other.name, record.name) == 0) return i;
    struct stat theirs {};
    if (exists && stat(segment_path(other).c_str(), &theirs) == 0 && theirs.st_dev == mine.st_dev &&
        theirs.st_ino == mine.st_ino)
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
    if (storage::is_used(control_->segments[i]))
      now[i] = segment_size(i).load(std::memory_order_acquire);
  }
  if (const Errc error = sync_control(control_, sizeof *control_); error != Errc::kOk) return error;
  // relaxed: another thread's older look may win, which costs a sync more
  for (std::uint32_t i = 0; i < storage::kSegmentsMax; ++i)
    durable_bytes_[i].store(now[i], std::memory_order_relaxed);
  return Errc::kOk;
}

Errc DomainMemory::fail_behind_end(PageId page) const noexcept {
  const char *const name = control_->segments[storage::segment_number(page)].name;
  return fail(Errc::kNotMapped,
              std::string(name) + ": stored to byte " + std::to_string(storage::page_offset(page)) +
                  " or behind it, where its file goes on and the segment has ended");
}

void DomainMemory::tell_home_written(PageId page, LineMask lines) const noexcept {
  if (separate_homes_) return;
  const storage::SegmentRecordV1 &record = control_->segments[storage::segment_number(page)];
  const std::string file = segment_path(record);
  for (; lines != 0; lines &= lines - 1) {
    const auto in_page = static_cast<std::uint64_t>(std::countr_zero(lines)) * kLineBytes;
    platform::home_written(file, record.offset_bytes + storage::page_offset(page) + in_page,
                           home(page) + in_page, kLineBytes);
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
  // pid and start time were read before the incarnation is read again
  platform::fence(std::memory_order_acquire);
  return is_alive && names_holder();
}

Errc DomainMemory::open_segments() noexcept {
  const std::scoped_lock guard(opening_);
  const std::uint32_t generation = segment_generation();
  for (std::uint32_t i = 0; i < storage::kSegmentsMax; ++i) {
    const storage::SegmentRecordV1 &record = control_->segments[i];
    SegmentMemory &memory = segments_[i];
    if (!storage::is_used(record) || memory.is_open.load(std::memory_order_relaxed)) continue;
    const std::uint64_t size = segment_size(i).load(std::memory_order_acquire);
    if (const Errc error = memory.home.open(segment_path(record), record.offset_bytes, size,
                                            record.max_bytes, false);
        error != Errc::kOk)
      return error;
    const std::uint64_t meta_bytes = record.max_bytes / kPageBytes * sizeof(PageMeta);
    if (const Errc error =
            memory.meta_file.open(meta_path(i), meta_bytes, meta_bytes, Blocks::kSparse);
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

// REQUIRES the folder lock, unless the maker of the segment has done it.
Errc DomainMemory::open_separate(std::uint32_t segment) noexcept {
  return segments_[segment].home.separate(home_path(segment));
}

Errc DomainMemory::separate_homes() noexcept {
  separate_homes_ = true;
  for (std::uint32_t i = 0; i < storage::kSegmentsMax; ++i) {
    if (!segments_[i].is_open.load(std::memory_order_relaxed)) continue;
    if (const Errc error = open_separate(i); error != Errc::kOk) return error;
    if (const Errc error = prepare_changes(i, segment_size(i).load(std::memory_order_relaxed));
        error != Errc::kOk)
      return error;
  }
  return Errc::kOk;
}

Errc DomainMemory::prepare_changes(std::uint32_t number, std::uint64_t size_bytes) const noexcept {
  return separate_homes_
             ? ChangedPages::prepare(folder_, number, control_->segments[number], size_bytes)
             : Errc::kOk;
}

std::string DomainMemory::segment_path(const storage::SegmentRecordV1 &record) const {
  return record.name[0] == '/' ? std::string(record.name) : path(record.name);
}

Errc DomainMemory::add_segment(std::uint32_t number,
                               const storage::SegmentRecordV1 &record) noexcept {
  {
    storage::Home made;  // creates or extends the file before the record that promises it
    if (const Errc error = made.open(segment_path(record), record.offset_bytes, record.size_bytes,
                                     record.max_bytes, true);
        error != Errc::kOk)
      return error;
    if (is_durable()) {
      const std::uint32_t file = file_of(number, record);
      if (file == number && log_state_ != nullptr) log_state_->data_syncs.forget(file);
      if (const Errc error = sync_data(&made, file); error != Errc::kOk) return error;
      std::string file_made;  // in another folder, if a symbolic link leads there
      if (const Errc error = platform::follow_links(segment_path(record), &file_made);
          error != Errc::kOk)
        return error;
      for (const std::string &named : {segment_path(record), file_made})
        if (const Errc error = platform::sync_folder(folder_of(named)); error != Errc::kOk)
          return error;
    }
    // Before any participant sees the segment: others open it without the folder lock.
    if (separate_homes_) {
      unlink(home_path(number).c_str());  // of one who died making a segment of this number
      if (const Errc error = made.separate(home_path(number)); error != Errc::kOk) return error;
      const Errc error = ChangedPages::prepare(folder_, number, record, record.size_bytes);
      if (error != Errc::kOk) return error;
    }
  }
  storage::SegmentRecordV1 *const entry = &control_->segments[number];
  storage::begin_record(entry);
  if (const Errc error = sync_control(entry, sizeof *entry); error != Errc::kOk) return error;
  storage::SegmentRecordV1 sealed = record;
  sealed.state = static_cast<std::uint32_t>(storage::RecordState::kUsed);
  storage::seal(&sealed);
  storage::store_size(&sealed, record.size_bytes);
  storage::store_record(entry, sealed);
  if (const Errc error = tell_of_segment(number); error != Errc::kOk) return error;
  return open_segments();
}

Errc DomainMemory::tell_of_segment(std::uint32_t number) noexcept {
  // Within one sector: a power cut leaves the old or the new one.
  const storage::SegmentRecordV1 &record = control_->segments[number];
  if (const Errc error = sync_control(&record, sizeof record); error != Errc::kOk) return error;
  // release: pairs with segment_generation()
  std::atomic_ref<std::uint32_t>(control_->header.segment_generation)
      .fetch_add(1, std::memory_order_release);
  return Errc::kOk;
}

Errc DomainMemory::attach_slot(const std::string &name, std::uint32_t *slot) noexcept {
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
    if (participants_[i].state.load(std::memory_order_acquire) != 0 && participants_[i].is_alive())
      return true;
  }
  return false;
}

std::string DomainMemory::who_has_it_open() const {
  std::string first;
  std::set<std::int32_t> processes;  // threads with views of their own have slots, too
  for (std::uint32_t i = 0; i < participants_high(); ++i) {
    const storage::Participant &record = participants_[i];
    if (record.state.load(std::memory_order_acquire) == 0 || !record.is_alive()) continue;
    if (processes.empty())
      first = ": process " + std::to_string(record.pid) + " (" +
              std::string(record.name, strnlen(record.name, sizeof record.name)) + ")";
    processes.insert(record.pid);
  }
  if (processes.empty()) return {};
  if (processes.size() == 1) return first + " has it open";
  return first + " and " + std::to_string(processes.size() - 1) + " more have it open";
}

Errc DomainMemory::allocate_blocks(PageId first, std::uint64_t page_count) noexcept {
  SegmentMemory &memory = segments_[storage::segment_number(first)];
  if (const Errc error =
          memory.home.allocate_blocks(storage::page_offset(first), page_count * kPageBytes);
      error != Errc::kOk)
    return error;
  // Metadata is 1/64 of home. Home's blocks never straddle two of its.
  return memory.meta_file.reserve(
      static_cast<std::uint64_t>(storage::page_index(first)) * sizeof(PageMeta),
      page_count * sizeof(PageMeta));
}

Errc DomainMemory::reserve_links() const noexcept {
  for (Slot slot = 1; slot < state_->version_capacity.load(std::memory_order_relaxed); ++slot) {
    const PageId page{version(slot).page};
    if (!knows(page)) continue;
    if (const Errc error = reserve_meta(page); error != Errc::kOk)
      return fail(error, meta_path(storage::segment_number(page)));
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

}  // namespace tmh::page
