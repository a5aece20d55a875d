// levels/process/mappings.h -- what this task has mapped at each page of the covered memory: the
// tables of it, and the calls of the kernel that change it.
// Shape:     nothing (a trap), a copy for transactions, or home, shared, for plain code. A copy is
//            write-protected until the first store to it; then it has a twin, which lies in the
//            list of written pages. So has an own page: its twin is its image (own_pages.h).
// Invariant: (1) this task's bit of a page's holders is set exactly while the page is mapped shared
//            and writable here.
//            (2) this task's bit of a page's sharers is set while home is mapped there.
//            (3) pages of the task's own stack are always mapped shared, and are never copied.
// Contexts:  the task's own, and its fault handler.
#pragma once

#include <cstddef>
#include <cstdint>

#include "levels/process/memory.h"

namespace tmh::itm::pages {

enum class Mapped : std::uint8_t {
  kNothing,
  kCopy,     // write-protected
  kWritten,  // a copy with a twin
  kShared,   // home, read-only
  kHeld,     // home, writable
  kOwned,    // home, of this task alone, inside and outside
};
[[nodiscard]] constexpr bool is_copy(Mapped mapped) noexcept {
  return mapped == Mapped::kCopy || mapped == Mapped::kWritten;
}

class Mappings {
 public:
  // A page that may have been stored to by transactions.
  struct Written {
    PageNumber page;
    std::uint16_t idle;  // commits in a row that found no store
    bool is_pulled;      // made writable by a pull, not by a store
    std::byte *twin;
  };
  // Pages that were mapped for plain code at once.
  struct Run {
    PageNumber first;
    std::uint32_t count;
  };
  static constexpr std::uint32_t kRunsMax = 1u << 14;

  // Of a new task, instead of its creator's: nothing is mapped. False: no memory, or no file.
  [[nodiscard]] static bool start() noexcept;

  [[nodiscard]] static Mapped mapped(PageNumber page) noexcept {
    TMH_ASSERT(modes_ != nullptr && page < Memory::pages());
    return static_cast<Mapped>(modes_[page]);
  }
  static void set(PageNumber page, Mapped as) noexcept {
    TMH_ASSERT(page < Memory::pages());
    modes_[page] = static_cast<std::uint8_t>(as);
  }
  static void set(PageNumber first, std::uint32_t count, Mapped as) noexcept;

  // Nothing: accesses trap. False: the kernel cannot.
  [[nodiscard]] static bool put_base(PageNumber first, std::uint32_t count) noexcept;
  // Home. as: kShared, kHeld or kOwned.
  [[nodiscard]] static bool put_home(PageNumber first, std::uint32_t count, Mapped as) noexcept;
  // Copies of that content, which lies in this library's memory. False: errno is ENOENT where the
  // pages are not all of one mapping.
  [[nodiscard]] static bool fill(PageNumber first, std::uint32_t count, const std::byte *content,
                                 bool is_writable) noexcept;
  static void protect(PageNumber page, bool is_protected) noexcept;
  // The copy is none any more, and its twin goes. The caller changes what is mapped.
  static void end_copy(PageNumber page) noexcept;
  // As end_copy(), and the page is noted as evicted.
  static void evict(PageNumber page) noexcept;
  // Whether it was, since it was last asked for. REQUIRES: it has no twin.
  [[nodiscard]] static bool take_evicted(PageNumber page) noexcept;
  // From that page on; end: none before it.
  [[nodiscard]] static PageNumber next_copy(PageNumber first, PageNumber end) noexcept;

  // The copy has a twin with that content from here on.
  static void add_twin(PageNumber page, const std::byte *content, bool is_pulled) noexcept;
  static void remove_twin(PageNumber page) noexcept;
  // The page is the task's own from here on, with that image as its twin; no more: the image.
  static void add_owned(PageNumber page, std::byte *image) noexcept;
  static std::byte *remove_owned(PageNumber page) noexcept;
  [[nodiscard]] static Written *written() noexcept { return written_; }
  [[nodiscard]] static std::uint32_t written_count() noexcept { return written_count_; }
  [[nodiscard]] static std::byte *twin_of(PageNumber page) noexcept {
    TMH_ASSERT(index_[page] < written_count_ && written_[index_[page]].page == page);
    return written_[index_[page]].twin;
  }
  [[nodiscard]] static std::uint32_t copies() noexcept { return copies_; }
  [[nodiscard]] static std::uint32_t owned_count() noexcept { return owned_count_; }

  // Ever mapped for plain code, since they were given up.
  [[nodiscard]] static Run *runs() noexcept { return runs_; }
  [[nodiscard]] static std::uint32_t runs_count() noexcept { return runs_count_; }
  static void add_run(PageNumber first, std::uint32_t count) noexcept;
  // The first `count` stay.
  static void keep_runs(std::uint32_t count) noexcept;

 private:
  static bool make_tables() noexcept;
  [[nodiscard]] static bool open_faults() noexcept;
  static void note_written(PageNumber page, std::byte *twin, bool is_pulled) noexcept;
  static void remove_written(std::uint32_t index) noexcept;

  static inline std::uint8_t *modes_ = nullptr;
  static constexpr std::uint32_t kEvicted = ~0u;
  static inline std::uint32_t *index_ = nullptr;  // of a page's twin in written_; or kEvicted
  static inline Written *written_ = nullptr;
  static inline std::uint32_t written_count_ = 0, copies_ = 0, owned_count_ = 0;
  static inline Run *runs_ = nullptr;
  static inline std::uint32_t runs_count_ = 0;
  static inline std::byte *free_twins_ = nullptr;
  static inline int faults_ = -1;  // userfaultfd
};

}  // namespace tmh::itm::pages
