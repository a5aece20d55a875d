// compat/libtp/chain.h -- the undo records of one transaction.
// Shape:     the owner keeps where the chain ends, so that an append loads nothing. An attempt that
//            fails is forgotten by rewind().
// Invariant: what is appended in an instance is there when the instance has committed, and
//            otherwise not.
// Sharing:   the owner of the transaction's locker; one thread at a time.
// Contexts:  NOT async-signal-safe. All but the constructor and what says otherwise in an instance.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "compat/libtp/chain_file.h"

namespace tmh::tp {

struct Record {
  RecordType type = 0;
  bool is_elsewhere = false;
  std::uint64_t lsn = 0;
  std::vector<std::byte> data;
  // The chain's last record once this one is taken out.
  Place before = Place::kNone;
};

class Chain {
 public:
  // Of a transaction whose head that is. file outlives it.
  Chain(const ChainFile &file, BlockIndex head) noexcept
      : file_(&file), blocks_(file), head_(head) {}
  // Of one that is only read.
  Chain(const ChainBlocks &blocks, BlockIndex head) noexcept : blocks_(blocks), head_(head) {}

  [[nodiscard]] BlockIndex head() const noexcept { return head_; }
  // As of the last commit, or in the running instance.
  [[nodiscard]] Place last() const noexcept { return now_.last; }
  [[nodiscard]] std::uint64_t last_lsn() const noexcept { return now_.lsn; }
  [[nodiscard]] bool is_empty() const noexcept { return now_.last == Place::kNone; }

  // What the memory says. An heir begins with it.
  void learn();
  // The first record says whose the chain is. Throws NoBlock.
  void append(std::uint64_t transaction, RecordType type, std::uint64_t lsn,
              std::span<const std::byte> first, std::span<const std::byte> second);
  // REQUIRES: one is there. Of the record that begins at, or before, `at`; kNone: of the last.
  // Throws Error(kCorrupt): what is there is no record.
  [[nodiscard]] Record read(Place at) const;
  // The chain ends before that record of read(). `before` is kNone: it is empty.
  void cut(const Record &record);
  // Empty: the transaction has ended. Keeps a few blocks.
  void clear();
  // The transaction has committed, and its records stay: this chain is the log's from now on.
  void keep(std::uint64_t lsn);
  // To take back what an append has done before it threw.
  class Mark;
  [[nodiscard]] Mark mark() const noexcept;
  void back_to(const Mark &mark) noexcept;
  // Outside of instances: an attempt begins, and another one, if this one fails.
  void begin() noexcept { saved_ = now_; }
  void rewind() noexcept { now_ = saved_; }

 private:
  struct End {
    Place last = Place::kNone;
    // Where the next record goes, in the block of the last one.
    Place next = Place::kNone;
    std::uint64_t lsn = 0;
  };

  [[nodiscard]] BlockHead &head_block() const { return blocks_.block(head_); }
  [[nodiscard]] RecordHead &record(Place place) const;
  [[nodiscard]] static std::size_t end_of(Place place, std::size_t bytes) noexcept;
  void add(RecordType type, std::uint64_t lsn, std::span<const std::byte> bytes);
  [[nodiscard]] Place find_room();

  // Null: it is only read.
  const ChainFile *const file_ = nullptr;
  const ChainBlocks &blocks_;
  const BlockIndex head_;
  End now_, saved_;
};

class Chain::Mark {
  friend class Chain;
  explicit Mark(const End &end) noexcept : end_(end) {}
  const End end_;
};
inline Chain::Mark Chain::mark() const noexcept { return Mark(now_); }
inline void Chain::back_to(const Mark &mark) noexcept { now_ = mark.end_; }

}  // namespace tmh::tp
