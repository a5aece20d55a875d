// compat/libdb/tree_cursor.h -- where a scan of a tree stands, while records come, go and move.
// Shape:     a place. Where others change pages, too, it holds while its page has the version that
//            it had; behind that the key says where the record is.
// Contexts:  one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "compat/libdb/items.h"
#include "compat/libdb/page.h"
#include "compat/libdb/store.h"
#include "compat/libdb/tree_path.h"
#include "compat/libdb/undo_record.h"

namespace tmh::db {

class TreeCursor {
 public:
  // kBetween: its record is gone. It stands before the one at `place`, or behind the page's last.
  enum class State : std::uint8_t { kNone, kOn, kBetween };

  TreeCursor(Store *store, Items *items) : store_(*store), items_(*items) {}

  [[nodiscard]] State state() const noexcept { return at_.state; }
  [[nodiscard]] bool is_there() const noexcept { return at_.state != State::kNone; }
  [[nodiscard]] bool is_on_record() const noexcept { return at_.state == State::kOn; }
  [[nodiscard]] bool is_on(Place place) const noexcept {
    return is_on_record() && at_.place.page == place.page && at_.place.index == place.index;
  }
  [[nodiscard]] Place place() const noexcept { return at_.place; }
  // Of its record, or the last one that was there; shared.
  [[nodiscard]] Bytes key() const noexcept { return key_.key; }
  [[nodiscard]] const Digest &data() const noexcept { return key_.data; }
  // Records of its key behind it.
  [[nodiscard]] std::size_t behind() const noexcept { return key_.behind; }
  void set_behind(std::size_t behind) noexcept { key_.behind = behind; }

  // Of the running call, which begins.
  void keep() noexcept;
  // As it was then.
  void reset() noexcept;
  // On a record. is_changing: end_change() comes.
  void set(Place place, bool is_changing);
  // The page is what it was when the place was noted.
  [[nodiscard]] bool is_current();
  // Its record, or its gap, has been found again.
  void found_again(State state, Place place);
  // What the running call has changed is about to be stored.
  void end_change();

  void inserted(PageId page, std::uint32_t index);
  void erased(PageId page, std::uint32_t index);
  // Its record is there, and is none.
  void became_ghost(Place place) noexcept;
  // Items from `first` on.
  void moved(PageId from, std::uint32_t first, PageId to, std::uint32_t to_first);
  // All of a page that goes.
  void moved_off(PageId page, Place to);

 private:
  struct At {
    State state = State::kNone;
    Place place;
    std::uint64_t version = 0;  // of the page, shared
    bool is_moved = false;      // by the running call, which knows the page's version
  };
  struct Key {
    std::vector<std::byte> key;
    Digest data;
    std::size_t behind = 0;
  };

  [[nodiscard]] bool is_near(PageId page);

  Store &store_;
  Items &items_;
  At at_, at_before_;
  Key key_, key_before_;
  bool is_key_kept_ = false;
  std::vector<std::byte> key_copy_;
};

}  // namespace tmh::db
