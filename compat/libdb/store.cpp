// compat/libdb/store.cpp -- frames with a second chance, and changes with images.
#include "compat/libdb/store.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "compat/libdb/failure.h"
#include "compat/libdb/slots.h"

namespace tmh::db {

namespace {

constexpr std::size_t kFramesMin = 64;  // a split of a tree asks for fewer

}  // namespace

void Store::set_cache(std::uint64_t bytes) noexcept {
  TMH_ASSERT(page_bytes_ != 0);
  frames_max_ = std::max<std::size_t>(kFramesMin, bytes / page_bytes_);
}

Store::Frame &Store::frame_of(PageId page) {
  if (page == 0 || !has_page(page)) throw Failure{EINVAL};
  if (page < frames_.size() && frames_[page] != nullptr) {
    Frame &frame = *frames_[page];
    if (!frame.is_used) {
      frame.is_used = frame.is_hot = true;
      used_.push_back(page);
    }
    return frame;
  }
  Frame &frame = new_frame(page);
  try {
    fetch(page, &frame);
  } catch (...) {
    drop_frame(page);
    throw;
  }
  return frame;
}

Store::Frame &Store::new_frame(PageId page) {
  TMH_ASSERT(page != 0);
  if (page >= frames_.size()) frames_.resize(std::max<std::size_t>(page + 1, frames_.size() * 2));
  TMH_ASSERT(frames_[page] == nullptr);
  used_.reserve(used_.size() + 1);
  auto frame = std::make_unique<Frame>();
  frame->bytes = std::make_unique<std::byte[]>(page_bytes_);
  frame->is_used = true;
  frames_[page] = std::move(frame);
  ++frames_count_;
  used_.push_back(page);
  return *frames_[page];
}

void Store::drop_frame(PageId page) {
  if (page >= frames_.size() || frames_[page] == nullptr) return;
  if (frames_[page]->is_used) std::erase(used_, page);
  dropped_.push_back(std::move(frames_[page]));
  --frames_count_;
}

Page Store::write(PageId page) {
  // The operation has been taken back behind its back.
  if (is_shared() && !is_changing_) throw Failure{EBUSY};
  Frame &frame = frame_of(page);
  if (is_changing_ && !frame.is_saved) {
    images_.push_back({page, std::make_unique_for_overwrite<std::byte[]>(page_bytes_)});
    std::memcpy(images_.back().bytes.get(), frame.bytes.get(), page_bytes_);
    frame.is_saved = true;
  }
  frame.is_dirty = true;
  return {frame.bytes.get(), page_bytes_, &frame.stored};
}

PageId Store::make() {
  if (!is_changing_) throw Failure{EBUSY};
  use_head();
  PageId page = free_;
  if (page != 0) {
    Slots slots(write(page));
    if (slots.kind() != PageKind::kFree) throw Failure{EINVAL};
    free_ = slots.left();
    if (free_ >= page_end_) throw Failure{EINVAL};
  } else {
    if (page_end_ == ~PageId{0}) throw Failure{EFBIG};
    page = page_end_;
    images_.reserve(images_.size() + 1);
    Frame &frame = new_frame(page);
    frame.is_dirty = true;
    // Nothing to go back to: end_change() drops it.
    frame.is_saved = true;
    images_.push_back({page, nullptr});
    ++page_end_;
  }
  is_head_dirty_ = true;
  std::memset(frames_[page]->bytes.get(), 0, page_bytes_);
  frames_[page]->stored = ~std::uint64_t{0};
  return page;
}

void Store::release(PageId page) {
  if (!is_changing_) throw Failure{EBUSY};
  use_head();
  if (page == free_) throw Failure{EINVAL};
  Slots slots(write(page));
  slots.make(PageKind::kFree, 0, page);
  slots.set_left(free_);
  free_ = page;
  is_head_dirty_ = true;
}

void Store::begin_change() noexcept {
  TMH_ASSERT(!is_changing_ && images_.empty());
  is_changing_ = true;
  page_end_before_ = page_end_;
  free_before_ = free_;
  is_head_dirty_before_ = is_head_dirty_;
  std::memcpy(own_before_, own_, kOwnBytes);
}

void Store::end_change(bool is_done) noexcept {
  if (!is_changing_) return;
  is_changing_ = false;
  for (const Image &image : images_) {
    if (!is_done && image.bytes == nullptr) {
      drop_frame(image.page);
      continue;
    }
    Frame &frame = *frames_[image.page];
    frame.is_saved = false;
    if (!is_done) std::memcpy(frame.bytes.get(), image.bytes.get(), page_bytes_);
  }
  if (!is_done) {
    page_end_ = page_end_before_;
    free_ = free_before_;
    is_head_dirty_ = is_head_dirty_before_;
    std::memcpy(own_, own_before_, kOwnBytes);
  }
  images_.clear();
}

Bytes Store::own() {
  use_head();
  return {own_, kOwnBytes};
}

void Store::set_own(Bytes bytes) {
  TMH_ASSERT(bytes.size() == kOwnBytes);
  if (is_shared() && !is_changing_) throw Failure{EBUSY};
  use_head();
  std::memcpy(own_, bytes.data(), kOwnBytes);
  is_head_dirty_ = true;
}

void Store::begin_operation(bool is_in_callback) {
  // A change whose operation was left by longjmp().
  end_change(false);
  if (is_in_callback) return;
  dropped_.clear();
  if (is_evicting_ && frames_count_ > frames_max_) evict();
  for (const PageId page : used_) frames_[page]->is_used = false;
  used_.clear();
}

// From the hand on, what nobody has asked for since it came by.
void Store::evict() {
  TMH_ASSERT(frames_count_ > frames_max_);
  std::size_t left = frames_count_ - frames_max_ / 8 * 7;
  for (std::size_t looked = 0; looked < 2 * frames_.size() && left != 0; ++looked) {
    if (++hand_ >= frames_.size()) hand_ = 0;
    const std::unique_ptr<Frame> &frame = frames_[hand_];
    if (frame == nullptr || frame->is_used || frame->base != nullptr) continue;
    if (frame->is_hot) {
      frame->is_hot = false;
      continue;
    }
    if (frame->is_dirty) write_back(hand_, frame.get());
    frames_[hand_].reset();
    --frames_count_;
    --left;
  }
}

}  // namespace tmh::db
