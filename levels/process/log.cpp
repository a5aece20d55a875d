// levels/process/log.cpp -- chunks, publishing, trimming, repair.
#include "levels/process/log.h"

#include <algorithm>
#include <cstring>

namespace tmh::itm::pages {

namespace {

constexpr std::uint32_t kPageWords = kPageBytes / 8;
constexpr std::uint32_t kChunks = 1024;  // at most
// What stays although no pin needs it: tasks outside bring their copies up to date with it.
constexpr std::uint32_t kChunksKept = 16;
static_assert(kChunksKept < kChunks && Log::kCommitMax < kChunks * Log::kChunkBytes);

// Shared.
struct Chunks {
  Position end;        // behind what was reserved
  std::uint32_t made;  // chunks that were used at least once
  std::uint32_t free_count;
  std::uint32_t free[kChunks];
  std::uint32_t of[kChunks];  // of a chunk's number in the log, modulo kChunks
  std::uint64_t last_stamp[kChunks];
};

Chunks *chunks;
std::byte *memory;

void store_bytes(std::byte *to, std::uint64_t value, std::uint8_t bytes) noexcept {
  if (bytes == 0xff) {
    std::uint64_t *const word = reinterpret_cast<std::uint64_t *>(to);
    __atomic_store_n(word, value, __ATOMIC_RELAXED);
    return;
  }
  for (int i = 0; i < 8; ++i)
    if ((bytes >> i & 1) != 0) to[i] = static_cast<std::byte>(value >> 8 * i & 0xff);
}

}  // namespace

void redo(const Entry &entry, std::byte *page) noexcept {
  TMH_ASSERT(page != nullptr);
  const Word *const words = entry.word_list();
  const Place *const places = entry.places();
  for (std::uint32_t i = 0; i < std::min<std::uint32_t>(entry.words, kPageWords); ++i)
    store_bytes(page + 8 * (places[i].word % kPageWords), words[i].after, places[i].bytes);
}

void undo(const Entry &entry, std::byte *page) noexcept {
  TMH_ASSERT(page != nullptr);
  if (entry.kind == EntryKind::kImage) {
    std::memcpy(page, entry.content(), kPageBytes);
    return;
  }
  const Word *const words = entry.word_list();
  const Place *const places = entry.places();
  // The chunk may be another's by now, if the log had to forget what this snapshot needs; then the
  // caller finds that out. Until then nothing outside of the page may be stored to.
  for (std::uint32_t i = 0; i < std::min<std::uint32_t>(entry.words, kPageWords); ++i)
    store_bytes(page + 8 * (places[i].word % kPageWords), words[i].before, places[i].bytes);
}

bool Log::start() noexcept {
  chunks = static_cast<Chunks *>(reserve_shared(sizeof(Chunks)));
  // The room behind the last chunk: undo() may read what is no entry any more.
  memory = static_cast<std::byte *>(reserve_shared((kChunks + 1) * kChunkBytes));
  if (chunks == nullptr || memory == nullptr) return false;
  // Position 0 means "none".
  chunks->made = 1;
  chunks->of[0] = 0;
  chunks->end = 64;
  control->head.store(64, std::memory_order_relaxed);
  control->tail.store(64, std::memory_order_relaxed);
  return true;
}

Entry *Log::at(Position position) noexcept {
  const std::uint64_t number = position / kChunkBytes % kChunks;
  return reinterpret_cast<Entry *>(memory + chunks->of[number] * kChunkBytes +
                                   position % kChunkBytes);
}

Position Log::skip(Position position) noexcept {
  if (position % kChunkBytes != 0 && kChunkBytes - position % kChunkBytes < sizeof(Entry))
    return (position / kChunkBytes + 1) * kChunkBytes;
  return position;
}

// A chunk goes when all pins have its last stamp. must_give: the oldest goes in any case.
void Log::trim(bool must_give) noexcept {
  const std::uint64_t least = least_pin();
  std::uint64_t first = control->tail.load(std::memory_order_relaxed) / kChunkBytes;
  const std::uint64_t last = chunks->end / kChunkBytes;
  TMH_ASSERT(first <= last && last - first <= kChunks);
  for (; first < last; ++first) {
    const std::uint64_t stamp = chunks->last_stamp[first % kChunks];
    if (!must_give && (stamp > least || last - first < kChunksKept)) return;
    must_give = false;
    TMH_ASSERT(chunks->free_count < kChunks);
    // A task that pins looks at `trimmed` behind its pin; a reader of an entry looks behind it.
    control->trimmed.store(stamp, std::memory_order_seq_cst);
    control->tail.store((first + 1) * kChunkBytes, std::memory_order_seq_cst);
    chunks->free[chunks->free_count++] = chunks->of[first % kChunks];
  }
}

// From what the log uses. A holder of the lock that died between two stores of trim() or
// next_chunk() left a chunk in neither place, or in both; what it had reserved is free.
void Log::find_free_chunks() noexcept {
  bool is_used[kChunks] = {};
  const std::uint64_t last = (control->head.load(std::memory_order_relaxed) - 1) / kChunkBytes;
  for (std::uint64_t each = control->tail.load(std::memory_order_relaxed) / kChunkBytes;
       each <= last; ++each)
    is_used[chunks->of[each % kChunks]] = true;
  // Of one that dies here, the next one begins anew.
  chunks->made = std::min(chunks->made, kChunks);
  std::uint32_t count = 0;
  for (std::uint32_t i = 0; i < chunks->made; ++i)
    if (!is_used[i]) chunks->free[count++] = i;
  chunks->free_count = count;
}

void Log::next_chunk() noexcept {
  const std::uint64_t number = (chunks->end - 1) / kChunkBytes;
  const Position left = (number + 1) * kChunkBytes - chunks->end;
  if (left >= sizeof(Entry)) {
    Entry *const rest = at(chunks->end);
    *rest = {};
    rest->kind = EntryKind::kSkip;
    rest->stamp = 0;
    rest->size = static_cast<std::uint32_t>(left);
  }
  // What is being written carries the next stamp.
  chunks->last_stamp[number % kChunks] = control->clock.load(std::memory_order_relaxed) + 1;
  trim(false);
  if (chunks->free_count == 0 && chunks->made == kChunks) trim(true);
  const std::uint32_t chunk =
      chunks->free_count != 0 ? chunks->free[--chunks->free_count] : chunks->made++;
  TMH_ASSERT(chunk < kChunks && chunks->made <= kChunks);
  chunks->of[(number + 1) % kChunks] = chunk;
  chunks->end = (number + 1) * kChunkBytes;
}

Entry *Log::reserve(std::uint32_t bytes) noexcept {
  TMH_ASSERT(bytes % 8 == 0 && sizeof(Entry) <= bytes && bytes <= kChunkBytes / 2);
  if (((chunks->end - 1) / kChunkBytes + 1) * kChunkBytes - chunks->end < bytes) next_chunk();
  Entry *const entry = at(chunks->end);
  TMH_ASSERT(chunks->end % 8 == 0 && chunks->end >= control->head.load(std::memory_order_relaxed));
  chunks->end += bytes;
  return entry;
}

void Log::apply(Position begin, Position end) noexcept {
  for (Position position = skip(begin); position < end; position = skip(position)) {
    const Entry &entry = *at(position);
    TMH_ASSERT(position % 8 == 0 && entry.size >= sizeof(Entry) && position + entry.size <= end);
    TMH_ASSERT(entry.kind == EntryKind::kSkip || entry.page != kNoPage);
    std::atomic<std::uint64_t> &newest = page_states[entry.page].newest;
    // A dead committer may have ended with this page, where plain code may have stored since.
    if (entry.kind != EntryKind::kSkip &&
        (newest.load(std::memory_order_relaxed) & (~kBits | kBusy)) != position) {
      if (entry.kind == EntryKind::kWords) {
        newest.fetch_or(kBusy, std::memory_order_seq_cst);
        redo(entry, Memory::home(entry.page));
      }
      // The touched bit may be set at any time; the owner of a page may be what commits.
      std::uint64_t before = newest.load(std::memory_order_relaxed);
      while (!newest.compare_exchange_weak(before, position | (before & (kTouched | kHasOwner)),
                                           std::memory_order_release, std::memory_order_relaxed)) {
      }
    }
    position += entry.size;
  }
}

void Log::forget_all(std::uint64_t stamp) noexcept {
  TMH_ASSERT(is_settled() && stamp > control->clock.load(std::memory_order_relaxed));
  control->trimmed.store(stamp, std::memory_order_seq_cst);
  control->tail.store(chunks->end, std::memory_order_seq_cst);
  find_free_chunks();
  control->committed.store(stamp, std::memory_order_release);
  control->clock.store(stamp, std::memory_order_seq_cst);
}

void Log::publish(std::uint64_t stamp, bool is_commit) noexcept {
  const Position begin = control->head.load(std::memory_order_relaxed), end = chunks->end;
  TMH_ASSERT(begin < end && stamp == control->clock.load(std::memory_order_relaxed) + 1);
  control->publishing_begin = begin;
  control->publishing_end = end;
  // release: the repairer finds complete entries
  std::atomic_ref<std::uint64_t>(control->publishing)
      .store(stamp << 1 | (is_commit ? 1u : 0u), std::memory_order_release);
  apply(begin, end);
  control->head.store(end, std::memory_order_release);
  if (is_commit) control->committed.store(stamp, std::memory_order_release);
  control->clock.store(stamp, std::memory_order_seq_cst);
  std::atomic_ref<std::uint64_t>(control->publishing).store(0, std::memory_order_release);
}

void Log::repair() noexcept {
  const std::uint64_t publishing = control->publishing;
  // If the clock shows it, it was complete, and what was stored since must stay.
  TMH_ASSERT(publishing == 0 || control->publishing_begin <= control->publishing_end);
  if (publishing != 0 && control->clock.load(std::memory_order_relaxed) < publishing >> 1) {
    apply(control->publishing_begin, control->publishing_end);
    control->head.store(control->publishing_end, std::memory_order_release);
    if ((publishing & 1) != 0) control->committed.store(publishing >> 1, std::memory_order_release);
    control->clock.store(publishing >> 1, std::memory_order_seq_cst);
  }
  std::atomic_ref<std::uint64_t>(control->publishing).store(0, std::memory_order_release);
  // What it had reserved only, is taken back.
  chunks->end = control->head.load(std::memory_order_relaxed);
  find_free_chunks();
}

bool Log::is_settled() noexcept {
  return chunks->end == control->head.load(std::memory_order_relaxed);
}

}  // namespace tmh::itm::pages
