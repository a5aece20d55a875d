// levels/process/memory.h -- the memory that transactions version: where it lies, and in which
// pages of the memfd that is its home.
// Shape:     home holds, one behind the other, the static data of the program and its libraries,
//            the main thread's stack, the slots of stacks, and the heap. Data of libraries loaded
//            later are known to the task that has loaded them, and to those that it makes. A task
//            sees home at `home()`, whatever it has mapped for the program.
// Invariant: home has the newest content of every page, but for what a committer just changes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "levels/process/control.h"

namespace tmh::itm::pages {

using PageNumber = std::uint32_t;
inline constexpr PageNumber kNoPage = ~0u;

struct Region {
  std::uintptr_t begin = 0, end = 0;
  PageNumber first = 0;

  [[nodiscard]] std::size_t bytes() const noexcept { return end - begin; }
  [[nodiscard]] PageNumber pages() const noexcept {
    TMH_ASSERT(begin <= end && bytes() % kPageBytes == 0);
    return static_cast<PageNumber>(bytes() / kPageBytes);
  }
  [[nodiscard]] PageNumber page_end() const noexcept { return first + pages(); }
};

class Memory {
 public:
  // Makes home, and everything of the program lie in it, mapped shared. False: the reason is on
  // standard error.
  [[nodiscard]] static bool start() noexcept;
  // What the loader has loaded since becomes covered, in this task and those that it makes; what it
  // has taken away is forgotten. map: puts the mapping there. forget: the region's are gone.
  static void look_at_libraries(bool (*map)(const Region &),
                                void (*forget)(const Region &)) noexcept;
  [[nodiscard]] static bool map_home(const Region &region) noexcept;

  [[nodiscard]] static PageNumber page_of(std::uintptr_t address) noexcept {
    if (address - heap_.begin < heap_.end - heap_.begin) [[likely]]
      return heap_.first + static_cast<PageNumber>((address - heap_.begin) / kPageBytes);
    return page_of_other(address);
  }
  [[nodiscard]] static std::uintptr_t address_of(PageNumber page) noexcept;
  // The region of the page; what lies in it is mapped by the same rules.
  [[nodiscard]] static const Region &region_of(PageNumber page) noexcept;
  [[nodiscard]] static std::byte *home(PageNumber page) noexcept {
    TMH_ASSERT(page != kNoPage);
    return home_ + static_cast<std::uint64_t>(page) * kPageBytes;
  }
  [[nodiscard]] static int home_file() noexcept { return file_; }
  [[nodiscard]] static std::uint32_t regions() noexcept { return count_; }
  [[nodiscard]] static const Region &region(std::uint32_t i) noexcept {
    TMH_ASSERT(i < count_);
    return all_[i];
  }
  [[nodiscard]] static PageNumber pages() noexcept;
  // The slot whose stack the page belongs to; kTasksMax: none. The main thread's is slot 0.
  [[nodiscard]] static std::uint32_t stack_slot_of(PageNumber page) noexcept {
    return page - main_stack_.first < stacks_end_ - main_stack_.first ? stack_slot_of_stack(page)
                                                                      : kTasksMax;
  }
  // The addresses of a slot's stack.
  [[nodiscard]] static Range stack_of(std::uint32_t slot) noexcept;
  // Holders and sharers, by blocks of pages, so that a dead one's pages are found.
  static void note_holder(PageNumber page) noexcept;
  static void forget_holder(std::uint32_t slot) noexcept;

 private:
  friend Range heap_range() noexcept;
  friend Range stacks_range() noexcept;
  static constexpr std::uint32_t kRegionsMax = 256;
  [[nodiscard]] static PageNumber page_of_other(std::uintptr_t address) noexcept;
  [[nodiscard]] static std::uint32_t stack_slot_of_stack(PageNumber page) noexcept;
  [[nodiscard]] static PageNumber take_data(std::size_t pages) noexcept;
  [[nodiscard]] static PageNumber data_again(std::uintptr_t begin, std::uintptr_t end) noexcept;
  static bool add(std::uintptr_t begin, std::uintptr_t end, PageNumber first, Region *out) noexcept;
  static bool grow_home() noexcept;
  static bool add_data() noexcept;
  static bool add_main_stack() noexcept;
  static bool add_new(std::size_t bytes, std::uintptr_t wanted, PageNumber first,
                      Region *out) noexcept;

  static inline Region all_[kRegionsMax];
  static inline std::uint32_t count_ = 0;
  static inline Region gone_[kRegionsMax];  // of libraries
  static inline std::uint32_t gone_count_ = 0;
  static inline PageNumber stacks_end_ = 0;
  static inline Region heap_{1, 1, 0}, stacks_{}, main_stack_{};
  static inline std::byte *home_ = nullptr;
  static inline int file_ = -1;
};

}  // namespace tmh::itm::pages
