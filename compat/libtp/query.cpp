// compat/libtp/query.cpp -- the query of this thread, and the chains in its snapshot.
#include "compat/libtp/query.h"

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <utility>

#include <tmh/error.hpp>

#include "compat/libtp/chain_layout.h"
#include "compat/libtp/transaction.h"
#include "platform/assert.h"

namespace tmh::tp {

namespace {

struct Running {
  const Environment *environment = nullptr;  // null: none runs
  Domain domain;
  std::uint64_t serial = 0;
};
thread_local Running running_here;

std::atomic<std::uint64_t> serials{0};

// The snapshot's blocks, as far as they are looked at.
class Copies final : public ChainBlocks {
 public:
  explicit Copies(const ChainFile &file) : file_(file) {
    count_ = reinterpret_cast<const ChainHeader &>(copied(BlockIndex::kNone)).blocks;
    if (count_ > file.blocks_held())
      throw Error(Errc::kCorrupt, "tp.chains: its header is damaged");
  }

  [[nodiscard]] std::uint32_t blocks_end() const override { return count_; }
  [[nodiscard]] BlockHead &block(BlockIndex index) const override {
    if (index == BlockIndex::kNone || static_cast<std::uint32_t>(index) >= count_)
      throw Error(Errc::kCorrupt, "tp.chains names a block that is not there");
    return copied(index);
  }

 private:
  struct alignas(8) Block {
    std::byte bytes[kBlockBytes];
  };
  [[nodiscard]] BlockHead &copied(BlockIndex index) const {
    std::unique_ptr<Block> &found = blocks_[index];
    if (found == nullptr) {
      found = std::make_unique<Block>();
      file_.copy(index, found->bytes);
    }
    return *reinterpret_cast<BlockHead *>(found->bytes);
  }

  const ChainFile &file_;
  std::uint32_t count_ = 0;
  mutable std::map<BlockIndex, std::unique_ptr<Block>> blocks_;
};

}  // namespace

void Query::begin(Environment &environment, const std::optional<Moment> &moment) {
  if (is_step_here()) throw Error(Errc::kInstanceRunning, "a query is begun in a step or a query");
  const Domain &domain = environment.managers().domain();
  TMH_ASSERT(domain);
  if (moment.has_value())
    domain.begin_query_at(*moment);
  else
    domain.begin_query();
  running_here = {&environment, domain, serials.fetch_add(1, std::memory_order_relaxed) + 1};
}

void Query::end() {
  if (running_here.environment == nullptr)
    throw Error(Errc::kEndWithoutBegin, "this thread runs no query");
  const Domain domain = std::exchange(running_here, {}).domain;
  domain.end_query();
}

std::uint64_t Query::serial(const Environment &environment) noexcept {
  return running_here.environment == &environment ? running_here.serial : 0;
}

int Query::unfinished(Environment &environment, const Visit &visit) {
  TMH_ASSERT(serial(environment) != 0);
  const Copies copies(environment.managers().chains());
  for (std::uint32_t i = 1; i < copies.blocks_end(); ++i) {
    const BlockHead &head = copies.block(BlockIndex{i});
    if (head.kind != BlockKind::kHead || head.last == Place::kNone) continue;
    const std::uint64_t transaction = head.transaction;
    Chain chain(copies, BlockIndex{i});
    chain.learn();
    for (Place at = chain.last(); at != Place::kNone;) {
      const Record record = chain.read(at);
      if (record.type != kLocksTaken)
        if (const int why = visit(transaction, record); why != 0) return why;
      at = record.before;
    }
  }
  return TP_OK;
}

}  // namespace tmh::tp
