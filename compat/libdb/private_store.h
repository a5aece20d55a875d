// compat/libdb/private_store.h -- pages of one file, or of none, that this handle alone has.
// Shape:     page 0 is the head: 0 magic "tmhdb", 0, 0, 0; 8 version u32; 12 page's bytes u32;
//            16 pages u32; 20 first free page u32; 24 the access method's own, kOwnBytes. A free
//            page names the next one at 4. All little-endian.
// Invariant: pages that an operation has asked for stay where they are until the next one begins.
// Errors:    Failure: what read(2) and write(2) say; EINVAL: a file that is none of ours, or whose
//            pages lead out of it. In a Change that does not end, every page is as it was.
// Contexts:  one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compat/libdb/plain_page.h"
#include "platform/assert.h"

namespace tmh::db {

class PrivateStore {
 public:
  using Page = PlainPage;
  static constexpr std::uint32_t kOwnBytes = 64;

  struct Settings {
    std::string path;  // empty: in memory
    int flags = 0;     // of open(2)
    int mode = 0;
    std::uint32_t page_bytes = 0;   // of a new file; 0: the file system's block
    std::uint64_t cache_bytes = 0;  // 0: 1 MiB
    // Whether a page of a file may be used by the access method.
    bool (*is_sound)(const PlainPage &page) = nullptr;
  };

  explicit PrivateStore(const Settings &settings);
  ~PrivateStore();
  PrivateStore(const PrivateStore &) = delete;
  PrivateStore &operator=(const PrivateStore &) = delete;

  [[nodiscard]] bool is_new() const noexcept { return is_new_; }
  [[nodiscard]] bool is_writable() const noexcept { return is_writable_; }
  [[nodiscard]] std::uint32_t page_bytes() const noexcept { return page_bytes_; }
  [[nodiscard]] int file() const noexcept { return file_; }  // -1: in memory
  [[nodiscard]] PageId page_end() const noexcept { return page_end_; }

  // What earlier operations have asked for may go. A callback may still look at it: then it stays.
  void begin_operation(bool is_in_callback);
  [[nodiscard]] Page read(PageId page) { return {frame_of(page).bytes.get(), page_bytes_}; }
  [[nodiscard]] Page write(PageId page);
  // Zeros.
  [[nodiscard]] PageId make();
  void release(PageId page);

  [[nodiscard]] Bytes own() noexcept;
  void set_own(Bytes bytes);

  void sync();

  // Between its begin and commit() pages change together or not at all.
  class Change {
   public:
    explicit Change(PrivateStore &store) noexcept : store_(store) { store_.begin_change(); }
    ~Change() { store_.end_change(false); }
    Change(const Change &) = delete;
    Change &operator=(const Change &) = delete;
    void commit() noexcept { store_.end_change(true); }

   private:
    PrivateStore &store_;
  };

 private:
  struct Frame {
    std::unique_ptr<std::byte[]> bytes;
    bool is_dirty = false;
    bool is_used = false;   // by the running operation, or the last one
    bool is_hot = false;    // since the hand came by
    bool is_saved = false;  // its image lies in images_, or it is new
  };
  struct Image {
    PageId page;
    std::unique_ptr<std::byte[]> bytes;
  };

  void open_file(const Settings &settings);
  void begin_file(std::uint32_t page_bytes);
  void read_head();
  void write_head();
  [[nodiscard]] Frame &frame_of(PageId page);
  [[nodiscard]] Frame &new_frame(PageId page);
  void write_back(PageId page, Frame *frame);
  void evict();
  void begin_change() noexcept;
  void end_change(bool is_done) noexcept;

  int file_ = -1;
  bool is_new_ = false, is_writable_ = false, is_head_dirty_ = false;
  std::uint32_t page_bytes_ = 0;
  std::size_t frames_max_ = 0, frames_count_ = 0;
  PageId page_end_ = 1, free_ = 0, hand_ = 0;
  std::byte own_[kOwnBytes] = {};
  std::vector<std::unique_ptr<Frame>> frames_;  // by page
  std::vector<PageId> used_;                    // by the running operation
  bool (*is_sound_)(const PlainPage &page) = nullptr;
  bool is_changing_ = false;
  std::vector<Image> images_;
  PageId page_end_before_ = 0, free_before_ = 0;
  std::byte own_before_[kOwnBytes] = {};
};

}  // namespace tmh::db
