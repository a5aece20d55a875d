// storage/home.h -- the home of a segment: the part of a file that holds committed content.
// Shape:     MAP_SHARED over the segment's largest size, so growing needs no remapping in any
//            process. As a rule the file is the data file. A separate home is a file of its own,
//            made of the data file's content, disposable; the data file is written by checkpoints.
// Invariant: only committed lines are stored here, by the collector, under the domain lock.
// Sharing:   between processes through the page cache; views map the same pages MAP_PRIVATE.
// Contexts:  reading base() is allowed in a handler; everything else is not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <tmh/error.hpp>

#include "platform/files.h"
#include "platform/protection_keys.h"
#include "storage/page_id.h"

namespace tmh::storage {

class Home {
 public:
  Home() = default;
  Home(const Home &) = delete;
  Home &operator=(const Home &) = delete;
  ~Home() { close(); }

  // Opens (creates) the file and makes it at least offset + size long. kFileShrunk when it must
  // exist with that size.
  [[nodiscard]] Errc open(const std::string &path, std::uint64_t offset_bytes,
                          std::uint64_t size_bytes, std::uint64_t max_bytes,
                          bool may_extend) noexcept;
  void close() noexcept;
  // Makes it separate: home is `path` from here on, copied from the data file if there is none.
  // REQUIRES: no view is mapped; the folder lock. kDiskFull, kIo.
  [[nodiscard]] Errc separate(const std::string &path) noexcept;
  // Both files, where there are two.
  [[nodiscard]] Errc extend(std::uint64_t size_bytes) noexcept;
  [[nodiscard]] Errc sync() noexcept;  // fdatasync of the data file
  // Allocates disk blocks for the range, so that storing there cannot raise SIGBUS for lack of
  // space, nor a checkpoint fail. kDiskFull, kIo.
  [[nodiscard]] Errc allocate_blocks(std::uint64_t offset_bytes, std::uint64_t bytes) noexcept;

  // Views and line views that are mapped from now on get this protection key; home itself has none.
  void use_key(int key) noexcept { key_ = key; }

  // A private (copy-on-write) view of the whole reserve at `address` (0: anywhere), inaccessible or
  // read-write. kAddressInUse when the range is not free. tail_at: what begins there is an area of
  // its own, also where it is as accessible as what precedes it.
  [[nodiscard]] Errc map_view(std::uintptr_t address, bool accessible, std::byte **view,
                              std::uint64_t tail_at = kNoTail) noexcept;
  // REQUIRES: a view of this home stands there, whatever mapping has taken its place.
  void unmap_view(std::byte *view) const noexcept;
  // Makes a view's tail inaccessible, which begins at `tail_at` now. Where it began at or before
  // that (at map_view(), or here) this takes no area more. False: it is as it was. REQUIRES: all of
  // the view is as accessible. Async-signal-safe.
  [[nodiscard]] bool close_tail(std::byte *view, std::uint64_t tail_at) const noexcept;

  // Can a view of so many bytes be mapped there, in this process, now? Also: kOutOfMemory.
  [[nodiscard]] static Errc look_for_room(std::uintptr_t address, std::uint64_t bytes) noexcept;

  // A new private view where `view` of this home stands, or a mapping that has taken its place:
  // inaccessible, nothing touched.
  [[nodiscard]] Errc map_view_again(std::byte *view) noexcept;
  // The same for some pages of it, at their addresses; accessible says whether they are read-write.
  // Async-signal-safe.
  [[nodiscard]] bool map_pages_again(std::byte *at, std::uint64_t offset_bytes, std::uint64_t bytes,
                                     bool accessible) const noexcept;
  // A shared, writable mapping of the whole reserve, no page present, at an address that differs
  // from `view` by a multiple of 1 GiB: moving it to `view` moves page tables whole. Its faults
  // read nothing ahead: platform::read_in().
  [[nodiscard]] Errc map_parked(std::uintptr_t view, std::byte **parked) noexcept;
  // The same anew where one stands at `view`.
  [[nodiscard]] bool map_lines_again(std::byte *view) const noexcept;

  // Does a load from a hole of home take a block? Async-signal-safe.
  [[nodiscard]] bool loads_take_blocks() const noexcept { return loads_take_blocks_; }
  // Can this page of home be loaded from, now and later, whatever room there is? False: nothing was
  // ever stored there, so it reads as zeros. Takes no block. Async-signal-safe.
  [[nodiscard]] bool is_loadable(std::uint64_t offset_bytes) const noexcept {
    return !loads_take_blocks_ || keep_block(offset_bytes);
  }
  // May anything in the range ever have been stored? Async-signal-safe.
  [[nodiscard]] bool has_data(std::uint64_t offset_bytes, std::uint64_t bytes) const noexcept;
  // Does whichever file is home end at or before this page of it? Async-signal-safe.
  [[nodiscard]] bool is_cut(std::uint64_t offset_bytes) const noexcept;
  [[nodiscard]] bool is_open() const noexcept { return base_ != nullptr; }
  // Of the data file; of the separate home, -1: there is none.
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  [[nodiscard]] int separate_fd() const noexcept { return home_fd_.get(); }
  [[nodiscard]] std::byte *base() const noexcept { return base_; }
  [[nodiscard]] std::uint64_t max_bytes() const noexcept { return max_bytes_; }

 private:
  static constexpr std::uint64_t kNoTail = ~0ull;
  void advise_view(void *at, std::uint64_t offset_bytes, std::uint64_t bytes) const noexcept;
  void advise_view(void *at, std::uint64_t offset_bytes, std::uint64_t bytes,
                   std::uint64_t tail_at) const noexcept;
  [[nodiscard]] Errc set_length(std::uint64_t bytes) noexcept;
  [[nodiscard]] bool keep_block(std::uint64_t offset_bytes) const noexcept;
  // Whichever file is home, and where in it.
  [[nodiscard]] int mapped_fd() const noexcept { return home_fd_ ? home_fd_.get() : fd_.get(); }
  [[nodiscard]] std::uint64_t mapped_offset() const noexcept {
    return home_fd_ ? 0 : offset_bytes_;
  }
  // mmap of the whole reserve of whichever file is home.
  [[nodiscard]] void *map_here(void *address, int protection, int flags, int key) const noexcept;
  [[nodiscard]] Errc map() noexcept;
  void unmap() noexcept;
  // For the message about what the file lacks.
  void note(const std::byte *begin) const noexcept;

  std::string path_;  // of the data file
  platform::FileDescriptor fd_;
  platform::FileDescriptor home_fd_;  // if separate
  std::byte *base_ = nullptr;
  int key_ = platform::kNoKey;      // of views
  std::uint64_t offset_bytes_ = 0;  // in the data file
  std::uint64_t max_bytes_ = 0;
  // From the segment's begin, of whichever file is home; as it was when that was mapped.
  std::uint64_t readahead_bytes_ = 0;
  bool loads_take_blocks_ = false;  // of whichever file is home
};

}  // namespace tmh::storage
