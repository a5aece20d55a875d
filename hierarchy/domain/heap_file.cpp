// hierarchy/domain/heap_file.cpp -- judging and making the files of heap segments.
#include "hierarchy/domain/heap_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>

#include "platform/disk.h"
#include "platform/failure.h"
#include "platform/files.h"
#include "platform/try.h"
#include "storage/heap/heap.h"

namespace tmh::detail {

using platform::fail;

bool all_zero(const std::byte *bytes, std::size_t count) noexcept {
  return std::all_of(bytes, bytes + count, [](std::byte b) { return b == std::byte{0}; });
}

namespace {

// Through the open file: another process may have put a link under its name. A group of which this
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

// A heap in a file that does not exist or is empty: formatted under another name and renamed, so
// that there is never a half-made one. Done before any participant knows the segment, hence outside
// any instance and possible inside a running one. empty: the file, if it exists: its owner and mode
// stay.
Errc make_heap_file(const std::string &path, std::uint64_t size_bytes, const struct stat *empty) {
  std::string target;  // renaming would replace a symbolic link
  TMH_TRY(platform::follow_links(path, &target));
  const std::size_t name_at = target.find_last_of('/') + 1;
  // A name that no segment can have, and that no other participant uses.
  const std::string temporary = target.substr(0, name_at) + "tmh.new." + target.substr(name_at);
  TMH_TRY(platform::disk_unlink(temporary));
  Errc error = write_empty_heap(temporary, size_bytes, empty);
  if (error == Errc::kOk) error = platform::disk_rename(temporary, target);
  if (error != Errc::kOk) (void)unlink(temporary.c_str());
  return error;
}

}  // namespace

Errc settle_heap_file(const std::string &path, const storage::SegmentRecordV1 &record,
                      bool in_instance) {
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
    return in_instance
               ? fail(Errc::kInstanceRunning, path + ": its heap is formatted outside an instance")
               : Errc::kOk;
  }
  Errc error = storage::heap_verify(first.data(), record.size_bytes);
  if (error == Errc::kOk && record.address != 0)
    error = storage::heap_bind_address(first.data(), record.address);
  return error == Errc::kOk ? error : fail(error, path + ": heap header");
}

}  // namespace tmh::detail
