// levels/page/domain_memory.h -- the domain's shared files as one process sees them: control,
// state, participants, versions, commit log, accesses, and per segment its home and page metadata.
// Shape:     every file is mapped once over its largest size; growing happens in place.
// Sharing:   between processes. open(), add_segment(), attach_slot() and close() run under the
//            folder lock.
// Contexts:  accessors are async-signal-safe; open_segments() and everything that opens files is
//            not.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <tmh/options.hpp>

#include "levels/page/domain_lock.h"
#include "levels/page/layout.h"
#include "levels/storage/control.h"
#include "levels/storage/home.h"
#include "levels/storage/log_state.h"
#include "levels/storage/participants.h"
#include "observe/planted.h"
#include "platform/files.h"
#include "platform/protection_keys.h"

namespace tmh::page {

struct SegmentMemory {
  storage::Home home;
  platform::GrowingFile meta_file;
  PageMeta *meta = nullptr;
  // durable domains: home's descriptor is older than every sync with a larger number
  // (storage::DataSyncs)
  std::uint32_t opened_at = 0;
  // release after home and meta are set; acquire where a handler looks
  std::atomic<bool> is_open{false};
};

class DomainMemory {
 public:
  // kWrongOwner when another user's domain lies there and we may not write it.
  [[nodiscard]] static Errc check_owner(const std::string &folder) noexcept;
  // Has this object's open() made the domain?
  [[nodiscard]] bool is_new() const noexcept { return is_new_; }
  // Is there shared memory, of processes that are in the domain or have died in it? None when it
  // was closed.
  [[nodiscard]] static bool has_rebuildable_files(const std::string &folder) noexcept;
  // By name: what is mapped stays. REQUIRES the folder lock, no other participant in the domain,
  // and nothing in them that is needed.
  void remove_rebuildable_files() noexcept;
  // Removes it; a durable domain's log has gone before. REQUIRES is_new(), the folder lock.
  void remove_new() noexcept;
  // Is the existing domain in `folder` durable? Leaves it as it is, other than open(). Errors:
  // those of its control file.
  [[nodiscard]] static Errc read_durable(const std::string &folder, bool *is_durable) noexcept;
  // Opens or creates the domain. `fresh`: no living participant was found, so the caller decides
  // the detection mode. durability: of a domain that is created now (ControlHeaderV1::durability).
  [[nodiscard]] Errc open(const std::string &folder, std::uint64_t address_base,
                          std::uint32_t durability, bool *fresh) noexcept;
  void close(bool remove_rebuildable) noexcept;
  // Before anything is done to files by their names: are they still those that this process has
  // opened? They may have been removed, and others may have made a domain in the folder since, or
  // copied one over it. kNotADomain.
  [[nodiscard]] Errc check_in_place() const;
  // Is what names this identity of the life of the domain that open() has found? It has made a new
  // one if what is shared was not.
  [[nodiscard]] bool is_of_found_life(const std::uint64_t (&domain_id)[2],
                                      std::uint64_t life) const noexcept;
  // Had anybody shared this folder's domain when open() found it? Not so in a backup that nobody
  // has opened.
  [[nodiscard]] bool had_life() const noexcept { return found_life_ != 0; }
  // REQUIRES: alone, in a durable domain. False: as if nobody had been here; a death then leaves it
  // so.
  [[nodiscard]] Errc tell_life(bool is_lived_in) noexcept;
  // Durable domains with a level below, which stores to home what is not in the log yet: homes
  // become files of their own, and data files are written by checkpoints only. Called by the first
  // participant; later ones find it in DomainState::levels. REQUIRES: the folder lock, data files
  // hold everything committed, nothing is mapped.
  [[nodiscard]] Errc separate_homes() noexcept;
  [[nodiscard]] std::string meta_path(std::uint32_t segment) const;
  [[nodiscard]] std::string home_path(std::uint32_t segment) const;  // of a separate one
  [[nodiscard]] bool has_separate_homes() const noexcept { return separate_homes_; }
  // Does level 1 load from home, and store there? The first participant's choice, before anybody
  // has a page.
  [[nodiscard]] bool has_level_below() const noexcept {
    return state_->levels == static_cast<std::uint64_t>(Levels::kHybrid);
  }

  // The protection key of views and line views, given back with this object; kNoKey: none.
  // REQUIRES: no view is mapped, and there is no key yet.
  void use_view_key(platform::DomainKey key) noexcept {
    view_key_ = std::move(key);
    for (std::uint32_t i = 0; i < storage::kSegmentsMax; ++i)
      segments_[i].home.use_key(view_key_.number());
  }
  [[nodiscard]] int view_key() const noexcept { return view_key_.number(); }

  [[nodiscard]] DomainState &state() const noexcept { return *state_; }
  [[nodiscard]] storage::ControlFile &control() const noexcept { return *control_; }
  [[nodiscard]] storage::Participant &participant(std::uint32_t slot) const noexcept {
    return participants_[slot];
  }
  [[nodiscard]] std::uint32_t participants_high() const noexcept {
    // pairs with the release in attach_slot()
    return state_->participants_high.load(std::memory_order_acquire);
  }
  // Versions that are not home. Exact under the domain lock.
  [[nodiscard]] std::uint64_t versions_live() const noexcept;
  [[nodiscard]] VersionHead &version(Slot slot) const noexcept { return version_heads_[slot]; }
  [[nodiscard]] std::byte *version_data(Slot slot) const noexcept {
    return version_data_.base() + std::uint64_t{slot} * kPageBytes;
  }
  [[nodiscard]] CommitLogEntry &log_entry(std::uint64_t position) const noexcept {
    return log_[position % kLogEntries];
  }
  // Room in the ring's file for so many entries behind the head; more than the ring has is all of
  // it. kDiskFull, kIo. Once all of the ring has its room, which takes kLogEntries, nothing can
  // fail. Async-signal-safe.
  [[nodiscard]] Errc make_log_room(const DomainLock::Held &, std::uint64_t entries) noexcept {
    const std::uint64_t end =
        state_->log_head.load(std::memory_order_relaxed) % kLogEntries + entries;
    // relaxed: others know less, never more
    return end + kLogAhead <= log_room_.load(std::memory_order_relaxed) ? Errc::kOk : grow_log(end);
  }
  // Brings the entries behind this position into memory and into this process, if the kernel can:
  // who appends them holds the lock, and meeting a page that nobody has touched costs 1 us in
  // memory and 3 us in a file on a disk, for each process.
  void prepare_log(std::uint64_t position) noexcept {
    // relaxed: a hint; doing it twice is once
    if (position + kLogAhead >= log_prepared_.load(std::memory_order_relaxed)) [[unlikely]]
      prepare_log_chunks(position);
  }
  // Durable domains only, else null.
  [[nodiscard]] storage::LogState *log_state() const noexcept { return log_state_; }
  [[nodiscard]] std::byte *log_tails() const noexcept {
    return log_state_file_.base() + storage::kLogTailsAt;
  }
  // Commits up to it may go home: all when the domain is not durable. acquire pairs with
  // LogWriter::publish().
  [[nodiscard]] std::uint64_t durable_clock() const noexcept {
    if (log_state_ == nullptr || observe::is_planted(observe::Planted::kApplyBeforeLog))
      return ~0ull;
    return log_state_->durable_clock.load(std::memory_order_acquire);
  }
  // Maps tmh.log.state. *usable: it was there already, of this boot (tmh.state says so) and of this
  // version.
  [[nodiscard]] Errc open_log_state(bool *usable) noexcept;
  // Makes everything rebuildable anew. REQUIRES: alone.
  [[nodiscard]] Errc start_over() noexcept;
  [[nodiscard]] bool is_durable() const noexcept { return control_->header.durability != 0; }
  // Durable domains: what was stored in these bytes of the control file is on disk when it returns.
  [[nodiscard]] Errc sync_control(const void *from, std::size_t bytes) noexcept;
  // Durable domains: syncs a data file. The kernel tells of a failed write once: no checkpoint may
  // rely on a later success (storage::DataSyncs). REQUIRES the folder lock. `file`: file_of() its
  // segment.
  [[nodiscard]] Errc sync_data(storage::Home *home, std::uint32_t file) noexcept;
  // The first segment that lies in the same file as this one, perhaps itself: where several do, its
  // descriptor is the oldest. It stays the first one: segments get their numbers in order, on disk,
  // too, as each sync of the control file writes all of it.
  [[nodiscard]] std::uint32_t file_of(std::uint32_t segment,
                                      const storage::SegmentRecordV1 &record) const noexcept;
  [[nodiscard]] std::uint32_t file_of(std::uint32_t segment) const noexcept {
    return file_of(segment, control_->segments[segment]);
  }
  // A segment and its size are seen by others before they are durable, and whoever stored them may
  // be dead: a commit's record must not name a page that recovery does not find. Asked before each
  // commit; by any thread.
  [[nodiscard]] bool is_size_durable(PageId page) const noexcept {
    // relaxed: a later look may say more, never less
    return storage::page_offset(page) <
           durable_bytes_[storage::segment_number(page)].load(std::memory_order_relaxed);
  }
  [[nodiscard]] Errc make_sizes_durable() noexcept;
  // kNotMapped: stores there cannot be committed. No fault tells where the file goes on behind its
  // segment's end, and recovery would refuse a record that names such a page.
  [[nodiscard]] Errc fail_behind_end(PageId page) const noexcept;
  // Tells the watcher of disk writes (a test) what went home, if home is the data file.
  void tell_home_written(PageId page, LineMask lines) const noexcept;
  [[nodiscard]] const std::string &folder() const noexcept { return folder_; }
  // SharedLock's question; context: a DomainMemory.
  static bool holder_alive(void *context, platform::LockTag holder) noexcept;
  [[nodiscard]] AccessEntry &access(Slot slot) const noexcept { return accesses_[slot]; }
  [[nodiscard]] SegmentMemory &segment(std::uint32_t number) const noexcept {
    return segments_[number];
  }
  // Does the page exist, as far as any segment record says? (Bytes of shared memory are not
  // believed.)
  [[nodiscard]] bool exists(PageId page) const noexcept {
    const std::uint32_t number = storage::segment_number(page);
    return number < storage::kSegmentsMax && storage::is_used(control_->segments[number]) &&
           storage::page_offset(page) < segment_size(number).load(std::memory_order_acquire);
  }
  // Has this process opened the page's segment?
  [[nodiscard]] bool knows(PageId page) const noexcept {
    return exists(page) &&
           segments_[storage::segment_number(page)].is_open.load(std::memory_order_acquire);
  }
  // A page of which nobody knows whether it has ever been stored to. Zeros where its metadata has
  // no block and gets none.
  [[nodiscard]] const PageMeta &meta_to_read(PageId page) const noexcept {
    if (loads_take_blocks_ && reserve_meta(page) != Errc::kOk) [[unlikely]]
      return kNoMeta;
    return meta(page);
  }
  // Disk blocks for a page's metadata: before anything is stored there. kDiskFull, kIo.
  // Async-signal-safe.
  [[nodiscard]] Errc reserve_meta(PageId page) const noexcept {
    return segments_[storage::segment_number(page)].meta_file.reserve(
        static_cast<std::uint64_t>(storage::page_index(page)) * sizeof(PageMeta), sizeof(PageMeta));
  }
  // The same for every page that a version names: a repair links them.
  [[nodiscard]] Errc reserve_links() const noexcept;
  // Home of a page that may be a hole, and to which a level below may be storing.
  // Async-signal-safe.
  void read_home(PageId page, std::byte *to) const noexcept;
  [[nodiscard]] PageMeta &meta(PageId page) const noexcept {
    return segments_[storage::segment_number(page)]
        .meta[static_cast<std::uint64_t>(storage::page_index(page))];
  }
  [[nodiscard]] std::byte *home(PageId page) const noexcept {
    return segments_[storage::segment_number(page)].home.base() + storage::page_offset(page);
  }

  // Opens home and metadata of every segment in the control file that is not open here yet.
  [[nodiscard]] Errc open_segments() noexcept;
  // Writes a record and opens it. The file exists and is long enough afterwards.
  [[nodiscard]] Errc add_segment(std::uint32_t number,
                                 const storage::SegmentRecordV1 &record) noexcept;
  // Its record is on disk, and everybody opens it before the next instance. REQUIRES the folder
  // lock.
  [[nodiscard]] Errc tell_of_segment(std::uint32_t number) noexcept;
  // Separate homes: the log's writer can note every page of a segment of this size. REQUIRES the
  // folder lock.
  [[nodiscard]] Errc prepare_changes(std::uint32_t number, std::uint64_t size_bytes) const noexcept;
  // Durable domains: the size is on disk before it is shown to any participant; the file is that
  // long. REQUIRES the folder lock.
  [[nodiscard]] Errc promise_size(std::uint32_t number, std::uint64_t size_bytes) noexcept;
  [[nodiscard]] std::string segment_path(const storage::SegmentRecordV1 &record) const;
  [[nodiscard]] std::atomic_ref<std::uint64_t> segment_size(std::uint32_t number) const noexcept {
    return std::atomic_ref<std::uint64_t>(control_->segments[number].size_bytes);
  }
  [[nodiscard]] std::uint32_t segment_generation() const noexcept {
    return std::atomic_ref<std::uint32_t>(control_->header.segment_generation)
        .load(std::memory_order_acquire);
  }
  [[nodiscard]] std::uint32_t segments_opened_at() const noexcept {
    // pairs with the release in open_segments()
    return opened_generation_.load(std::memory_order_acquire);
  }

  // A free participant record for this process; kTooManyParticipants.
  [[nodiscard]] Errc attach_slot(const std::string &name, std::uint32_t *slot) noexcept;
  [[nodiscard]] bool anyone_alive() const noexcept;
  // ": process 4711 (shop) has it open", and how many more; empty: none.
  [[nodiscard]] std::string who_has_it_open() const;

  // Disk blocks for the pages' home and metadata: a commit asks before it promises anything.
  // kDiskFull, kIo.
  [[nodiscard]] Errc allocate_blocks(PageId first, std::uint64_t page_count) noexcept;

  // Async-signal-safe.
  [[nodiscard]] Errc grow_versions(const DomainLock::Held &held, std::uint32_t capacity) noexcept;
  [[nodiscard]] Errc grow_accesses(const DomainLock::Held &held, std::uint32_t capacity) noexcept;
  void shrink_versions(const DomainLock::Held &, std::uint32_t capacity) noexcept {
    version_data_.shrink(std::uint64_t{capacity} * kPageBytes);
    version_heads_file_.shrink(std::uint64_t{capacity} * sizeof(VersionHead));
  }

 private:
  platform::DomainKey view_key_;  // first: it goes when the views have gone
  [[nodiscard]] Errc open_control(std::uint64_t address_base, std::uint32_t durability) noexcept;
  [[nodiscard]] Errc settle_sizes() noexcept;
  [[nodiscard]] Errc open_state(bool *fresh) noexcept;
  [[nodiscard]] Errc open_rebuildable() noexcept;
  [[nodiscard]] Errc open_separate(std::uint32_t segment) noexcept;
  [[nodiscard]] Errc bound_state() noexcept;
  void make_control_dirty() noexcept;
  // 0 before open_log_state(), which asks again.
  [[nodiscard]] std::uint32_t data_syncs_begun() const noexcept {
    return log_state_ != nullptr ? log_state_->data_syncs.begun.load(std::memory_order_seq_cst) : 0;
  }
  enum class Found : std::uint8_t { kNothing, kOurs, kAnothers };
  [[nodiscard]] Errc look_at_state(Found *found) const noexcept;
  // REQUIRES the folder lock, and that this object does not hold the table of participants itself.
  [[nodiscard]] Errc look_for_holder(bool *is_held) const noexcept;
  [[nodiscard]] Errc look_for_users(bool *is_used) const noexcept;
  [[nodiscard]] Errc refuse_anothers() noexcept;
  [[nodiscard]] Errc refuse_orphaned() noexcept;
  void begin_state() noexcept;
  [[nodiscard]] Errc grow_log(std::uint64_t end) noexcept;
  void prepare_log_chunks(std::uint64_t position) noexcept;
  void close_rebuildable() noexcept;
  [[nodiscard]] std::string path(const char *name) const { return folder_ + "/" + name; }

  std::string folder_;
  platform::GrowingFile control_file_, state_file_, participants_file_, version_heads_file_,
      version_data_, log_file_, accesses_file_, log_state_file_;
  storage::ControlFile *control_ = nullptr;
  DomainState *state_ = nullptr;
  storage::Participant *participants_ = nullptr;
  VersionHead *version_heads_ = nullptr;
  CommitLogEntry *log_ = nullptr;
  // DomainState::log_capacity, as this process has seen it
  std::atomic<std::uint64_t> log_room_{0};
  // Entries before the first of these are in memory; once it has got to the second, all are, and it
  // is beyond everything.
  std::atomic<std::uint64_t> log_prepared_{0}, log_all_prepared_{0};
  AccessEntry *accesses_ = nullptr;
  storage::LogState *log_state_ = nullptr;
  std::unique_ptr<SegmentMemory[]> segments_;
  std::mutex opening_;  // a leaf: taken with or without the domain lock
  std::atomic<std::uint32_t> opened_generation_{0};
  // the rebuildable files lie where a load from a hole takes a block (tmpfs)
  bool loads_take_blocks_ = false;
  bool separate_homes_ = false, is_new_ = false;
  std::uint64_t found_life_ = 0;
  platform::Place place_;
  std::array<std::atomic<std::uint64_t>, storage::kSegmentsMax>
      durable_bytes_{};  // of each segment, as far as this process knows
};

}  // namespace tmh::page
