// compat/libtp/chain_file.cpp -- blocks out of a segment that grows.
#include "compat/libtp/chain_file.h"

#include <algorithm>
#include <string>

namespace tmh::tp {

namespace {
// Address space: chains of 16 GiB.
constexpr std::uint64_t kBytesMax = std::uint64_t{1} << 34;
constexpr std::uint64_t kGrowBytes = std::uint64_t{1} << 20;
}  // namespace

Segment ChainFile::map(const Domain &domain) {
  SegmentOptions options;
  options.size_bytes = kGrowBytes;
  options.max_bytes = kBytesMax;
  options.layout = Layout::kRaw;
  // So that a process may have several environments. Older domains have it at a fixed address.
  options.relocatable = true;
  std::error_code error;
  const Segment segment = domain.map(kChainFile, options, error);
  if (!error) return segment;
  options.relocatable = false;
  return domain.map(kChainFile, options);
}

ChainFile::ChainFile(const Domain &domain)
    : segment_(map(domain)), site_(domain, "tp"), base_(segment_.data()) {
  const bool is_known = run([&](Fields) {
    ChainHeader &made = header();
    if (made.magic != 0) return made.magic == kChainMagic;
    made.blocks = 1;
    made.first_free = BlockIndex::kNone;
    made.numbers = 0;
    made.first_kept = made.last_kept = BlockIndex::kNone;
    made.magic = kChainMagic;
    return true;
  });
  TMH_ASSERT(base_ != nullptr && segment_.size_bytes() >= kBlockBytes);
  if (!is_known) throw Error(Errc::kCorrupt, std::string(kChainFile) + " holds no chains");
}

std::uint32_t ChainFile::blocks_held() const {
  return static_cast<std::uint32_t>(segment_.size_bytes() / kBlockBytes);
}

BlockHead &ChainFile::block(BlockIndex index) const {
  const auto number = static_cast<std::uint32_t>(index);
  // Blocks are never fewer, so most calls need not load the header's line.
  if (number >= blocks_seen_.load(std::memory_order_relaxed))
    blocks_seen_.store(std::min(header().blocks.load(), blocks_held()), std::memory_order_relaxed);
  if (number == 0 || number >= blocks_seen_.load(std::memory_order_relaxed))
    throw Error(Errc::kCorrupt, std::string(kChainFile) +
                                    " names a block that is not there: " + std::to_string(number));
  return *reinterpret_cast<BlockHead *>(base_ + std::size_t{number} * kBlockBytes);
}

BlockIndex ChainFile::take(BlockKind kind) const {
  ChainHeader &all = header();
  BlockIndex index = all.first_free;
  if (index != BlockIndex::kNone) {
    all.first_free = block(index).next;
  } else {
    const std::uint32_t made = all.blocks;
    if (std::uint64_t{made} * kBlockBytes >= segment_.size_bytes()) throw NoBlock{};
    all.blocks = made + 1;
    index = BlockIndex{made};
  }
  TMH_ASSERT(kind != BlockKind::kFree && index != BlockIndex::kNone);
  BlockHead &taken = block(index);
  taken.kind = kind;
  taken.next = BlockIndex::kNone;
  if (kind != BlockKind::kHead) return index;
  taken.transaction = 0;
  taken.last = Place::kNone;
  taken.last_lsn = 0;
  taken.is_aborting = 0;
  return index;
}

void ChainFile::give(BlockIndex index) const {
  BlockHead &given = block(index);
  TMH_ASSERT(header().first_free != index);
  given.kind = BlockKind::kFree;
  given.next = header().first_free;
  header().first_free = index;
}

void ChainFile::give_all(BlockIndex head) const {
  for (BlockIndex at = head; at != BlockIndex::kNone;) {
    if (block(at).kind == BlockKind::kFree)
      throw Error(Errc::kCorrupt, std::string(kChainFile) + ": a chain has a free block");
    const BlockIndex next = block(at).next;
    give(at);
    at = next;
  }
}

void ChainFile::grow() const { segment_.grow(segment_.size_bytes() + kGrowBytes); }

}  // namespace tmh::tp
