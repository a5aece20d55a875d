// compat/libdb/private_store.cpp -- by pread(2) and pwrite(2), and a cache with a second chance.
#include "compat/libdb/private_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "compat/libdb/failure.h"
#include "compat/libdb/file_bytes.h"
#include "compat/libdb/slots.h"

namespace tmh::db {

namespace {

static_assert(std::endian::native == std::endian::little);
constexpr char kMagic[8] = "tmhdb";
constexpr std::uint32_t kVersion = 1, kHeadBytes = 24;
constexpr std::uint64_t kCacheBytes = 1 << 20;
constexpr std::size_t kFramesMin = 64;  // a split of a tree asks for fewer

struct Head {
  char magic[8];
  std::uint32_t version, page_bytes, page_end, free;
};
static_assert(sizeof(Head) == kHeadBytes);
static_assert(kHeadBytes + PrivateStore::kOwnBytes <= kPageBytesMin);

[[noreturn]] void fail(int number) { throw Failure{number}; }

}  // namespace

PrivateStore::PrivateStore(const Settings &settings) : is_sound_(settings.is_sound) {
  TMH_ASSERT(is_sound_ != nullptr);
  is_writable_ = (settings.flags & O_ACCMODE) == O_RDWR;
  try {
    if (settings.path.empty()) {
      if (!is_writable_) fail(EINVAL);
      begin_file(settings.page_bytes == 0 ? 4096 : settings.page_bytes);
    } else {
      open_file(settings);
    }
  } catch (...) {
    if (file_ >= 0) ::close(file_);
    throw;
  }
  const std::uint64_t cache = settings.cache_bytes == 0 ? kCacheBytes : settings.cache_bytes;
  frames_max_ = std::max<std::size_t>(kFramesMin, cache / page_bytes_);
}

PrivateStore::~PrivateStore() {
  if (file_ >= 0) ::close(file_);
}

void PrivateStore::open_file(const Settings &settings) {
  file_ = ::open(settings.path.c_str(), settings.flags | O_CLOEXEC, settings.mode);
  if (file_ < 0) fail(errno);
  struct stat found {};
  if (::fstat(file_, &found) != 0) fail(errno);
  if (!S_ISREG(found.st_mode)) fail(EINVAL);
  if (found.st_size != 0) return read_head();
  std::uint32_t bytes = settings.page_bytes;
  if (bytes == 0)
    bytes = std::clamp(static_cast<std::uint32_t>(found.st_blksize), kPageBytesMin, 8192u);
  begin_file(bytes);
}

void PrivateStore::begin_file(std::uint32_t page_bytes) {
  TMH_ASSERT(page_bytes >= kPageBytesMin && page_bytes <= kPageBytesMax);
  page_bytes_ = page_bytes;
  is_new_ = true;
  is_head_dirty_ = true;
}

void PrivateStore::read_head() {
  std::byte bytes[kHeadBytes + kOwnBytes];
  if (read_at(file_, bytes, sizeof bytes, 0) != sizeof bytes) fail(EINVAL);
  Head head;
  std::memcpy(&head, bytes, sizeof head);
  struct stat found {};
  if (::fstat(file_, &found) != 0) fail(errno);
  if (std::memcmp(head.magic, kMagic, sizeof kMagic) != 0 || head.version != kVersion ||
      head.page_bytes < kPageBytesMin || head.page_bytes > kPageBytesMax ||
      head.page_bytes % 2 != 0 || head.page_end == 0 || head.free >= head.page_end ||
      std::uint64_t{head.page_end} * head.page_bytes > static_cast<std::uint64_t>(found.st_size))
    fail(EINVAL);
  page_bytes_ = head.page_bytes;
  page_end_ = head.page_end;
  free_ = head.free;
  std::memcpy(own_, bytes + kHeadBytes, kOwnBytes);
}

void PrivateStore::write_head() {
  Head head{};
  std::memcpy(head.magic, kMagic, sizeof kMagic);
  head.version = kVersion;
  head.page_bytes = page_bytes_;
  head.page_end = page_end_;
  head.free = free_;
  std::vector<std::byte> bytes(page_bytes_);
  std::memcpy(bytes.data(), &head, sizeof head);
  std::memcpy(bytes.data() + kHeadBytes, own_, kOwnBytes);
  write_at(file_, bytes.data(), bytes.size(), 0);
  is_head_dirty_ = false;
}

PrivateStore::Frame &PrivateStore::frame_of(PageId page) {
  if (page == 0 || page >= page_end_) fail(EINVAL);
  if (page < frames_.size() && frames_[page] != nullptr) {
    Frame &frame = *frames_[page];
    if (!frame.is_used) {
      frame.is_used = frame.is_hot = true;
      used_.push_back(page);
    }
    return frame;
  }
  Frame &frame = new_frame(page);
  const bool is_whole = read_at(file_, frame.bytes.get(), page_bytes_,
                                std::uint64_t{page} * page_bytes_) == page_bytes_;
  const PlainPage bytes(frame.bytes.get(), page_bytes_);
  // Who has written its number there has written the page.
  if (!is_whole || Slots<PlainPage>(bytes).own() != page || !is_sound_(bytes)) {
    frames_[page].reset();
    --frames_count_;
    used_.pop_back();
    fail(EINVAL);
  }
  return frame;
}

PrivateStore::Frame &PrivateStore::new_frame(PageId page) {
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

PrivateStore::Page PrivateStore::write(PageId page) {
  Frame &frame = frame_of(page);
  if (is_changing_ && !frame.is_saved) {
    images_.push_back({page, std::make_unique<std::byte[]>(page_bytes_)});
    std::memcpy(images_.back().bytes.get(), frame.bytes.get(), page_bytes_);
    frame.is_saved = true;
  }
  frame.is_dirty = true;
  return {frame.bytes.get(), page_bytes_};
}

PageId PrivateStore::make() {
  TMH_ASSERT(is_changing_);
  PageId page = free_;
  if (page != 0) {
    const Page taken = write(page);
    Slots<Page> slots(taken);
    if (slots.kind() != PageKind::kFree) fail(EINVAL);
    free_ = slots.left();
    if (free_ >= page_end_) fail(EINVAL);
  } else {
    if (page_end_ == ~PageId{0}) fail(EFBIG);
    page = page_end_;
    Frame &frame = new_frame(page);
    frame.is_dirty = true;
    // Nothing to go back to: end_change() drops it.
    frame.is_saved = true;
    ++page_end_;
  }
  is_head_dirty_ = true;
  std::memset(frames_[page]->bytes.get(), 0, page_bytes_);
  return page;
}

void PrivateStore::release(PageId page) {
  TMH_ASSERT(is_changing_ && page != free_);
  Slots<Page> slots(write(page));
  slots.make(PageKind::kFree, 0, page);
  slots.set_left(free_);
  free_ = page;
  is_head_dirty_ = true;
}

void PrivateStore::begin_change() noexcept {
  TMH_ASSERT(!is_changing_ && images_.empty());
  is_changing_ = true;
  page_end_before_ = page_end_;
  free_before_ = free_;
  std::memcpy(own_before_, own_, kOwnBytes);
}

void PrivateStore::end_change(bool is_done) noexcept {
  if (!is_changing_) return;
  is_changing_ = false;
  if (!is_done) {
    for (const Image &image : images_)
      std::memcpy(frames_[image.page]->bytes.get(), image.bytes.get(), page_bytes_);
    free_ = free_before_;
    std::memcpy(own_, own_before_, kOwnBytes);
    for (PageId page = page_end_before_; page < page_end_; ++page) {
      if (page >= frames_.size() || frames_[page] == nullptr) continue;
      frames_[page].reset();
      --frames_count_;
      std::erase(used_, page);
    }
    page_end_ = page_end_before_;
  }
  for (const Image &image : images_) frames_[image.page]->is_saved = false;
  for (PageId page = page_end_before_; page < page_end_; ++page)
    if (page < frames_.size() && frames_[page] != nullptr) frames_[page]->is_saved = false;
  images_.clear();
}

Bytes PrivateStore::own() noexcept { return {own_, kOwnBytes}; }

void PrivateStore::set_own(Bytes bytes) {
  TMH_ASSERT(bytes.size() == kOwnBytes);
  std::memcpy(own_, bytes.data(), kOwnBytes);
  is_head_dirty_ = true;
}

void PrivateStore::begin_operation(bool is_in_callback) {
  // A change whose operation was left by longjmp().
  end_change(false);
  if (is_in_callback) return;
  if (file_ >= 0 && frames_count_ > frames_max_) evict();
  for (const PageId page : used_) frames_[page]->is_used = false;
  used_.clear();
}

// From the hand on, what nobody has asked for since it came by.
void PrivateStore::evict() {
  TMH_ASSERT(file_ >= 0 && frames_count_ > frames_max_);
  std::size_t left = frames_count_ - frames_max_ / 8 * 7;
  for (std::size_t looked = 0; looked < 2 * frames_.size() && left != 0; ++looked) {
    if (++hand_ >= frames_.size()) hand_ = 0;
    const std::unique_ptr<Frame> &frame = frames_[hand_];
    if (frame == nullptr || frame->is_used) continue;
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

void PrivateStore::write_back(PageId page, Frame *frame) {
  TMH_ASSERT(frame->is_dirty && is_writable_);
  write_at(file_, frame->bytes.get(), page_bytes_, std::uint64_t{page} * page_bytes_);
  frame->is_dirty = false;
}

void PrivateStore::sync() {
  if (file_ < 0 || !is_writable_) return;
  for (std::size_t page = 1; page < frames_.size(); ++page)
    if (frames_[page] != nullptr && frames_[page]->is_dirty)
      write_back(static_cast<PageId>(page), frames_[page].get());
  if (is_head_dirty_) write_head();
  if (::fsync(file_) != 0) fail(errno);
}

}  // namespace tmh::db
