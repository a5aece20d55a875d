// levels/line/line_memory.cpp -- opening, creating and removing level 1's files; taking contexts.
#include "levels/line/line_memory.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "platform/assert.h"
#include "platform/failure.h"
#include "platform/process.h"
#include "platform/try.h"
#include "storage/participants.h"
#include "storage/segment_files.h"

namespace tmh::line {

using platform::fail;
using platform::fail_errno;
using Blocks = platform::GrowingFile::Blocks;

namespace {

// No objects: static objects of a program may open a domain before those of this file are there.
const char *state_name() noexcept { return storage::name_of(storage::DomainFile::kLineState); }
const char *contexts_name() noexcept { return storage::name_of(storage::DomainFile::kContexts); }
constexpr std::uint64_t kContextsBytes = kContextsMax * sizeof(LineContextV1);
// Without files: the state, the contexts and the words, one behind the other.
constexpr std::uint64_t kProcessWordsBytes = kProcessWords * sizeof(LineWord);
constexpr std::uint64_t kProcessMapBytes =
    sizeof(LineContextV1) + kContextsBytes + kProcessWordsBytes;
static_assert(sizeof(LineStateV1) <= sizeof(LineContextV1));

std::string words_name(std::uint32_t segment) {
  return storage::name_of(storage::SegmentFile::kLines, segment);
}

}  // namespace

void LineMemory::remove_files(const std::string &folder) noexcept {
  unlink((folder + "/" + state_name()).c_str());
  unlink((folder + "/" + contexts_name()).c_str());
  storage::remove_segment_files(folder, {storage::name_before(storage::SegmentFile::kLines)});
}

Errc LineMemory::open(const std::string &folder, bool *found) noexcept {
  TMH_ASSERT(!is_open());
  folder_ = folder;
  segments_ = std::make_unique<LineSegment[]>(storage::kSegmentsMax);
  segments_high_.store(0, std::memory_order_relaxed);
  const platform::BootId boot = platform::this_boot();
  *found = false;
  if (platform::has_entry(path(state_name()))) {
    std::string bytes;
    if (const Errc error = platform::read_file(path(state_name()), 1u << 20, &bytes);
        error != Errc::kOk)
      return error;
    alignas(LineStateV1) unsigned char head[sizeof(LineStateV1)] = {};
    std::memcpy(head, bytes.data(), std::min(bytes.size(), sizeof head));
    const auto *state = reinterpret_cast<const LineStateV1 *>(head);
    *found = state->magic == kLineStateMagic &&
             std::memcmp(state->boot_id, boot.text, sizeof boot.text) == 0;
    if (*found && (state->version != kLineStateVersion ||
                   state->state_bytes != sizeof(LineStateV1) || bytes.size() < sizeof(LineStateV1)))
      return fail(
          Errc::kForeignVersion,
          path(state_name()) + " is of another version that is, or was, in use since this boot");
  } else if (errno != ENOENT) {
    return fail_errno(Errc::kIo, path(state_name()));
  }
  if (!*found) remove_files(folder_);
  if (const Errc error =
          state_file_.open(path(state_name()), sizeof(LineStateV1), 4096, Blocks::kAllocated);
      error != Errc::kOk)
    return error;
  if (const Errc error = contexts_file_.open(path(contexts_name()), kContextsBytes, kContextsBytes,
                                             Blocks::kSparse);
      error != Errc::kOk)
    return error;
  contexts_ = reinterpret_cast<LineContextV1 *>(contexts_file_.base());
  auto *state = reinterpret_cast<LineStateV1 *>(state_file_.base());
  if (!*found) {
    state->version = kLineStateVersion;
    state->state_bytes = sizeof(LineStateV1);
    std::memcpy(state->boot_id, boot.text, sizeof boot.text);
    state->moving.store(kNoPage, std::memory_order_relaxed);  // relaxed: the folder lock is held
    state->clock.store(1, std::memory_order_relaxed);
    state->magic = kLineStateMagic;
  }
  state_ = state;
  return Errc::kOk;
}

Errc LineMemory::open_process() noexcept {
  TMH_ASSERT(!is_open());
  segments_.reset(new (std::nothrow) LineSegment[1]);
  if (segments_ == nullptr) return Errc::kOutOfMemory;
  void *map = mmap(nullptr, kProcessMapBytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (map == MAP_FAILED) return Errc::kOutOfMemory;
  process_.reset(static_cast<std::byte *>(map));
  // Anonymous memory is zero; no other thread has seen it. All relaxed for the same reason.
  contexts_ = reinterpret_cast<LineContextV1 *>(process_.get() + sizeof(LineContextV1));
  LineSegment &segment = segments_[0];
  segment.is_process = true;
  segment.words =
      reinterpret_cast<LineWord *>(reinterpret_cast<std::byte *>(contexts_) + kContextsBytes);
  segment.bytes.store(kProcessBytes, std::memory_order_relaxed);
  segments_high_.store(1, std::memory_order_relaxed);
  state_ = reinterpret_cast<LineStateV1 *>(process_.get());
  state_->moving.store(kNoPage, std::memory_order_relaxed);
  state_->clock.store(1, std::memory_order_relaxed);
  return Errc::kOk;
}

void LineMemory::Unmap::operator()(std::byte *memory) const noexcept {
  munmap(memory, kProcessMapBytes);
}

void LineMemory::close(bool remove) noexcept {
  // Relaxed: no thread of this process uses it.
  segments_high_.store(0, std::memory_order_relaxed);
  segments_.reset();
  state_file_.close();
  contexts_file_.close();
  process_.reset();
  state_ = nullptr;
  contexts_ = nullptr;
  if (remove) remove_files(folder_);
}

Errc LineMemory::add_segment(const SegmentPlace &place) noexcept {
  TMH_ASSERT(is_open());
  TMH_ASSERT(place.home != nullptr);
  TMH_ASSERT(place.max_bytes % kPageBytes == 0);
  if (place.number >= storage::kSegmentsMax)
    return fail(Errc::kTooManySegments, std::to_string(place.number));
  LineSegment &segment = segments_[place.number];
  const std::uint64_t words_bytes = place.max_bytes / kLineBytes * sizeof(LineWord);
  if (const Errc error = segment.words_file.open(path(words_name(place.number)), words_bytes,
                                                 words_bytes, Blocks::kSparse);
      error != Errc::kOk)
    return error;
  const std::uint64_t chunks = place.max_bytes / kChunkBytes + 1;
  segment.chunks.reset(static_cast<std::atomic<std::uint64_t> *>(std::calloc(chunks / 64 + 1, 8)));
  if (segment.chunks == nullptr) return fail(Errc::kOutOfMemory, words_name(place.number));
  segment.number = place.number;
  segment.view = reinterpret_cast<std::uintptr_t>(place.view);
  segment.home = place.home->base();
  segment.words = reinterpret_cast<LineWord *>(segment.words_file.base());
  segment.file = place.home;
  segment.page_records = place.page_records;
  segment.page_record_bytes = place.page_record_bytes;
  segment.loads_take_blocks =
      place.home->loads_take_blocks() || platform::loads_take_blocks(segment.words_file.fd());
  segment.mappings.fetch_add(1, std::memory_order_relaxed);
  segment.bytes.store(place.bytes, std::memory_order_release);  // pairs with the acquire in find()
  if (place.number >= segments_high_.load(std::memory_order_relaxed))
    segments_high_.store(place.number + 1, std::memory_order_release);  // pairs with find()
  return Errc::kOk;
}

Errc LineMemory::enter(storage::FileTable &files) const noexcept {
  using storage::DomainFile;
  TMH_TRY(storage::enter(files.at(DomainFile::kLineState), state_file_.fd(), sizeof(LineStateV1),
                         path(state_name())));
  return storage::enter(files.at(DomainFile::kContexts), contexts_file_.fd(), kContextsBytes,
                        path(contexts_name()));
}

Errc LineMemory::enter(storage::FileTable &files, std::uint32_t segment) const noexcept {
  TMH_ASSERT(segment < storage::kSegmentsMax);
  const platform::GrowingFile &words = segments_[segment].words_file;
  return storage::enter(files.at(storage::SegmentFile::kLines, segment), words.fd(),
                        words.bytes_max(), path(words_name(segment)));
}

void LineMemory::remove_segment(std::uint32_t number) noexcept {
  TMH_ASSERT(number < storage::kSegmentsMax);
  LineSegment &segment = segments_[number];
  segment.bytes.store(0, std::memory_order_release);
  segment.mappings.fetch_add(1, std::memory_order_relaxed);
  removals_.fetch_add(1, std::memory_order_relaxed);
  segment.words_file.close();
  segment.chunks.reset();
}

void LineMemory::grow_segment(std::uint32_t number, std::uint64_t bytes) noexcept {
  TMH_ASSERT(number < storage::kSegmentsMax);
  TMH_ASSERT(segments_[number].chunks != nullptr);
  LineSegment &segment = segments_[number];
  // The chunk that the old end cuts has blocks for its first part only.
  const std::uint64_t chunk = segment.bytes.load(std::memory_order_relaxed) / kChunkBytes;
  segment.bytes.store(bytes, std::memory_order_release);  // pairs with find()
  segment.chunks.get()[chunk / 64].fetch_and(~(1ull << (chunk % 64)), std::memory_order_relaxed);
}

LineSegment *LineMemory::find(std::uintptr_t address) const noexcept {
  // Pairs with add_segment().
  const std::uint32_t high = segments_high_.load(std::memory_order_acquire);
  for (std::uint32_t i = 0; i < high; ++i) {
    // Pairs with add_segment().
    const std::uint64_t bytes = segments_[i].bytes.load(std::memory_order_acquire);
    if (bytes != 0 && address - segments_[i].view < bytes) return &segments_[i];
  }
  return nullptr;
}

Errc LineMemory::take_context(std::uint32_t slot, std::uint64_t incarnation,
                              std::uint32_t *number) noexcept {
  TMH_ASSERT(is_open());
  TMH_ASSERT(slot < storage::kParticipantsMax);
  for (std::uint32_t i = 0; i < kContextsMax; ++i) {
    LineContextV1 &context = contexts_[i];
    Owner free{};
    // No thread has had it: not even loaded from before it has its blocks, see loads_take_blocks().
    if (i >= contexts_high()) {
      TMH_TRY(allocate_context(i, 0, 4096));
    }
    if (context.owner.load(std::memory_order_relaxed) != free) continue;
    TMH_TRY(allocate_context(i, 0,
                             offsetof(LineContextV1, writes) + kWritesAtFirst * sizeof(LineWrite)));
    // Before the owner: a recoverer of the contexts of the dead must come by.
    std::uint64_t high = state_->contexts_high.load(std::memory_order_relaxed);
    while (high < i + 1 && !state_->contexts_high.compare_exchange_weak(
                               high, i + 1, std::memory_order_release, std::memory_order_relaxed)) {
    }
    // acq_rel: acquire pairs with the release of give_back() and of recovery; release:
    // contexts_high is seen with the owner
    if (!context.owner.compare_exchange_strong(free, owner_of(slot, incarnation),
                                               std::memory_order_acq_rel,
                                               std::memory_order_relaxed))
      continue;
    // relaxed: its owner alone counts
    for (std::size_t count = 0; count < kLineCountsMax; ++count)
      context.counts_before[count] = context.counts[count].load(std::memory_order_relaxed);
    *number = i;
    return Errc::kOk;
  }
  return fail(Errc::kTooManyParticipants,
              std::to_string(kContextsMax) + " threads have a level-1 context");
}

void LineMemory::count_in(Counters *out) const noexcept {
  for (std::uint32_t i = 0; i < contexts_high(); ++i) {
    const LineContextV1 &context = contexts_[i];
    add_line_counts([&context](LineCount which) { return context.count(which); }, out);
  }
}

void LineMemory::give_back(std::uint32_t number) noexcept {
  TMH_ASSERT(number < kContextsMax);
  contexts_[number].owner.store(Owner{}, std::memory_order_release);  // pairs with take_context()
}

Errc LineMemory::allocate_context(std::uint32_t number, std::uint64_t begin,
                                  std::uint64_t bytes) noexcept {
  TMH_ASSERT(number < kContextsMax);
  if (process_ != nullptr) return Errc::kOk;
  const std::uint64_t at = number * sizeof(LineContextV1) + begin;
  if (const Errc error = platform::allocate_blocks(contexts_file_.fd(), at, bytes);
      error != Errc::kOk)
    return fail(error, path(contexts_name()));
  return Errc::kOk;
}

Errc LineMemory::allocate_writes(std::uint32_t number, std::uint32_t count) noexcept {
  TMH_ASSERT(count <= kWritesMax);
  return allocate_context(number, offsetof(LineContextV1, writes), count * sizeof(LineWrite));
}

Errc LineMemory::allocate_undo(std::uint32_t number, std::uint64_t first_word,
                               std::uint64_t words) noexcept {
  TMH_ASSERT(first_word + words <= kUndoWords);
  TMH_TRY(allocate_context(number, offsetof(LineContextV1, undo_last),
                           sizeof(LineContextV1::undo_last)));
  return allocate_context(number, offsetof(LineContextV1, undo) + first_word * sizeof(UndoWord),
                          words * sizeof(UndoWord));
}

Errc LineMemory::allocate_redo(std::uint32_t number) noexcept {
  return allocate_context(number, offsetof(LineContextV1, redo), sizeof(LineContextV1::redo));
}

Errc LineMemory::allocate_chunk(LineSegment &segment, std::uint64_t chunk) noexcept {
  TMH_ASSERT(segment.file != nullptr);
  const std::uint64_t begin = chunk * kChunkBytes;
  // acquire: pairs with grow_segment(); the file is that long
  const std::uint64_t end =
      std::min(begin + kChunkBytes, segment.bytes.load(std::memory_order_acquire));
  if (begin >= end) return Errc::kBadArgument;
  if (const Errc error = segment.file->allocate_blocks(begin, end - begin); error != Errc::kOk)
    return error;
  // The page's record before its words: words that were never stored to are then the only ones that
  // level 2 may find without a record.
  if (segment.page_records != nullptr) {
    const Errc error = segment.page_records->reserve(
        begin / kPageBytes * segment.page_record_bytes,
        (end - begin + kPageBytes - 1) / kPageBytes * segment.page_record_bytes);
    if (error != Errc::kOk) return error;
  }
  if (const Errc error = segment.words_file.reserve(begin / kLineBytes * sizeof(LineWord),
                                                    (end - begin) / kLineBytes * sizeof(LineWord));
      error != Errc::kOk)
    return error;
  // Says only: asked.
  segment.chunks.get()[chunk / 64].fetch_or(1ull << (chunk % 64), std::memory_order_relaxed);
  return Errc::kOk;
}

bool LineMemory::has_no_word_stored(storage::PageId page) const noexcept {
  TMH_ASSERT(storage::segment_number(page) < storage::kSegmentsMax);
  const LineSegment &segment = segments_[storage::segment_number(page)];
  const std::uint64_t at = storage::page_offset(page) / kLineBytes * sizeof(LineWord);
  if (!platform::has_data(segment.words_file.fd(), at, storage::kLinesPerPage * sizeof(LineWord)))
    return true;
  const LineWord *words = page_words(page);
  return std::all_of(words, words + storage::kLinesPerPage, [](const LineWord &word) {
    return word.load(std::memory_order_relaxed) == 0;
  });
}

void LineMemory::loadable_around(const LineSegment &segment, std::uint64_t offset,
                                 std::uint64_t *begin, std::uint64_t *end) const noexcept {
  // Pairs with add_segment() and grow_segment().
  const std::uint64_t bytes = segment.bytes.load(std::memory_order_acquire);
  *begin = 0;
  *end = bytes;
  if (!segment.loads_take_blocks) return;
  // chunks to either side, 1 GiB: at most 0.1 us for each window
  constexpr std::uint64_t kReach = 1u << 14;
  const auto asked = [&segment](std::uint64_t chunk) {
    return segment.chunks.get()[chunk / 64].load(std::memory_order_relaxed);  // as allocate_home()
  };
  const std::uint64_t chunk = offset / kChunkBytes;
  const std::uint64_t last = std::min((bytes + kChunkBytes - 1) / kChunkBytes, chunk + kReach);
  const std::uint64_t first = chunk > kReach ? chunk - kReach : 0;
  std::uint64_t low = chunk, high = chunk;
  for (std::uint64_t ones = 64, room = 0; high < last && ones >= room;
       high += std::min(ones, room)) {
    room = 64 - high % 64;
    ones = static_cast<std::uint64_t>(std::countr_one(asked(high) >> (high % 64)));
  }
  for (std::uint64_t ones = 64, room = 0; low > first && ones >= room;
       low -= std::min(ones, room)) {
    room = (low - 1) % 64 + 1;
    ones = static_cast<std::uint64_t>(std::countl_one(asked(low - 1) << (64 - room)));
  }
  *begin = low * kChunkBytes;
  *end = std::min(high * kChunkBytes, bytes);
  if (high == chunk) *begin = *end = 0;
}

}  // namespace tmh::line
