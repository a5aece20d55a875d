// compat/libdb/shared/undo.cpp -- the database of a record, in the running step, and what its kind
// of tree or table does with it.
#include "compat/libdb/shared/undo.h"

#include <tp/db.h>

#include <cerrno>
#include <cstring>
#include <new>

#include "compat/libdb/counted_tree.h"
#include "compat/libdb/failure.h"
#include "compat/libdb/hash_table.h"
#include "compat/libdb/items.h"
#include "compat/libdb/shared/pool_store.h"
#include "compat/libdb/shared/tp_failure.h"
#include "compat/libdb/tree_head.h"
#include "compat/libdb/tree_undo.h"
#include "observe/steps.h"

namespace tmh::db {

namespace {

struct LoggedHead {
  Generation database = 0;
  UndoRecord record;
};

// Pages, of the running step alone.
class StepStore final : public PoolStore {
 public:
  StepStore(const Pool &pool, PoolEntry *entry) {
    use(pool, entry, &Items::is_sound);
    is_writable_ = true;
    is_evicting_ = false;
  }

  [[nodiscard]] int file() const noexcept override { return -1; }
  int run(bool, Operation<int> operation, Operation<void>) override {
    begin_attempt();
    const int result = operation();
    store_changes();
    note_stored();
    return result;
  }
  void sync(Operation<void>) override {}

 private:
  void look(Operation<void> body) override { body(); }
  void fetch(PageId page, Frame *frame) override {
    load_page(page, frame);
    if (!is_sound(page, *frame)) throw Failure{EINVAL};
  }
};

// A function of the user's that undoing does not call.
class NoHash final : public KeyHash {
 public:
  [[nodiscard]] std::uint32_t hash(Bytes) const override { throw Failure{EINVAL}; }
};

}  // namespace

std::vector<std::byte> logged(Generation database, const UndoRecord &record, Bytes payload) {
  TMH_ASSERT(database != 0);
  std::vector<std::byte> all(sizeof(LoggedHead) + payload.size());
  const LoggedHead head{database, record};
  std::memcpy(all.data(), &head, sizeof head);
  if (!payload.empty()) std::memcpy(all.data() + sizeof head, payload.data(), payload.size());
  return all;
}

Logged parse_logged(const tp_record &record) noexcept {
  LoggedHead head;
  if (record.type != kUndoType || record.bytes < sizeof head) return {};
  std::memcpy(&head, record.data, sizeof head);
  const Bytes all(static_cast<const std::byte *>(record.data), record.bytes);
  return {head.database, head.record, all.subspan(sizeof head)};
}

void take_back_in(Store *store, const UndoRecord &record, Bytes payload) {
  TMH_ASSERT(store != nullptr);
  switch (record.kind) {
    case UndoKind::kTreeInserted:
    case UndoKind::kTreeErased:
    case UndoKind::kTreeReplaced:
      return TreeUndo(store, tree_settings(*store).keys_min).undo(record, payload);
    case UndoKind::kHashInserted:
    case UndoKind::kHashErased:
    case UndoKind::kHashReplaced: {
      if (record.key_bytes > payload.size()) break;
      const NoHash hash;
      return HashTable(store, &hash)
          .undo(record, payload.first(record.key_bytes), payload.subspan(record.key_bytes));
    }
    case UndoKind::kNumberInserted:
    case UndoKind::kNumberErased:
    case UndoKind::kNumberReplaced:
      return CountedTree(store).undo(record, payload);
  }
  throw Failure{EINVAL};
}

int undo_change(tp_step_t *, const tp_record *record, void *context) {
  TMH_ASSERT(record != nullptr && context != nullptr);
  const Pool &pool = *static_cast<const Pool *>(context);
  const Logged logged = parse_logged(*record);
  if (logged.database == 0) return TP_EARGUMENT;
  try {
    PoolEntry *const entry = pool.find(logged.database);
    if (entry == nullptr) return TP_EARGUMENT;
    StepStore store(pool, entry);
    return store.run(
        false,
        [&] {
          take_back_in(&store, logged.record, logged.payload);
          observe::step(observe::Step::kDbUndoing);
          return 0;
        },
        [] {});
  } catch (const Failure &) {
    return TP_EARGUMENT;
  } catch (const Error &error) {
    return static_cast<int>(error.errc());
  } catch (const std::bad_alloc &) {
    return static_cast<int>(Errc::kOutOfMemory);
  }
}

}  // namespace tmh::db
