// levels/line/line_memory.h -- level 1's shared files as one process sees them: state, contexts,
// and per segment home and line words.
// Shape:     every file is mapped once over its largest size. Or there are no files, one process,
//            and one segment, which is all its memory (process_lines.h).
// Sharing:   between processes. open(), add_segment() and close() run under the folder lock;
//            contexts are taken without a lock.
// Contexts:  accessors are async-signal-safe; everything that opens files is not.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include <tmh/error.hpp>

#include "levels/line/layout.h"
#include "levels/line/process_lines.h"
#include "platform/assert.h"
#include "platform/files.h"
#include "storage/file_table.h"
#include "storage/home.h"

namespace tmh::line {

// A segment as this process has it. `home` outlives the LineMemory; relocatable segments have a
// view of their own in each process.
struct SegmentPlace {
  std::uint32_t number = 0;
  std::byte *view = nullptr;
  std::uint64_t bytes = 0;      // usable now
  std::uint64_t max_bytes = 0;  // of address space
  storage::Home *home = nullptr;
  // Of the level above, which says whose a page is: has blocks for a page before the page's line
  // words do. Null: there is none.
  platform::GrowingFile *page_records = nullptr;
  std::uint64_t page_record_bytes = 0;
};

struct LineSegment {
  std::uint32_t number = 0;
  std::uintptr_t view = 0;
  std::byte *home = nullptr;
  LineWord *words = nullptr;
  std::atomic<std::uint64_t> bytes{0};  // 0: not open. release after the rest is set; grows
  storage::Home *file = nullptr;
  platform::GrowingFile words_file;
  std::atomic<std::uint32_t> mappings{
      // How often it was mapped and unmapped: what a thread remembers of it is of one mapping.
      // relaxed.
      0};
  platform::GrowingFile *page_records = nullptr;
  std::uint64_t page_record_bytes = 0;
  // Of home or of the words: a chunk is asked for before the first load, too.
  bool loads_take_blocks = false;
  bool is_process = false;  // all memory of this process; chunks is null: nothing takes disk blocks
  struct Free {
    void operator()(void *memory) const noexcept { std::free(memory); }
  };
  // Bit per kChunkBytes of home: this process has asked for its disk blocks. calloc: memory follows
  // use.
  std::unique_ptr<std::atomic<std::uint64_t>, Free> chunks;

  // Not by adding to `home`, which is null where the segment begins at address 0.
  [[nodiscard]] std::byte *home_at(std::uint64_t offset_bytes) const noexcept {
    return reinterpret_cast<std::byte *>(reinterpret_cast<std::uintptr_t>(home) + offset_bytes);
  }
  // Of the line at this offset.
  [[nodiscard]] LineWord *word_at(std::uint64_t offset_bytes) const noexcept {
    const std::uint64_t line = offset_bytes / kLineBytes;
    return words + (is_process ? process_word_number(line) : line);
  }
};

class LineMemory {
 public:
  // 64 KiB: a system call per 16 pages first written
  static constexpr std::uint64_t kChunkBytes = 1u << 16;
  // Of a redo log, that have disk blocks from the start: 8 KiB, more than the small transactions
  // that level 1 is for write.
  static constexpr std::uint32_t kWritesAtFirst = 64;

  // Opens or creates the files. Files of another boot are made anew; *found: there were some of
  // this boot, whose contexts may need recover_all_contexts() when no participant lives.
  // kForeignVersion, kIo and its kind.
  [[nodiscard]] Errc open(const std::string &folder, bool *found) noexcept;
  // Opened by open_process()?
  [[nodiscard]] bool is_process() const noexcept { return process_ != nullptr; }
  // In anonymous memory of this process, private to it: with one segment, number 0, from address 0
  // up. kOutOfMemory, without a detail: no memory of the C++ runtime is used.
  [[nodiscard]] Errc open_process() noexcept;
  // remove: the last participant leaves.
  void close(bool remove) noexcept;
  static void remove_files(const std::string &folder) noexcept;
  [[nodiscard]] bool is_open() const noexcept { return state_ != nullptr; }

  [[nodiscard]] Errc add_segment(const SegmentPlace &place) noexcept;
  // This process has state and contexts open, or a segment's words. kFileReplaced: others have
  // other files.
  [[nodiscard]] Errc enter(storage::FileTable &files) const noexcept;
  [[nodiscard]] Errc enter(storage::FileTable &files, std::uint32_t segment) const noexcept;
  // REQUIRES: no instance of this process runs on it.
  void remove_segment(std::uint32_t number) noexcept;
  // How many segments have been removed: what a thread has noted of words before may be gone.
  // relaxed: it runs no instance meanwhile.
  [[nodiscard]] std::uint64_t removals() const noexcept {
    return removals_.load(std::memory_order_relaxed);
  }
  void grow_segment(std::uint32_t number, std::uint64_t bytes) noexcept;

  [[nodiscard]] LineStateV1 &state() const noexcept {
    TMH_ASSERT(is_open());
    return *state_;
  }
  [[nodiscard]] LineContextV1 &context(std::uint32_t number) const noexcept {
    TMH_ASSERT(contexts_ != nullptr && number < kContextsMax);
    return contexts_[number];
  }
  [[nodiscard]] std::uint32_t contexts_high() const noexcept {
    // acquire: pairs with the release in take_context(). Bytes of shared memory are not believed.
    const std::uint64_t high = state_->contexts_high.load(std::memory_order_acquire);
    return high < kContextsMax ? static_cast<std::uint32_t>(high) : kContextsMax;
  }
  // Look at bytes (acquire) first.
  [[nodiscard]] LineSegment &segment(std::uint32_t number) const noexcept {
    TMH_ASSERT(segments_ != nullptr && number < storage::kSegmentsMax);
    return segments_[number];
  }
  // Null: the address lies in no open segment.
  [[nodiscard]] LineSegment *find(std::uintptr_t address) const noexcept;
  // The 64 words of a page, whose segment is open here.
  [[nodiscard]] LineWord *page_words(storage::PageId page) const noexcept {
    TMH_ASSERT(storage::segment_number(page) < storage::kSegmentsMax);
    TMH_ASSERT(segments_[storage::segment_number(page)].words != nullptr);
    return segments_[storage::segment_number(page)].words + storage::page_offset(page) / kLineBytes;
  }

  // A context for a thread of this participant; kTooManyParticipants when all are taken, kDiskFull.
  [[nodiscard]] Errc take_context(std::uint32_t slot, std::uint64_t incarnation,
                                  std::uint32_t *number) noexcept;
  void give_back(std::uint32_t number) noexcept;
  // Adds the totals of all threads, ever.
  void count_in(Counters *out) const noexcept;
  // Disk blocks for entries [0, count) of the context's redo log, or for one of its rings: a commit
  // must not find the disk full.
  [[nodiscard]] Errc allocate_writes(std::uint32_t number, std::uint32_t count) noexcept;
  [[nodiscard]] Errc allocate_undo(std::uint32_t number, std::uint64_t first_word,
                                   std::uint64_t words) noexcept;
  [[nodiscard]] Errc allocate_redo(std::uint32_t number) noexcept;
  // The same for home and line words around `offset`; kDiskFull, kIo. Cheap when this process has
  // asked before.
  [[nodiscard]] Errc allocate_home(LineSegment &segment, std::uint64_t offset_bytes) noexcept {
    if (has_asked_for(segment, offset_bytes)) [[likely]]
      return Errc::kOk;
    return allocate_chunk(segment, offset_bytes / kChunkBytes);
  }
  // Has a thread of this process called allocate_home() for it, with success?
  [[nodiscard]] bool has_asked_for(const LineSegment &segment,
                                   std::uint64_t offset_bytes) const noexcept {
    if (segment.is_process) return true;
    TMH_ASSERT(segment.chunks != nullptr);
    const std::uint64_t chunk = offset_bytes / kChunkBytes;
    // relaxed: says only that a thread asked; blocks are the kernel's
    return (segment.chunks.get()[chunk / 64].load(std::memory_order_relaxed) >> (chunk % 64) & 1) !=
           0;
  }
  // Bytes [*begin, *end) of the segment that hold `offset` and may be loaded from: all, or where
  // loads take blocks the chunks around it for which this process has asked. REQUIRES: offset lies
  // in the segment.
  void loadable_around(const LineSegment &segment, std::uint64_t offset, std::uint64_t *begin,
                       std::uint64_t *end) const noexcept;
  // Before level 2 stores to a page's line words, or loads them where loads take blocks. kDiskFull,
  // kIo. Async-signal-safe.
  [[nodiscard]] Errc reserve_words(storage::PageId page) noexcept {
    TMH_ASSERT(storage::segment_number(page) < storage::kSegmentsMax);
    return segments_[storage::segment_number(page)].words_file.reserve(
        storage::page_offset(page) / kLineBytes * sizeof(LineWord),
        storage::kLinesPerPage * sizeof(LineWord));
  }
  // Are all of the page's words as at first? Asks the file where it cannot be loaded from.
  [[nodiscard]] bool has_no_word_stored(storage::PageId page) const noexcept;
  [[nodiscard]] bool has_words(storage::PageId page) const noexcept {
    TMH_ASSERT(storage::segment_number(page) < storage::kSegmentsMax);
    return segments_[storage::segment_number(page)].words_file.is_reserved(
        storage::page_offset(page) / kLineBytes * sizeof(LineWord),
        storage::kLinesPerPage * sizeof(LineWord));
  }

 private:
  [[nodiscard]] Errc allocate_chunk(LineSegment &segment, std::uint64_t chunk) noexcept;
  // Disk blocks for the context's bytes [begin, begin + bytes).
  [[nodiscard]] Errc allocate_context(std::uint32_t number, std::uint64_t begin,
                                      std::uint64_t bytes) noexcept;
  [[nodiscard]] std::string path(const std::string &name) const { return folder_ + "/" + name; }

  std::string folder_;
  platform::GrowingFile state_file_, contexts_file_;
  struct Unmap {
    void operator()(std::byte *memory) const noexcept;
  };
  std::unique_ptr<std::byte, Unmap> process_;  // state, contexts and words where there are no files
  LineStateV1 *state_ = nullptr;
  LineContextV1 *contexts_ = nullptr;
  std::unique_ptr<LineSegment[]> segments_;
  std::atomic<std::uint64_t> removals_{0};
  // Release after a segment is open; find() looks below it.
  std::atomic<std::uint32_t> segments_high_{0};
};

}  // namespace tmh::line
