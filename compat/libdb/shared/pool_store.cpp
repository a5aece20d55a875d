// compat/libdb/shared/pool_store.cpp -- words of pages, through the running instance.
#include "compat/libdb/shared/pool_store.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

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
void PoolStore::load_words(const std::byte *from, std::byte *to) const {
  const auto *words = reinterpret_cast<const Word *>(from);
  std::uint32_t at = 0;
  for (; at + 8 <= page_bytes_; at += 8) {
    const std::uint64_t word = words[at / 8].load();
    std::memcpy(to + at, &word, sizeof word);
  }
  if (at == page_bytes_) return;
  const std::uint64_t word = words[at / 8].load();
  std::memcpy(to + at, &word, page_bytes_ - at);
}

void PoolStore::load_head() {
  PoolHead &from = head();
  page_end_ = from.page_end;
  free_ = from.free;
  for (std::size_t i = 0; i < kOwnBytes / 8; ++i) {
    const std::uint64_t word = from.own[i];
    std::memcpy(own_ + i * 8, &word, sizeof word);
  }
  head_version_ = from.version;
  is_head_loaded_ = true;
}

void PoolStore::load_page(PageId page, Frame *frame) {
  TMH_ASSERT(page != 0 && frame != nullptr);
  std::byte *const at = address_of(page);
  load_words(at, frame->bytes.get());
  frame->version = version_at(at);
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
    // What this operation has made is nobody else's while the head is current.
    if (frame.version != 0 && version_at(address_of(page)) != frame.version) return false;
  }
  return true;
}

void PoolStore::store_words(const Image &image, const Frame &frame) const {
  std::byte *const at = address_of(image.page);
  auto *const words = reinterpret_cast<Word *>(at);
  const std::byte *const now = frame.bytes.get(), *const before = image.bytes.get();
  constexpr std::uint32_t kBlock = 64;
  for (std::uint32_t block = 0; block < page_bytes_; block += kBlock) {
    const std::uint32_t end = std::min(block + kBlock, page_bytes_);
    if (before != nullptr && std::memcmp(now + block, before + block, end - block) == 0) continue;
    for (std::uint32_t offset = block; offset < end; offset += 8) {
      if (offset == kVersionAt) continue;
      std::uint64_t word = 0, old = 0;
      const std::size_t part = std::min(8U, end - offset);
      std::memcpy(&word, now + offset, part);
      if (before != nullptr) std::memcpy(&old, before + offset, part);
      if (before == nullptr || word != old) words[offset / 8].store(word);
    }
  }
  version_at(at) = frame.version + 1;
}

void PoolStore::store_changes() {
  TMH_ASSERT(is_changing_);
  while (std::uint64_t{entry_->extents} * pages_of_extent_ < page_end_)
    (void)pool_->add_extent(entry_);
  for (const Image &image : images_) store_words(image, *frames_[image.page]);
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
  const std::uint32_t flags = entry_->flags;
  if ((flags & PoolEntry::kChanged) == 0) entry_->flags = flags | PoolEntry::kChanged;
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
  for (const Image &image : images_) {
    Frame &frame = *frames_[image.page];
    ++frame.version;
    frame.is_dirty = false;
  }
  if (is_head_dirty_) ++head_version_;
  is_head_dirty_ = false;
  end_change(true);
}

void PoolStore::drop_stale() {
  std::vector<PageId> stale;
  look([&] {
    stale.clear();
    for (const PageId page : used_)
      if (version_at(address_of(page)) != frames_[page]->version) stale.push_back(page);
  });
  for (const PageId page : stale) drop_frame(page);
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
