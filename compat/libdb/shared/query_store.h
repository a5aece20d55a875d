// compat/libdb/shared/query_store.h -- a database as committed transactions had left it when the
// thread's query began: tp_query_begin().
// Shape:     copies of the snapshot's pages. What transactions had stored and not committed is
//            taken back in the copies, by their undo records, which lie in the same snapshot. So
//            there are no locks, and no attempts.
// Errors:    Failure: ENOENT: the database was not there; EPERM: a change; EINVAL: a damaged one.
// Contexts:  one thread, in the query that it was made in.
// Source:    LIBTP 3.2.1.
#pragma once

#include <cstdint>

#include "compat/libdb/shared/instance_store.h"
#include "compat/libdb/undo_record.h"

namespace tmh::db {

class Environment;

class QueryStore final : public InstanceStore {
 public:
  QueryStore(const Environment &environment, Generation database);

  int run(bool is_in_callback, Operation<int> operation, Operation<void> reset) override;

 private:
  void use_head() override {}
  void fetch(PageId page, Frame *frame) override;
  [[nodiscard]] bool has_page(PageId page) override { return page < page_end_; }
  void take_back(const UndoRecord &record, Bytes payload);
  void keep_changes();

  const Environment &environment_;
  const std::uint64_t query_;
};

}  // namespace tmh::db
