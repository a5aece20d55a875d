// levels/page/shared/durable_control.h -- tmh.control in a durable domain: what is stored there is
// on disk before others may rely on it.
// Shape:     each sync writes the whole file; an error of one is kept in LogState::control_error,
//            and no later sync succeeds. Volatile domains sync nothing.
// Sharing:   between processes. Sizes of segments are promised under the folder lock.
// Contexts:  is_size_durable(): async-signal-safe. Everything else opens files, and is not.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include <tmh/error.hpp>

#include "levels/page/shared/shared_state.h"
#include "platform/assert.h"

namespace tmh::page {

class DurableControl {
 public:
  // memory outlives it.
  explicit DurableControl(const SharedState &memory) noexcept : memory_(memory) {}

  // What was stored in these bytes of the control file is on disk when it returns.
  [[nodiscard]] Errc sync(const void *from, std::size_t bytes) noexcept;
  // False: as if no participant had been in the domain; a death then leaves it so. Alone in a
  // durable domain.
  [[nodiscard]] Errc tell_life(bool is_lived_in) noexcept;
  // Sizes that a dead participant promised and did not show become what the files are.
  [[nodiscard]] Errc settle_sizes(const platform::FolderLock::Held &lock) noexcept;
  // The size is on disk before any process sees it; the file is that long.
  [[nodiscard]] Errc promise_size(const platform::FolderLock::Held &lock, std::uint32_t number,
                                  std::uint64_t size_bytes) noexcept;
  // The segment's record is on disk, and all processes open it before their next instance.
  [[nodiscard]] Errc tell_of_segment(const platform::FolderLock::Held &lock,
                                     std::uint32_t number) noexcept;
  // A segment and its size are seen by others before they are durable, and the participant that
  // stored them may be dead: a commit's record must not name a page that recovery does not find.
  // Asked before each commit; by any thread.
  [[nodiscard]] bool is_size_durable(PageId page) const noexcept {
    TMH_ASSERT(storage::segment_number(page) < storage::kSegmentsMax);
    // relaxed: a later look may say more, never less
    return storage::page_offset(page) <
           durable_bytes_[storage::segment_number(page)].load(std::memory_order_relaxed);
  }
  [[nodiscard]] Errc make_sizes_durable() noexcept;

 private:
  [[nodiscard]] std::byte *base() const noexcept {
    return reinterpret_cast<std::byte *>(&memory_.control());
  }
  void make_dirty() noexcept;

  const SharedState &memory_;
  // Of each segment, as far as this process knows.
  std::array<std::atomic<std::uint64_t>, storage::kSegmentsMax> durable_bytes_{};
};

}  // namespace tmh::page
