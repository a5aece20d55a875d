// include/tmh/image.hpp -- a durable domain as it was: a read-only image of a backup, brought to a
// moment by the log of the backup and its archive.
// Shape:     the backup's data files are mapped privately; a page that the log has changed up to
//            the moment is copied, no other one. Nothing is written, neither to the backup nor to
//            the archive, so a death leaves both as they were.
// Sharing:   an image is this process's own; any thread reads it. As long as it is open, no process
//            may open, recover or remove the backup.
// Contexts:  not in signal handlers.
// Source:    EXCITE-VM, section 3 (queries of the past); docs/history.md.
#pragma once

#include <tmh/detail/cxx20.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tmh/error.hpp>
#include <tmh/past.hpp>

namespace tmh {

struct ImageOptions {
  // Where archive() put log files; empty: the backup's own log alone.
  std::string log_folder;
  // Segments with a fixed address may lie elsewhere, where that is taken, as it is when this
  // process has the domain open. Pointers in them then lead to where they led in the domain.
  bool is_relocated = false;
};

struct ImageSegment {
  // As Domain::map() was told.
  std::string file;
  const std::byte *data = nullptr;
  // Of the segment in its file.
  std::uint64_t offset_bytes = 0;
  std::uint64_t size_bytes = 0;
  // Copied, because the log has changed them.
  std::uint64_t changed_pages = 0;
};

struct ImageInfo {
  // Behind the last record that the image holds.
  std::uint64_t lsn = 0;
  // Of the last commit.
  std::uint64_t clock = 0;
  // Of that, in ns since 1970; 0: it was before the backup.
  std::uint64_t time_ns = 0;
  // Of the log, up to the moment.
  std::uint64_t transactions = 0, log_bytes = 0;
  // No later commit is in the log.
  bool is_end = false;
  std::vector<ImageSegment> segments;
};

namespace detail {
class ImageImpl;
}  // namespace detail

// A handle: copies refer to the same image; the last one unmaps it.
class Image {
 public:
  Image() = default;
  [[nodiscard]] explicit operator bool() const noexcept { return impl_ != nullptr; }
  [[nodiscard]] const ImageInfo &info() const;
  // Of the segment `file`; of a file with several, of the first. kNotMapped: the backup has none of
  // that name.
  [[nodiscard]] const std::byte *data(std::string_view file) const;
  [[nodiscard]] std::uint64_t size_bytes(std::string_view file) const;
  // The object that Segment::root<T>(name) gives. Null: the name was not there at that moment.
  // Errors: kNotAHeap; kRootMismatch (size); kNotMapped; kBadArgument (name); kCorrupt.
  template <class T>
  [[nodiscard]] const T *root(std::string_view file, std::string_view name = "root") const {
    return static_cast<const T *>(find_root(file, name, sizeof(T)));
  }

 private:
  friend Image open_image(const std::string &backup, const Moment &moment,
                          const ImageOptions &options);
  explicit Image(std::shared_ptr<const detail::ImageImpl> impl) noexcept : impl_(std::move(impl)) {}
  [[nodiscard]] const void *find_root(std::string_view file, std::string_view name,
                                      std::uint64_t type_bytes) const;
  [[nodiscard]] const detail::ImageImpl &required() const;
  std::shared_ptr<const detail::ImageImpl> impl_;
};

// The domain of `backup` at `moment`: exactly what a recovery up to there would give. `backup`: a
// folder that Domain::backup() has made, or that of a closed durable domain. A name is looked for
// in both folders. A time later than the last commit is that commit.
// Errors: kNotHeld: the moment lies before what the data files hold, or behind the log's end, or no
// moment has that name; the detail says which there are. kDomainInUse: `backup` is open, or was not
// closed. kNotDurable. kLogDamaged, kLogMissing: the log is damaged, or a file of it is missing,
// before the moment. kBadArgument: a segment was made after the backup that the log names by then.
// kAddressInUse: see ImageOptions::is_relocated. kNotADomain, kCorrupt and others: files that are
// none of a domain. kIo, kPermission, kOutOfMemory.
[[nodiscard]] Image open_image(const std::string &backup, const Moment &moment,
                               const ImageOptions &options = {});

}  // namespace tmh
