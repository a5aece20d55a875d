// hierarchy/domain/segment_records.cpp -- finding, adding and lengthening the records of segments.
#include "hierarchy/domain/segment_records.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>

#include "hierarchy/domain/heap_file.h"
#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/try.h"
#include "storage/home.h"

namespace tmh::detail {

using platform::fail;

namespace {

#if defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kReserveDefault = 1ull << 30;  // TSan's application memory is small
#else
// 64 GiB of address space; memory and disk follow use
constexpr std::uint64_t kReserveDefault = 1ull << 36;
#endif

// Beyond it a segment could reach past the largest offset that a file has.
constexpr std::uint64_t kOffsetMax =
    static_cast<std::uint64_t>(std::numeric_limits<off_t>::max()) - storage::kSegmentBytesMax;

std::uint64_t round_up(std::uint64_t bytes) noexcept {
  TMH_ASSERT(bytes <= ~0ull - kPageBytes);
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

Errc belongs_to_domain(const std::string &name) {
  return fail(Errc::kBadArgument, name + ": names beginning with tmh. belong to the domain");
}

}  // namespace

Errc check_options(const std::string &file, const SegmentOptions &options) {
  if (file.empty()) return fail(Errc::kBadArgument, "a segment's file has an empty name");
  if (file.find('\0') != std::string::npos)
    return fail(Errc::kBadArgument, "a segment's name holds a byte 0");
  if (!is_page_aligned(options.size_bytes) || !is_page_aligned(options.max_bytes) ||
      !is_page_aligned(options.offset_bytes))
    return fail(Errc::kMisalignedLength, file + ": size, maximum and offset are multiples of 4096");
  if (options.size_bytes > storage::kSegmentBytesMax ||
      options.max_bytes > storage::kSegmentBytesMax)
    return fail(Errc::kBadArgument, file + ": a segment has at most 1 TiB");
  if (options.offset_bytes > kOffsetMax)
    return fail(Errc::kBadArgument, file + ": no file is that long");
  if (options.max_bytes != 0 && options.size_bytes > options.max_bytes)
    return fail(Errc::kBadArgument, file + ": size exceeds the maximum");
  if (options.layout != Layout::kHeap && options.layout != Layout::kRaw)
    return fail(Errc::kBadArgument, file + ": unknown layout");
  return Errc::kOk;
}

Errc no_room_for(const storage::SegmentRecordV1 &record) {
  char address[32];
  std::snprintf(address, sizeof address, "0x%llx", static_cast<unsigned long long>(record.address));
  return fail(Errc::kAddressInUse, std::string(record.name)
                                       .append(" belongs at ")
                                       .append(address)
                                       .append(", where the segments of every domain begin: of two "
                                               "domains that one process has mapped, one makes its "
                                               "segments with SegmentOptions::relocatable"));
}

Errc SegmentRecords::check_not_own(const platform::FolderLock::Held &lock,
                                   const std::string &name) const {
  TMH_ASSERT(lock.is_valid());
  std::error_code unknown;
  const auto real =
      std::filesystem::weakly_canonical(std::filesystem::path(memory_.folder()) / name, unknown);
  const auto is_own = [](const std::filesystem::path &file) {
    return file.filename().string().starts_with("tmh.");
  };
  if (name.starts_with("tmh.") || (real.parent_path() == memory_.folder() && is_own(real)))
    return belongs_to_domain(name);
  struct stat mine {};
  if (stat((std::filesystem::path(memory_.folder()) / name).c_str(), &mine) != 0) return Errc::kOk;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(memory_.folder(), error), end;
       !error && entry != end; entry.increment(error)) {
    struct stat theirs {};
    if (is_own(entry->path()) && stat(entry->path().c_str(), &theirs) == 0 &&
        platform::is_same_file(mine, theirs))
      return belongs_to_domain(name);
  }
  if (!error) return Errc::kOk;
  errno = error.value();
  return platform::fail_errno(Errc::kIo, memory_.folder());
}

Errc SegmentRecords::check_overlap(const std::string &name, std::uint64_t offset,
                                   std::uint64_t size) const {
  TMH_ASSERT(name.size() <= storage::kSegmentNameBytesMax);
  storage::SegmentRecordV1 wanted{};
  std::memcpy(wanted.name, name.data(), name.size());
  struct stat mine {};
  const bool exists = stat(memory_.segment_path(wanted).c_str(), &mine) == 0;
  for (const storage::SegmentRecordV1 &record : memory_.control().segments) {
    if (!storage::is_used(record)) continue;
    if (offset >= record.offset_bytes + record.size_bytes || record.offset_bytes >= offset + size)
      continue;
    // Another path to the same file, too: two segments on the same bytes would not see each other's
    // conflicts.
    struct stat theirs {};
    if (name != record.name &&
        !(exists && stat(memory_.segment_path(record).c_str(), &theirs) == 0 &&
          platform::is_same_file(mine, theirs)))
      continue;
    return fail(Errc::kSegmentOverlap, name + ": bytes from " +
                                           std::to_string(record.offset_bytes) +
                                           " belong to another segment, " + record.name);
  }
  return Errc::kOk;
}

Errc SegmentRecords::add_record(const platform::FolderLock::Held &lock, const std::string &name,
                                const SegmentOptions &options, bool in_instance,
                                std::uint32_t number) {
  TMH_ASSERT(lock.is_valid());
  TMH_ASSERT(number < storage::kSegmentsMax &&
             !storage::is_used(memory_.control().segments[number]));
  TMH_ASSERT(name.size() <= storage::kSegmentNameBytesMax);
  storage::SegmentRecordV1 record{};
  record.layout = static_cast<std::uint32_t>(options.layout);
  record.offset_bytes = options.offset_bytes;
  std::memcpy(record.name, name.data(), name.size());
  const std::string path = memory_.segment_path(record);
  struct stat info {};
  std::uint64_t size = options.size_bytes;
  if (size == 0) {
    const bool exists = stat(path.c_str(), &info) == 0;
    const auto file_bytes = exists ? static_cast<std::uint64_t>(info.st_size) : 0;
    size = file_bytes > options.offset_bytes ? round_up(file_bytes - options.offset_bytes) : 0;
    size = std::max(size, options.layout == Layout::kHeap ? kHeapBytesMin : kPageBytes);
  }
  if (size > storage::kSegmentBytesMax)
    return fail(Errc::kBadArgument, name + ": a segment has at most 1 TiB");
  if (options.max_bytes != 0 && size > options.max_bytes)
    return fail(Errc::kBadArgument,
                name + ": its " + std::to_string(size) + " bytes exceed the maximum");
  TMH_TRY(check_overlap(name, options.offset_bytes, size));
  record.size_bytes = size;
  record.max_bytes = options.max_bytes != 0 ? options.max_bytes : std::max(kReserveDefault, size);
  if (!options.relocatable) {
    record.address = storage::next_address(memory_.control());
    if (record.address + record.max_bytes > (1ull << 47) - 2 * kPageBytes)
      return fail(Errc::kTooManySegments, "no address space left for another segment");
    // Before there is a record: it could never become relocatable.
    const Errc error = storage::Home::look_for_room(record.address, record.max_bytes);
    if (error != Errc::kOk) return error == Errc::kAddressInUse ? no_room_for(record) : error;
  }
  if (options.layout == Layout::kHeap) {
    TMH_TRY(settle_heap_file(path, record, in_instance));
  }
  return memory_.add_segment(lock, number, record);
}

Errc SegmentRecords::find_or_add(const platform::FolderLock::Held &lock, const std::string &name,
                                 const SegmentOptions &options, bool in_instance,
                                 std::uint32_t *number) {
  TMH_ASSERT(lock.is_valid());
  TMH_ASSERT(number != nullptr);
  std::uint32_t free_number = storage::kSegmentsMax;
  for (std::uint32_t i = 0; i < storage::kSegmentsMax; ++i) {
    const storage::SegmentRecordV1 &record = memory_.control().segments[i];
    if (!storage::is_used(record)) {
      free_number = std::min(free_number, i);
      continue;
    }
    if (name != record.name || record.offset_bytes != options.offset_bytes) continue;
    if (record.layout != static_cast<std::uint32_t>(options.layout) ||
        (record.address == 0) != options.relocatable ||
        (options.max_bytes != 0 && record.max_bytes != options.max_bytes) ||
        options.size_bytes > record.max_bytes)
      return fail(Errc::kSegmentMismatch,
                  name + " is a segment of another layout, maximum size or address mode");
    *number = i;
    return memory_.durable_control().tell_of_segment(lock,
                                                     i);  // its maker may have died before it did
  }
  if (free_number == storage::kSegmentsMax)
    return fail(Errc::kTooManySegments, "a domain has at most 256 segments");
  *number = free_number;
  return add_record(lock, name, options, in_instance, free_number);
}

Errc SegmentRecords::extend(const platform::FolderLock::Held &lock, std::uint32_t segment,
                            std::uint64_t size_bytes) noexcept {
  TMH_ASSERT(lock.is_valid());
  const storage::SegmentRecordV1 &record = memory_.control().segments[segment];
  const std::uint64_t size = size_of(segment);
  TMH_ASSERT(size_bytes > size && is_page_aligned(size_bytes));
  TMH_TRY(check_overlap(record.name, record.offset_bytes + size, size_bytes - size));
  storage::Home &home = memory_.segment(segment).home;
  TMH_TRY(home.extend(size_bytes));
  memory_.in_place().note_size(segment, size_bytes);
  TMH_TRY(memory_.prepare_changes(lock, segment, size_bytes));
  if (memory_.is_durable()) {  // before the size that promises it
    TMH_TRY(memory_.sync_data(&home, memory_.file_of(segment)));
  }
  TMH_TRY(memory_.durable_control().promise_size(lock, segment, size_bytes));
  storage::store_size(&memory_.control().segments[segment],
                      size_bytes);  // pairs with size_of(): the file is long enough
  return Errc::kOk;
}

}  // namespace tmh::detail
