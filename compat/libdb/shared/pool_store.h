// compat/libdb/shared/pool_store.h -- copies of a database's pages in the pool: how they come out,
// and how what has changed goes back.
// Invariant: a page's version grows with each change of it. A copy is current while the versions
//            are the same. Of a page that is locked for changes others change the links alone.
// Contexts:  one thread. What has no Fields in its comment runs instances of its own.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "compat/libdb/shared/pool.h"
#include "compat/libdb/store.h"

namespace tmh::db {

class PoolStore : public Store {
 public:
  [[nodiscard]] bool is_shared() const noexcept override { return true; }

 protected:
  PoolStore() = default;
  // In an instance: of a database that is there.
  void use(const Pool &pool, PoolEntry *entry, bool (*checks)(const Page &page));
  // All that it has, in their order.
  void know_extents(std::vector<Extent> extents) noexcept { extents_ = std::move(extents); }
  // No copy is known.
  void forget_pages();
  [[nodiscard]] auto is_sound_page() const noexcept { return is_sound_; }
  [[nodiscard]] const Pool &pool() const noexcept { return *pool_; }
  [[nodiscard]] PoolEntry &entry() const noexcept { return *entry_; }
  [[nodiscard]] Generation generation() const noexcept { return generation_; }

  // In an instance, what follows.
  void load_head();
  void load_page(PageId page, Frame *frame);
  // Of a database's pages.
  virtual void load_bytes(const std::byte *from, std::byte *to, std::uint32_t bytes) const;
  [[nodiscard]] bool is_sound(PageId page, const Frame &frame) const;
  // Of what the running operation has looked at: nothing has changed since.
  [[nodiscard]] bool is_all_current() const;
  // Pages that have changed in the Change, and the head, with their versions; and what waits.
  void store_changes();

  // What the Change has done waits, in the copies, for the transaction's end. Only of pages that
  // no other transaction changes until then, but for their links. REQUIRES: may_wait().
  [[nodiscard]] bool may_wait() const noexcept;
  void let_wait();
  // In a step.
  void store_waiting();
  void note_waiting_stored() noexcept;
  // The transaction is rolled back.
  void drop_waiting() noexcept;

  // Runs it as an instance that only looks, or in the running one.
  virtual void look(Operation<void> body) = 0;
  void begin_attempt();
  void end_attempt() noexcept;
  // Where pages are that others have made: they stay there.
  void learn_extents();
  // Copies that are not current go. Of what the last operation has looked at.
  void drop_stale();
  // The stores have been committed.
  void note_stored() noexcept;

  void use_head() override;
  [[nodiscard]] bool has_page(PageId page) override;
  void write_back(PageId, Frame *) override {}

  bool is_head_used_ = false;  // by the running operation

 private:
  [[nodiscard]] std::byte *address_of(PageId page) const;
  [[nodiscard]] PoolHead &head() const;
  void store_page(PageId page, const std::byte *before, Frame *frame, std::uint32_t changes) const;
  void store_word(std::byte *at, const std::byte *before, const Frame &frame,
                  std::uint32_t offset) const;
  void note_changed() const;
  void note_page_stored(PageId page, std::uint32_t changes) noexcept;
  void rebase(PageId page, const std::byte *now, std::uint64_t version) noexcept;

  const Pool *pool_ = nullptr;
  PoolEntry *entry_ = nullptr;
  Generation generation_ = 0;
  std::uint32_t pages_of_extent_ = 1, slot_bytes_ = 0;
  bool (*is_sound_)(const Page &page) = nullptr;
  std::uint64_t head_version_ = 0;
  bool is_head_loaded_ = false;
  std::vector<Extent> extents_;  // that are known
  std::vector<PageId> waiting_;
};

}  // namespace tmh::db
