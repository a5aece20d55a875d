// levels/line/line_memory.cpp -- opening, creating and removing level 1's files; taking contexts.
#include "levels/line/line_memory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "platform/failure.h"
#include "platform/process.h"

namespace tmh::line {

using platform::fail;
using platform::fail_errno;
using Blocks = platform::GrowingFile::Blocks;

namespace {

constexpr const char *kStateName = "tmh.line.state";
constexpr const char *kContextsName = "tmh.contexts";
constexpr std::uint64_t kContextsBytes = kContextsMax * sizeof(LineContextV1);

std::string words_name(std::uint32_t segment) { return "tmh.lines." + std::to_string(segment); }

}  // namespace

void LineMemory::remove_files(const std::string &folder) noexcept {
  unlink((folder + "/" + kStateName).c_str());
  unlink((folder + "/" + kContextsName).c_str());
  for (std::uint32_t i = 0; i < storage::kSegmentsMax; ++i) unlink((folder + "/" + words_name(i)).c_str());
}

Errc LineMemory::open(const std::string &folder, bool *found) noexcept {
  folder_ = folder;
  segments_ = std::make_unique<LineSegment[]>(storage::kSegmentsMax);
  segments_high_.store(0, std::memory_order_relaxed);
  const platform::BootId boot = platform::this_boot();
  *found = false;
  if (::access(path(kStateName).c_str(), F_OK) == 0) {
    std::string bytes;
    if (const Errc error = platform::read_file(path(kStateName), 1u << 20, &bytes); error != Errc::kOk) return error;
    alignas(LineStateV1) unsigned char head[sizeof(LineStateV1)] = {};
    std::memcpy(head, bytes.data(), std::min(bytes.size(), sizeof head));
    const auto *state = reinterpret_cast<const LineStateV1 *>(head);
    *found = state->magic == kLineStateMagic && std::memcmp(state->boot_id, boot.text, sizeof boot.text) == 0;
    if (*found && (state->version != kLineStateVersion || state->state_bytes != sizeof(LineStateV1) ||
                   bytes.size() < sizeof(LineStateV1)))
      return fail(Errc::kForeignVersion,
                  path(kStateName) + " is of another version that is, or was, in use since this boot");
  } else if (errno != ENOENT) {
    return fail_errno(Errc::kIo, path(kStateName));
  }
  if (!*found) remove_files(folder_);
  if (const Errc error = state_file_.open(path(kStateName), sizeof(LineStateV1), 4096, Blocks::kAllocated);
      error != Errc::kOk)
    return error;
  if (const Errc error = contexts_file_.open(path(kContextsName), kContextsBytes, kContextsBytes, Blocks::kSparse);
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

void LineMemory::close(bool remove) noexcept {
  segments_high_.store(0, std::memory_order_relaxed);  // relaxed: no thread of this process uses it any more
  segments_.reset();
  state_file_.close();
  contexts_file_.close();
  state_ = nullptr;
  contexts_ = nullptr;
  if (remove) remove_files(folder_);
}

Errc LineMemory::add_segment(const SegmentPlace &place) noexcept {
  if (place.number >= storage::kSegmentsMax) return fail(Errc::kTooManySegments, std::to_string(place.number));
  LineSegment &segment = segments_[place.number];
  const std::uint64_t words_bytes = place.max_bytes / kLineBytes * sizeof(LineWord);
  if (const Errc error =
          segment.words_file.open(path(words_name(place.number)), words_bytes, words_bytes, Blocks::kSparse);
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
  segment.bytes.store(place.bytes, std::memory_order_release);  // pairs with the acquire in find()
  if (place.number >= segments_high_.load(std::memory_order_relaxed))
    segments_high_.store(place.number + 1, std::memory_order_release);  // pairs with find()
  return Errc::kOk;
}

void LineMemory::remove_segment(std::uint32_t number) noexcept {
  LineSegment &segment = segments_[number];
  segment.bytes.store(0, std::memory_order_release);
  segment.words_file.close();
  segment.chunks.reset();
}

void LineMemory::grow_segment(std::uint32_t number, std::uint64_t bytes) noexcept {
  LineSegment &segment = segments_[number];
  // The chunk that the old end cuts has blocks for its first part only.
  const std::uint64_t chunk = segment.bytes.load(std::memory_order_relaxed) / kChunkBytes;
  segment.bytes.store(bytes, std::memory_order_release);  // pairs with find()
  segment.chunks.get()[chunk / 64].fetch_and(~(1ull << (chunk % 64)), std::memory_order_relaxed);
}

LineSegment *LineMemory::find(std::uintptr_t address) const noexcept {
  const std::uint32_t high = segments_high_.load(std::memory_order_acquire);  // pairs with add_segment()
  for (std::uint32_t i = 0; i < high; ++i) {
    const std::uint64_t bytes = segments_[i].bytes.load(std::memory_order_acquire);  // pairs with add_segment()
    if (bytes != 0 && address - segments_[i].view < bytes) return &segments_[i];
  }
  return nullptr;
}

Errc LineMemory::take_context(std::uint32_t slot, std::uint64_t incarnation, std::uint32_t *number) noexcept {
  for (std::uint32_t i = 0; i < kContextsMax; ++i) {
    LineContextV1 &context = contexts_[i];
    Owner free{};
    if (context.owner.load(std::memory_order_relaxed) != free) continue;
    // A page of a hole may be loaded from, not stored to, before it has its blocks.
    const std::uint64_t begin = i * sizeof(LineContextV1);
    if (const Errc error = platform::allocate_blocks(
            contexts_file_.fd(), begin, offsetof(LineContextV1, writes) + kWritesAtFirst * sizeof(LineWrite));
        error != Errc::kOk)
      return fail(error, path(kContextsName));
    // Before the owner: whoever looks for the contexts of the dead must come by.
    std::uint64_t high = state_->contexts_high.load(std::memory_order_relaxed);
    while (high < i + 1 && !state_->contexts_high.compare_exchange_weak(high, i + 1, std::memory_order_release,
                                                                        std::memory_order_relaxed)) {
    }
    // acq_rel: acquire pairs with the release of give_back() and of recovery; release: contexts_high is seen with the owner
    if (!context.owner.compare_exchange_strong(free, owner_of(slot, incarnation), std::memory_order_acq_rel,
                                               std::memory_order_relaxed))
      continue;
    // relaxed: its owner alone counts
    for (std::size_t count = 0; count < kLineCountsMax; ++count)
      context.counts_before[count] = context.counts[count].load(std::memory_order_relaxed);
    *number = i;
    return Errc::kOk;
  }
  return fail(Errc::kTooManyParticipants, std::to_string(kContextsMax) + " threads have a level-1 context");
}

void LineMemory::count_in(Counters *out) const noexcept {
  for (std::uint32_t i = 0; i < contexts_high(); ++i) {
    const LineContextV1 &context = contexts_[i];
    add_line_counts([&context](LineCount which) { return context.count(which); }, out);
  }
}

void LineMemory::give_back(std::uint32_t number) noexcept {
  contexts_[number].owner.store(Owner{}, std::memory_order_release);  // pairs with take_context()
}

Errc LineMemory::allocate_writes(std::uint32_t number, std::uint32_t count) noexcept {
  const std::uint64_t begin = number * sizeof(LineContextV1) + offsetof(LineContextV1, writes);
  return platform::allocate_blocks(contexts_file_.fd(), begin, count * sizeof(LineWrite));
}

Errc LineMemory::allocate_undo(std::uint32_t number) noexcept {
  const std::uint64_t begin = number * sizeof(LineContextV1) + offsetof(LineContextV1, undo);
  return platform::allocate_blocks(contexts_file_.fd(), begin, sizeof(LineContextV1::undo));
}

Errc LineMemory::allocate_redo(std::uint32_t number) noexcept {
  const std::uint64_t begin = number * sizeof(LineContextV1) + offsetof(LineContextV1, redo);
  return platform::allocate_blocks(contexts_file_.fd(), begin, sizeof(LineContextV1::redo));
}

Errc LineMemory::allocate_chunk(LineSegment &segment, std::uint64_t chunk) noexcept {
  const std::uint64_t begin = chunk * kChunkBytes;
  // acquire: pairs with grow_segment(); the file is that long
  const std::uint64_t end = std::min(begin + kChunkBytes, segment.bytes.load(std::memory_order_acquire));
  if (begin >= end) return Errc::kBadArgument;
  if (const Errc error = segment.file->allocate_blocks(begin, end - begin); error != Errc::kOk) return error;
  if (const Errc error = platform::allocate_blocks(segment.words_file.fd(), begin / kLineBytes * sizeof(LineWord),
                                                   kChunkBytes / kLineBytes * sizeof(LineWord));
      error != Errc::kOk)
    return error;
  segment.chunks.get()[chunk / 64].fetch_or(1ull << (chunk % 64), std::memory_order_relaxed);  // says only: asked
  return Errc::kOk;
}

}  // namespace tmh::line
