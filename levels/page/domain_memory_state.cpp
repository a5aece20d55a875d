// levels/page/domain_memory_state.cpp -- what the participants of a domain share and can make anew:
// opening, checking, growing, removing.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "levels/page/changed_pages.h"
#include "levels/page/domain_memory.h"
#include "levels/storage/segment_files.h"
#include "platform/failure.h"
#include "platform/page_tables.h"

namespace tmh::page {

using platform::fail;
using platform::fail_errno;

namespace {

using Blocks = platform::GrowingFile::Blocks;

// What a copy of the file has not in common with it.
std::uint64_t number_of(const platform::GrowingFile &file) noexcept {
  struct stat info {};
  if (fstat(file.fd(), &info) != 0) return 0;
  // the golden ratio: devices far apart
  return info.st_ino + info.st_dev * 0x9e37'79b9'7f4a'7c15ull;
}

constexpr const char *kRebuildable[] = {
    "tmh.state",   "tmh.participants", "tmh.versions.head", "tmh.versions.data",
    "tmh.commits", "tmh.accesses",     "tmh.log.state",     "tmh.latency"};
// And the segment's number.
constexpr const char *kMetaName = "tmh.pages.";
constexpr const char *kHomeName = "tmh.home.";

}  // namespace

std::string DomainMemory::meta_path(std::uint32_t segment) const {
  return folder_ + "/" + kMetaName + std::to_string(segment);
}

std::string DomainMemory::home_path(std::uint32_t segment) const {
  return folder_ + "/" + kHomeName + std::to_string(segment);
}

// Only the identity is looked at before the file is mapped. kForeignVersion: others may be using
// it.
Errc DomainMemory::look_at_state(Found *found) const noexcept {
  *found = Found::kNothing;
  const platform::BootId boot = platform::this_boot();
  if (!boot.is_known())
    return fail_errno(
        Errc::kIo,
        "/proc/sys/kernel/random/boot_id, which tells what is left from before a reboot");
  std::string bytes;
  // Whatever hinders us from reading the file is an error: others may be using it.
  if (platform::has_entry(path("tmh.state"))) {
    if (const Errc error = platform::read_file(path("tmh.state"), 1u << 20, &bytes);
        error != Errc::kOk)
      return error;
  } else if (errno != ENOENT) {
    return fail_errno(Errc::kIo, path("tmh.state"));
  }
  if (bytes.size() < offsetof(DomainState, incarnation_next)) return Errc::kOk;
  const auto *state = reinterpret_cast<const DomainState *>(bytes.data());
  // Damaged, or of another boot: nobody of this machine can be attached, so what is rebuildable is
  // made anew.
  if (state->magic != kStateMagic ||
      std::memcmp(state->boot_id, boot.text, sizeof boot.text) != 0) {
    bool is_held = false;
    if (const Errc error = look_for_holder(&is_held); error != Errc::kOk) return error;
    return !is_held ? Errc::kOk
                    : fail(Errc::kDomainInUse,
                           folder_ + ": processes of another machine, or another boot, use it");
  }
  if (state->version != kStateVersion || state->state_bytes != sizeof(DomainState) ||
      bytes.size() < sizeof(DomainState))
    return fail(
        Errc::kForeignVersion,
        path("tmh.state") + " is of another version that is, or was, in use since this boot");
  const bool is_ours = control_ != nullptr && is_of_found_life(state->domain_id, state->life);
  *found = is_ours ? Found::kOurs : Found::kAnothers;
  return Errc::kOk;
}

Errc DomainMemory::open_state(bool *fresh) noexcept {
  Found found{};
  if (const Errc error = look_at_state(&found); error != Errc::kOk) return error;
  if (found == Found::kAnothers)
    if (const Errc error = refuse_anothers(); error != Errc::kOk) return error;
  if (found != Found::kOurs) remove_rebuildable_files();
  if (const Errc error = open_rebuildable(); error != Errc::kOk) return error;
  if (found != Found::kOurs) begin_state();
  bool is_used = false;
  if (const Errc error = look_for_users(&is_used); error != Errc::kOk) return error;
  *fresh = !is_used;
  if (!*fresh && state_->file != number_of(state_file_))
    return fail(
        Errc::kDomainInUse,
        folder_ + " is a copy of the folder of a domain that is in use: make it by backup()");
  // Only when alone: a living participant grows files and capacity together, and a capacity cut in
  // between would lose its versions.
  if (const Errc error = platform::hold(participants_file_.fd(), path("tmh.participants"));
      error != Errc::kOk)
    return error;
  if (!*fresh) return Errc::kOk;
  state_->pid_namespace = place_.pids;
  state_->time_namespace = place_.clock;
  // a copy of what the dead have left is a domain of its own from here on
  state_->file = number_of(state_file_);
  // Page metadata is about versions, which a repair links anew, and about the living, of whom there
  // are none.
  storage::remove_segment_files(folder_, {kMetaName});
  return bound_state();
}

void DomainMemory::begin_state() noexcept {
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

// The durable files are of another domain, or of another life of this one, than those that all
// participants share: a user has copied them here.
Errc DomainMemory::refuse_anothers() noexcept {
  if (const Errc error = open_rebuildable(); error != Errc::kOk) return error;
  bool is_used = false;
  const Errc error = look_for_users(&is_used);
  close_rebuildable();
  if (error != Errc::kOk) return error;
  return !is_used ? Errc::kOk
                  : fail(Errc::kDomainInUse,
                         folder_ + ": processes use the domain whose files were here before");
}

Errc DomainMemory::look_for_holder(bool *is_held) const noexcept {
  return platform::look_for_holder(path("tmh.participants"), is_held);
}

// Who is in another container cannot be looked up by pid: then the kernel tells whether anybody
// holds the table. (Not otherwise: a forked child would be taken for its parent.)
Errc DomainMemory::look_for_users(bool *is_used) const noexcept {
  if (state_->pid_namespace == place_.pids && state_->time_namespace == place_.clock) {
    *is_used = anyone_alive();
    return Errc::kOk;
  }
  *is_used = false;
  bool is_held = false;
  if (const Errc error = look_for_holder(&is_held); error != Errc::kOk) return error;
  return !is_held ? Errc::kOk
                  : fail(Errc::kDomainInUse, folder_ +
                                                 ": the processes that use it are in another pid "
                                                 "or time namespace (container) than this "
                                                 "one; a domain's share one of each");
}

// There is no control file, but perhaps there are those who have it open. Two domains would share
// their data files.
Errc DomainMemory::refuse_orphaned() noexcept {
  Found found{};
  if (const Errc error = look_at_state(&found); error != Errc::kOk) return error;
  return found == Found::kNothing ? Errc::kOk : refuse_anothers();
}

// Numbers that index files must fit the files, whatever damaged them. Links are not believed at
// all: the first participant repairs.
Errc DomainMemory::bound_state() noexcept {
  const auto items_of = [](const platform::GrowingFile &file, std::uint64_t item_bytes) {
    struct stat info {};
    return fstat(file.fd(), &info) == 0 ? static_cast<std::uint64_t>(info.st_size) / item_bytes : 0;
  };
  const std::uint64_t slots = std::min(items_of(version_heads_file_, sizeof(VersionHead)),
                                       items_of(version_data_, kPageBytes));
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
  // Every entry that the head has passed must have a place, and is written again.
  if (state_->log_capacity < kLogChunk || state_->log_capacity > kLogEntries ||
      state_->log_capacity < state_->log_head.load(std::memory_order_relaxed))
    state_->log_capacity = kLogEntries;
  const std::uint64_t log_bytes = state_->log_capacity * sizeof(CommitLogEntry);
  Errc error = log_file_.grow(log_bytes);
  if (error == Errc::kOk) error = platform::allocate_blocks(log_file_.fd(), 0, log_bytes);
  return error == Errc::kOk ? error : fail(error, path("tmh.commits"));
}

// Twice as much each time, which is seldom: it takes a while on some disks, and the lock is held.
// Where there is no room for that, as much as this commit needs.
Errc DomainMemory::grow_log(std::uint64_t end) noexcept {
  const auto grow_to = [this](std::uint64_t entries) {
    const std::uint64_t wanted =
        std::min((entries + kLogChunk - 1) / kLogChunk * kLogChunk, kLogEntries);
    if (wanted > state_->log_capacity) {
      if (const Errc error = log_file_.grow(wanted * sizeof(CommitLogEntry)); error != Errc::kOk)
        return error;
      state_->log_capacity = wanted;
    }
    log_room_.store(state_->log_capacity, std::memory_order_relaxed);
    return Errc::kOk;
  };
  const std::uint64_t ahead = end + kLogAhead;
  const Errc error =
      grow_to(ahead <= state_->log_capacity ? ahead : std::max(ahead, 2 * state_->log_capacity));
  return error == Errc::kOk ? error : grow_to(end);
}

// Until the ring has come round since this process came: then all of it is there.
void DomainMemory::prepare_log_chunks(std::uint64_t position) noexcept {
  const std::uint64_t here = position / kLogChunk * kLogChunk;
  std::uint64_t prepared = log_prepared_.load(std::memory_order_relaxed);
  if (prepared == 0) log_all_prepared_.store(here + kLogEntries, std::memory_order_relaxed);
  const std::uint64_t room = log_room_.load(std::memory_order_relaxed);
  for (prepared = std::max(prepared, here);
       prepared <= position + kLogAhead && prepared % kLogEntries < room; prepared += kLogChunk)
    (void)platform::populate(&log_entry(prepared), kLogChunk * sizeof(CommitLogEntry), true);
  if (prepared >= log_all_prepared_.load(std::memory_order_relaxed)) prepared = ~0ull;
  log_prepared_.store(prepared, std::memory_order_relaxed);
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
      {&participants_file_, "tmh.participants", participants_bytes, participants_bytes,
       Blocks::kSparse},
      {&version_heads_file_, "tmh.versions.head", sizeof(VersionHead),
       kVersionsMax * sizeof(VersionHead), Blocks::kAllocated},
      {&version_data_, "tmh.versions.data", kPageBytes, kVersionsMax * kPageBytes, Blocks::kSparse},
      {&log_file_, "tmh.commits", kLogChunk * sizeof(CommitLogEntry),
       kLogEntries * sizeof(CommitLogEntry), Blocks::kAllocated},
      {&accesses_file_, "tmh.accesses", sizeof(AccessEntry), kAccessesMax * sizeof(AccessEntry),
       Blocks::kAllocated},
  };
  for (const File &f : files) {
    if (const Errc error = f.file->open(path(f.name), f.bytes_min, f.bytes_max, f.blocks);
        error != Errc::kOk)
      return error;
  }
  loads_take_blocks_ = platform::loads_take_blocks(state_file_.fd());
  state_ = reinterpret_cast<DomainState *>(state_file_.base());
  participants_ = reinterpret_cast<storage::Participant *>(participants_file_.base());
  version_heads_ = reinterpret_cast<VersionHead *>(version_heads_file_.base());
  log_ = reinterpret_cast<CommitLogEntry *>(log_file_.base());
  log_prepared_.store(0, std::memory_order_relaxed);  // alone
  log_room_.store(0, std::memory_order_relaxed);
  accesses_ = reinterpret_cast<AccessEntry *>(accesses_file_.base());
  if (participants_high() > storage::kParticipantsMax)  // damaged
    state_->participants_high.store(storage::kParticipantsMax, std::memory_order_relaxed);
  return Errc::kOk;
}

bool DomainMemory::has_rebuildable_files(const std::string &folder) noexcept {
  return std::any_of(std::begin(kRebuildable), std::end(kRebuildable),
                     [&](const char *name) { return platform::has_entry(folder + "/" + name); });
}

void DomainMemory::remove_rebuildable_files() noexcept {
  for (const char *name : kRebuildable) unlink(path(name).c_str());
  // new: made, and not yet in its place
  for (const storage::SegmentFileName name :
       {storage::SegmentFileName{kMetaName}, {kHomeName}, {kHomeName, ".new"}})
    storage::remove_segment_files(folder_, name);
  ChangedPages::remove_files(folder_);
}

void DomainMemory::close_rebuildable() noexcept {
  for (auto *file : {&state_file_, &participants_file_, &version_heads_file_, &version_data_,
                     &log_file_, &accesses_file_, &log_state_file_})
    file->close();
  state_ = nullptr;
  log_state_ = nullptr;
}

Errc DomainMemory::open_log_state(bool *usable) noexcept {
  const bool existed = platform::has_entry(path("tmh.log.state"));
  if (const Errc error = log_state_file_.open(path("tmh.log.state"), storage::kLogStateBytes,
                                              storage::kLogStateBytes, Blocks::kAllocated);
      error != Errc::kOk)
    return error;
  log_state_ = reinterpret_cast<storage::LogState *>(log_state_file_.base());
  for (std::uint32_t i = 0; i < storage::kSegmentsMax; ++i)
    if (segments_[i].is_open.load(std::memory_order_relaxed))
      segments_[i].opened_at = data_syncs_begun();
  *usable = existed && log_state_->magic == storage::kLogStateMagic &&
            log_state_->version == storage::kLogStateVersion;
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

Errc DomainMemory::grow_versions(const DomainLock::Held &held, std::uint32_t capacity) noexcept {
  TMH_ASSERT(held.is_valid());
  if (capacity > kVersionsMax) return Errc::kOutOfMemory;
  if (const Errc error = version_heads_file_.grow(std::uint64_t{capacity} * sizeof(VersionHead));
      error != Errc::kOk)
    return error;
  return version_data_.grow(std::uint64_t{capacity} * kPageBytes);
}

Errc DomainMemory::grow_accesses(const DomainLock::Held &held, std::uint32_t capacity) noexcept {
  TMH_ASSERT(held.is_valid());
  if (capacity > kAccessesMax) return Errc::kOutOfMemory;
  return accesses_file_.grow(std::uint64_t{capacity} * sizeof(AccessEntry));
}

}  // namespace tmh::page
