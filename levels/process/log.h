// levels/process/log.h -- what commits changed, in order: copies are brought up to date from
// it, and older snapshots are made from home and it.
// Shape:     entries of one page each, one behind the other in chunks of 1 MiB; a position counts
//            bytes since the first entry. Entries of a commit have the same stamp. Each names the
//            next older one of its page. Chunks that no pin needs are used again, the last used
//            first, because its memory is in the caches.
// Invariant: an entry does not change while tail <= position < head.
// Sharing:   add and trim: the holder of the commit lock. Readers: no lock.
// Source:    EXCITE-VM 4.3 (the global log).
#pragma once

#include <cstddef>
#include <cstdint>

#include "levels/process/memory.h"

namespace tmh::itm::pages {

using Position = std::uint64_t;

enum class EntryKind : std::uint16_t {
  kWords,  // a transaction changed these words
  kImage,  // the page as it was before plain code stored to it
  kSkip,   // nothing up to the end of the chunk
};

struct Word {
  std::uint64_t before, after;
};
struct Place {
  std::uint16_t word;  // of the page
  std::uint8_t bytes;  // which of its bytes changed, a bit for each
  std::uint8_t unused;
};

struct Entry {
  std::uint64_t stamp;
  Position previous;  // of the same page; 0: none
  PageNumber page;
  std::uint32_t size;      // with this header
  std::uint64_t released;  // kImage: the page's, before it
  EntryKind kind;
  std::uint16_t words;
  std::uint8_t slot;    // of who made it
  std::uint8_t others;  // kImage: other tasks could store to the page by then
  std::uint16_t unused;
  // kWords: Word[words], Place[words]. kImage: the page.

  [[nodiscard]] std::byte *content() noexcept { return reinterpret_cast<std::byte *>(this + 1); }
  [[nodiscard]] const std::byte *content() const noexcept {
    return reinterpret_cast<const std::byte *>(this + 1);
  }
  [[nodiscard]] const Word *word_list() const noexcept {
    return reinterpret_cast<const Word *>(content());
  }
  [[nodiscard]] const Place *places() const noexcept {
    return reinterpret_cast<const Place *>(word_list() + words);
  }
};
static_assert(sizeof(Entry) == 40 && sizeof(Word) == 16 && sizeof(Place) == 4);
static_assert(kPageBytes / 8 <= 1u << 16 && kTasksMax <= 1u << 8);  // Place::word, Entry::slot

class Log {
 public:
  static constexpr std::uint64_t kChunkBytes = 1ull << 20;
  [[nodiscard]] static bool start() noexcept;

  // REQUIRES: tail <= position < head; the caller looks at `trimmed` afterwards, too.
  [[nodiscard]] static Entry *at(Position position) noexcept;
  // The entry at or behind `position`, past skipped ends of chunks.
  [[nodiscard]] static Position skip(Position position) noexcept;

  // Of the holder of the commit lock. Room for `bytes` (at most half a chunk) at the end, which
  // publish() makes part of the log. May trim what running transactions need, if nothing else is
  // left.
  [[nodiscard]] static Entry *reserve(std::uint32_t bytes) noexcept;
  // All that was reserved since the last publish() happens at once, and home has it.
  static void publish(std::uint64_t stamp, bool is_commit) noexcept;
  // The same without entries, of a commit larger than kCommitMax: home has it already, and no
  // transaction runs beside. All copies of before are too old.
  static constexpr std::uint64_t kCommitMax = 512 * kChunkBytes;
  static void forget_all(std::uint64_t stamp) noexcept;
  // What a holder that died left half done, is done.
  static void repair() noexcept;
  // Nothing is reserved. Of the holder of the commit lock.
  [[nodiscard]] static bool is_settled() noexcept;

 private:
  static void apply(Position begin, Position end) noexcept;
  static void trim(bool must_give) noexcept;
  static void next_chunk() noexcept;
  static void find_free_chunks() noexcept;
};

// Stores the bytes that the entry changed; their neighbours may be another thread's.
void redo(const Entry &entry, std::byte *page) noexcept;
void undo(const Entry &entry, std::byte *page) noexcept;

}  // namespace tmh::itm::pages
