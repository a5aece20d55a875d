// platform/file_mappings.cpp -- the table of mappings, and the sentence.
// Reads:     the table (atomics, published before use), in a handler.
#include "platform/file_mappings.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <new>

#include "platform/assert.h"
#include "platform/fault_handler.h"
#include "platform/files.h"
#include "platform/process.h"
#include "platform/process_object.h"
#include "platform/sentence.h"

namespace tmh::platform {

namespace {

struct Entry {
  // 0: free. Stored last (release), so that a reader that sees it sees the rest.
  std::atomic<std::uintptr_t> begin{0};
  std::atomic<std::uint64_t> bytes{0};
  std::atomic<int> fd{-1};
  std::atomic<std::uint64_t> offset{0};
};

// A domain has some 20 mappings, and a few for each segment.
struct Piece {
  static constexpr std::size_t kEntries = 128;
  Entry entries[kEntries];
  std::atomic<Piece *> next{nullptr};
};

constinit Piece first_piece;
// Fork generation: a child has none of its parent's mappings.
constinit std::atomic<std::uint32_t> noted_in{0};

// One notes or forgets at a time; the handler takes no lock.
struct Noting {
  std::mutex mutex;
};

template <class Visit>
void for_each_entry(const Visit &visit) noexcept {
  // acquire: pairs with the release in free_entry()
  for (Piece *piece = &first_piece; piece != nullptr;
       piece = piece->next.load(std::memory_order_acquire))
    for (Entry &entry : piece->entries) visit(entry);
}

Entry *free_entry() noexcept {
  for (Piece *piece = &first_piece;; piece = piece->next.load(std::memory_order_relaxed)) {
    for (Entry &entry : piece->entries)
      if (entry.begin.load(std::memory_order_relaxed) == 0) return &entry;
    if (piece->next.load(std::memory_order_relaxed) == nullptr) {
      auto *const more = new (std::nothrow) Piece;
      if (more == nullptr) return nullptr;
      piece->next.store(more, std::memory_order_release);
    }
  }
}

FileMapping find_mapping(std::uintptr_t address) noexcept {
  FileMapping found;
  if (noted_in.load(std::memory_order_relaxed) != fork_generation()) return found;
  for_each_entry([&](const Entry &entry) {
    // acquire: pairs with the release in note_mapping()
    const std::uintptr_t begin = entry.begin.load(std::memory_order_acquire);
    const std::uint64_t bytes = entry.bytes.load(std::memory_order_relaxed);
    if (begin == 0 || address - begin >= bytes) return;
    found = {begin, bytes, entry.fd.load(std::memory_order_relaxed),
             entry.offset.load(std::memory_order_relaxed)};
  });
  return found;
}

// The link, not the path that it was opened by: the file may have been moved.
void append_name(Sentence &sentence, int fd) noexcept {
  TMH_ASSERT(fd >= 0);
  Sentence link;
  link << "/proc/self/fd/";
  link.number(static_cast<std::uint64_t>(fd), 10);
  char name[512];
  const ssize_t length = readlink(link.text(), name, sizeof name - 1);
  name[length > 0 ? length : 0] = '\0';
  sentence << (length > 0 ? name : "a file of a domain");
}

}  // namespace

void note_mapping(const FileMapping &mapping) noexcept {
  TMH_ASSERT(mapping.begin != 0 && mapping.bytes != 0 && mapping.fd >= 0);
  watch_faults();
  const std::scoped_lock guard(ProcessObject<Noting>::here().mutex);
  if (noted_in.load(std::memory_order_relaxed) != fork_generation()) {
    for_each_entry([](Entry &entry) { entry.begin.store(0, std::memory_order_release); });
    noted_in.store(fork_generation(), std::memory_order_relaxed);
  }
  for_each_entry([&mapping](Entry &entry) {  // unmapped, and not forgotten
    const std::uintptr_t begin = entry.begin.load(std::memory_order_relaxed);
    if (begin < mapping.begin + mapping.bytes &&
        mapping.begin < begin + entry.bytes.load(std::memory_order_relaxed))
      entry.begin.store(0, std::memory_order_release);
  });
  Entry *const entry = free_entry();
  if (entry == nullptr) return;
  entry->bytes.store(mapping.bytes, std::memory_order_relaxed);
  entry->fd.store(mapping.fd, std::memory_order_relaxed);
  entry->offset.store(mapping.offset, std::memory_order_relaxed);
  entry->begin.store(mapping.begin, std::memory_order_release);
}

void forget_mapping(const void *begin) noexcept {
  TMH_ASSERT(begin != nullptr);
  const std::scoped_lock guard(ProcessObject<Noting>::here().mutex);
  for_each_entry([begin](Entry &entry) {
    if (entry.begin.load(std::memory_order_relaxed) == reinterpret_cast<std::uintptr_t>(begin))
      entry.begin.store(0, std::memory_order_release);
  });
}

bool report_missing(std::uintptr_t address, bool is_write) noexcept {
  const FileMapping found = find_mapping(address);
  struct stat info {};
  if (found.begin == 0 || fstat(found.fd, &info) != 0) return false;
  const std::uint64_t at = found.offset + (address - found.begin);
  const auto length = static_cast<std::uint64_t>(info.st_size);
  Sentence sentence;
  sentence << "tmh: ";
  append_name(sentence, found.fd);
  if (length <= at) {
    sentence << " was cut to ";
    sentence.number(length, 10) << " bytes while this process has it open; a "
                                << (is_write ? "store to" : "load from") << " byte ";
    sentence.number(at, 10) << " ends the process: close the domain everywhere, and restore the "
                               "file if it is a segment's\n";
  } else {
    const bool is_hole = !has_data(found.fd, at, 1);
    sentence << (is_hole ? " has no disk block at byte " : " cannot be read or written at byte ");
    sentence.number(at, 10) << (is_hole ? ", and the file system gives none (it is full, or its "
                                          "quota is used up); a "
                                        : " (a failure of its disk, or of memory); a ")
                            << (is_write ? "store" : "load") << " there ends the process\n";
  }
  sentence.write();
  return true;
}

}  // namespace tmh::platform
