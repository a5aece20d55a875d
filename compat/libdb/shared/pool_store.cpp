// compat/libdb/shared/pool_store.cpp -- words of pages, through the running instance.
#include "compat/libdb/shared/pool_store.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include <tmh/site.hpp>

#include "compat/libdb/failure.h"
#include "compat/libdb/shared/tp_failure.h"
#include "compat/libdb/slots.h"

namespace tmh::db {

namespace {

using Word = field<std::uint64_t>;

[[nodiscard]] Word &version_at(std::byte *page) noexcept {
  return *reinterpret_cast<Word *>(page + kVersionAt);
}

}  // namespace

void PoolStore::use(const Pool &pool, PoolEntry *entry, bool (*checks)(const Page &page)) {
  TMH_ASSERT(entry != nullptr);
  pool_ = &pool;
  entry_ = entry;
  generation_ = entry->generation;
  page_bytes_ = entry->page_bytes;
  if (page_bytes_ < kPageBytesMin || page_bytes_ > kPageBytesMax || page_bytes_ % 2 != 0)
    throw Failure{EINVAL};
  slot_bytes_ = Pool::slot_bytes(page_bytes_);
  pages_of_extent_ = Pool::pages_of_extent(page_bytes_);
  is_sound_ = checks;
  extents_.clear();
}

std::byte *PoolStore::address_of(PageId page) const {
  const std::uint32_t number = page / pages_of_extent_;
  const Extent extent =
      number < extents_.size() ? extents_[number] : pool_->extent_of(*entry_, number);
  return pool_->address(extent) + std::size_t{page % pages_of_extent_} * slot_bytes_;
}

PoolHead &PoolStore::head() const { return *reinterpret_cast<PoolHead *>(address_of(0)); }

void PoolStore::forget_pages() {
  for (std::size_t page = 0; page < frames_.size(); ++page) drop_frame(static_cast<PageId>(page));
}

// Whole words; the slot has room for the last one.
void PoolStore::load_bytes(const std::byte *from, std::byte *to, std::uint32_t bytes) const {
  const auto *words = reinterpret_cast<const Word *>(from);
  std::uint32_t at = 0;
  for (; at + 8 <= bytes; at += 8) {
    const std::uint64_t word = words[at / 8].load();
    std::memcpy(to + at, &word, sizeof word);
  }
  if (at == bytes) return;
  const std::uint64_t word = words[at / 8].load();
  std::memcpy(to + at, &word, bytes - at);
}

void PoolStore::load_head() {
  struct {
    std::uint32_t page_end, free;
    std::uint64_t unused[2], version;
    std::byte own[kOwnBytes];
  } copy;
  static_assert(sizeof copy == sizeof(PoolHead));
  load_bytes(address_of(0), reinterpret_cast<std::byte *>(&copy), sizeof copy);
  page_end_ = copy.page_end;
  free_ = copy.free;
  std::memcpy(own_, copy.own, kOwnBytes);
  head_version_ = copy.version;
  is_head_loaded_ = true;
}

void PoolStore::load_page(PageId page, Frame *frame) {
  TMH_ASSERT(page != 0 && frame != nullptr);
  load_bytes(address_of(page), frame->bytes.get(), page_bytes_);
  std::memcpy(&frame->version, frame->bytes.get() + kVersionAt, sizeof frame->version);
}

bool PoolStore::is_sound(PageId page, const Frame &frame) const {
  const Page bytes(frame.bytes.get(), page_bytes_);
  return Slots(bytes).own() == page && is_sound_(bytes);
}

bool PoolStore::is_all_current() const {
  TMH_ASSERT(entry_ != nullptr);
  if (entry_->generation != generation_) throw Failure{EBADF};
  if (is_head_used_ && head().version != head_version_) return false;
  for (const PageId page : used_) {
    const Frame &frame = *frames_[page];
    // Pages that this operation has made are its own while the head is current.
    if (frame.version != 0 && version_at(address_of(page)) != frame.version) return false;
  }
  return true;
}

// What differs from `before`; null: all. Halves of words, for the links are of others.
void PoolStore::store_page(PageId page, const std::byte *before, Frame *frame,
                           std::uint32_t changes) const {
  std::byte *const at = address_of(page);
  const std::uint32_t part = Page::part_bytes(page_bytes_);
  std::uint64_t parts = before == nullptr ? ~std::uint64_t{0} : frame->stored;
  for (; parts != 0; parts &= parts - 1) {
    const auto begin = static_cast<std::uint32_t>(std::countr_zero(parts)) * part;
    if (begin >= page_bytes_) break;
    const std::uint32_t end = std::min(begin + part, page_bytes_);
    for (std::uint32_t offset = begin; offset < end; offset += 8)
      if (offset != kVersionAt) store_word(at, before, *frame, offset);
  }
  // Of a page that is new, what lay there is nothing.
  const std::uint64_t version = frame->version == 0 ? 0 : version_at(at).load();
  frame->is_stale = version != frame->version;
  version_at(at) = version + changes;
}

void PoolStore::store_word(std::byte *at, const std::byte *before, const Frame &frame,
                           std::uint32_t offset) const {
  std::uint64_t word = 0, old = 0;
  const std::size_t bytes = std::min(8U, page_bytes_ - offset);
  std::memcpy(&word, frame.bytes.get() + offset, bytes);
  if (before != nullptr) std::memcpy(&old, before + offset, bytes);
  const std::uint64_t change = before == nullptr ? ~std::uint64_t{0} : word ^ old;
  if (change == 0) return;
  const bool is_low = (change & 0xffffffff) != 0, is_high = change >> 32 != 0;
  auto *const halves = reinterpret_cast<field<std::uint32_t> *>(at + offset);
  if (is_low && is_high) {
    reinterpret_cast<Word *>(at + offset)->store(word);
  } else if (is_low) {
    halves[0].store(static_cast<std::uint32_t>(word));
  } else {
    halves[1].store(static_cast<std::uint32_t>(word >> 32));
  }
}

void PoolStore::store_changes() {
  TMH_ASSERT(is_changing_);
  while (std::uint64_t{entry_->extents} * pages_of_extent_ < page_end_)
    (void)pool_->add_extent(entry_);
  for (const PageId page : waiting_)
    if (!frames_[page]->is_saved)
      store_page(page, frames_[page]->base.get(), frames_[page].get(), frames_[page]->changes);
  for (const Image &image : images_) {
    Frame *const frame = frames_[image.page].get();
    const std::byte *const before = frame->base != nullptr ? frame->base.get() : image.bytes.get();
    store_page(image.page, before, frame, frame->changes + 1);
  }
  if (is_head_dirty_) {
    PoolHead &to = head();
    to.page_end = page_end_;
    to.free = free_;
    for (std::size_t i = 0; i < kOwnBytes / 8; ++i) {
      std::uint64_t word = 0;
      std::memcpy(&word, own_ + i * 8, sizeof word);
      if (to.own[i] != word) to.own[i] = word;
    }
    to.version = head_version_ + 1;
  }
  note_changed();
}

// That the file is older.
void PoolStore::note_changed() const {
  const std::uint32_t flags = entry_->flags;
  if ((flags & PoolEntry::kChanged) == 0) entry_->flags = flags | PoolEntry::kChanged;
}

bool PoolStore::may_wait() const noexcept {
  return !is_head_dirty_ && std::all_of(images_.begin(), images_.end(),
                                        [](const Image &image) { return image.bytes != nullptr; });
}

void PoolStore::let_wait() {
  TMH_ASSERT(is_changing_ && may_wait());
  waiting_.reserve(waiting_.size() + images_.size());
  for (Image &image : images_) {
    Frame &frame = *frames_[image.page];
    ++frame.changes;
    frame.is_dirty = false;
    if (frame.base != nullptr) continue;
    frame.base = std::move(image.bytes);
    waiting_.push_back(image.page);
  }
  end_change(true);
}

void PoolStore::store_waiting() {
  TMH_ASSERT(!is_changing_);
  for (const PageId page : waiting_)
    store_page(page, frames_[page]->base.get(), frames_[page].get(), frames_[page]->changes);
  note_changed();
}

void PoolStore::note_page_stored(PageId page, std::uint32_t changes) noexcept {
  Frame &frame = *frames_[page];
  frame.version += changes;
  frame.changes = 0;
  frame.base.reset();
  frame.stored = 0;
  frame.is_dirty = false;
}

void PoolStore::note_waiting_stored() noexcept {
  for (const PageId page : std::exchange(waiting_, {})) {
    note_page_stored(page, frames_[page]->changes);
    if (frames_[page]->is_stale) drop_frame(page);
  }
}

// A number of a version is not used again.
void PoolStore::drop_waiting() noexcept {
  for (const PageId page : std::exchange(waiting_, {})) drop_frame(page);
  ++drops_;
}

// Others have changed the links of a page whose changes wait.
void PoolStore::rebase(PageId page, const std::byte *now, std::uint64_t version) noexcept {
  Frame &frame = *frames_[page];
  TMH_ASSERT(frame.base != nullptr);
  for (std::uint32_t at = 0; at < page_bytes_; at += 2)
    if (std::memcmp(frame.bytes.get() + at, frame.base.get() + at, 2) == 0)
      std::memcpy(frame.bytes.get() + at, now + at, 2);
  std::memcpy(frame.base.get(), now, page_bytes_);
  frame.version = version;
}

void PoolStore::learn_extents() {
  std::vector<Extent> more;
  const std::uint32_t known = static_cast<std::uint32_t>(extents_.size());
  look([&] {
    more.clear();
    const std::uint32_t all = entry_->extents;
    for (std::uint32_t i = known; i < all; ++i) more.push_back(pool_->extent_of(*entry_, i));
  });
  extents_.insert(extents_.end(), more.begin(), more.end());
}

void PoolStore::note_stored() noexcept {
  TMH_ASSERT(is_changing_);
  for (const Image &image : images_) note_page_stored(image.page, frames_[image.page]->changes + 1);
  if (is_head_dirty_) ++head_version_;
  is_head_dirty_ = false;
  end_change(true);
}

void PoolStore::drop_stale() {
  struct Stale {
    PageId page;
    std::uint64_t version;
    std::vector<std::byte> now;  // where something waits
  };
  std::vector<Stale> stale;
  look([&] {
    stale.clear();
    for (const PageId page : used_) {
      const Frame &frame = *frames_[page];
      const std::uint64_t version = version_at(address_of(page));
      if (version == frame.version) continue;
      stale.push_back({page, version, {}});
      if (frame.base == nullptr) continue;
      stale.back().now.resize(page_bytes_);
      load_bytes(address_of(page), stale.back().now.data(), page_bytes_);
    }
  });
  for (const Stale &each : stale) {
    if (each.now.empty())
      drop_frame(each.page);
    else
      rebase(each.page, each.now.data(), each.version);
  }
  is_head_loaded_ = false;
}

void PoolStore::use_head() {
  is_head_used_ = true;
  if (!is_head_loaded_) look([&] { load_head(); });
}

void PoolStore::begin_attempt() {
  TMH_ASSERT(images_.empty());
  is_head_used_ = false;
  if (!is_head_loaded_) look([&] { load_head(); });
  begin_change();
}

// What was learnt of the head meanwhile goes with the rest.
void PoolStore::end_attempt() noexcept {
  end_change(false);
  is_head_loaded_ = false;
}

// Pages are never fewer: an older head's number holds. An operation that has looked at the head has
// looked at one.
bool PoolStore::has_page(PageId page) {
  if (page < page_end_) return true;
  if (is_head_used_) return false;
  look([&] { load_head(); });
  return page < page_end_;
}

}  // namespace tmh::db
