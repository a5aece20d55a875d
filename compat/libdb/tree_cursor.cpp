// compat/libdb/tree_cursor.cpp -- a place that goes along with changes of its page.
#include "compat/libdb/tree_cursor.h"

#include <utility>

#include "compat/libdb/slots.h"
#include "platform/assert.h"

namespace tmh::db {

void TreeCursor::keep() noexcept {
  at_before_ = at_;
  is_key_kept_ = false;
}

void TreeCursor::reset() noexcept {
  at_ = at_before_;
  if (is_key_kept_) std::swap(key_, key_before_);
  is_key_kept_ = false;
}

void TreeCursor::set(Place place, bool is_changing) {
  TMH_ASSERT(place.index != 0);
  at_ = {State::kOn, place, 0, is_changing};
  if (!store_.is_shared()) return;
  if (!is_key_kept_) std::swap(key_, key_before_);
  is_key_kept_ = true;
  const Slots slots(store_.read(place.page));
  const Bytes key = items_.key_of(slots, place.index, &key_copy_);
  key_.key.assign(key.begin(), key.end());
  key_.data = items_.data_digest(slots, place.index);
  key_.behind = 0;
  at_.version = store_.version_before(place.page);
}

bool TreeCursor::is_current() {
  TMH_ASSERT(is_there());
  if (!store_.is_shared()) return true;
  at_.is_moved = false;
  return at_.place.page < store_.page_end() && store_.version_before(at_.place.page) == at_.version;
}

void TreeCursor::found_again(State state, Place place) {
  TMH_ASSERT(store_.is_shared() && state != State::kNone);
  at_ = {state, place, store_.version_before(place.page), false};
}

void TreeCursor::end_change() {
  const PageId id = at_.place.page;
  if (store_.is_shared() && is_there() &&
      (at_.is_moved || (store_.has_changed(id) && store_.version_before(id) == at_.version)))
    at_.version = store_.version_after(id);
  at_.is_moved = false;
}

// True: the place is in that page, and is what it was.
bool TreeCursor::is_near(PageId page) {
  if (!is_there() || at_.place.page != page) return false;
  if (!store_.is_shared() || at_.is_moved) return true;
  at_.is_moved = store_.version_before(page) == at_.version;
  return at_.is_moved;
}

void TreeCursor::inserted(PageId page, std::uint32_t index) {
  if (!is_near(page)) return;
  const bool is_behind = is_on_record() ? at_.place.index >= index : at_.place.index > index;
  if (is_behind) ++at_.place.index;
}

void TreeCursor::erased(PageId page, std::uint32_t index) {
  if (!is_near(page)) return;
  if (at_.place.index > index) {
    --at_.place.index;
  } else if (at_.place.index == index) {
    at_.state = State::kBetween;
  }
}

void TreeCursor::became_ghost(Place place) noexcept {
  if (is_on(place)) at_.state = State::kBetween;
}

void TreeCursor::moved(PageId from, std::uint32_t first, PageId to, std::uint32_t to_first) {
  TMH_ASSERT(to != 0 && from != to);
  if (!is_near(from) || at_.place.index < first) return;
  at_.place = {to, at_.place.index - first + to_first};
}

void TreeCursor::moved_off(PageId page, Place to) {
  if (is_near(page)) at_.place = to;
}

}  // namespace tmh::db
