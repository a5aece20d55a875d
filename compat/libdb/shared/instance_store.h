// compat/libdb/shared/instance_store.h -- a database's pages in the running instance: for what runs
// wholly in it.
// Contexts:  one thread, in an instance.
#pragma once

#include <cerrno>

#include "compat/libdb/failure.h"
#include "compat/libdb/items.h"
#include "compat/libdb/shared/pool_store.h"

namespace tmh::db {

class InstanceStore : public PoolStore {
 public:
  InstanceStore(const Pool &pool, PoolEntry *entry) { use(pool, entry, &Items::is_sound); }

  [[nodiscard]] int file() const noexcept override { return -1; }
  void sync(Operation<void>) override {}

 protected:
  void look(Operation<void> body) override { body(); }
  void fetch(PageId page, Frame *frame) override {
    load_page(page, frame);
    if (!is_sound(page, *frame)) throw Failure{EINVAL};
  }
};

}  // namespace tmh::db
