// hierarchy/domain_segments.cpp -- mapping, formatting, growing and finding segments.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <utility>

#include "hierarchy/domain_impl.h"
#include "hierarchy/leave_level.h"
#include "levels/storage/home.h"
#include "platform/disk.h"
#include "platform/failure.h"
#include "platform/files.h"
#include "platform/try.h"

namespace tmh::detail {

using platform::fail;

namespace {

constexpr std::uint64_t kHeapBytesMin = 1u << 20;
#if defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kReserveDefault = 1ull << 30;  // TSan's application memory is small
#else
// 64 GiB of address space; memory and disk follow use
constexpr std::uint64_t kReserveDefault = 1ull << 36;
#endif

// Beyond it a segment could reach past the largest offset that a file has.
constexpr std::uint64_t kOffsetMax =
    static_cast<std::uint64_t>(std::numeric_limits<off_t>::max()) - storage::kSegmentBytesMax;

bool page_aligned(std::uint64_t bytes) noexcept { return bytes % kPageBytes == 0; }
std::uint64_t round_up(std::uint64_t bytes) noexcept {
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

Errc check_options(const std::string &file, const SegmentOptions &options) {
  if (file.empty()) return fail(Errc::kBadArgument, "a segment's file has an empty name");
  if (file.find('\0') != std::string::npos)
    return fail(Errc::kBadArgument, "a segment's name holds a byte 0");
  if (!page_aligned(options.size_bytes) || !page_aligned(options.max_bytes) ||
      !page_aligned(options.offset_bytes))
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

Errc no_room(const storage::SegmentRecordV1 &record) {
  char address[32];
  std::snprintf(address, sizeof address, "0x%llx", static_cast<unsigned long long>(record.address));
  return fail(Errc::kAddressInUse, std::string(record.name)
                                       .append(" belongs at ")
                                       .append(address)
                                       .append(", where the segments of every domain begin: of two "
                                               "domains that one process has mapped, one makes its "
                                               "segments with SegmentOptions::relocatable"));
}

bool all_zero(const std::byte *bytes, std::size_t count) noexcept {
  return std::all_of(bytes, bytes + count, [](std::byte b) { return b == std::byte{0}; });
}

// Through the open file: somebody else may have put a link under its name. A group of which this
// user is no member stays as it is for new files.
Errc adopt_owner(const platform::DiskFile &file, const struct stat &model) {
  (void)!fchown(file.fd(), model.st_uid, model.st_gid);
  return fchmod(file.fd(), model.st_mode & 07777) == 0
             ? Errc::kOk
             : platform::fail_errno(Errc::kIo, file.path());
}

// Written, not stored to a mapping: that would be SIGBUS on a full disk. model: the file that has
// owner and mode for it, if there is one.
Errc write_empty_heap(const std::string &path, std::uint64_t size_bytes, const struct stat *model) {
  struct alignas(kPageBytes) Image {
    std::array<std::byte, kHeapBytesMin> bytes;  // what is not zero in a heap of any size
  };
  const auto image = std::make_unique<Image>();
  if (const Errc error = storage::heap_format(image->bytes.data(), kHeapBytesMin);
      error != Errc::kOk)
    return fail(error, path);
  platform::DiskFile file;
  TMH_TRY(file.open(path, platform::DiskFile::Mode::kCreate));
  for (std::uint64_t at = 0; at < kHeapBytesMin; at += kPageBytes) {
    const std::byte *const page = image->bytes.data() + at;
    if (all_zero(page, kPageBytes)) continue;
    TMH_TRY(file.write(at, page, kPageBytes));
  }
  TMH_TRY(file.truncate(size_bytes));
  if (model != nullptr) TMH_TRY(adopt_owner(file, *model));
  return file.sync();
}

// The bytes from `offset` up to `end` are zeros, as far as the file has them. Holes are passed
// over, where the file system tells of them.
Errc check_zeros(const std::string &path, int file, std::uint64_t offset, std::uint64_t end) {
  const auto buffer = std::make_unique<std::array<std::byte, kHeapBytesMin>>();
  while (offset < end) {
    const off_t data = lseek(file, static_cast<off_t>(offset), SEEK_DATA);
    if (data < 0 && errno == ENXIO) return Errc::kOk;
    if (data > 0) offset = static_cast<std::uint64_t>(data);
    if (offset >= end) return Errc::kOk;
    const auto wanted =
        static_cast<std::size_t>(std::min<std::uint64_t>(end - offset, buffer->size()));
    const ssize_t count = pread(file, buffer->data(), wanted, static_cast<off_t>(offset));
    if (count < 0) return platform::fail_errno(Errc::kIo, path);
    if (count == 0) return Errc::kOk;
    if (!all_zero(buffer->data(), static_cast<std::size_t>(count)))
      return fail(Errc::kNotAHeap, path + ": begins with zeros, but holds something near byte " +
                                       std::to_string(offset));
    offset += static_cast<std::uint64_t>(count);
  }
  return Errc::kOk;
}

Errc belongs_to_domain(const std::string &name) {
  return fail(Errc::kBadArgument, name + ": names beginning with tmh. belong to the domain");
}

bool is_same_file(const struct stat &one, const struct stat &other) noexcept {
  return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

}  // namespace

// Whatever path leads there: names, also of files that are not there yet, through symbolic links;
// files, also through hard links and mounts. REQUIRES the folder lock.
Errc DomainImpl::check_not_own(const std::string &name) const {
  std::error_code unknown;
  const auto real =
      std::filesystem::weakly_canonical(std::filesystem::path(folder_) / name, unknown);
  const auto is_own = [](const std::filesystem::path &file) {
    return file.filename().string().starts_with("tmh.");
  };
  if (name.starts_with("tmh.") || (real.parent_path() == folder_ && is_own(real)))
    return belongs_to_domain(name);
  struct stat mine {};
  if (stat((std::filesystem::path(folder_) / name).c_str(), &mine) != 0) return Errc::kOk;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder_, error), end; !error && entry != end;
       entry.increment(error)) {
    struct stat theirs {};
    if (is_own(entry->path()) && stat(entry->path().c_str(), &theirs) == 0 &&
        is_same_file(mine, theirs))
      return belongs_to_domain(name);
  }
  if (!error) return Errc::kOk;
  errno = error.value();
  return platform::fail_errno(Errc::kIo, folder_);
}

Errc DomainImpl::check_overlap(const std::string &name, std::uint64_t offset,
                               std::uint64_t size) const {
  storage::SegmentRecordV1 wanted{};
  std::memcpy(wanted.name, name.data(), name.size());
  struct stat mine {};
  const bool exists = stat(memory_->segment_path(wanted).c_str(), &mine) == 0;
  for (const storage::SegmentRecordV1 &record : memory_->control().segments) {
    if (!storage::is_used(record)) continue;
    if (offset >= record.offset_bytes + record.size_bytes || record.offset_bytes >= offset + size)
      continue;
    // Another path to the same file, too: two segments on the same bytes would not see each other's
    // conflicts.
    struct stat theirs {};
    if (name != record.name &&
        !(exists && stat(memory_->segment_path(record).c_str(), &theirs) == 0 &&
          is_same_file(mine, theirs)))
      continue;
    return fail(Errc::kSegmentOverlap, name + ": bytes from " +
                                           std::to_string(record.offset_bytes) +
                                           " belong to another segment, " + record.name);
  }
  return Errc::kOk;
}

// REQUIRES the folder lock.
Errc DomainImpl::add_record(const std::string &name, const SegmentOptions &options,
                            std::uint32_t number) {
  storage::SegmentRecordV1 record{};
  record.layout = static_cast<std::uint32_t>(options.layout);
  record.offset_bytes = options.offset_bytes;
  std::memcpy(record.name, name.data(), name.size());
  const std::string path = memory_->segment_path(record);
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
    record.address = storage::next_address(memory_->control());
    if (record.address + record.max_bytes > (1ull << 47) - 2 * kPageBytes)
      return fail(Errc::kTooManySegments, "no address space left for another segment");
    // Before there is a record: it could never become relocatable.
    const Errc error = storage::Home::look_for_room(record.address, record.max_bytes);
    if (error != Errc::kOk) return error == Errc::kAddressInUse ? no_room(record) : error;
  }
  if (options.layout == Layout::kHeap) {
    TMH_TRY(settle_heap_file(path, record));
  }
  return memory_->add_segment(number, record);
}

// REQUIRES the folder lock.
Errc DomainImpl::find_or_add(const std::string &name, const SegmentOptions &options,
                             std::uint32_t *number) {
  std::uint32_t free_number = storage::kSegmentsMax;
  for (std::uint32_t i = 0; i < storage::kSegmentsMax; ++i) {
    const storage::SegmentRecordV1 &record = memory_->control().segments[i];
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
    return memory_->tell_of_segment(i);  // whoever made it may have died before it did
  }
  if (free_number == storage::kSegmentsMax)
    return fail(Errc::kTooManySegments, "a domain has at most 256 segments");
  *number = free_number;
  return add_record(name, options, free_number);
}

// What a heap will be in, before there is a record: what the file is refused for then would be so
// for ever, and it could not become a raw segment either.
Errc DomainImpl::settle_heap_file(const std::string &path,
                                  const storage::SegmentRecordV1 &record) const {
  if (record.size_bytes < kHeapBytesMin)
    return fail(Errc::kBadArgument, path + ": a heap has at least 1 MiB");
  struct stat info {};
  const bool exists = stat(path.c_str(), &info) == 0;
  if (exists && !S_ISREG(info.st_mode))
    return fail(Errc::kBadArgument, path + " is not a regular file");
  if ((!exists || info.st_size == 0) && record.offset_bytes == 0)
    return make_heap_file(path, record.size_bytes, exists ? &info : nullptr);
  // what lies behind the file's end will be zeros
  alignas(kPageBytes) std::array<std::byte, kPageBytes> first{};
  platform::FileDescriptor file;
  if (exists) {
    TMH_TRY(platform::open_regular(path, O_RDONLY, platform::FileRole::kSegment, &file));
    if (pread(file.get(), first.data(), first.size(), static_cast<off_t>(record.offset_bytes)) < 0)
      return platform::fail_errno(Errc::kIo, path);
  }
  if (all_zero(first.data(), first.size())) {
    // All of it: an image of a disk begins with zeros, too, and would be written over.
    if (exists)
      TMH_TRY(check_zeros(path, file.get(), record.offset_bytes,
                          record.offset_bytes + record.size_bytes));
    return runs_here()
               ? fail(Errc::kInstanceRunning, path + ": its heap is formatted outside an instance")
               : Errc::kOk;
  }
  Errc error = storage::heap_verify(first.data(), record.size_bytes);
  if (error == Errc::kOk && record.address != 0)
    error = storage::heap_bind_address(first.data(), record.address);
  return error == Errc::kOk ? error : fail(error, path + ": heap header");
}

// A heap in a file that does not exist or is empty: formatted under another name and renamed, so
// that there is never a half-made one. Done before the segment is known to anybody, hence outside
// any instance and possible inside a running one. empty: the file, if it exists: its owner and mode
// stay.
Errc DomainImpl::make_heap_file(const std::string &path, std::uint64_t size_bytes,
                                const struct stat *empty) {
  std::string target;  // renaming would replace a symbolic link
  TMH_TRY(platform::follow_links(path, &target));
  const std::size_t name_at = target.find_last_of('/') + 1;
  // A name that no segment can have, and that is nobody else's.
  const std::string temporary = target.substr(0, name_at) + "tmh.new." + target.substr(name_at);
  TMH_TRY(platform::disk_unlink(temporary));
  Errc error = write_empty_heap(temporary, size_bytes, empty);
  if (error == Errc::kOk) error = platform::disk_rename(temporary, target);
  if (error != Errc::kOk) (void)unlink(temporary.c_str());
  return error;
}

Errc DomainImpl::map(const std::string &file, const SegmentOptions &options,
                     std::shared_ptr<SegmentImpl> *out) {
  TMH_TRY(usable());
  TMH_TRY(check_options(file, options));
  const std::string name = std::filesystem::path(file).lexically_normal().string();
  if (name.size() > storage::kSegmentNameBytesMax)
    return fail(Errc::kBadArgument, "a segment's name has at most 175 bytes");
  auto segment = std::make_shared<SegmentImpl>();
  {
    std::unique_lock<std::mutex> instance_guard(process_.mutex, std::defer_lock);
    if (!runs_here()) instance_guard.lock();
    TMH_TRY(usable());  // closed while we waited
    TMH_TRY(leave_line_mode());
    platform::FolderLock folder_lock;
    TMH_TRY(folder_lock.acquire(lock_path()));
    TMH_TRY(memory_->check_in_place());
    TMH_TRY(check_not_own(name));
    TMH_TRY(map_view(name, options, segment));
  }
  // Without the folder lock: this begins an instance, and whoever runs one may be waiting for the
  // folder to grow a segment.
  if (options.layout == Layout::kHeap) {
    if (const Errc error = prepare_heap(*segment); error != Errc::kOk) {
      const std::string detail = platform::failure_detail();
      // it stays mapped as long as the instance runs; the next map() takes it over
      if (runs_here()) {
        const std::scoped_lock guard(segments_mutex_);
        segment->is_unprepared = true;
      } else {
        (void)unmap(*segment);
      }
      return fail(error, detail);
    }
  }
  *out = std::move(segment);
  return Errc::kOk;
}

// REQUIRES the folder lock and process_.mutex (or a running instance of this thread).
Errc DomainImpl::map_view(const std::string &name, const SegmentOptions &options,
                          std::shared_ptr<SegmentImpl> &segment) {
  const std::scoped_lock guard(segments_mutex_);
  std::shared_ptr<SegmentImpl> unprepared;
  for (const auto &mapped : segments_) {
    if (mapped->name != name ||
        memory_->control().segments[mapped->number].offset_bytes != options.offset_bytes)
      continue;
    if (!mapped->is_unprepared)
      return fail(Errc::kSegmentInUse, name + " is mapped in this process already");
    unprepared = mapped;
  }
  TMH_TRY(find_or_add(name, options, &segment->number));
  TMH_TRY(memory_->open_segments());
  if (options.size_bytes > size_of(segment->number)) {
    TMH_TRY(extend(segment->number, options.size_bytes));
  }
  if (unprepared != nullptr) {
    TMH_TRY(add_lines(*unprepared));
    unprepared->is_unprepared = false;
    segment = std::move(unprepared);
    return Errc::kOk;
  }
  segment->name = name;
  segments_.reserve(segments_.size() + 1);  // behind the mapping nothing may throw
  std::byte *base = nullptr;
  if (const Errc error = engine_->map(segment->number, page::Engine::Placement::kCommon, &base);
      error != Errc::kOk)
    return error == Errc::kAddressInUse ? no_room(memory_->control().segments[segment->number])
                                        : error;
  segment->domain = weak_from_this();
  segment->max_bytes = memory_->control().segments[segment->number].max_bytes;
  segment->layout = options.layout;
  segment->relocatable = options.relocatable;
  segment->base = base;
  const Errc error = add_lines(*segment);
  if (error != Errc::kOk && engine_->unmap(segment->number) == Errc::kOk) return error;
  // an instance runs, and keeps its view: the next map() takes it over
  segment->is_unprepared = error != Errc::kOk;
  segments_.push_back(segment);
  ever_mapped_.set(segment->number);
  segments_epoch_.fetch_add(1, std::memory_order_release);
  wake_sleepers();
  return error;
}

// What level 1 needs of a segment whose view is mapped.
Errc DomainImpl::add_lines(SegmentImpl &segment) noexcept {
  if (lines_ == nullptr || segment.has_lines) return Errc::kOk;
  const Errc error = lines_->add_segment(segment.number, segment.base, segment.max_bytes);
  segment.has_lines = error == Errc::kOk;
  return error;
}

// Checks the heap's header; formats one in a file that holds zeros, in a transaction of its own, so
// that death in the middle leaves zeros. Two processes may try at once: one commits, the other
// finds it formatted.
Errc DomainImpl::prepare_heap(SegmentImpl &segment) noexcept {
  const bool in_query = runs_here() && current().pages.runner->nest.front();
  for (;;) {
    TMH_TRY(begin(in_query));
    const std::uint64_t size = size_of(segment.number);
    const bool nested = depth() > 1;
    Errc result = Errc::kNotAHeap;
    if (size < kHeapBytesMin)
      result = Errc::kBadArgument;
    else if (storage::heap_is_formatted(segment.base))
      result = storage::heap_verify(segment.base, size);
    else if (nested)
      result = Errc::kInstanceRunning;  // the outer instance could roll the format back
    else if (all_zero(segment.base, kPageBytes))
      result = storage::heap_format(segment.base, size);
    // Plain pointers inside mean this address: a heap file that was copied from elsewhere is
    // refused before they are followed. A query only compares: what is not bound yet the next map()
    // binds.
    if (result == Errc::kOk && !segment.relocatable &&
        !(in_query && !storage::heap_is_bound(segment.base)))
      result = storage::heap_bind_address(segment.base,
                                          reinterpret_cast<std::uint64_t>(segment.base.load()));
    if (result != Errc::kOk && !nested) (void)abort();
    Status status = Status::kPending;
    if (result == Errc::kOk || nested) {
      TMH_TRY(end(in_query, &status));
    }
    if (result != Errc::kOk) return fail(result, segment.name + ": heap header");
    if (status != Status::kAborted) return Errc::kOk;
    backoff();
  }
}

Errc DomainImpl::unmap(const std::string &file) noexcept {
  const std::string name = std::filesystem::path(file).lexically_normal().string();
  return unmap(name, [&name](const SegmentImpl &segment) { return segment.name == name; });
}

Errc DomainImpl::unmap(const SegmentImpl &wanted) noexcept {
  return unmap(wanted.name, [&wanted](const SegmentImpl &segment) { return &segment == &wanted; });
}

Errc DomainImpl::unmap(const std::string &name,
                       const std::function<bool(const SegmentImpl &)> &is_wanted) noexcept {
  TMH_TRY(usable());
  if (runs_at_any_level()) return fail(Errc::kInstanceRunning, "unmap inside an instance");
  const LineUsers::Barred nobody_at_lines(line_users_);
  const std::scoped_lock process(process_.mutex);
  const ThreadViews::Stopped stopped(*views_);
  const std::scoped_lock guard(segments_mutex_);
  TMH_TRY(usable());
  TMH_TRY(leave_line_mode());
  bool found = false;
  for (auto it = segments_.begin(); it != segments_.end();) {
    if (!is_wanted(**it)) {
      ++it;
      continue;
    }
    if (const Errc error = engine_->unmap((*it)->number); error != Errc::kOk)
      return fail(error, name);
    views_->unmap((*it)->number);
    if (lines_ != nullptr) lines_->remove_segment((*it)->number);
    (*it)->base = nullptr;
    it = segments_.erase(it);
    segments_epoch_.fetch_add(1, std::memory_order_release);
    found = true;
  }
  wake_sleepers();
  return found ? Errc::kOk : fail(Errc::kNotMapped, name + " is not mapped in this process");
}

Errc DomainImpl::grow(std::uint32_t segment, std::uint64_t size_bytes) noexcept {
  // before the lock: a child may have inherited it
  TMH_TRY(usable());
  const auto open = keep_open();
  TMH_TRY(usable());
  const storage::SegmentRecordV1 &record = memory_->control().segments[segment];
  if (!page_aligned(size_bytes))
    return fail(Errc::kMisalignedLength, std::string(record.name) + ": size is a multiple of 4096");
  if (size_bytes > record.max_bytes)
    return fail(Errc::kSegmentFull, std::string(record.name) + ": beyond its maximum size");
  platform::FolderLock folder_lock;
  TMH_TRY(folder_lock.acquire(lock_path()));
  TMH_TRY(memory_->check_in_place());
  return size_bytes <= size_of(segment) ? Errc::kOk : extend(segment, size_bytes);
}

// REQUIRES the folder lock.
Errc DomainImpl::extend(std::uint32_t segment, std::uint64_t size_bytes) noexcept {
  const storage::SegmentRecordV1 &record = memory_->control().segments[segment];
  const std::uint64_t size = size_of(segment);
  TMH_TRY(check_overlap(record.name, record.offset_bytes + size, size_bytes - size));
  storage::Home &home = memory_->segment(segment).home;
  TMH_TRY(home.extend(size_bytes));
  TMH_TRY(memory_->prepare_changes(segment, size_bytes));
  if (memory_->is_durable()) {  // before the size that promises it
    TMH_TRY(memory_->sync_data(&home, memory_->file_of(segment)));
  }
  TMH_TRY(memory_->promise_size(segment, size_bytes));
  storage::store_size(&memory_->control().segments[segment],
                      size_bytes);  // pairs with size_of(): the file is long enough
  return Errc::kOk;
}

std::uint64_t DomainImpl::size_of(std::uint32_t segment) const noexcept {
  return memory_->segment_size(segment).load(std::memory_order_acquire);
}

std::vector<MappedSegment> DomainImpl::mapped_segments() const {
  const std::scoped_lock guard(segments_mutex_);
  std::vector<MappedSegment> all;
  for (const auto &segment : segments_)
    all.push_back({segment->number, segment->base, segment->max_bytes});
  return all;
}

std::shared_ptr<SegmentImpl> DomainImpl::segment_at(const void *address) noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const std::scoped_lock guard(segments_mutex_);
  for (const auto &segment : segments_) {
    if (at - reinterpret_cast<std::uintptr_t>(segment->base.load()) < segment->max_bytes)
      return segment;
  }
  return nullptr;
}

Errc DomainImpl::heap_context(const SegmentImpl &segment, storage::HeapContext *out) noexcept {
  TMH_TRY(usable());
  if (!runs_here() && !runs_in_hardware(lines_.get()))
    return fail(Errc::kEndWithoutBegin, "allocating or freeing outside an instance");
  if (segment.layout != Layout::kHeap)
    return fail(Errc::kNotAHeap, segment.name + " is a raw segment");
  const auto grow_segment = [](void *context, std::uint64_t size_bytes, Errc *why) noexcept {
    leave_hardware();
    const auto *growing = static_cast<const SegmentImpl *>(context);
    const auto owner = growing->domain.lock();
    *why = owner == nullptr ? Errc::kNotInitialized : owner->grow(growing->number, size_bytes);
    return *why == Errc::kOk;
  };
  *out = storage::HeapContext{segment.base,      size_of(segment.number),
                              segment.max_bytes, slot_,
                              grow_segment,      const_cast<SegmentImpl *>(&segment)};
  return Errc::kOk;
}

}  // namespace tmh::detail
