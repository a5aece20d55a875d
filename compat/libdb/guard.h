// compat/libdb/guard.h -- what an access method tells transactions: whose records it looks at and
// changes, and how a change is taken back. This one is of private stores.
#pragma once

#include "compat/libdb/page.h"
#include "compat/libdb/undo_record.h"

namespace tmh::db {

enum class Access : std::uint8_t { kLook, kChange };

class Guard {
 public:
  Guard() = default;
  Guard(const Guard &) = delete;
  Guard &operator=(const Guard &) = delete;
  virtual ~Guard() = default;

  // The records of a page stay as they are until the transaction ends. Of a bucket: of its first
  // page. May end the attempt, which then runs again.
  virtual void lock(PageId /*page*/, Access /*access*/) {}
  // The same of the records of one key alone, which may lie in that leaf, or would.
  virtual void lock_key(PageId leaf, Bytes /*key*/, Access access) { lock(leaf, access); }
  // The way leads through an inner page, or changes it.
  virtual void pass(PageId /*page*/, Access /*access*/) {}
  // Without waiting.
  [[nodiscard]] virtual bool try_lock(PageId /*page*/, Access /*access*/) { return true; }
  // Of all pages, and how many records there are.
  virtual void lock_all(Access /*access*/) {}

  // The transaction goes on behind this operation: what is erased stays, as a ghost, and each
  // change of a record is noted.
  [[nodiscard]] virtual bool keeps_undo() const { return false; }
  virtual void note(const UndoRecord & /*record*/, Bytes /*payload*/) {}
  // Ghosts of a page are the running transaction's, perhaps.
  [[nodiscard]] virtual bool has_ghosts_in(PageId /*page*/) const { return false; }
  virtual void note_ghost(PageId /*page*/) {}
};

}  // namespace tmh::db
