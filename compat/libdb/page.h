// compat/libdb/page.h -- bytes of a page: a handle's own, or its copy of a shared one.
// Invariant: offsets are below the page's size: Slots::check() has looked at what came from a file.
#pragma once

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
  Page(std::byte *at, std::uint32_t bytes) noexcept : at_(at), bytes_(bytes) {}

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
    if (!from.empty()) std::memcpy(at_ + offset, from.data(), from.size());
  }
  // Within the page; the ranges may overlap.
  void move(std::uint32_t to, std::uint32_t from, std::uint32_t bytes) noexcept {
    TMH_ASSERT(to + bytes <= bytes_ && from + bytes <= bytes_);
    std::memmove(at_ + to, at_ + from, bytes);
  }
  void copy_from(const Page &other) noexcept {
    TMH_ASSERT(bytes_ == other.bytes_);
    std::memcpy(at_, other.at_, bytes_);
  }

 private:
  std::byte *at_;
  std::uint32_t bytes_;
};

}  // namespace tmh::db
