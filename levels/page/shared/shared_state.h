// levels/page/shared/shared_state.h -- what lies in the domain's shared files, as one process sees
// it: control, state, participants, versions, commits, accesses, and per segment its home and page
// metadata.
// Shape:     accessors only. SharedFiles, which is derived from it, opens the files, sets what is
//            here, and grows them in place; so an address stays.
// Sharing:   between processes; each struct says who may store to it (layout.h).
// Contexts:  accessors are async-signal-safe; what returns a string is not.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <tmh/error.hpp>
#include <tmh/options.hpp>

#include "levels/page/shared/commit_ring.h"
#include "levels/page/shared/layout.h"
#include "observe/planted.h"
#include "platform/assert.h"
#include "platform/files.h"
#include "platform/process.h"
#include "platform/protection_keys.h"
#include "platform/shared_lock.h"
#include "storage/control.h"
#include "storage/home.h"
#include "storage/log/log_state.h"
#include "storage/participants.h"

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

class SharedState {
 public:
  SharedState(const SharedState &) = delete;
  SharedState &operator=(const SharedState &) = delete;

  [[nodiscard]] const std::string &folder() const noexcept { return folder_; }
  // Of a file of the domain.
  [[nodiscard]] std::string path(const char *name) const { return folder_ + "/" + name; }
  [[nodiscard]] std::string meta_path(std::uint32_t segment) const;
  // Of a separate home.
  [[nodiscard]] std::string home_path(std::uint32_t segment) const;
  [[nodiscard]] std::string segment_path(const storage::SegmentRecordV1 &record) const;
  // The first segment that lies in the same file as this one, perhaps itself: where several do, its
  // descriptor is the oldest. It stays the first one: segments get their numbers in order, on disk,
  // too, as each sync of the control file writes all of it.
  [[nodiscard]] std::uint32_t file_of(std::uint32_t segment,
                                      const storage::SegmentRecordV1 &record) const noexcept;
  [[nodiscard]] std::uint32_t file_of(std::uint32_t segment) const noexcept {
    TMH_ASSERT(segment < storage::kSegmentsMax);
    return file_of(segment, control().segments[segment]);
  }

  [[nodiscard]] DomainState &state() const noexcept {
    TMH_ASSERT(state_ != nullptr);
    return *state_;
  }
  [[nodiscard]] storage::ControlFile &control() const noexcept {
    TMH_ASSERT(control_ != nullptr);
    return *control_;
  }
  [[nodiscard]] bool is_durable() const noexcept { return control().header.durability != 0; }
  [[nodiscard]] bool has_separate_homes() const noexcept { return separate_homes_; }
  // Does level 1 load from home, and store there? The first participant's choice, made while no
  // process has a page.
  [[nodiscard]] bool has_level_below() const noexcept {
    return state().levels == static_cast<std::uint64_t>(Levels::kHybrid);
  }
  // The protection key of views and line views, given back with this object; kNoKey: none.
  [[nodiscard]] int view_key() const noexcept { return view_key_.number(); }

  [[nodiscard]] storage::Participant &participant(std::uint32_t slot) const noexcept {
    TMH_ASSERT(participants_ != nullptr);
    return participants_[slot];
  }
  [[nodiscard]] std::uint32_t participants_high() const noexcept {
    // pairs with the release in attach_slot()
    return state().participants_high.load(std::memory_order_acquire);
  }
  [[nodiscard]] storage::Pins pins() const noexcept {
    return {&state().participants_high, &participant(0)};
  }
  [[nodiscard]] bool anyone_alive() const noexcept;
  // ": process 4711 (shop) has it open", and how many more; empty: no process.
  [[nodiscard]] std::string who_has_it_open() const;
  // SharedLock's question; context: a SharedState.
  static bool holder_alive(void *context, platform::LockTag holder) noexcept;

  // Versions that are not home. Exact under the domain lock.
  [[nodiscard]] std::uint64_t versions_live() const noexcept;
  [[nodiscard]] VersionHead &version(Slot slot) const noexcept {
    TMH_ASSERT(version_heads_ != nullptr);
    return version_heads_[slot];
  }
  [[nodiscard]] std::byte *version_data(Slot slot) const noexcept {
    TMH_ASSERT(version_data_ != nullptr);
    return version_data_ + std::uint64_t{slot} * kPageBytes;
  }
  [[nodiscard]] AccessEntry &access(Slot slot) const noexcept {
    TMH_ASSERT(accesses_ != nullptr);
    return accesses_[slot];
  }
  [[nodiscard]] CommitRing &commits() noexcept { return commits_; }
  [[nodiscard]] const CommitRing &commits() const noexcept { return commits_; }

  // Durable domains only, else null.
  [[nodiscard]] storage::LogState *log_state() const noexcept { return log_state_; }
  [[nodiscard]] std::byte *log_tails() const noexcept {
    TMH_ASSERT(log_state_ != nullptr);
    return reinterpret_cast<std::byte *>(log_state_) + storage::kLogTailsAt;
  }
  // Commits up to it may go home: all when the domain is not durable. acquire pairs with
  // LogWriter::publish().
  [[nodiscard]] std::uint64_t durable_clock() const noexcept {
    if (log_state_ == nullptr || observe::is_planted(observe::Planted::kApplyBeforeLog))
      return ~0ull;
    return log_state_->durable_clock.load(std::memory_order_acquire);
  }

  [[nodiscard]] SegmentMemory &segment(std::uint32_t number) const noexcept {
    TMH_ASSERT(number < storage::kSegmentsMax);
    return segments_[number];
  }
  [[nodiscard]] std::atomic_ref<std::uint64_t> segment_size(std::uint32_t number) const noexcept {
    TMH_ASSERT(number < storage::kSegmentsMax);
    return std::atomic_ref<std::uint64_t>(control().segments[number].size_bytes);
  }
  [[nodiscard]] std::uint32_t segment_generation() const noexcept {
    return std::atomic_ref<std::uint32_t>(control().header.segment_generation)
        .load(std::memory_order_acquire);
  }
  [[nodiscard]] std::uint32_t segments_opened_at() const noexcept {
    // pairs with the release in open_segments()
    return opened_generation_.load(std::memory_order_acquire);
  }
  // Does the page exist, as far as any segment record says? (Bytes of shared memory are not
  // believed.)
  [[nodiscard]] bool exists(PageId page) const noexcept {
    const std::uint32_t number = storage::segment_number(page);
    return number < storage::kSegmentsMax && storage::is_used(control().segments[number]) &&
           storage::page_offset(page) < segment_size(number).load(std::memory_order_acquire);
  }
  // Has this process opened the page's segment?
  [[nodiscard]] bool knows(PageId page) const noexcept {
    return exists(page) &&
           segments_[storage::segment_number(page)].is_open.load(std::memory_order_acquire);
  }
  // kNotMapped: stores there cannot be committed. No fault tells where the file goes on behind its
  // segment's end, and recovery would refuse a record that names such a page.
  [[nodiscard]] Errc fail_behind_end(PageId page) const noexcept;

  [[nodiscard]] PageMeta &meta(PageId page) const noexcept {
    return segments_[storage::segment_number(page)]
        .meta[static_cast<std::uint64_t>(storage::page_index(page))];
  }
  // A page of which no process knows whether it has ever been stored to. Zeros where its metadata
  // has no block and gets none.
  [[nodiscard]] const PageMeta &meta_to_read(PageId page) const noexcept {
    if (loads_take_blocks_ && reserve_meta(page) != Errc::kOk) [[unlikely]]
      return kNoMeta;
    return meta(page);
  }
  // Disk blocks for a page's metadata: before anything is stored there. kDiskFull, kIo.
  [[nodiscard]] Errc reserve_meta(PageId page) const noexcept {
    return segment(storage::segment_number(page))
        .meta_file.reserve(static_cast<std::uint64_t>(storage::page_index(page)) * sizeof(PageMeta),
                           sizeof(PageMeta));
  }
  // The same for every page that a version names: a repair links them.
  [[nodiscard]] Errc reserve_links() const noexcept;
  [[nodiscard]] std::byte *home(PageId page) const noexcept {
    return segments_[storage::segment_number(page)].home.base() + storage::page_offset(page);
  }
  // Home of a page that may be a hole, and to which a level below may be storing.
  void read_home(PageId page, std::byte *to) const noexcept;
  // Tells the watcher of disk writes (a test) what went home, if home is the data file.
  void tell_home_written(PageId page, LineMask lines) const noexcept;

 protected:
  SharedState() = default;
  ~SharedState() = default;

  // First: it goes when the views have gone.
  platform::DomainKey view_key_;
  std::string folder_;
  storage::ControlFile *control_ = nullptr;
  DomainState *state_ = nullptr;
  storage::Participant *participants_ = nullptr;
  VersionHead *version_heads_ = nullptr;
  std::byte *version_data_ = nullptr;
  AccessEntry *accesses_ = nullptr;
  storage::LogState *log_state_ = nullptr;
  CommitRing commits_;
  std::unique_ptr<SegmentMemory[]> segments_;
  std::atomic<std::uint32_t> opened_generation_{0};
  // The rebuildable files lie where a load from a hole takes a block (tmpfs).
  bool loads_take_blocks_ = false;
  bool separate_homes_ = false;
};

// False: home of the page is a hole, and a load from it might find no block: it is zeros. A page
// that an instance has changed needs no question.
[[nodiscard]] inline bool is_home_loadable(const SharedState &memory, PageId page) noexcept {
  return memory.segment(storage::segment_number(page)).home.is_loadable(storage::page_offset(page));
}

}  // namespace tmh::page
