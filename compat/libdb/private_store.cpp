// compat/libdb/private_store.cpp -- by pread(2) and pwrite(2).
#include "compat/libdb/private_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "compat/libdb/failure.h"
#include "compat/libdb/file_bytes.h"
#include "compat/libdb/file_format.h"
#include "compat/libdb/slots.h"

namespace tmh::db {

namespace {

constexpr std::uint64_t kCacheBytes = 1 << 20;

[[noreturn]] void fail(int number) { throw Failure{number}; }

}  // namespace

PrivateStore::PrivateStore(const StoreSettings &settings) : is_sound_(settings.is_sound) {
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
  set_cache(settings.cache_bytes == 0 ? kCacheBytes : settings.cache_bytes);
  is_evicting_ = file_ >= 0;
}

PrivateStore::~PrivateStore() {
  if (file_ >= 0) ::close(file_);
}

void PrivateStore::open_file(const StoreSettings &settings) {
  file_ = db::open_file(settings.path, settings.flags, settings.mode);
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
  FileHead head;
  struct stat found {};
  if (read_at(file_, &head, sizeof head, 0) != sizeof head) fail(EINVAL);
  if (::fstat(file_, &found) != 0) fail(errno);
  if (!is_sound(head, static_cast<std::uint64_t>(found.st_size))) fail(EINVAL);
  if (head.owner != 0) fail(EBUSY);
  page_bytes_ = head.page_bytes;
  page_end_ = head.page_end;
  free_ = head.free;
  std::memcpy(own_, head.own, kOwnBytes);
  stamp_ = head.stamp;
}

void PrivateStore::write_head() {
  FileHead head{};
  std::memcpy(head.magic, kFileMagic, sizeof kFileMagic);
  head.version = kFileVersion;
  head.page_bytes = page_bytes_;
  head.page_end = page_end_;
  head.free = free_;
  std::memcpy(head.own, own_, kOwnBytes);
  std::vector<std::byte> bytes(page_bytes_);
  std::memcpy(bytes.data(), &head, sizeof head);
  write_at(file_, bytes.data(), bytes.size(), 0);
  is_head_dirty_ = false;
  stamp_ = 0;
}

int PrivateStore::run(bool is_in_callback, Operation<int> operation, Operation<void> /*reset*/) {
  begin_operation(is_in_callback);
  return operation();
}

void PrivateStore::fetch(PageId page, Frame *frame) {
  TMH_ASSERT(frame != nullptr && page != 0);
  const bool is_whole = read_at(file_, frame->bytes.get(), page_bytes_,
                                std::uint64_t{page} * page_bytes_) == page_bytes_;
  const Page bytes(frame->bytes.get(), page_bytes_);
  // Who has written its number there has written the page.
  if (!is_whole || Slots(bytes).own() != page || !is_sound_(bytes)) fail(EINVAL);
}

void PrivateStore::write_back(PageId page, Frame *frame) {
  TMH_ASSERT(frame->is_dirty && is_writable_);
  // Before the first page: what an environment knows of the file no longer holds.
  if (stamp_ != 0) write_head();
  write_at(file_, frame->bytes.get(), page_bytes_, std::uint64_t{page} * page_bytes_);
  frame->is_dirty = false;
}

void PrivateStore::sync(Operation<void> write_text) {
  write_text();
  if (file_ < 0 || !is_writable_) return;
  for (std::size_t page = 1; page < frames_.size(); ++page)
    if (frames_[page] != nullptr && frames_[page]->is_dirty)
      write_back(static_cast<PageId>(page), frames_[page].get());
  if (is_head_dirty_) write_head();
  sync_file(file_);
}

}  // namespace tmh::db
