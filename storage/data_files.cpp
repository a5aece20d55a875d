// storage/data_files.cpp -- opening and mapping what recovery stores into.
#include "storage/data_files.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/file_mappings.h"
#include "platform/files.h"
#include "platform/page_tables.h"
#include "platform/readahead.h"
#include "platform/try.h"

namespace tmh::storage {

using platform::DiskFile;
using platform::fail;
using platform::fail_errno;

std::string data_file_path(const std::string &folder, const SegmentRecordV1 &record) {
  return record.name[0] == '/' ? std::string(record.name) : folder + "/" + record.name;
}

DataFiles::DataFiles(std::string folder, const ControlFile &control, bool may_grow)
    : folder_(std::move(folder)), control_(control), targets_(kSegmentsMax) {
  for (std::size_t i = 0; i < kSegmentsMax; ++i) {
    const SegmentRecordV1 &record = control.segments[i];
    if (!is_used(record)) continue;
    targets_[i].page_count = record.size_bytes / kPageBytes;
    targets_[i].page_limit = (may_grow ? record.max_bytes : record.size_bytes) / kPageBytes;
    targets_[i].offset_bytes = record.offset_bytes;
  }
}

DataFiles::~DataFiles() {
  for (const Target &target : targets_) {
    if (target.base == nullptr) continue;
    platform::forget_mapping(target.base);
    munmap(target.base, target.mapped_bytes);
  }
}

bool DataFiles::note(PageId page) {
  if (segment_number(page) >= kSegmentsMax) return false;
  Target &target = targets_[segment_number(page)];
  const auto index = static_cast<std::uint64_t>(page_index(page));
  if (index >= target.page_limit) return false;
  target.page_count = std::max(target.page_count, index + 1);
  if (index / 64 >= target.noted.size())  // grown by doubling; a terabyte's bits are 32 MiB
    target.noted.resize(
        std::min(target.page_count / 64 + 1, std::max(index / 64 + 1, 2 * target.noted.size())));
  target.noted[index / 64] |= std::uint64_t{1} << (index % 64);
  return true;
}

bool DataFiles::note_size(std::uint32_t segment, std::uint64_t bytes) noexcept {
  TMH_ASSERT(segment < kSegmentsMax);
  Target &target = targets_[segment];
  const std::uint64_t pages = bytes / kPageBytes;
  if (pages > target.page_limit) return false;
  target.page_count = std::max(target.page_count, pages);
  return true;
}

std::uint64_t DataFiles::bytes_to_grow_to(std::uint32_t segment) const noexcept {
  TMH_ASSERT(segment < kSegmentsMax);
  const std::uint64_t bytes = targets_[segment].page_count * kPageBytes;
  return bytes > control_.segments[segment].size_bytes ? bytes : 0;
}

Errc DataFiles::open() noexcept {
  for (std::size_t i = 0; i < kSegmentsMax; ++i) {
    if (targets_[i].noted.empty()) continue;
    TMH_TRY(open(&targets_[i], control_.segments[i]));
  }
  return Errc::kOk;
}

Errc DataFiles::open(Target *target, const SegmentRecordV1 &record) noexcept {
  TMH_ASSERT(target->base == nullptr && !target->noted.empty());
  const std::string path = data_file_path(folder_, record);
  TMH_TRY(target->file.open(path, DiskFile::Mode::kReadWrite, platform::FileRole::kSegment));
  if (!target->file.is_whole(record.offset_bytes + record.size_bytes))
    return fail(Errc::kFileShrunk, path + " is shorter than its segment");
  const auto used = [](std::uint64_t word) { return word != 0; };
  const auto low = std::find_if(target->noted.begin(), target->noted.end(), used);
  const auto high = std::find_if(target->noted.rbegin(), target->noted.rend(), used);
  const auto first = static_cast<std::uint64_t>(low - target->noted.begin()) * 64 +
                     static_cast<unsigned>(std::countr_zero(*low));
  const auto end = static_cast<std::uint64_t>(target->noted.rend() - high) * 64 -
                   static_cast<unsigned>(std::countl_zero(*high));
  TMH_ASSERT(first < end && end <= target->page_limit);
  TMH_TRY(allocate(*target, first, end));
  target->first_offset = first * kPageBytes;
  const std::uint64_t bytes = (end - first) * kPageBytes;
  void *at = platform::map_when_touched(
      nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, target->file.fd(),
      static_cast<std::int64_t>(target->offset_bytes + target->first_offset));
  if (at == MAP_FAILED) return fail_errno(Errc::kOutOfMemory, "mapping " + path);
  platform::keep_off_holes(
      at, 0, bytes,
      platform::readahead_bytes(target->file.fd(), target->offset_bytes + target->first_offset));
  platform::note_mapping({reinterpret_cast<std::uintptr_t>(at), bytes, target->file.fd(),
                          target->offset_bytes + target->first_offset});
  target->mapped_bytes = bytes;
  target->base = static_cast<std::byte *>(at);
  return Errc::kOk;
}

// Blocks for the noted pages in [first, end). Where the file has no holes, which is the rule, that
// takes one call; where the file system cannot tell, every run of noted pages is one hole's worth.
Errc DataFiles::allocate(const Target &target, std::uint64_t first, std::uint64_t end) noexcept {
  const std::uint64_t file_end = target.offset_bytes + end * kPageBytes;
  for (std::uint64_t at = target.offset_bytes + first * kPageBytes; at < file_end;) {
    const off_t hole = lseek(target.file.fd(), static_cast<off_t>(at), SEEK_HOLE);
    if (hole < 0) return allocate_noted(target, first, end);
    if (static_cast<std::uint64_t>(hole) >= file_end) return Errc::kOk;
    const off_t data = lseek(target.file.fd(), hole, SEEK_DATA);
    if (data < 0 && errno != ENXIO) return allocate_noted(target, first, end);
    const std::uint64_t hole_end =
        data < 0 ? file_end : std::min(file_end, static_cast<std::uint64_t>(data));
    const std::uint64_t hole_begin = static_cast<std::uint64_t>(hole) - target.offset_bytes;
    const std::uint64_t last = (hole_end - target.offset_bytes + kPageBytes - 1) / kPageBytes;
    TMH_TRY(allocate_noted(target, hole_begin / kPageBytes, last));
    at = hole_end;
  }
  return Errc::kOk;
}

Errc DataFiles::allocate_noted(const Target &target, std::uint64_t first,
                               std::uint64_t end) noexcept {
  for (std::uint64_t page = first; page < end;) {
    if (page % 64 == 0 && page / 64 < target.noted.size() && target.noted[page / 64] == 0) {
      page += 64;
      continue;
    }
    if (!target.is_noted(page)) {
      ++page;
      continue;
    }
    std::uint64_t behind = page + 1;
    while (behind < end && target.is_noted(behind)) ++behind;
    const Errc error = platform::allocate_blocks(
        target.file.fd(), target.offset_bytes + page * kPageBytes, (behind - page) * kPageBytes);
    if (error != Errc::kOk) return fail(error, target.file.path() + ": allocating disk blocks");
    page = behind;
  }
  return Errc::kOk;
}

Errc DataFiles::sync() noexcept {
  for (Target &target : targets_) {
    if (target.base == nullptr) continue;
    TMH_TRY(target.file.sync());
  }
  return Errc::kOk;
}

}  // namespace tmh::storage
