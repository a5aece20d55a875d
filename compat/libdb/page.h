// compat/libdb/page.h -- bytes of a page: a handle's own, or its copy of a shared one.
// Invariant: offsets are below the page's size: Slots::check() has looked at what came from a file.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "platform/assert.h"

namespace tmh::db {

// A page's number in its file. 0 is the file's head, and says "none".
using PageId = std::uint32_t;
inline constexpr std::uint32_t kPageBytesMin = 512, kPageBytesMax = 64 << 10;
using Bytes = std::span<const std::byte>;

class Page {
 public:
  // stored: null, or the 64ths of the page that are stored to are noted there, a bit for each.
  Page(std::byte *at, std::uint32_t bytes, std::uint64_t *stored = nullptr) noexcept
      : at_(at), bytes_(bytes), stored_(stored) {}

  // Bytes of a 64th.
  [[nodiscard]] static std::uint32_t part_bytes(std::uint32_t page_bytes) noexcept {
    return std::max(64U, std::bit_ceil(page_bytes) / 64);
  }

  [[nodiscard]] std::uint32_t bytes() const noexcept { return bytes_; }
  template <class T>
  [[nodiscard]] T load(std::uint32_t offset) const noexcept {
    TMH_ASSERT(offset + sizeof(T) <= bytes_);
    T value;
    std::memcpy(&value, at_ + offset, sizeof value);
    return value;
  }
  template <class T>
  void store(std::uint32_t offset, T value) noexcept {
    TMH_ASSERT(offset + sizeof(T) <= bytes_);
    note(offset, sizeof value);
    std::memcpy(at_ + offset, &value, sizeof value);
  }
  // Valid until the page is stored to.
  [[nodiscard]] Bytes view(std::uint32_t offset, std::uint32_t bytes) const noexcept {
    TMH_ASSERT(offset + bytes <= bytes_);
    return {at_ + offset, bytes};
  }
  void load_bytes(std::uint32_t offset, std::span<std::byte> to) const noexcept {
    TMH_ASSERT(offset + to.size() <= bytes_);
    if (!to.empty()) std::memcpy(to.data(), at_ + offset, to.size());
  }
  void store_bytes(std::uint32_t offset, Bytes from) noexcept {
    TMH_ASSERT(offset + from.size() <= bytes_);
    note(offset, from.size());
    if (!from.empty()) std::memcpy(at_ + offset, from.data(), from.size());
  }
  // Within the page; the ranges may overlap.
  void move(std::uint32_t to, std::uint32_t from, std::uint32_t bytes) noexcept {
    TMH_ASSERT(to + bytes <= bytes_ && from + bytes <= bytes_);
    note(to, bytes);
    std::memmove(at_ + to, at_ + from, bytes);
  }
  void copy_from(const Page &other) noexcept {
    TMH_ASSERT(bytes_ == other.bytes_);
    note(0, bytes_);
    std::memcpy(at_, other.at_, bytes_);
  }

 private:
  void note(std::uint32_t offset, std::size_t bytes) noexcept {
    if (stored_ == nullptr || bytes == 0) return;
    const std::uint32_t part = part_bytes(bytes_);
    const std::uint32_t first = offset / part;
    const auto last = static_cast<std::uint32_t>((offset + bytes - 1) / part);
    *stored_ |= (~std::uint64_t{0} << first) & (~std::uint64_t{0} >> (63 - last));
  }

  std::byte *at_;
  std::uint32_t bytes_;
  std::uint64_t *stored_;
};

}  // namespace tmh::db
