// compat/libdb/store.h -- pages as access methods see them: copies in memory, which change together
// or not at all. Where pages come from, and go to, its kinds say.
// Shape:     page 0 is the head: pages, the first free page, and kOwnBytes of the access method's.
//            A free page names the next one at 4.
// Invariant: pages that an operation has asked for stay where they are until the next one begins.
//            In a Change that does not end, every page is as it was.
// Errors:    Failure: EINVAL: pages that lead out of the file.
// Contexts:  one thread.
// Source:    LIBTP 4.4: what an access method asks of its buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compat/libdb/guard.h"
#include "compat/libdb/operation.h"
#include "compat/libdb/page.h"
#include "platform/assert.h"

namespace tmh::db {

// How a file is opened, of either kind.
struct StoreSettings {
  std::string path;  // empty: in memory
  int flags = 0;     // of open(2)
  int mode = 0;
  std::uint32_t page_bytes = 0;   // of a new file; 0: the file system's block
  std::uint64_t cache_bytes = 0;  // 0: 1 MiB
  // A change may give other records other numbers: all have locks of the database, too.
  bool has_numbers = false;
  // Of transactions: records are locked, by their keys, where one is looked for; inner pages are.
  bool locks_records = false, passes_inner = false;
  // Whether a page of a file may be used by the access method.
  bool (*is_sound)(const Page &page) = nullptr;
};

class Store {
 public:
  static constexpr std::uint32_t kOwnBytes = 64;

  Store() = default;
  virtual ~Store() = default;
  Store(const Store &) = delete;
  Store &operator=(const Store &) = delete;

  [[nodiscard]] bool is_new() const noexcept { return is_new_; }
  [[nodiscard]] bool is_writable() const noexcept { return is_writable_; }
  [[nodiscard]] std::uint32_t page_bytes() const noexcept { return page_bytes_; }
  [[nodiscard]] PageId page_end() const noexcept { return page_end_; }
  // The file's descriptor; -1: in memory.
  [[nodiscard]] virtual int file() const noexcept = 0;

  // Runs one operation, until its end counts. is_in_callback: what an earlier operation has asked
  // for stays. reset: the operation's own state is as before, and it runs once more.
  virtual int run(bool is_in_callback, Operation<int> operation, Operation<void> reset) = 0;
  // What lies in this store is in the file; with a text: write_text() writes it.
  virtual void sync(Operation<void> write_text) = 0;
  // The handle that has opened it has made what it needs.
  virtual void opened() {}
  // Before close(). Throws: the handle stays open.
  virtual void leave_transaction() {}
  virtual void close(Operation<void> /*write_text*/) {}
  [[nodiscard]] virtual Guard &guard() noexcept { return guard_; }
  // Of the calling thread's query (tp_query_begin()), where this store's pages are its
  // environment's; 0: none runs. view() is a store of them as they were at its begin.
  [[nodiscard]] virtual std::uint64_t running_query() const { return 0; }
  [[nodiscard]] virtual std::unique_ptr<Store> view() const { return nullptr; }
  // Others store to these pages, too.
  [[nodiscard]] virtual bool is_shared() const noexcept { return false; }

  [[nodiscard]] Page read(PageId page) { return {frame_of(page).bytes.get(), page_bytes_}; }
  [[nodiscard]] Page write(PageId page);
  // Zeros.
  [[nodiscard]] PageId make();
  void release(PageId page);
  // Shared: what the page's number of changes is; and will be when this operation has ended. Within
  // a handle, no number stands for two states of a page.
  [[nodiscard]] std::uint64_t version_before(PageId page) {
    const Frame &frame = frame_of(page);
    return (drops_ << kVersionBits) + frame.version + frame.changes;
  }
  // In the running Change.
  [[nodiscard]] bool has_changed(PageId page) const noexcept {
    return page < frames_.size() && frames_[page] != nullptr && frames_[page]->is_saved;
  }
  [[nodiscard]] std::uint64_t version_after(PageId page) {
    return version_before(page) + (frame_of(page).is_saved ? 1 : 0);
  }

  [[nodiscard]] Bytes own();
  void set_own(Bytes bytes);

  // Between its begin and commit() pages change together or not at all.
  class Change {
   public:
    explicit Change(Store &store) noexcept : store_(store), is_outermost_(!store.is_changing_) {
      if (is_outermost_) store_.begin_change();
    }
    ~Change() {
      if (is_outermost_ && !is_done_) store_.end_change(false);
    }
    Change(const Change &) = delete;
    Change &operator=(const Change &) = delete;
    void commit() {
      is_done_ = true;
      if (is_outermost_) store_.change_done();
    }

   private:
    Store &store_;
    const bool is_outermost_;
    bool is_done_ = false;
  };

 protected:
  struct Frame {
    std::unique_ptr<std::byte[]> bytes;
    std::uint64_t version = 0;
    // What the page is where pages are kept, behind which so many operations have changed this copy
    // for a transaction that has not ended. Null: the copy is that.
    std::unique_ptr<std::byte[]> base;
    std::uint32_t changes = 0;
    std::uint64_t stored = 0;  // 64ths of the copy that are perhaps not what the base is
    bool is_stale = false;     // others have changed it since
    bool is_dirty = false;
    bool is_used = false;   // by the running operation, or the last one
    bool is_hot = false;    // since the hand came by
    bool is_saved = false;  // changed: its image lies in images_, or it is new
  };
  struct Image {
    PageId page;
    std::unique_ptr<std::byte[]> bytes;  // null: the page is new
  };

  // The page as it lies where pages are kept, or a Failure.
  virtual void fetch(PageId page, Frame *frame) = 0;
  virtual void write_back(PageId page, Frame *frame) = 0;
  // A Change is whole.
  virtual void change_done() { end_change(true); }
  // Before the head is looked at.
  virtual void use_head() {}
  [[nodiscard]] virtual bool has_page(PageId page) { return page < page_end_; }

  // What earlier operations have asked for may go. A callback may still look at it: then it stays.
  void begin_operation(bool is_in_callback);
  [[nodiscard]] Frame &frame_of(PageId page);
  [[nodiscard]] Frame &new_frame(PageId page);
  void drop_frame(PageId page);
  void set_cache(std::uint64_t bytes) noexcept;
  void evict();
  void begin_change() noexcept;
  void end_change(bool is_done) noexcept;

  bool is_new_ = false, is_writable_ = false, is_head_dirty_ = false;
  std::uint32_t page_bytes_ = 0;
  PageId page_end_ = 1, free_ = 0;
  std::byte own_[kOwnBytes] = {};
  static constexpr unsigned kVersionBits = 40;
  std::uint64_t drops_ = 0;  // how often changes of a transaction were dropped
  bool is_evicting_ = true;
  bool is_changing_ = false;
  std::vector<std::unique_ptr<Frame>> frames_;  // by page
  std::vector<PageId> used_;                    // by the running operation
  std::vector<Image> images_;

 private:
  // A callback may still look at them.
  std::vector<std::unique_ptr<Frame>> dropped_;
  std::size_t frames_max_ = 0, frames_count_ = 0;
  PageId hand_ = 0;
  PageId page_end_before_ = 0, free_before_ = 0;
  bool is_head_dirty_before_ = false;
  std::byte own_before_[kOwnBytes] = {};
  Guard guard_;
};

}  // namespace tmh::db
