// compat/libdb/undo_record.h -- how one change of a record is taken back, in any process: without
// the order or the hash of its keys, which are functions of the program that made the change.
// Shape:     a record, then the payload: kTreeReplaced: the item as it was. kHashErased,
//            kHashReplaced: the key, then the data. kNumberErased, kNumberReplaced: the data.
#pragma once

#include <cstdint>

#include "compat/libdb/page.h"

namespace tmh::db {

enum class UndoKind : std::uint32_t {
  kTreeInserted,  // becomes a ghost
  kTreeErased,    // is none any more
  kTreeReplaced,
  kHashInserted,
  kHashErased,
  kHashReplaced,
  kNumberInserted,
  kNumberErased,
  kNumberReplaced,
};

// Of a key, or data: so that a log need not hold them where they lie in the page.
struct Digest {
  std::uint64_t hash = 0, bytes = 0;
  bool operator==(const Digest &) const = default;
};

// FNV-1a, eight bytes at a time.
[[nodiscard]] inline Digest digest_of(Bytes bytes) noexcept {
  constexpr std::uint64_t kPrime = 0x100000001b3;
  std::uint64_t hash = 0xcbf29ce484222325;
  std::size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    hash = (hash ^ word) * kPrime;
    hash ^= hash >> 32;
  }
  for (; at < bytes.size(); ++at)
    hash = (hash ^ std::to_integer<std::uint64_t>(bytes[at])) * kPrime;
  return {hash, bytes.size()};
}

struct UndoRecord {
  UndoKind kind{};
  PageId page = 0;              // trees: where the record was; it lies there, or to the right
  std::uint64_t number = 0;     // kHash: the key's hash; kNumber: the record's number
  Digest key, data;             // of what is there now: kTree, kHashInserted
  std::uint32_t key_bytes = 0;  // of the payload
  std::uint32_t unused = 0;
};

}  // namespace tmh::db
