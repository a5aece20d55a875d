// compat/libdb/shared/shared_file.cpp -- opening and closing: what the file has, what the pool has.
#include "compat/libdb/shared/shared_file.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "compat/libdb/failure.h"
#include "compat/libdb/file_bytes.h"
#include "compat/libdb/shared/file_birth.h"
#include "compat/libdb/shared/tp_failure.h"
#include "compat/libdb/slots.h"
#include "compat/libdb/undo_record.h"
#include "observe/planted.h"
#include "observe/steps.h"
#include "platform/assert.h"

namespace tmh::db {

namespace {

[[nodiscard]] std::uint64_t new_stamp() {
  std::uint64_t stamp = 0;
  if (::getrandom(&stamp, sizeof stamp, 0) != sizeof stamp) throw Failure{EIO};
  return stamp | 1;
}

[[nodiscard]] struct stat status_of(int file) {
  struct stat found {};
  if (::fstat(file, &found) != 0) throw Failure{errno};
  return found;
}

// Where it lies, as the environment's folder sees it: the same when both have moved.
[[nodiscard]] std::uint64_t digest_of_name(const std::string &path, const std::string &home) {
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(path, error);
  const std::string name = error ? path : real.lexically_relative(home).string();
  return digest_of({reinterpret_cast<const std::byte *>(name.data()), name.size()}).hash;
}

// The file's maker has written no page: the power went before what it wrote was durable.
[[nodiscard]] bool is_blank(int file, std::uint64_t file_bytes) {
  if (file_bytes > kPageBytesMax) return false;
  std::vector<std::byte> bytes(file_bytes);
  bytes.resize(read_at(file, bytes.data(), bytes.size(), 0));
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte at) { return at == std::byte{0}; });
}

// The head, where the file has one of ours; all zeros: it is empty.
[[nodiscard]] FileHead head_of(int file) {
  FileHead head{};
  const auto bytes = static_cast<std::uint64_t>(status_of(file).st_size);
  if (bytes == 0 || is_blank(file, bytes)) return head;
  if (read_at(file, &head, sizeof head, 0) != sizeof head || !is_sound(head, bytes))
    throw Failure{EINVAL};
  return head;
}

}  // namespace

template <class Body>
auto SharedFile::change(const Body &body) const {
  return with_failures([&] {
    return atomically(environment_->pool().site(), Durability::kBuffered,
                      [&](Fields) { return body(environment_->pool()); });
  });
}

int SharedFile::lock(LockSpace space, Generation of, std::uint64_t page, tp_mode mode,
                     std::uint64_t wait_us) {
  return tp_locker_lock(environment_->env(), locker_, lock_object(space, of, page), mode, wait_us,
                        nullptr);
}

void SharedFile::unlock(LockSpace space, Generation of, std::uint64_t page, tp_mode mode) noexcept {
  (void)tp_locker_unlock_object(environment_->env(), locker_, lock_object(space, of, page), mode);
}

SharedFile::SharedFile(std::shared_ptr<Environment> environment, const StoreSettings &settings,
                       Content content, bool has_transactions)
    : environment_(std::move(environment)), content_(content), has_transactions_(has_transactions) {
  throw_unless_ok(tp_locker_begin(environment_->env(), 0, &locker_));
  has_locker_ = true;
  try {
    throw_unless_ok(lock(LockSpace::kDirectory, 0, 0, TP_EXCLUSIVE, TP_FOREVER));
    is_directory_locked_ = true;
    file_ = open_file(settings.path, settings.flags & ~O_TRUNC, settings.mode);
    is_writable_ = (settings.flags & O_ACCMODE) == O_RDWR;
    open_entry(settings);
    check_kind();
    throw_unless_ok(lock(LockSpace::kOpen, generation_, 0, TP_SHARED, TP_TRY));
  } catch (...) {
    if (file_ >= 0) ::close(file_);
    (void)tp_locker_end(environment_->env(), locker_);
    throw;
  }
}

// What a handle that failed to open has made goes.
SharedFile::~SharedFile() {
  if (file_ >= 0) ::close(file_);
  if (!has_locker_ || !environment_->is_alive()) return;
  try {
    if (is_directory_locked_ && entry_ != nullptr)
      change([&](const Pool &pool) {
        if ((entry_->flags & PoolEntry::kMaking) != 0) pool.drop(entry_);
      });
  } catch (const Failure &) {
    // The next opener finds it so.
  }
  (void)tp_locker_end(environment_->env(), locker_);
}

// No other handle has the database open, and no transaction has changed it.
bool SharedFile::is_alone(Generation database) {
  TMH_ASSERT(is_directory_locked_ && database != 0);
  if (lock(LockSpace::kOpen, database, 0, TP_EXCLUSIVE, TP_TRY) != TP_OK) return false;
  const bool is_unused = lock(LockSpace::kPages, database, 0, TP_EXCLUSIVE, TP_TRY) == TP_OK;
  if (is_unused) unlock(LockSpace::kPages, database, 0, TP_EXCLUSIVE);
  unlock(LockSpace::kOpen, database, 0, TP_EXCLUSIVE);
  return is_unused;
}

std::uint64_t SharedFile::text_stamp() const {
  std::vector<std::byte> bytes(static_cast<std::size_t>(status_of(file_).st_size));
  if (!bytes.empty()) bytes.resize(read_at(file_, bytes.data(), bytes.size(), 0));
  return digest_of(bytes).hash | 1;
}

// Handles without locks, and those that rely on them, are not for one database at once.
void SharedFile::check_kind() {
  TMH_ASSERT(entry_ != nullptr && is_directory_locked_);
  const std::uint32_t wanted = has_transactions_ ? 1 : 0;
  const std::uint32_t found = change([&](const Pool &) -> std::uint32_t { return entry_->kind; });
  if (found == wanted) return;
  if (!is_alone(generation_)) throw Failure{EBUSY};
  change([&](const Pool &) { entry_->kind = wanted; });
}

void SharedFile::open_entry(const StoreSettings &settings) {
  const struct stat found = status_of(file_);
  if (!S_ISREG(found.st_mode)) throw Failure{EINVAL};
  const bool is_emptied = (settings.flags & O_TRUNC) != 0;
  if (is_emptied) set_length(file_, 0);
  std::uint64_t stamp = 0;
  bool is_owned = false;
  if (!is_emptied && content_ == Content::kText) {
    stamp = text_stamp();
  } else if (!is_emptied) {
    const FileHead head = head_of(file_);
    stamp = head.stamp;
    is_owned = head.owner != 0;
    if (head.owner != 0 && head.owner != environment_->mark()) throw Failure{EBUSY};
  }
  const std::uint64_t birth = birth_of(file_);
  const std::uint64_t name = digest_of_name(settings.path, environment_->home());
  // Something has put back what the file was at an earlier close: the file that the pool is ahead
  // of says so, unless it has just been written, and the pool not told.
  const auto is_older = [&](const PoolEntry &entry) {
    const bool is_written = entry.next_stamp == stamp && entry.stamp != stamp;
    return content_ == Content::kPages && !is_owned && !is_written &&
           (entry.flags & PoolEntry::kChanged) != 0;
  };
  std::vector<Generation> replaced;
  change([&](const Pool &pool) {
    replaced.clear();
    generation_ = 0;
    entry_ = pool.find(found.st_dev, found.st_ino);
    if (entry_ == nullptr && !is_emptied) {
      entry_ = pool.find_moved(stamp, name, content_ == Content::kText);
      // A copy of the file as it was.
      if (entry_ != nullptr && is_older(*entry_)) entry_ = nullptr;
      if (entry_ != nullptr) {
        entry_->device = found.st_dev;
        entry_->inode = found.st_ino;
        entry_->birth = birth;
        entry_->flags = entry_->flags & ~PoolEntry::kMoved;
      }
    }
    if (entry_ != nullptr) {
      // Its maker would have the directory's lock: it is dead.
      const bool is_whole = (entry_->flags & PoolEntry::kMaking) == 0;
      const bool is_of_file = birth == 0 || entry_->birth == 0 || entry_->birth == birth;
      const bool has_content =
          (stamp != 0 && (entry_->stamp == stamp || entry_->next_stamp == stamp)) ||
          (entry_->flags & PoolEntry::kWriting) != 0;
      if (is_whole && is_of_file && has_content && !is_older(*entry_) && !is_emptied) {
        generation_ = entry_->generation;
        // Until the next one is written, this is the file's.
        if (content_ == Content::kPages) entry_->stamp = stamp;
      } else {
        entry_->flags = entry_->flags | PoolEntry::kReplaced;
      }
    }
    pool.for_each([&](PoolEntry *entry) {
      if ((entry->flags & PoolEntry::kReplaced) != 0) replaced.push_back(entry->generation);
    });
  });
  for (const Generation generation : replaced) {
    if (is_alone(generation)) drop(generation);
  }
  if (generation_ == 0) return make_entry(settings);
  if (content_ != Content::kPages || !is_writable_) return;
  // The one that has written it may have died at once.
  if (is_owned && !is_alone(generation_)) return;
  if (!is_owned) write_stamp(stamp, environment_->mark());
  // Before the first commit: a private opener behind a power cut is refused.
  if (environment_->is_durable()) sync_file(file_);
}

// Databases whose files have all that they have: files that were removed since are among them.
void SharedFile::make_room() {
  std::vector<Generation> whole;
  change([&](const Pool &pool) {
    whole.clear();
    if (!pool.is_full()) return;
    pool.for_each([&](PoolEntry *entry) {
      // The maker of one that is not finished had the directory's lock: it is dead, or has failed.
      const std::uint32_t flags = entry->flags & ~PoolEntry::kMoved;
      if (flags == 0 || (flags & PoolEntry::kMaking) != 0) whole.push_back(entry->generation);
    });
  });
  for (const Generation generation : whole)
    if (is_alone(generation)) drop(generation);
}

void SharedFile::drop(Generation generation) {
  TMH_ASSERT(is_directory_locked_);
  change([&](const Pool &pool) {
    if (PoolEntry *const entry = pool.find(generation); entry != nullptr) pool.drop(entry);
  });
  observe::step(observe::Step::kDbDropped);
}

void SharedFile::make_entry(const StoreSettings &settings) {
  make_room();
  const struct stat found = status_of(file_);
  const std::uint64_t name = digest_of_name(settings.path, environment_->home());
  FileHead head = content_ == Content::kPages ? head_of(file_) : FileHead{};
  const bool is_empty = head.page_bytes == 0;
  is_file_new_ = is_empty && content_ == Content::kPages;
  if (is_empty) {
    std::memcpy(head.magic, kFileMagic, sizeof kFileMagic);
    head.version = kFileVersion;
    head.page_end = 1;
    head.page_bytes =
        settings.page_bytes != 0
            ? settings.page_bytes
            : std::clamp(static_cast<std::uint32_t>(found.st_blksize), kPageBytesMin, 8192u);
  }
  const std::uint64_t birth = birth_of(file_);
  // A file that may not be written keeps what it has: without a stamp it is read in each time.
  head.stamp = content_ == Content::kText ? text_stamp() : is_writable_ ? new_stamp() : head.stamp;
  change([&](const Pool &pool) {
    PoolEntry *const entry = pool.add();
    entry->device = found.st_dev;
    entry->inode = found.st_ino;
    entry->birth = birth;
    entry->name = name;
    entry->stamp = head.stamp;
    entry->next_stamp = head.stamp;
    entry->page_bytes = head.page_bytes;
    entry->flags = PoolEntry::kMaking;
    auto &first = *reinterpret_cast<PoolHead *>(pool.address(pool.add_extent(entry)));
    first.page_end = 1;
    first.free = 0;
    first.version = 1;
    for (auto &word : first.own) word = 0;
    entry_ = entry;
    generation_ = entry->generation;
  });
  observe::step(observe::Step::kDbMade);
  if (!is_empty) read_in(head, settings.is_sound);
  observe::step(observe::Step::kDbReadIn);
  if (!is_writable_) return;
  if (content_ == Content::kText) {
    if (environment_->is_durable() && (settings.flags & O_CREAT) != 0)
      sync_folder_of(settings.path);
    return;
  }
  head.owner = environment_->mark();
  std::vector<std::byte> page(is_empty ? head.page_bytes : sizeof head);
  std::memcpy(page.data(), &head, sizeof head);
  write_at(file_, page.data(), page.size(), 0);
  observe::step(observe::Step::kDbOwned);
  if (!environment_->is_durable()) return;
  sync_file(file_);
  sync_folder_of(settings.path);
}

// One extent after the other: the next opener of an entry that is not finished drops it.
void SharedFile::read_in(const FileHead &head, bool (*is_sound)(const Page &page)) {
  const std::uint32_t pages = Pool::pages_of_extent(head.page_bytes);
  const std::uint32_t slot = Pool::slot_bytes(head.page_bytes);
  std::vector<std::byte> slots(std::size_t{pages} * slot);
  for (PageId begin = 0; begin < head.page_end; begin += pages) {
    const PageId end = std::min(begin + pages, head.page_end);
    for (PageId page = std::max(begin, PageId{1}); page < end; ++page) {
      std::byte *const at = slots.data() + std::size_t{page - begin} * slot;
      std::memset(at, 0, slot);
      const bool is_whole = read_at(file_, at, head.page_bytes,
                                    std::uint64_t{page} * head.page_bytes) == head.page_bytes;
      const Page bytes(at, head.page_bytes);
      if (!is_whole || Slots(bytes).own() != page || !is_sound(bytes)) throw Failure{EINVAL};
      const std::uint64_t version = 1;
      std::memcpy(at + kVersionAt, &version, sizeof version);
    }
    change([&](const Pool &pool) {
      std::byte *const to =
          pool.address(begin == 0 ? pool.extent_of(*entry_, 0) : pool.add_extent(entry_));
      const std::size_t first = begin == 0 ? slot : 0;
      for (std::size_t at = first; at < std::size_t{end - begin} * slot; at += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, slots.data() + at, sizeof word);
        reinterpret_cast<field<std::uint64_t> *>(to + at)->store(word);
      }
    });
  }
  change([&](const Pool &pool) {
    auto &first = *reinterpret_cast<PoolHead *>(pool.address(pool.extent_of(*entry_, 0)));
    first.page_end = head.page_end;
    first.free = head.free;
    for (std::size_t i = 0; i < Store::kOwnBytes / 8; ++i) {
      std::uint64_t word = 0;
      std::memcpy(&word, head.own + i * 8, sizeof word);
      first.own[i] = word;
    }
  });
}

void SharedFile::write_stamp(std::uint64_t stamp, std::uint64_t owner) const {
  TMH_ASSERT(is_writable_ && content_ == Content::kPages);
  const std::uint64_t both[2] = {stamp, owner};
  static_assert(offsetof(FileHead, owner) == offsetof(FileHead, stamp) + 8);
  write_at(file_, both, sizeof both, offsetof(FileHead, stamp));
}

void SharedFile::opened() {
  TMH_ASSERT(entry_ != nullptr);
  if (!is_directory_locked_) return;
  change([&](const Pool &) {
    // What was read in is the file's.
    const std::uint32_t flags = entry_->flags;
    if ((flags & PoolEntry::kMaking) == 0) return;
    const std::uint32_t changed = is_file_new_ ? PoolEntry::kChanged : flags & PoolEntry::kChanged;
    entry_->flags = content_ == Content::kText ? 0 : changed;
  });
  observe::step(observe::Step::kDbOpened);
  unlock(LockSpace::kDirectory, 0, 0, TP_EXCLUSIVE);
  is_directory_locked_ = false;
}

void SharedFile::reopen() {
  environment_ = Environment::at(environment_->home());
  has_locker_ = false;
  throw_unless_ok(tp_locker_begin(environment_->env(), 0, &locker_));
  has_locker_ = true;
  throw_unless_ok(lock(LockSpace::kDirectory, 0, 0, TP_EXCLUSIVE, TP_FOREVER));
  change([&](const Pool &pool) { entry_ = pool.find(generation_); });
  const int error =
      entry_ == nullptr ? TP_EARGUMENT : lock(LockSpace::kOpen, generation_, 0, TP_SHARED, TP_TRY);
  unlock(LockSpace::kDirectory, 0, 0, TP_EXCLUSIVE);
  throw_unless_ok(error);
}

void SharedFile::sync(Operation<void> write_text) { leave(write_text, true); }

void SharedFile::close(Operation<void> write_text) {
  if (environment_->is_alive()) leave(write_text, false);
}

// comes_back: this handle goes on.
void SharedFile::leave(Operation<void> write_text, bool comes_back) {
  throw_unless_ok(lock(LockSpace::kDirectory, 0, 0, TP_EXCLUSIVE, TP_FOREVER));
  is_directory_locked_ = true;
  unlock(LockSpace::kOpen, generation_, 0, TP_SHARED);
  observe::step(observe::Step::kDbLeaves);
  const auto end = [&] {
    const int error =
        comes_back ? lock(LockSpace::kOpen, generation_, 0, TP_SHARED, TP_TRY) : TP_OK;
    unlock(LockSpace::kDirectory, 0, 0, TP_EXCLUSIVE);
    is_directory_locked_ = false;
    return error;
  };
  try {
    write_if_alone(write_text, comes_back);
  } catch (...) {
    (void)end();
    throw;
  }
  throw_unless_ok(end());
}

void SharedFile::write_if_alone(Operation<void> write_text, bool comes_back) {
  TMH_ASSERT(is_directory_locked_);
  if (!is_alone(generation_)) return;
  const bool is_gone = status_of(file_).st_nlink == 0 && !comes_back;
  std::uint64_t stamp = 0;
  const std::uint32_t flags = change([&](const Pool &pool) -> std::uint32_t {
    const std::uint32_t now = entry_->flags;
    stamp = entry_->stamp;
    if (!is_gone && (comes_back || (now & PoolEntry::kReplaced) == 0)) return now;
    pool.drop(entry_);
    return PoolEntry::kReplaced;
  });
  if ((flags & PoolEntry::kReplaced) != 0) return;
  if ((flags & (PoolEntry::kChanged | PoolEntry::kWriting)) != 0)
    return write_file(write_text, comes_back);
  // The file is whole.
  if (content_ == Content::kPages && is_writable_ && !comes_back) write_stamp(stamp, 0);
}

void SharedFile::write_file(Operation<void> write_text, bool comes_back) {
  // What a reader closes last stays newer in the pool.
  if (!is_writable_) return;
  if (content_ == Content::kText) {
    change([&](const Pool &) {
      entry_->flags = (entry_->flags | PoolEntry::kWriting) & ~PoolEntry::kChanged;
    });
    throw_unless_ok(tp_log_flush(environment_->env()));
    observe::step(observe::Step::kDbText);
    write_text();
    observe::step(observe::Step::kDbTextEnd);
    // Before the pool says that the text is whole.
    if (environment_->is_durable()) sync_file(file_);
    const std::uint64_t stamp = text_stamp();
    change([&](const Pool &) {
      entry_->stamp = stamp;
      entry_->next_stamp = stamp;
      entry_->flags = entry_->flags & ~PoolEntry::kWriting;
    });
    return;
  }
  const std::uint64_t stamp = new_stamp();
  change([&](const Pool &) { entry_->next_stamp = stamp; });
  observe::step(observe::Step::kDbExports);
  throw_unless_ok(tp_log_flush(environment_->env()));
  FileHead head{};
  head.page_bytes = change([&](const Pool &) -> std::uint32_t { return entry_->page_bytes; });
  const std::uint32_t pages = Pool::pages_of_extent(head.page_bytes);
  const std::uint32_t slot = Pool::slot_bytes(head.page_bytes);
  std::vector<std::byte> slots(std::size_t{pages} * slot);
  std::memcpy(head.magic, kFileMagic, sizeof kFileMagic);
  head.version = kFileVersion;
  change([&](const Pool &pool) {
    auto &first = *reinterpret_cast<PoolHead *>(pool.address(pool.extent_of(*entry_, 0)));
    head.page_end = first.page_end;
    head.free = first.free;
    for (std::size_t i = 0; i < Store::kOwnBytes / 8; ++i) {
      const std::uint64_t word = first.own[i];
      std::memcpy(head.own + i * 8, &word, sizeof word);
    }
  });
  for (PageId begin = 0; begin < head.page_end; begin += pages) {
    const PageId end = std::min(begin + pages, head.page_end);
    change([&](const Pool &pool) {
      std::byte *const from = pool.address(pool.extent_of(*entry_, begin / pages));
      for (std::size_t at = 0; at < std::size_t{end - begin} * slot; at += 8) {
        const std::uint64_t word = reinterpret_cast<field<std::uint64_t> *>(from + at)->load();
        std::memcpy(slots.data() + at, &word, sizeof word);
      }
    });
    for (PageId page = std::max(begin, PageId{1}); page < end; ++page)
      write_at(file_, slots.data() + std::size_t{page - begin} * slot, head.page_bytes,
               std::uint64_t{page} * head.page_bytes);
    observe::step(observe::Step::kDbExtent);
  }
  set_length(file_, std::uint64_t{head.page_end} * head.page_bytes);
  observe::step(observe::Step::kDbPages);
  // Before the head says that the file is whole.
  if (environment_->is_durable() && !observe::is_planted(observe::Planted::kHeadTooSoon))
    sync_file(file_);
  head.stamp = stamp;
  // A handle that goes on may change it at once.
  head.owner = comes_back ? environment_->mark() : 0;
  std::vector<std::byte> first(head.page_bytes);
  std::memcpy(first.data(), &head, sizeof head);
  write_at(file_, first.data(), first.size(), 0);
  observe::step(observe::Step::kDbHead);
  // Before the pool says so.
  if (environment_->is_durable()) sync_file(file_);
  change([&](const Pool &) {
    entry_->stamp = stamp;
    entry_->flags = entry_->flags & ~PoolEntry::kChanged;
  });
  observe::step(observe::Step::kDbExported);
}

}  // namespace tmh::db
