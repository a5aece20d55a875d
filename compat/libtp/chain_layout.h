// compat/libtp/chain_layout.h -- what lies in tp.chains, the segment of the transactions' chains.
// Shape:     blocks of 4096 bytes, named by their index; 0 is the header, and names none. A
//            transaction has a block of its own, its head, and more blocks linked behind it when
//            its records need them. Records lie in them one behind the other, each with the place
//            of the one before it: the chain. A record is in one block; what does not fit goes on
//            in the next record. Blocks are not shared, so transactions conflict neither by lines
//            nor by pages.
// Invariant: a record is there when its block's head says so (last), which the instance stores that
//            stored the record, and the update that it undoes. A transaction whose chain is empty
//            has changed nothing, or has ended.
// Sharing:   between processes, by instances alone. The owner of a transaction's locker changes its
//            blocks; any process changes the header.
// Source:    LIBTP 3.2.1 and 3.2.5: records are linked backwards by transaction.
#pragma once

#include <cstddef>
#include <cstdint>

#include <tmh/field.hpp>

namespace tmh::tp {

inline constexpr std::uint64_t kChainMagic = 0x3130'5054'5f48'4d54ull;  // "TMH_TP01" in the file
inline constexpr const char *kChainFile = "tp.chains";
inline constexpr std::size_t kBlockBytes = 4096;
// Numbers beyond are damage: at one in a nanosecond they last for centuries.
inline constexpr std::uint64_t kNumbersMax = std::uint64_t{1} << 63;

enum class BlockIndex : std::uint32_t { kNone = 0 };

// Where a record begins: its block, and the byte in it.
enum class Place : std::uint64_t { kNone = 0 };
[[nodiscard]] constexpr Place place_of(BlockIndex block, std::size_t at) noexcept {
  return Place{std::uint64_t{static_cast<std::uint32_t>(block)} << 12 | at};
}
[[nodiscard]] constexpr BlockIndex block_of(Place place) noexcept {
  return BlockIndex{static_cast<std::uint32_t>(static_cast<std::uint64_t>(place) >> 12)};
}
[[nodiscard]] constexpr std::size_t offset_of(Place place) noexcept {
  return static_cast<std::uint64_t>(place) & (kBlockBytes - 1);
}

struct ChainHeader {
  field<std::uint64_t> magic;
  // Blocks [1, blocks) have been used.
  field<std::uint32_t> blocks;
  field<BlockIndex> first_free;
  // Identifiers and LSNs up to this may have been given.
  field<std::uint64_t> numbers;
  // Of committed transactions whose records are kept, in the order of their commits.
  field<BlockIndex> first_kept, last_kept;
};

// kKept: a head, of a committed transaction.
enum class BlockKind : std::uint32_t { kFree = 0, kHead, kMore, kKept };

// At the beginning of each block; of kMore nothing behind `next` is used.
struct BlockHead {
  field<BlockKind> kind;
  // In the list of free blocks, or behind this one.
  field<BlockIndex> next;
  field<std::uint64_t> transaction;
  field<Place> last;
  field<std::uint64_t> last_lsn;
  // It is being rolled back, by any process that knows its types.
  field<std::uint32_t> is_aborting;
  // Of kKept.
  field<BlockIndex> next_kept;
  field<std::uint64_t> committed_lsn;
};
inline constexpr std::size_t kRecordsAt = 64;
static_assert(sizeof(BlockHead) <= kRecordsAt);

using RecordType = std::uint32_t;
// The next record goes on with this one's bytes.
inline constexpr std::uint32_t kGoesOn = 1u << 31;
// What the record tells of lies outside of segments, and is done again after a crash.
inline constexpr std::uint32_t kElsewhere = 1u << 30;
inline constexpr std::uint32_t kTypeBits = kElsewhere - 1;

struct RecordHead {
  field<Place> before;
  field<std::uint64_t> lsn;
  // with kGoesOn
  field<std::uint32_t> type;
  // Of what follows; it takes whole words.
  field<std::uint32_t> bytes;
};
static_assert(sizeof(RecordHead) == 24 && sizeof(BlockHead) == 48);
static_assert(kRecordsAt % alignof(RecordHead) == 0 && kBlockBytes % alignof(RecordHead) == 0);
static_assert(sizeof(ChainHeader) <= kBlockBytes);

// The library's own types.
inline constexpr RecordType kOwnTypes = 0x1000'0000;
// Bytes as they were: an address, then the bytes.
inline constexpr RecordType kBytesBefore = kOwnTypes + 1;
// Locks that the transaction has: NotedLock, one or more.
inline constexpr RecordType kLocksTaken = kOwnTypes + 2;

struct NotedLock {
  std::uint64_t space, id;
  std::uint64_t mode;
};
static_assert(sizeof(NotedLock) == 24);
static_assert(kBytesBefore <= kTypeBits && kLocksTaken <= kTypeBits);

}  // namespace tmh::tp
