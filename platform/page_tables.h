// platform/page_tables.h -- what the kernel's page tables say about a range, and per-page guards
// without VMA splits.
// Contexts:  guard_*, drop: async-signal-safe on Linux (plain system calls; signal-safety(7) lists
//            none of them, the kernel takes no user lock). Scans: not in a handler.
// Source:    userfaultfd(2), UFFD_FEATURE_WP_ASYNC; Linux 6.7 (PAGEMAP_SCAN) and 6.15
//            (MADV_GUARD_INSTALL on files); docs/mechanisms.md, "Ways to find first touches".
#pragma once

#include <cstddef>
#include <cstdint>

#include <tmh/error.hpp>

#include "platform/protection_keys.h"

namespace tmh::platform {

// Write protection that the kernel takes away by itself, at the first store. Registered for it, a
// range has no fault-around, so that a read fault maps exactly one page. No event is ever
// delivered.
class StoreFaults {
 public:
  StoreFaults() = default;
  StoreFaults(const StoreFaults &) = delete;
  StoreFaults &operator=(const StoreFaults &) = delete;
  ~StoreFaults();
  [[nodiscard]] Errc open() noexcept;  // kTrackingUnavailable
  [[nodiscard]] Errc add(void *begin, std::uint64_t bytes) noexcept;
  // The next store to each of these pages, which are mapped, faults, and a fault ring lists it.
  // False: it may not.
  [[nodiscard]] bool arm(void *begin, std::uint64_t bytes) noexcept;
  // None of them is armed, nor will be when it is mapped again: an armed page that is dropped
  // leaves a mark in the page table, on which the kernel's installing of a guard never ends (Linux
  // 6.18).
  [[nodiscard]] bool disarm(void *begin, std::uint64_t bytes) noexcept;

 private:
  [[nodiscard]] bool protect(void *begin, std::uint64_t bytes, std::uint64_t mode) noexcept;

  int fd_ = -1;
};

// mmap(2), and what is mapped comes into memory when it is touched, also in a process that has
// locked whatever it will map (mlockall(MCL_FUTURE)): a view would be there altogether, copied, and
// what is only reserved would be taken. Async-signal-safe. key: the protection key that the mapping
// gets (platform/protection_keys.h). Without one for want of areas, it is as if there were no key.
[[nodiscard]] void *map_when_touched(void *at, std::uint64_t bytes, int protection, int flags,
                                     int fd, std::int64_t offset, int key = kNoKey) noexcept;

// A guard makes the next touch of a page raise SIGSEGV and drops what was mapped there. False: not
// supported here.
[[nodiscard]] bool guard_install(void *begin, std::uint64_t bytes) noexcept;
[[nodiscard]] bool guard_remove(void *begin, std::uint64_t bytes) noexcept;
// Maps every page of the range now, as a load or a store by this thread would. False: not supported
// (Linux 5.14), or no memory.
[[nodiscard]] bool populate(void *begin, std::uint64_t bytes, bool for_writing) noexcept;
// Pages of a mapped file that are not in memory are read, all at once, as single pages (no large
// folios); nothing is mapped. A hint, for mappings whose faults read nothing ahead.
void read_in(void *begin, std::uint64_t bytes) noexcept;
// Private copies in the range are discarded, those in locked memory (mlock(2)), too; the next touch
// maps the file's page again. Guards stay. False: not all of them, and only mapping anew does it:
// locked before Linux 5.18, or a sandbox that refuses the advice.
[[nodiscard]] bool drop(void *begin, std::uint64_t bytes) noexcept;

enum class PageKind : std::uint8_t { kAbsent, kFile, kPrivate };
// Kinds of `page_count` consecutive pages. False: /proc/self/pagemap cannot be read.
class PageMap {
 public:
  PageMap() = default;
  PageMap(const PageMap &) = delete;
  PageMap &operator=(const PageMap &) = delete;
  ~PageMap();
  [[nodiscard]] Errc open() noexcept;
  [[nodiscard]] bool read(std::uintptr_t begin, std::size_t page_count,
                          PageKind *out) const noexcept;

  struct Run {
    std::uintptr_t begin = 0;
    std::size_t page_count = 0;
    PageKind kind = PageKind::kAbsent;
  };
  // Calls visit(context, run) for every run of present or swapped pages in the range. False:
  // PAGEMAP_SCAN not available.
  using VisitRun = void (*)(void *context, const Run &run);
  [[nodiscard]] bool scan(std::uintptr_t begin, std::uint64_t bytes, VisitRun visit,
                          void *context) const noexcept;

 private:
  int fd_ = -1;
};

}  // namespace tmh::platform
