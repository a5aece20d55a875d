// include/tmh/trees/keys.hpp -- how keys lie in the nodes of a tree.
// Shape:     KeyForm<Key, Field> says of a Key: View, what callers pass; Seen, what they get;
//            Stored, what a slot holds; InNode, a Stored in a node, whose words are Fields; how the
//            two compare.
//              fixed size     KeyForm<std::uint64_t, Field>, ...: the key itself; ordered by <
//              variable size  KeyForm<std::string_view, Field>: the prefix, which is the first
//                             sixteen bytes as numbers, and a pointer to all of them in a block of
//                             their own (bytes.hpp); ordered as bytes are (memcmp, then the shorter
//                             first). Most comparisons end at the prefix and never follow the
//                             pointer. Seen: with PlainField a std::string_view into the block,
//                             which lasts as long as the record; with another Field a copy.
//            A Stored is trivially copyable: nodes move it by copying. make() and copy() may
//            allocate; whoever made it drops it.
// Errors:    what the allocator throws; std::length_error: a key of 4 GiB or more.
// Contexts:  as the tree's (bptree.hpp). What takes an InNode may end the attempt.
#pragma once

#include <tmh/detail/cxx20.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include <tmh/trees/bytes.hpp>

namespace tmh::trees {

template <class T>
using PlainField = T;
template <template <class> class Field>
inline constexpr bool kIsPlain = std::is_same_v<Field<std::uint64_t>, PlainField<std::uint64_t>>;

template <class Key, template <class> class Field = PlainField>
struct KeyForm {
  static_assert(std::is_trivially_copyable_v<Key>, "keys of variable size: std::string_view");
  using View = Key;
  using Seen = Key;
  using Stored = Key;
  using InNode = Field<Key>;
  [[nodiscard]] static Seen view(const InNode &stored) { return stored; }
  // Below 0, 0, above 0: a before, at, behind b.
  [[nodiscard]] static int compare(const View &a, const Stored &b) {
    return a < b ? -1 : b < a ? 1 : 0;
  }
  template <class Allocator>
  [[nodiscard]] static Stored make(const View &key, const Allocator &) {
    return key;
  }
  template <class Allocator>
  [[nodiscard]] static Stored copy(const InNode &key, const Allocator &) {
    return key;
  }
  template <class Allocator>
  static void drop(const Stored &, const Allocator &) {}
  // For judges.
  [[nodiscard]] static bool is_sound(const InNode &) { return true; }
};

template <template <class> class Field>
struct KeyForm<std::string_view, Field> {
  using Block = BytesRecord<Field>;
  using View = BytesView;
  using Seen = std::conditional_t<kIsPlain<Field>, std::string_view, std::string>;
  struct Stored {
    Prefix prefix;
    Block *block;
  };
  struct InNode {
    Field<std::uint64_t> prefix[kPrefixWords];
    Field<Block *> block;
    InNode &operator=(const Stored &stored) {
      for (std::size_t i = 0; i < kPrefixWords; ++i) prefix[i] = stored.prefix[i];
      block = stored.block;
      return *this;
    }
    operator Stored() const {  // NOLINT(google-explicit-constructor): a field reads as its value
      Stored stored;
      for (std::size_t i = 0; i < kPrefixWords; ++i) stored.prefix[i] = prefix[i];
      stored.block = block;
      return stored;
    }
  };

  [[nodiscard]] static Seen view(const InNode &stored) {
    const Block *const block = stored.block;
    if constexpr (kIsPlain<Field>)
      return {reinterpret_cast<const char *>(block->words()), block->key_size()};
    else
      return block->key();
  }
  [[nodiscard]] static int compare(const View &a, const InNode &b) {
    for (std::size_t i = 0; i < kPrefixWords; ++i) {
      const std::uint64_t stored = b.prefix[i];
      if (a.prefix()[i] != stored) return a.prefix()[i] < stored ? -1 : 1;
    }
    const Block *const block = b.block;
    return block->compare_behind_prefix(a);  // a zero byte and no byte have one prefix
  }
  // The value is that of a tree with ValuePlace::kWithKey.
  template <class Allocator>
  [[nodiscard]] static Stored make(const View &key, const Allocator &allocator,
                                   std::string_view value = {}) {
    return {key.prefix(), Block::make(key, value, allocator)};
  }
  // The key alone.
  template <class Allocator>
  [[nodiscard]] static Stored copy(const InNode &key, const Allocator &allocator) {
    Stored stored = key;
    stored.block = stored.block->copy_of_key(allocator);
    return stored;
  }
  template <class Allocator>
  static void drop(const Stored &stored, const Allocator &allocator) {
    stored.block->drop(allocator);
  }
  // The value of this record becomes `value`: where it lies, or in another block.
  template <class Allocator>
  static void replace(InNode &record, const View &key, std::string_view value,
                      const Allocator &allocator) {
    Block *const old = record.block;
    if (old->replace(value)) return;
    record.block = Block::make(key, value, allocator);
    old->drop(allocator);
  }
  [[nodiscard]] static bool is_sound(const InNode &stored) {
    const Stored loaded = stored;
    return loaded.prefix == loaded.block->prefix() && loaded.block->is_padded();
  }
};

}  // namespace tmh::trees
