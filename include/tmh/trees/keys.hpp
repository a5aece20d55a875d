// include/tmh/trees/keys.hpp -- how keys lie in the nodes of a tree.
// Shape:     KeyForm<Key> says of a Key: View, what callers pass and get; Stored, what a slot
//            holds; how the two compare.
//              fixed size     KeyForm<std::uint64_t>, ...: the key itself; ordered by <
//              variable size  KeyForm<std::string_view>: the first eight bytes as a big-endian
//                             number, and a pointer to all of them in a block of their own; ordered
//                             as bytes are (memcmp, then the shorter first). Most comparisons end
//                             at the number and never follow the pointer.
//            A Stored is trivially copyable: nodes move it by copying. make() may allocate; whoever
//            made it drops it.
// Source:    Bohannon, McIlroy, Rastogi, "Main-memory index structures with fixed-size partial
//            keys", SIGMOD 2001 (the prefix).
#pragma once

#include <tmh/detail/cxx20.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <type_traits>

namespace tmh::trees {

template <class Key>
struct KeyForm {
  static_assert(std::is_trivially_copyable_v<Key>, "keys of variable size: std::string_view");
  using View = Key;
  using Stored = Key;
  [[nodiscard]] static View view(const Stored &stored) noexcept { return stored; }
  // Below 0, 0, above 0: a before, at, behind b.
  [[nodiscard]] static int compare(const View &a, const Stored &b) noexcept {
    return a < b ? -1 : b < a ? 1 : 0;
  }
  template <class Allocator>
  [[nodiscard]] static Stored make(const View &key, const Allocator &) noexcept {
    return key;
  }
  template <class Allocator>
  static void drop(const Stored &, const Allocator &) noexcept {}
};

template <>
struct KeyForm<std::string_view> {
  // Also the key's length: at most 4 GiB.
  using Length = std::uint32_t;
  struct Stored {
    std::uint64_t prefix;
    std::byte *block;  // Length, then the bytes; null: the key is empty
  };
  class View : public std::string_view {
   public:
    template <class Text,
              class = std::enable_if_t<std::is_convertible_v<const Text &, std::string_view>>>
    View(const Text &key) noexcept : std::string_view(key), prefix_(prefix_of(*this)) {}
    [[nodiscard]] std::uint64_t prefix() const noexcept { return prefix_; }

   private:
    std::uint64_t prefix_;  // computed once, compared at every step of a search
  };

  [[nodiscard]] static View view(const Stored &stored) noexcept { return text(stored); }
  [[nodiscard]] static int compare(const View &a, const Stored &b) noexcept {
    if (a.prefix() != b.prefix) return a.prefix() < b.prefix ? -1 : 1;
    return a.std::string_view::compare(text(b));  // a zero byte and no byte have one prefix
  }
  template <class Allocator>
  [[nodiscard]] static Stored make(const View &key, const Allocator &allocator) {
    if (key.empty()) return {0, nullptr};
    Bytes<Allocator> bytes(allocator);
    std::byte *block = bytes.allocate(sizeof(Length) + key.size());
    const auto length = static_cast<Length>(key.size());
    std::memcpy(block, &length, sizeof length);
    std::memcpy(block + sizeof length, key.data(), key.size());
    return {key.prefix(), block};
  }
  template <class Allocator>
  static void drop(const Stored &stored, const Allocator &allocator) {
    if (stored.block == nullptr) return;
    Bytes<Allocator> bytes(allocator);
    bytes.deallocate(stored.block, sizeof(Length) + text(stored).size());
  }

 private:
  template <class Allocator>
  using Bytes = typename std::allocator_traits<Allocator>::template rebind_alloc<std::byte>;

  [[nodiscard]] static std::string_view text(const Stored &stored) noexcept {
    if (stored.block == nullptr) return {};
    Length length = 0;
    std::memcpy(&length, stored.block, sizeof length);
    return {reinterpret_cast<const char *>(stored.block) + sizeof length, length};
  }
  [[nodiscard]] static std::uint64_t prefix_of(std::string_view key) noexcept {
    std::uint64_t prefix = 0;
    for (std::size_t i = 0; i < sizeof prefix; ++i)
      prefix = prefix << 8 | (i < key.size() ? static_cast<unsigned char>(key[i]) : 0U);
    return prefix;
  }
};

}  // namespace tmh::trees
