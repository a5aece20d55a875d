// levels/line/redo.cpp -- the redo rings as the log's writer sees them.
#include "levels/line/redo.h"

#include <algorithm>
#include <cstring>

#include "platform/failure.h"

namespace tmh::line {

namespace {

// The record at *at, behind what is to be skipped; false: none below head. *wrong: the bytes are no
// record.
bool next_record(const LineContextV1 &context, std::uint64_t head, std::uint64_t *at,
                 RedoRecord *record, bool *wrong) noexcept {
  while (*at < head) {
    const std::uint64_t offset = *at % kRedoBytes;
    std::memcpy(&record->header, context.redo + offset, sizeof record->header);
    const std::uint64_t bytes = record->header.bytes,
                        room = std::min(kRedoBytes - offset, head - *at);
    if (bytes < sizeof(RedoHeader) || bytes % 8 != 0 || bytes > room) {
      *wrong = true;
      return false;
    }
    record->deltas = context.redo + offset + sizeof(RedoHeader);
    if (record->header.stamp != 0) return true;
    *at += bytes;
  }
  return false;
}

}  // namespace

bool has_redo_room(const LineContextV1 &context, std::uint64_t bytes, std::uint64_t *at) noexcept {
  // relaxed: the owner's. acquire: pairs with forget_redo(); who read there has ended.
  const std::uint64_t head = context.redo_head.load(std::memory_order_relaxed);
  const std::uint64_t tail = context.redo_tail.load(std::memory_order_acquire);
  const std::uint64_t rest = kRedoBytes - head % kRedoBytes;
  // Room for a header that skips the rest must be there, too: behind the record, for the next one.
  *at = rest >= bytes + sizeof(RedoHeader) || rest == bytes ? head : head + rest;
  return *at + bytes - tail <= kRedoBytes;
}

void settle_redo(LineContextV1 &context) noexcept {
  // acquire: pairs with COMMITTED, which publishes redo_next and the record
  if (state_of(context.status.load(std::memory_order_acquire)) != State::kCommitted) return;
  const std::uint64_t next = context.redo_next.load(std::memory_order_relaxed);
  if (next > context.redo_head.load(std::memory_order_relaxed))
    context.redo_head.store(next, std::memory_order_release);  // as the owner does
}

Errc gather_redo(const LineMemory &memory, std::uint64_t after, std::uint64_t up_to,
                 std::vector<RedoRecord> *records) {
  const auto first = static_cast<std::ptrdiff_t>(records->size());
  for (std::uint32_t i = 0; i < memory.contexts_high(); ++i) {
    const LineContextV1 &context = memory.context(i);
    // acquire: pairs with the release behind the commit point; the records below it are complete
    const std::uint64_t head = context.redo_head.load(std::memory_order_acquire);
    // Relaxed: under the log's lock.
    std::uint64_t at = context.redo_tail.load(std::memory_order_relaxed);
    RedoRecord record;
    bool wrong = head - at > kRedoBytes;
    while (!wrong && next_record(context, head, &at, &record, &wrong) &&
           record.header.stamp <= up_to) {
      if (record.header.stamp > after) records->push_back(record);
      at += record.header.bytes;
    }
    if (wrong)
      return platform::fail(Errc::kCorrupt, "tmh.contexts holds no redo record where one must be");
  }
  const auto is_before = [](const RedoRecord &a, const RedoRecord &b) {
    return a.header.stamp < b.header.stamp;
  };
  // Of one thread they are.
  if (!std::is_sorted(records->begin() + first, records->end(), is_before))
    std::sort(records->begin() + first, records->end(), is_before);
  return Errc::kOk;
}

void forget_redo(LineMemory &memory, std::uint64_t stamp) noexcept {
  for (std::uint32_t i = 0; i < memory.contexts_high(); ++i) {
    LineContextV1 &context = memory.context(i);
    // As in gather_redo().
    const std::uint64_t head = context.redo_head.load(std::memory_order_acquire);
    const std::uint64_t tail = context.redo_tail.load(std::memory_order_relaxed);
    std::uint64_t at = tail;
    RedoRecord record;
    bool wrong = head - at > kRedoBytes;
    while (!wrong && next_record(context, head, &at, &record, &wrong) &&
           record.header.stamp <= stamp)
      at += record.header.bytes;
    // Pairs with has_redo_room().
    if (at != tail) context.redo_tail.store(at, std::memory_order_release);
  }
}

}  // namespace tmh::line
