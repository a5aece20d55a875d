// storage/data_files.h -- the data files that recovery stores into: found by the control
// file, checked, given blocks, mapped.
// Shape:     1. note() every page that will be stored to; 2. open(); 3. page() and stores, by any
//            thread; 4. sync().
// Invariant: (1) a page outside its segment is never stored to. (2) every page stored to has disk
//            blocks before, so that a full disk is kDiskFull and not SIGBUS; the file is at least
//            as long as its segment.
// Errors:    kFileShrunk, kDiskFull, kOutOfMemory, kIo, kPermission.
// Sharing:   page(): any thread; everything else: one. REQUIRES that no participant is alive.
// Source:    docs/design.md D2, D6; thesis, appendix B (copying committed pages back into the
//            original file).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <tmh/error.hpp>

#include "platform/assert.h"
#include "platform/disk.h"
#include "storage/control.h"
#include "storage/page_id.h"

namespace tmh::storage {

[[nodiscard]] std::string data_file_path(const std::string &folder, const SegmentRecordV1 &record);

class DataFiles {
 public:
  // control outlives this object. may_grow: pages behind a segment's end, up to its largest size,
  // are noted, too.
  DataFiles(std::string folder, const ControlFile &control, bool may_grow);
  DataFiles(const DataFiles &) = delete;
  DataFiles &operator=(const DataFiles &) = delete;
  ~DataFiles();

  // False: the domain has no such page.
  [[nodiscard]] bool note(PageId page);
  // The segment has so many bytes at least. False: the domain has none that may be so large.
  [[nodiscard]] bool note_size(std::uint32_t segment, std::uint64_t bytes) noexcept;
  // What a segment must have before open(), for what was noted. 0: what it has.
  [[nodiscard]] std::uint64_t bytes_to_grow_to(std::uint32_t segment) const noexcept;
  // Only what was noted is opened, and mapped from the first noted page to the last.
  [[nodiscard]] Errc open() noexcept;
  [[nodiscard]] bool is_mapped(PageId page) const noexcept {
    const std::uint64_t segment = segment_number(page);
    return segment < kSegmentsMax && targets_[segment].base != nullptr &&
           targets_[segment].is_noted(static_cast<std::uint64_t>(page_index(page)));
  }
  [[nodiscard]] std::byte *page(PageId page) const noexcept {
    TMH_ASSERT(is_mapped(page));
    const Target &target = targets_[segment_number(page)];
    return target.base + (page_offset(page) - target.first_offset);
  }
  // Tells a test's disk hook what was stored.
  void stored(PageId page, std::size_t offset, const std::byte *from,
              std::size_t bytes) const noexcept {
    TMH_ASSERT(is_mapped(page) && offset + bytes <= kPageBytes);
    const Target &target = targets_[segment_number(page)];
    platform::home_written(target.file.path(), target.offset_bytes + page_offset(page) + offset,
                           from, bytes);
  }
  [[nodiscard]] Errc sync() noexcept;

 private:
  struct Target {                      // of one segment
    std::uint64_t page_count = 0;      // of the segment; 0: there is none
    std::uint64_t page_limit = 0;      // that may be noted
    std::uint64_t offset_bytes = 0;    // of the segment in its file
    std::vector<std::uint64_t> noted;  // bit per page
    platform::DiskFile file;
    std::byte *base = nullptr;
    std::uint64_t first_offset = 0, mapped_bytes = 0;  // of the mapping, in the segment
    [[nodiscard]] bool is_noted(std::uint64_t page) const noexcept {
      return page / 64 < noted.size() && ((noted[page / 64] >> (page % 64)) & 1) != 0;
    }
  };
  [[nodiscard]] Errc open(Target *target, const SegmentRecordV1 &record) noexcept;
  [[nodiscard]] static Errc allocate(const Target &target, std::uint64_t first,
                                     std::uint64_t end) noexcept;
  [[nodiscard]] static Errc allocate_noted(const Target &target, std::uint64_t first,
                                           std::uint64_t end) noexcept;

  std::string folder_;
  const ControlFile &control_;
  std::vector<Target> targets_;  // by segment number
};

}  // namespace tmh::storage
