// levels/page/shared/shared_files.h -- opens, creates, grows and removes the files that a domain's
// processes share; what lies in them is SharedState's.
// Shape:     every file is mapped once over its largest size; growing happens in place.
// Sharing:   between processes; close() beside no other thread of this one. What takes
//            FolderLock::Held runs under the folder lock.
// Contexts:  what takes DomainLock::Held, and allocate_blocks(), is async-signal-safe; nothing else
//            is.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include <tmh/error.hpp>

#include "levels/page/shared/domain_lock.h"
#include "levels/page/shared/durable_control.h"
#include "levels/page/shared/files_in_place.h"
#include "levels/page/shared/layout.h"
#include "levels/page/shared/shared_state.h"
#include "platform/assert.h"
#include "platform/files.h"
#include "platform/process.h"
#include "platform/protection_keys.h"

namespace tmh::page {

class SharedFiles final : public SharedState {
 public:
  // kWrongOwner when another user's domain lies there and we may not write it.
  [[nodiscard]] static Errc check_owner(const std::string &folder) noexcept;
  // Is there shared memory, of processes that are in the domain or have died in it? None when it
  // was closed.
  [[nodiscard]] static bool has_rebuildable_files(const std::string &folder) noexcept;
  // Is the existing domain in `folder` durable? Leaves it as it is, other than open(). Errors:
  // those of its control file.
  [[nodiscard]] static Errc read_durable(const std::string &folder, bool *is_durable) noexcept;

  // Opens or creates the domain. `fresh`: no living participant was found, so the caller decides
  // the detection mode. durability: of a domain that is created now (ControlHeaderV1::durability).
  [[nodiscard]] Errc open(const platform::FolderLock::Held &lock, const std::string &folder,
                          std::uint64_t address_base, std::uint32_t durability,
                          bool *fresh) noexcept;
  // Maps tmh.log.state. *usable: it was there already, of this boot (tmh.state says so) and of this
  // version.
  [[nodiscard]] Errc open_log_state(bool *usable) noexcept;
  void close() noexcept;
  // Makes everything rebuildable anew. REQUIRES: alone.
  [[nodiscard]] Errc start_over(const platform::FolderLock::Held &lock) noexcept;
  // By name: what is mapped stays. REQUIRES no other participant in the domain, and nothing in them
  // that is needed.
  void remove_rebuildable_files(const platform::FolderLock::Held &lock) noexcept;
  // Has open() found no living participant, and begun a life of the domain?
  [[nodiscard]] bool has_begun() const noexcept { return has_begun_; }
  // Has this object's open() made the domain?
  [[nodiscard]] bool is_new() const noexcept { return is_new_; }
  // Removes it; a durable domain's log has gone before.
  void remove_new(const platform::FolderLock::Held &lock) noexcept;

  // Are the files those of the domain? Before anything is done to them by their names.
  [[nodiscard]] FilesInPlace &in_place() noexcept { return in_place_; }
  [[nodiscard]] const FilesInPlace &in_place() const noexcept { return in_place_; }
  // The user takes a folder as it is, whatever files were removed or replaced since its domain was
  // in use. *keeps_shared: shared memory is whole, and stays. kDomainInUse; kFileReplaced: a file
  // is missing without which there is no domain.
  [[nodiscard]] static Errc accept_files(const platform::FolderLock::Held &lock,
                                         const std::string &folder, bool *keeps_shared) noexcept;
  // Is what names this identity of the life of the domain that open() has found? It has made a new
  // one if what is shared was not.
  [[nodiscard]] bool is_of_found_life(const std::uint64_t (&domain_id)[2],
                                      std::uint64_t life) const noexcept;
  // Had any process shared this folder's domain when open() found it? Not so in a backup that no
  // process has opened.
  [[nodiscard]] bool had_life() const noexcept { return found_life_ != 0; }

  // A free participant record for this process; kTooManyParticipants.
  [[nodiscard]] Errc attach_slot(const platform::FolderLock::Held &lock, const std::string &name,
                                 std::uint32_t *slot) noexcept;
  // While no view is mapped.
  void use_view_key(platform::DomainKey key) noexcept {
    TMH_ASSERT(view_key_.number() == platform::kNoKey);
    view_key_ = std::move(key);
    for (std::uint32_t i = 0; i < storage::kSegmentsMax; ++i)
      segments_[i].home.use_key(view_key_.number());
  }

  // Opens home and metadata of every segment in the control file that is not open here yet.
  [[nodiscard]] Errc open_segments() noexcept;
  // Writes a record and opens it. The file exists and is long enough afterwards.
  [[nodiscard]] Errc add_segment(const platform::FolderLock::Held &lock, std::uint32_t number,
                                 const storage::SegmentRecordV1 &record) noexcept;
  // Durable domains with a level below, which stores to home what is not in the log yet: homes
  // become files of their own, and data files are written by checkpoints only. Called by the first
  // participant; later ones find it in DomainState::levels. REQUIRES: data files hold everything
  // committed, nothing is mapped.
  [[nodiscard]] Errc separate_homes(const platform::FolderLock::Held &lock) noexcept;
  // Separate homes: the log's writer can note every page of a segment of this size.
  [[nodiscard]] Errc prepare_changes(const platform::FolderLock::Held &lock, std::uint32_t number,
                                     std::uint64_t size_bytes) const noexcept;
  // Durable domains: syncs a data file. The kernel tells of a failed write once: no checkpoint may
  // rely on a later success (storage::DataSyncs). REQUIRES the folder lock. `file`: file_of() its
  // segment.
  [[nodiscard]] Errc sync_data(storage::Home *home, std::uint32_t file) noexcept;
  [[nodiscard]] DurableControl &durable_control() noexcept { return durable_control_; }
  [[nodiscard]] const DurableControl &durable_control() const noexcept { return durable_control_; }

  // Disk blocks for the pages' home and metadata: a commit asks before it promises anything.
  // kDiskFull, kIo.
  [[nodiscard]] Errc allocate_blocks(PageId first, std::uint64_t page_count) noexcept;
  [[nodiscard]] Errc grow_versions(const DomainLock::Held &held, std::uint32_t capacity) noexcept;
  [[nodiscard]] Errc grow_accesses(const DomainLock::Held &held, std::uint32_t capacity) noexcept;
  void shrink_versions(const DomainLock::Held &held, std::uint32_t capacity) noexcept;

 private:
  [[nodiscard]] Errc open_control(const platform::FolderLock::Held &lock,
                                  std::uint64_t address_base, std::uint32_t durability) noexcept;
  [[nodiscard]] Errc open_state(const platform::FolderLock::Held &lock, bool *fresh) noexcept;
  [[nodiscard]] Errc open_rebuildable() noexcept;
  [[nodiscard]] Errc open_separate(std::uint32_t segment) noexcept;
  [[nodiscard]] Errc bound_state() noexcept;
  // 0 before open_log_state(), which asks again.
  [[nodiscard]] std::uint32_t data_syncs_begun() const noexcept {
    return log_state_ != nullptr ? log_state_->data_syncs.begun.load(std::memory_order_seq_cst) : 0;
  }
  // REQUIRES that this object does not hold the table of participants itself.
  [[nodiscard]] Errc look_for_users(const platform::FolderLock::Held &lock,
                                    bool *is_used) const noexcept;
  [[nodiscard]] Errc enter_rebuildable(bool is_first) noexcept;
  static void remove_rebuildable_files(const platform::FolderLock::Held &lock,
                                       const std::string &folder) noexcept;
  void begin_state() noexcept;
  void close_rebuildable() noexcept;

  platform::GrowingFile control_file_, state_file_, participants_file_, version_heads_file_,
      version_data_file_, accesses_file_, log_state_file_;
  platform::FileHold control_hold_, participants_hold_;
  FilesInPlace in_place_{*this};
  DurableControl durable_control_{*this};
  // A leaf: taken with or without the domain lock.
  std::mutex opening_;
  bool is_new_ = false, has_begun_ = false;
  std::uint64_t found_life_ = 0;
  platform::Place place_;
};

}  // namespace tmh::page
