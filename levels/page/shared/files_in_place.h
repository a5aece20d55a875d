// levels/page/shared/files_in_place.h -- a participant's care that its files stay those of the
// domain: it enters what it opens, and looks whether all of it is still in its place.
// Shape:     the entries are in DomainState::files. The folder is known by a descriptor, so that a
//            folder that was moved is no folder that was emptied.
// Errors:    kFileReplaced; the detail says which file, and what has become of it.
// Sharing:   every thread of the participant.
// Contexts:  what takes DomainLock::Held is async-signal-safe; nothing else is.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include <tmh/error.hpp>

#include "levels/page/shared/domain_lock.h"
#include "levels/page/shared/shared_state.h"
#include "platform/files.h"
#include "storage/file_table.h"

namespace tmh::page {

class FilesInPlace {
 public:
  using Files = storage::FolderLook::Files;

  // memory outlives it.
  explicit FilesInPlace(const SharedState &memory) noexcept : memory_(memory) {}

  // Before the other calls; kIo.
  [[nodiscard]] Errc open_folder() noexcept;
  void close() noexcept { folder_.reset(); }

  // This process has the file open. kFileReplaced: others have another one.
  [[nodiscard]] Errc enter(storage::DomainFile file, int fd, std::uint64_t bytes) const noexcept;
  [[nodiscard]] Errc enter(storage::SegmentFile file, std::uint32_t segment, int fd,
                           std::uint64_t bytes) const noexcept;
  // Files are so long from now on.
  void note_size(std::uint32_t segment, std::uint64_t size_bytes) const noexcept;
  void note_versions(const DomainLock::Held &held, std::uint64_t capacity) const noexcept;
  void note_accesses(const DomainLock::Held &held, std::uint64_t capacity) const noexcept;
  // Data files stay what they were when the domain was in use last; all else will be entered anew.
  // A copy of what the dead have left is a domain of its own. REQUIRES: alone.
  void forget(bool is_copy) const noexcept;

  // Before anything is done to files by their names: are they, data files too, those that the
  // participants have opened, and is the folder where it was?
  [[nodiscard]] Errc check() const noexcept;
  // The same of some of them, wherever the folder is.
  [[nodiscard]] Errc check_files(Files which) const noexcept;
  // kIo: this process no longer reaches it.
  [[nodiscard]] Errc check_path() const noexcept;
  // No process can open the domain there, nor find its files.
  [[nodiscard]] bool is_folder_gone() const noexcept;
  // check_files() of all, at most every 100 ms: before a commit is acknowledged. now_ns: of
  // platform::coarse_ns().
  [[nodiscard]] Errc look(std::uint64_t now_ns) noexcept {
    // relaxed: the first thread that comes looks
    return now_ns < next_look_ns_.load(std::memory_order_relaxed) ? Errc::kOk : look_again(now_ns);
  }
  // Was a file missing at the last look?
  [[nodiscard]] bool is_displaced() const noexcept {
    return next_look_ns_.load(std::memory_order_relaxed) == 0;
  }

 private:
  [[nodiscard]] storage::FileTable &table() const noexcept { return memory_.state().files; }
  [[nodiscard]] storage::FolderLook folder_look() const noexcept;
  [[nodiscard]] storage::Standing find_log(std::string *name) const;
  [[nodiscard]] Errc look_again(std::uint64_t now_ns) noexcept;

  const SharedState &memory_;
  platform::FileDescriptor folder_;
  // 0: a file was missing, or this participant has not looked yet.
  std::atomic<std::uint64_t> next_look_ns_{0};
};

}  // namespace tmh::page
