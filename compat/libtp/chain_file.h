// compat/libtp/chain_file.h -- the segment of the chains: opening it, its blocks, free ones.
// Sharing:   threads and processes: what runs in the caller's instance says so, the rest runs
//            instances of its own.
// Contexts:  NOT async-signal-safe.
#pragma once

#include <atomic>
#include <cstdint>

#include <tmh/site.hpp>

#include "compat/libtp/chain_layout.h"
#include "platform/assert.h"

namespace tmh::tp {

// Leaves an instance whose chain needs blocks that are not there; ChainFile::grow() makes them.
struct NoBlock {};

// Where a chain's blocks are looked at.
class ChainBlocks {
 public:
  // In an instance. Throws Error(kCorrupt) where no block is.
  [[nodiscard]] virtual BlockHead &block(BlockIndex index) const = 0;
  // Blocks are below that.
  [[nodiscard]] virtual std::uint32_t blocks_end() const = 0;

 protected:
  ~ChainBlocks() = default;
};

class ChainFile final : public ChainBlocks {
 public:
  // Maps it, and makes it where the domain has none. Throws tmh::Error: kCorrupt: it is something
  // else.
  explicit ChainFile(const Domain &domain);

  [[nodiscard]] const Site &site() const noexcept { return site_; }
  [[nodiscard]] const Domain &domain() const noexcept { return site_.domain(); }

  // In an instance, these five.
  [[nodiscard]] ChainHeader &header() const noexcept {
    return *reinterpret_cast<ChainHeader *>(base_);
  }
  [[nodiscard]] BlockHead &block(BlockIndex index) const override;
  [[nodiscard]] std::uint32_t blocks_end() const override { return header().blocks; }
  // Throws NoBlock.
  [[nodiscard]] BlockIndex take(BlockKind kind) const;
  void give(BlockIndex index) const;
  // A head, and what is linked behind it. Throws Error(kCorrupt): a free block.
  void give_all(BlockIndex head) const;

  // In a query: a block's bytes, which stay whose they are. REQUIRES: blocks_held() is more.
  void copy(BlockIndex index, void *to) const {
    domain().copy(base_ + std::size_t{static_cast<std::uint32_t>(index)} * kBlockBytes, to,
                  kBlockBytes);
  }
  // For so many there is room, whatever the header says.
  [[nodiscard]] std::uint32_t blocks_held() const;
  // More blocks than there were. Throws tmh::Error: kDiskFull, kSegmentFull.
  void grow() const;
  // Runs `body`, which takes Fields, as an instance of its own; grows the file when it must.
  template <class Body>
  auto run(const Body &body) const {
    for (;;) {
      try {
        return atomically(site_, Durability::kBuffered, body);
      } catch (const NoBlock &) {
        grow();
      }
    }
  }

 private:
  [[nodiscard]] static Segment map(const Domain &domain);

  Segment segment_;
  Site site_;
  std::byte *base_ = nullptr;
  mutable std::atomic<std::uint32_t> blocks_seen_{0};
};

}  // namespace tmh::tp
