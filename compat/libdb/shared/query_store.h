// compat/libdb/shared/query_store.h -- a database as committed transactions had left it when the
// thread's query began: tp_query_begin().
// Shape:     copies of the snapshot's pages, and of the database's entry; others go on with theirs.
//            What transactions had stored and not committed is taken back in the copies, by their
//            undo records, which lie in the same snapshot. So there are no locks, and no attempts.
// Errors:    Failure: ENOENT: the database was not there; EPERM: a change; EINVAL: a damaged one.
// Contexts:  one thread, in the query that it was made in.
// Source:    LIBTP 3.2.1.
#pragma once

#include <cstdint>

#include "compat/libdb/shared/pool_store.h"
#include "compat/libdb/undo_record.h"

namespace tmh::db {

class Environment;

class QueryStore final : public PoolStore {
 public:
  // entry: of the pool, where the database's is now.
  QueryStore(const Environment &environment, const PoolEntry *entry, Generation database);

  [[nodiscard]] int file() const noexcept override { return -1; }
  int run(bool is_in_callback, Operation<int> operation, Operation<void> reset) override;
  void sync(Operation<void>) override {}

 private:
  void look(Operation<void> body) override { body(); }
  void use_head() override {}
  void fetch(PageId page, Frame *frame) override;
  [[nodiscard]] bool has_page(PageId page) override { return page < page_end_; }
  void load_bytes(const std::byte *from, std::byte *to, std::uint32_t bytes) const override;
  [[nodiscard]] std::vector<Extent> extents() const;
  void undo_unfinished();
  void take_back(const UndoRecord &record, Bytes payload);
  void keep_changes();

  const Environment &environment_;
  const std::uint64_t query_;
  alignas(PoolEntry) std::byte entry_[sizeof(PoolEntry)];
};

}  // namespace tmh::db
