// compat/libtp/chain.cpp -- records one behind the other, and back again.
#include "compat/libtp/chain.h"

#include <algorithm>
#include <array>
#include <string>

#include "compat/libtp/words.h"

namespace tmh::tp {

namespace {

// Blocks that a transaction keeps for the next one.
constexpr std::size_t kKeptBlocks = 4;
// A record of less is not begun at a block's end, but for one that has no more.
constexpr std::size_t kSmallestPart = 64;

// At the block's end: where there is no room either, but which is no place of the next block.
[[nodiscard]] Place behind(Place record, std::size_t end) noexcept {
  return place_of(block_of(record), std::min(end, kBlockBytes - 8));
}

[[nodiscard]] std::size_t in_words(std::size_t bytes) noexcept { return (bytes + 7) / 8 * 8; }

[[noreturn]] void raise_damaged(Place at) {
  throw Error(Errc::kCorrupt, "tp.chains: block " +
                                  std::to_string(static_cast<std::uint32_t>(block_of(at))) +
                                  ", byte " + std::to_string(offset_of(at)) + " is no record");
}

}  // namespace

std::size_t Chain::end_of(Place place, std::size_t bytes) noexcept {
  return offset_of(place) + sizeof(RecordHead) + in_words(bytes);
}

RecordHead &Chain::record(Place place) const {
  TMH_ASSERT(place != Place::kNone);
  const std::size_t at = offset_of(place);
  if (at < kRecordsAt || at % 8 != 0 || at + sizeof(RecordHead) > kBlockBytes) raise_damaged(place);
  return *reinterpret_cast<RecordHead *>(
      reinterpret_cast<std::byte *>(&blocks_.block(block_of(place))) + at);
}

void Chain::learn() {
  const BlockHead &head = head_block();
  now_ = {};
  now_.last = head.last;
  now_.lsn = head.last_lsn;
  if (is_empty()) return;
  TMH_ASSERT(head.kind == BlockKind::kHead);
  const RecordHead &last = record(now_.last);
  const std::size_t end = end_of(now_.last, last.bytes);
  if (end > kBlockBytes) raise_damaged(now_.last);
  now_.next = behind(now_.last, end);
}

// Of a part of a record: with room for its head and some of its bytes.
Place Chain::find_room() {
  if (is_empty()) return place_of(head_, kRecordsAt);
  if (offset_of(now_.next) + sizeof(RecordHead) + kSmallestPart <= kBlockBytes) return now_.next;
  BlockHead &full = blocks_.block(block_of(now_.next));
  BlockIndex next = full.next;
  if (next == BlockIndex::kNone) {
    next = file_->take(BlockKind::kMore);
    full.next = next;
  }
  return place_of(next, kRecordsAt);
}

void Chain::add(RecordType type, std::uint64_t lsn, std::span<const std::byte> bytes) {
  for (;;) {
    const Place place = find_room();
    RecordHead &made = record(place);
    const std::size_t room = kBlockBytes - offset_of(place) - sizeof(RecordHead);
    const std::size_t part = std::min(room, bytes.size());
    const bool goes_on = part < bytes.size();
    TMH_ASSERT(part > 0 || bytes.empty());
    made.before = now_.last;
    made.lsn = lsn;
    made.type = type | (goes_on ? kGoesOn : 0u);
    made.bytes = static_cast<std::uint32_t>(part);
    store_bytes(reinterpret_cast<std::byte *>(&made + 1), bytes.data(), part);
    now_.last = place;
    now_.next = behind(place, end_of(place, part));
    if (!goes_on) return;
    bytes = bytes.subspan(part);
  }
}

void Chain::append(std::uint64_t transaction, RecordType type, std::uint64_t lsn,
                   std::span<const std::byte> first, std::span<const std::byte> second) {
  TMH_ASSERT(type != 0 && (type & kGoesOn) == 0);
  TMH_ASSERT(transaction != 0 && lsn > now_.lsn);
  BlockHead &head = head_block();
  if (is_empty()) head.transaction = transaction;
  if (second.empty()) {
    add(type, lsn, first);
  } else {
    std::array<std::byte, 512> small;
    const std::size_t bytes = first.size() + second.size();
    std::vector<std::byte> large(bytes <= small.size() ? 0 : bytes);
    std::byte *const both = large.empty() ? small.data() : large.data();
    std::copy(first.begin(), first.end(), both);
    std::copy(second.begin(), second.end(), both + first.size());
    add(type, lsn, {both, bytes});
  }
  now_.lsn = lsn;
  head.last = now_.last;
  head.last_lsn = lsn;
}

Record Chain::read(Place at) const {
  if (at == Place::kNone) at = now_.last;
  TMH_ASSERT(at != Place::kNone);
  Record read;
  std::vector<std::vector<std::byte>> parts;
  for (bool is_last = true;; is_last = false) {
    const RecordHead &part = record(at);
    const std::uint32_t bytes = part.bytes;
    if (end_of(at, bytes) > kBlockBytes) raise_damaged(at);
    const std::uint32_t type = part.type;
    if (is_last) {
      if ((type & kGoesOn) != 0) raise_damaged(at);
      read.type = type & kTypeBits;
      read.is_elsewhere = (type & kElsewhere) != 0;
      read.lsn = part.lsn;
    }
    std::vector<std::byte> data(bytes);
    load_bytes(reinterpret_cast<const std::byte *>(&part + 1), data.data(), bytes);
    parts.push_back(std::move(data));
    read.before = part.before;
    if (read.before == Place::kNone) break;
    const RecordHead &before = record(read.before);
    if ((before.type & kGoesOn) == 0) {
      // So a walk ends, wherever damaged links lead.
      if (before.lsn >= read.lsn) raise_damaged(read.before);
      break;
    }
    // Each part of a record has a block of its own.
    if (parts.size() >= blocks_.blocks_end()) raise_damaged(at);
    at = read.before;
  }
  for (auto part = parts.rbegin(); part != parts.rend(); ++part)
    read.data.insert(read.data.end(), part->begin(), part->end());
  return read;
}

void Chain::cut(const Record &record) {
  TMH_ASSERT(!is_empty() && record.before != now_.last);
  head_block().last = record.before;
  now_.last = record.before;
  const std::uint64_t lsn = now_.lsn;
  learn();
  now_.lsn = lsn;
}

void Chain::keep(std::uint64_t lsn) {
  TMH_ASSERT(!is_empty() && lsn > now_.lsn);
  BlockHead &head = head_block();
  ChainHeader &all = file_->header();
  head.kind = BlockKind::kKept;
  head.committed_lsn = lsn;
  head.next_kept = BlockIndex::kNone;
  const BlockIndex last = all.last_kept;
  if (last == BlockIndex::kNone)
    all.first_kept = head_;
  else
    blocks_.block(last).next_kept = head_;
  all.last_kept = head_;
  now_.last = now_.next = Place::kNone;
}

void Chain::clear() {
  BlockHead &head = head_block();
  head.last = Place::kNone;
  if (head.is_aborting != 0) head.is_aborting = 0;
  now_.last = now_.next = Place::kNone;
  // More blocks stay linked behind the head, up to some.
  BlockHead *kept = &head;
  for (std::size_t i = 0; i < kKeptBlocks; ++i) {
    const BlockIndex next = kept->next;
    if (next == BlockIndex::kNone) return;
    kept = &blocks_.block(next);
  }
  BlockIndex rest = kept->next;
  if (rest == BlockIndex::kNone) return;
  kept->next = BlockIndex::kNone;
  while (rest != BlockIndex::kNone) {
    const BlockIndex next = blocks_.block(rest).next;
    file_->give(rest);
    rest = next;
  }
}

}  // namespace tmh::tp
