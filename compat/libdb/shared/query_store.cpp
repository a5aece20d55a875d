// compat/libdb/shared/query_store.cpp -- what the chains of a snapshot say of one database.
#include "compat/libdb/shared/query_store.h"

#include <tp.h>

#include <cerrno>
#include <exception>
#include <utility>

#include "compat/libdb/items.h"
#include "compat/libdb/shared/environment.h"
#include "compat/libdb/shared/tp_failure.h"
#include "compat/libdb/shared/undo.h"
#include "platform/assert.h"

namespace tmh::db {

namespace {

constexpr std::uint64_t kCacheBytes = 8 << 20;

}  // namespace

QueryStore::QueryStore(const Environment &environment, const PoolEntry *entry, Generation database)
    : environment_(environment), query_(tp_query_serial(environment.env())) {
  TMH_ASSERT(query_ != 0 && entry != nullptr);
  load_bytes(reinterpret_cast<const std::byte *>(entry), entry_, sizeof entry_);
  auto *const copy = reinterpret_cast<PoolEntry *>(entry_);
  if (copy->generation != database || (copy->flags & PoolEntry::kMaking) != 0)
    throw Failure{ENOENT};
  use(environment.pool(), copy, &Items::is_sound);
  know_extents(extents());
  load_head();
  set_cache(kCacheBytes);
  undo_unfinished();
}

void QueryStore::load_bytes(const std::byte *from, std::byte *to, std::uint32_t bytes) const {
  throw_unless_ok(tp_query_copy(environment_.env(), from, to, bytes));
}

std::vector<Extent> QueryStore::extents() const {
  const PoolEntry &copy = entry();
  TMH_ASSERT(copy.generation == generation());
  std::vector<Extent> all(copy.extents);
  std::vector<Extent> map;
  for (std::uint32_t i = 0; i < all.size(); ++i) {
    if (i < PoolEntry::kDirect) {
      all[i] = copy.direct[i];
      continue;
    }
    const std::uint32_t far = i - PoolEntry::kDirect;
    if (far / PoolEntry::kExtentsOfMap >= PoolEntry::kMaps) throw Failure{EINVAL};
    if (far % PoolEntry::kExtentsOfMap == 0) {
      map.resize(PoolEntry::kExtentsOfMap);
      load_bytes(pool().address(copy.maps[far / PoolEntry::kExtentsOfMap]),
                 reinterpret_cast<std::byte *>(map.data()), kExtentBytes);
    }
    all[i] = map[far % PoolEntry::kExtentsOfMap];
  }
  return all;
}

void QueryStore::undo_unfinished() {
  struct Undoing {
    QueryStore *store;
    std::exception_ptr failure;
  } undoing{this, nullptr};
  const int error = tp_query_unfinished(
      environment_.env(),
      [](const tp_record *record, void *argument) {
        auto &all = *static_cast<Undoing *>(argument);
        try {
          const Logged logged = parse_logged(*record);
          if (logged.database == all.store->generation())
            all.store->take_back(logged.record, logged.payload);
          return int{TP_OK};
        } catch (...) {
          all.failure = std::current_exception();
          return int{TP_EARGUMENT};
        }
      },
      &undoing);
  if (undoing.failure != nullptr) std::rethrow_exception(undoing.failure);
  throw_unless_ok(error);
}

// A callback may have ended the query.
void QueryStore::fetch(PageId page, Frame *frame) {
  if (tp_query_serial(environment_.env()) != query_) throw Failure{EBUSY};
  load_page(page, frame);
  if (!is_sound(page, *frame)) throw Failure{EINVAL};
}

void QueryStore::take_back(const UndoRecord &record, Bytes payload) {
  begin_operation(false);
  begin_change();
  try {
    with_failures([&] { take_back_in(this, record, payload); });
  } catch (...) {
    end_change(false);
    throw;
  }
  keep_changes();
}

// Copies that differ from the snapshot's pages stay until the query ends.
void QueryStore::keep_changes() {
  TMH_ASSERT(is_changing_);
  for (Image &image : images_) {
    Frame &frame = *frames_[image.page];
    ++frame.changes;
    frame.is_dirty = false;
    if (frame.base != nullptr) continue;
    frame.base = image.bytes != nullptr ? std::move(image.bytes)
                                        : std::make_unique<std::byte[]>(page_bytes_);
  }
  end_change(true);
  is_head_dirty_ = false;
}

int QueryStore::run(bool is_in_callback, Operation<int> operation, Operation<void> /*reset*/) {
  begin_operation(is_in_callback);
  begin_change();
  int result = 0;
  try {
    result = with_failures([&] { return operation(); });
  } catch (...) {
    end_change(false);
    throw;
  }
  // A callback has made calls of its own.
  if (!is_changing_) throw Failure{EBUSY};
  const bool has_changed = !images_.empty() || is_head_dirty_;
  end_change(false);
  if (has_changed) throw Failure{EPERM};
  return result;
}

}  // namespace tmh::db
