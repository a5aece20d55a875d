// levels/page/views/local_pages.h -- what one process knows about the pages of its views, and the
// clean twins of its private copies.
// Shape:     arrays in reserved, lazily populated memory: no work or memory per page of the
//            segment, only per page touched.
// Contexts:  async-signal-safe: the fault handler appends to lists and takes twins, so nothing here
//            uses the heap.
// Source:    docs/mechanisms.md, "Ways to find first touches".
#pragma once

#include <cstddef>
#include <cstdint>

#include <tmh/error.hpp>

#include "platform/assert.h"
#include "storage/page_id.h"

namespace tmh::page {

enum class PageState : std::uint8_t {
  // untouched. Silent tracking: touching maps home. Signal tracking: touching raises SIGSEGV
  kAbsent = 0,
  kFile = 1,     // home's page is mapped, read-only for stores (the first store copies it)
  kPrivate = 2,  // this process's own copy, writable: compared with its twin (or with home) at end
  // Own copy made of versions, not yet stored to (eager: the first store must raise SIGSEGV).
  kReadOnly = 3,
  // Silent tracking: home is not what the snapshot reads, so touching raises SIGSEGV.
  kGuarded = 4,
  // Silent tracking: own copy, not stored to; the kernel lists the first store, which makes it
  // kPrivate. Without a twin: its clean content is home and versions.
  kClean = 5,
};

// No lists: kHasBlocks: this process has made sure that home and metadata of the page have disk
// blocks. kWrittenElsewhere: others committed to the page, and this process has not touched it
// since. kResident: domains with a level below: this process may map the page; without it every
// state is inaccessible. kStandsIn: anonymous memory stands at the page's address until the
// instance ends (StandIns).
enum InList : std::uint8_t {
  kInKept = 1,
  kInPrivate = 2,
  kInFresh = 4,
  kHasBlocks = 8,
  kWrittenElsewhere = 16,
  kResident = 32,
  kInResident = 64,
  kStandsIn = 128
};
// What dropping a page leaves.
inline constexpr std::uint8_t kLasting = kHasBlocks | kResident | kInResident;

struct LocalPage {
  PageState state;
  // kPrivate: consecutive ends at which the copy was equal to its twin. kClean: begins that have
  // brought it to the present since its last own store, see KeepPolicy::replays().
  std::uint8_t unchanged_compares;
  std::uint8_t lists;          // bits of InList
  std::uint8_t written_epoch;  // when it was last written, see KeepPolicy::epoch(); 0: never
  std::uint32_t twin;          // 0: none, compare with home
};
static_assert(sizeof(LocalPage) == 8);

// Does it take memory of this process?
[[nodiscard]] constexpr bool is_own_copy(PageState state) noexcept {
  return state == PageState::kPrivate || state == PageState::kReadOnly ||
         state == PageState::kClean;
}

// Address space without memory behind it until it is touched.
class ReservedArray {
 public:
  ReservedArray() = default;
  ReservedArray(const ReservedArray &) = delete;
  ReservedArray &operator=(const ReservedArray &) = delete;
  ~ReservedArray() { release(); }
  [[nodiscard]] Errc reserve(std::uint64_t bytes) noexcept;
  void release() noexcept;
  // Gives the memory of [from, bytes) back; it reads as zero again.
  void forget_from(std::uint64_t from) noexcept;
  [[nodiscard]] std::byte *base() const noexcept { return base_; }

 private:
  std::byte *base_ = nullptr;
  std::uint64_t bytes_ = 0;
};

class PageList {
 public:
  static constexpr std::uint64_t kMax = 1u << 28;  // pages of 1 TiB
  [[nodiscard]] Errc reserve() noexcept { return memory_.reserve(kMax * sizeof(storage::PageId)); }
  void push(storage::PageId page) noexcept {
    TMH_ASSERT(memory_.base() != nullptr);
    if (count_ < kMax) data()[count_++] = page;
  }
  void clear() noexcept {
    if (count_ > kKeep) memory_.forget_from(0);
    count_ = 0;
  }
  void truncate(std::size_t count) noexcept {
    TMH_ASSERT(count <= count_);
    count_ = count;
  }
  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  [[nodiscard]] storage::PageId &operator[](std::size_t i) noexcept {
    TMH_ASSERT(i < count_);
    return data()[i];
  }
  [[nodiscard]] storage::PageId operator[](std::size_t i) const noexcept {
    TMH_ASSERT(i < count_);
    return data()[i];
  }
  [[nodiscard]] storage::PageId *begin() noexcept { return data(); }
  [[nodiscard]] storage::PageId *end() noexcept { return data() + count_; }
  [[nodiscard]] const storage::PageId *begin() const noexcept { return data(); }
  [[nodiscard]] const storage::PageId *end() const noexcept { return data() + count_; }

 private:
  static constexpr std::size_t kKeep = 1u << 16;  // 512 KiB stay for the next large instance
  [[nodiscard]] storage::PageId *data() const noexcept {
    return reinterpret_cast<storage::PageId *>(memory_.base());
  }
  ReservedArray memory_;
  std::size_t count_ = 0;
};

class Twins {
 public:
  static constexpr std::uint32_t kMax = 1u << 24;  // 64 GiB of twins
  [[nodiscard]] Errc reserve() noexcept;
  // 0: none left.
  [[nodiscard]] std::uint32_t take() noexcept;
  void give_back(std::uint32_t twin) noexcept;
  [[nodiscard]] std::byte *data(std::uint32_t twin) const noexcept {
    TMH_ASSERT(twin != 0 && twin < used_high_);
    return pages_.base() + std::uint64_t{twin} * kPageBytes;
  }
  [[nodiscard]] std::uint32_t in_use() const noexcept { return used_high_ - 1 - free_count_; }
  // Call when no twin is in use: memory beyond a small rest goes back to the system.
  void forget() noexcept;

 private:
  ReservedArray pages_, free_;
  std::uint32_t free_count_ = 0;
  std::uint32_t used_high_ = 1;
};

}  // namespace tmh::page
