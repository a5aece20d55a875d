// levels/page/touch/stand_ins.h -- touches of pages that have no disk block and get none, or that
// the instance leaves to the level below: it goes on, on memory that stands in for them.
// Invariant: what stands in is state(s) of the page, as engine.h asks of every page; nothing of it
//            outlives the instance.
// Contexts:  the handler. Reaches: lseek, fallocate, pread, mmap, mprotect; write and abort where
//            memory has run out, too. None takes a lock of user space.
// Source:    docs/design.md D6 (a full disk is an error, never SIGBUS).
#pragma once

#include <cstddef>

#include <tmh/error.hpp>

#include "levels/page/shared/shared.h"
#include "levels/page/touch/snapshot.h"
#include "levels/page/versions/versions.h"
#include "levels/page/views/views.h"
#include "platform/assert.h"

namespace tmh::page {

class StandIns {
 public:
  // All outlive it.
  StandIns(Ours &ours, Mine &mine, const Snapshot &snapshot) noexcept
      : ours_(ours), mine_(mine), snapshot_(snapshot) {}

  // Address space.
  [[nodiscard]] Errc reserve() noexcept { return pages_.reserve(); }
  // Pages of the running instance.
  [[nodiscard]] const PageList &pages() const noexcept { return pages_; }
  void begin_instance() noexcept {
    hole_ = kNoHole;
    ranges_ = 0;
  }

  // A touch found no block. False: it cannot be helped.
  [[nodiscard]] bool touch_hole(const View &view, PageId page) noexcept;
  // The page has no block for what says whose it is, and gets none, so it cannot be taken from the
  // level below; or the instance gives way there. False: it is to be taken.
  [[nodiscard]] bool put_for_closed(PageId page) noexcept;
  // `content`, null: zeros, is state(s) of the page. The instance cannot use the page itself: it
  // goes on with what it would have read there, so that it sees its snapshot until it ends. An
  // update FAILs; a query needs no more.
  void put(PageId page, const std::byte *content, Errc why) noexcept {
    put_range(page, 1, content, why);
  }
  // Stores to those of a range raise SIGSEGV.
  void protect(PageId first, std::uint64_t count) noexcept;
  // At the end of the instance: the pages are as if never touched.
  void remove_all() noexcept {
    if (!pages_.empty()) [[unlikely]]
      remove_them();
  }

 private:
  static constexpr PageId kNoHole{~0ull};
  // Instance::gives_way: pages of one instance that stay below. Each costs an area of the address
  // space, and the instance has failed with the first.
  static constexpr std::size_t kAsideMax = 64;

  [[nodiscard]] bool stands_aside(PageId page) noexcept;
  [[nodiscard]] std::uint64_t range_pages() const noexcept;
  [[nodiscard]] bool may_be_touched(PageId page) const noexcept;
  [[nodiscard]] bool is_untouched_hole(PageId page) noexcept;
  void put_around(PageId page, const std::byte *content, Errc why) noexcept;
  void put_range(PageId first, std::uint64_t count, const std::byte *content, Errc why) noexcept;

  void remove_them() noexcept;
  void remove(PageId page) noexcept;

  Ours &ours_;
  Mine &mine_;
  const Snapshot &snapshot_;
  // At which memory stands in.
  PageList pages_;
  // Touched last where there was no block.
  PageId hole_ = kNoHole;
  // Mapped by this instance so far.
  std::uint32_t ranges_ = 0;
  // A handler's stack is small: put_for_closed()'s, and a neighbour's.
  std::byte unchanged_[kPageBytes];
  std::byte beside_[kPageBytes];
};

}  // namespace tmh::page
