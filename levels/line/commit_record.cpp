// levels/line/commit_record.cpp -- planning a record, and making its bytes.
#include "levels/line/commit_record.h"

#include <cstring>

#include "levels/line/rtm.h"
#include "platform/assert.h"
#include "platform/bit_count.h"
#include "platform/process.h"
#include "storage/log/log_format.h"

namespace tmh::line {

namespace {

// Bit i: byte i has a bit in `mask`.
std::uint8_t words_of(std::uint64_t mask) noexcept {
  std::uint8_t words = 0;
  for (unsigned i = 0; i < 8; ++i)
    words |= static_cast<std::uint8_t>((mask >> (8 * i) & 0xff) != 0 ? 1u << i : 0u);
  return words;
}

unsigned line_in_page(Where at) noexcept {
  return static_cast<unsigned>(offset_of(at) % kPageBytes / kLineBytes);
}

// The most that the log adds to payloads: a record's header, and for what is cut into parts one
// each. A part is full when a page's difference does not fit, so each but the last is at least
// half full.
std::uint64_t log_bytes_of(std::uint64_t payload_bytes) noexcept {
  const std::uint64_t parts = payload_bytes / (storage::kRecordBytesMax / 2) + 1;
  return payload_bytes + parts * sizeof(storage::RecordHeaderV1);
}

// How many of order[first ..) are of the same page as the first.
std::size_t lines_of_page(const WriteSet &writes, std::span<const std::uint32_t> order,
                          std::size_t first) noexcept {
  TMH_ASSERT(first < order.size());
  const storage::PageId page = page_of(writes.entry(order[first]).at);
  std::size_t end = first + 1;
  while (end < order.size() && page_of(writes.entry(order[end]).at) == page) ++end;
  return end - first;
}

// The line's 8-byte words that are written, as home will have them. Returns the end.
std::byte *put_words(const LineWrite &entry, std::byte *home, std::byte *at) noexcept {
  for (unsigned word = 0; word < 8; ++word) {
    const std::uint64_t byte_mask = entry.mask >> (8 * word) & 0xff;
    if (byte_mask == 0) continue;
    std::uint64_t value = entry.data[word];
    if (byte_mask != 0xff) {
      const std::uint64_t bits = spread_byte_mask(byte_mask);
      const std::atomic_ref<std::uint64_t> now(*reinterpret_cast<std::uint64_t *>(home + 8 * word));
      // Relaxed: the line is locked.
      value = (now.load(std::memory_order_relaxed) & ~bits) | (value & bits);
    }
    std::memcpy(at, &value, sizeof value);
    at += sizeof value;
  }
  return at;
}

}  // namespace

AbortCause CommitRecord::allocate() noexcept {
  if (is_allocated_) return AbortCause::kNone;
  error_ = memory_.allocate_redo(number_);
  if (error_ != Errc::kOk) return AbortCause::kNoSpace;
  is_allocated_ = true;
  return AbortCause::kNone;
}

// The record's lines, in order, its size, and what of the log it takes.
AbortCause CommitRecord::measure(WriteSet &writes) noexcept {
  TMH_ASSERT(is_on() && context_ != nullptr);
  TMH_ASSERT(!writes.empty());
  order_ = writes.by_place();
  std::uint64_t payload = 0;
  for (std::size_t i = 0; i < order_.size();) {
    error_ = log_->promise(page_of(writes.entry(order_[i]).at));
    if (error_ != Errc::kOk) return AbortCause::kNoSpace;
    const std::size_t lines = lines_of_page(writes, order_, i);
    payload += sizeof(storage::PageDeltaV1) + storage::round_up_8(lines);
    for (const std::size_t end = i + lines; i < end; ++i)
      payload += 8 * std::uint64_t{platform::bit_count(words_of(writes.entry(order_[i]).mask))};
  }
  bytes_ = sizeof(RedoHeader) + payload;
  reserved_ = log_bytes_of(payload);
  TMH_ASSERT(bytes_ % 8 == 0);
  return bytes_ > kRedoRecordBytesMax ? AbortCause::kCapacity : AbortCause::kNone;
}

AbortCause CommitRecord::plan(WriteSet &writes) noexcept {
  if (const AbortCause cause = allocate(); cause != AbortCause::kNone) return cause;
  if (const AbortCause cause = measure(writes); cause != AbortCause::kNone) return cause;
  if (const AbortCause cause = await_room(bytes_); cause != AbortCause::kNone) return cause;
  ask_for_writing();
  give_room_back();
  error_ = log_->reserve(reserved_);
  if (error_ != Errc::kOk) return AbortCause::kNoSpace;
  // For the recovery that finds this thread dead.
  context_->redo_reserved.store(reserved_, std::memory_order_relaxed);
  return AbortCause::kNone;
}

// ---- In RTM ------------------------------------------------------------------------------------

bool CommitRecord::prepare_in_rtm() noexcept {
  TMH_ASSERT(is_on() && context_ != nullptr);
  if (allocate() != AbortCause::kNone || log_->look() != Errc::kOk) return false;
  time_of_rtm_ns_ = now_ns();
  make_next_writable();
  // Relaxed, here and below: this thread's, and recovery's of a dead one.
  const std::uint64_t kept = context_->redo_reserved.load(std::memory_order_relaxed);
  if (kept >= kRoomOfRtmBytes * 3 / 4) return true;
  if (log_->reserve(kRoomOfRtmBytes - kept) != Errc::kOk) return false;
  context_->redo_reserved.store(kRoomOfRtmBytes, std::memory_order_relaxed);
  return true;
}

void CommitRecord::make_next_writable() noexcept {
  const std::uint64_t page = context_->redo_head.load(std::memory_order_relaxed) / kPageBytes;
  if (page == writable_page_) return;
  for (std::uint64_t i = page; i < page + 2; ++i)
    make_writable(*reinterpret_cast<LineWord *>(context_->redo + i * kPageBytes % kRedoBytes));
  writable_page_ = page;
}

bool CommitRecord::plan_in_rtm(WriteSet &writes) noexcept {
  if (measure(writes) != AbortCause::kNone || !has_redo_room(*context_, bytes_, &at_)) return false;
  const std::uint64_t kept = context_->redo_reserved.load(std::memory_order_relaxed);
  if (kept < reserved_) return false;
  context_->redo_reserved.store(kept - reserved_, std::memory_order_relaxed);
  return true;
}

void CommitRecord::show_in_rtm(std::uint64_t stamp) noexcept {
  header()->stamp = stamp;
  show();
}

void CommitRecord::give_room_back() noexcept {
  TMH_ASSERT(is_on() && context_ != nullptr);
  const std::uint64_t kept = context_->redo_reserved.load(std::memory_order_relaxed);
  if (kept == 0) return;
  // Before: as forget().
  context_->redo_reserved.store(0, std::memory_order_relaxed);
  log_->give_back(kept);
}

// ------------------------------------------------------------------------------------------------

AbortCause CommitRecord::await_room(std::uint64_t record_bytes) noexcept {
  if (has_redo_room(*context_, record_bytes, &at_)) return AbortCause::kNone;
  error_ = log_->drain();
  if (error_ != Errc::kOk) return AbortCause::kNoSpace;
  if (has_redo_room(*context_, record_bytes, &at_)) return AbortCause::kNone;
  log_->free_room();  // the log's writer is between telling and freeing, or has died there
  return has_redo_room(*context_, record_bytes, &at_) ? AbortCause::kNone : AbortCause::kCapacity;
}

// Where the ring is full the committer waits for the disk.
void CommitRecord::ask_for_writing() noexcept {
  // Relaxed: a hint. The tail is not past the head.
  const std::uint64_t tail = context_->redo_tail.load(std::memory_order_relaxed);
  const std::uint64_t used = context_->redo_head.load(std::memory_order_relaxed) - tail;
  const bool is_filling = used > kRedoBytes / 2;
  if (is_filling && !has_asked_) log_->write_soon();
  has_asked_ = is_filling;
}

std::uint64_t CommitRecord::now_ns() noexcept { return platform::wall_clock_ns(); }

void CommitRecord::encode(const WriteSet &writes, std::uint64_t time_ns) noexcept {
  TMH_ASSERT(order_.size() == writes.size());
  TMH_ASSERT(bytes_ > sizeof(RedoHeader) && bytes_ <= kRedoRecordBytesMax);
  // Relaxed: this thread's.
  const std::uint64_t head = context_->redo_head.load(std::memory_order_relaxed);
  if (at_ != head) {
    const RedoHeader skip{at_ - head, 0, 0, 0};
    std::memcpy(context_->redo + head % kRedoBytes, &skip, sizeof skip);
  }
  std::byte *const record = context_->redo + at_ % kRedoBytes;
  const RedoHeader header{bytes_, 0, time_ns, reserved_};
  std::memcpy(record, &header, sizeof header);
  std::byte *at = record + sizeof header;
  for (std::size_t first = 0; first < order_.size();) {
    const std::size_t end = first + lines_of_page(writes, order_, first);
    storage::PageDeltaV1 delta{static_cast<std::uint64_t>(page_of(writes.entry(order_[first]).at)),
                               0};
    std::uint8_t masks[storage::kLinesPerPage] = {};
    for (std::size_t i = first; i < end; ++i) {
      const LineWrite &entry = writes.entry(order_[i]);
      delta.lines |= storage::LineMask{1} << line_in_page(entry.at);
      masks[i - first] = words_of(entry.mask);
    }
    std::memcpy(at, &delta, sizeof delta);
    at += sizeof delta;
    const std::uint64_t masks_bytes = storage::round_up_8(end - first);
    std::memcpy(at, masks, masks_bytes);
    at += masks_bytes;
    for (; first < end; ++first)
      at = put_words(writes.entry(order_[first]), writes.target(order_[first]).home, at);
  }
  TMH_ASSERT(at == record + bytes_);
  // Relaxed: published by COMMITTED.
  context_->redo_next.store(at_ + bytes_, std::memory_order_relaxed);
}

}  // namespace tmh::line
