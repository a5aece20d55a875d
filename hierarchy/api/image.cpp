// hierarchy/api/image.cpp -- the public handle `Image`.
#include <tmh/image.hpp>

#include <cstdlib>
#include <memory>
#include <string>

#include "hierarchy/transaction/transaction.h"
#include "levels/page/shared/shared.h"
#include "platform/assert.h"
#include "platform/files.h"
#include "storage/heap/heap.h"
#include "storage/heap/heap_roots.h"
#include "storage/log/backup_image.h"

namespace tmh {

namespace detail {

class ImageImpl {
 public:
  storage::BackupImage image;
  ImageInfo info;

  [[nodiscard]] const storage::BackupImage::Segment *find(std::string_view file) const noexcept {
    for (const auto &segment : image.segments())
      if (segment.base != nullptr && segment.record.name == file) return &segment;
    return nullptr;
  }
};

}  // namespace detail

namespace {

[[noreturn]] void raise_saying(Errc code, const std::string &detail) { throw Error(code, detail); }

// Stores nothing, so it takes no lock; who opens the folder later is refused by nothing.
void expect_closed(const std::string &folder) {
  if (page::SharedFiles::has_rebuildable_files(folder) ||
      platform::has_entry(folder + "/tmh.line.state"))
    raise_saying(
        Errc::kDomainInUse,
        folder + " is open, or was not closed: an image is of a backup, or of a closed domain");
}

ImageInfo info_of(const storage::BackupImage &image) {
  ImageInfo info;
  info.lsn = image.plan().end;
  info.clock = image.stamp();
  info.time_ns = image.time_ns();
  info.transactions = image.transactions();
  info.log_bytes = image.log_bytes();
  info.is_end = !image.plan().is_cut;
  for (const auto &segment : image.segments())
    if (segment.base != nullptr)
      info.segments.push_back({segment.record.name, segment.base, segment.record.offset_bytes,
                               segment.bytes, segment.changed_count});
  return info;
}

}  // namespace

Image open_image(const std::string &backup, const Moment &moment, const ImageOptions &options) {
  if (backup.empty()) raise_saying(Errc::kBadArgument, "the backup's folder has an empty name");
  expect_closed(backup);
  auto made = std::make_shared<detail::ImageImpl>();
  detail::check(made->image.open(backup, moment, {options.log_folder, options.is_relocated}));
  made->info = info_of(made->image);
  TMH_ASSERT(made->info.segments.size() <= made->image.segments().size());
  return Image(std::move(made));
}

const detail::ImageImpl &Image::required() const {
  if (impl_ == nullptr) raise_saying(Errc::kNotInitialized, "empty image handle");
  return *impl_;
}

const ImageInfo &Image::info() const { return required().info; }

namespace {
const storage::BackupImage::Segment &segment_in(const detail::ImageImpl &image,
                                                std::string_view file) {
  const auto *const segment = image.find(file);
  if (segment == nullptr)
    raise_saying(Errc::kNotMapped, "'" + std::string(file) + "' is no segment of the image");
  return *segment;
}
}  // namespace

const std::byte *Image::data(std::string_view file) const {
  return segment_in(required(), file).base;
}

std::uint64_t Image::size_bytes(std::string_view file) const {
  return segment_in(required(), file).bytes;
}

const void *Image::find_root(std::string_view file, std::string_view name,
                             std::uint64_t type_bytes) const {
  const auto &segment = segment_in(required(), file);
  const auto refuse = [&](Errc code) {
    raise_saying(code, std::string(file) + ": root '" + std::string(name) + "'");
  };
  if (segment.record.layout != static_cast<std::uint32_t>(Layout::kHeap)) refuse(Errc::kNotAHeap);
  if (const Errc error = storage::heap_verify(segment.base, segment.bytes); error != Errc::kOk)
    refuse(error);
  const void *cell = nullptr;
  const Errc error = storage::heap_find_root(segment.base, segment.bytes, name, type_bytes, &cell);
  if (error != Errc::kOk) refuse(error);
  if (cell == nullptr) return nullptr;
  // In the domain the cell holds an address, and in a relocatable segment a distance.
  const std::uint64_t at = reinterpret_cast<std::uintptr_t>(cell) - segment.record.address;
  if (at + type_bytes < at || at + type_bytes > segment.bytes) refuse(Errc::kCorrupt);
  return segment.base + at;
}

}  // namespace tmh
