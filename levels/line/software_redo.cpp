// levels/line/software_redo.cpp -- durable domains: a commit's record in the context's redo ring.
// Shape:     everything that may wait or fail comes before the first line is locked (plan_redo);
//            the bytes are made while all lines are locked (encode_redo), because a word that is
//            written in part takes its other bytes from home.
#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "levels/line/software.h"
#include "levels/storage/log_format.h"
#include "platform/process.h"

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

// Upper bound of what the log adds to payloads: a record's header, and for what is cut into parts
// one each. A part is full when a page's difference does not fit, so each but the last is at least
// half full.
std::uint64_t log_bytes_of(std::uint64_t payload_bytes) noexcept {
  const std::uint64_t parts = payload_bytes / (storage::kRecordBytesMax / 2) + 1;
  return payload_bytes + parts * sizeof(storage::RecordHeaderV1);
}

}  // namespace

// The record's size, and room for it in the ring and in the log. REQUIRES: no line is locked.
AbortCause SoftwareThread::plan_redo() noexcept {
  if (!redo_allocated_) {
    error_ = memory_.allocate_redo(number_);
    if (error_ != Errc::kOk) return AbortCause::kNoSpace;
    redo_allocated_ = true;
  }
  by_place_.resize(writes_.size());
  std::iota(by_place_.begin(), by_place_.end(), 0u);
  const auto is_before = [this](std::uint32_t a, std::uint32_t b) {
    return context_->writes[a].at < context_->writes[b].at;
  };
  if (!std::is_sorted(by_place_.begin(), by_place_.end(), is_before))
    std::sort(by_place_.begin(), by_place_.end(), is_before);
  std::uint64_t payload = 0;
  for (std::size_t i = 0; i < by_place_.size();) {
    const storage::PageId page = page_of(context_->writes[by_place_[i]].at);
    error_ = redo_log_->promise(page);
    if (error_ != Errc::kOk) return AbortCause::kNoSpace;
    std::uint64_t lines = 0;
    for (; i < by_place_.size() && page_of(context_->writes[by_place_[i]].at) == page; ++i, ++lines)
      payload += 8 * static_cast<std::uint64_t>(
                         std::popcount(words_of(context_->writes[by_place_[i]].mask)));
    payload += sizeof(storage::PageDeltaV1) + storage::round_up_8(lines);
  }
  redo_bytes_ = sizeof(RedoHeader) + payload;
  if (redo_bytes_ > kRedoRecordBytesMax) return AbortCause::kCapacity;
  if (const AbortCause cause = await_redo_room(redo_bytes_); cause != AbortCause::kNone)
    return cause;
  redo_reserved_ = log_bytes_of(payload);
  error_ = redo_log_->reserve(redo_reserved_);
  if (error_ != Errc::kOk) return AbortCause::kNoSpace;
  // For whoever finds this thread dead.
  context_->redo_reserved.store(redo_reserved_, std::memory_order_relaxed);
  return AbortCause::kNone;
}

AbortCause SoftwareThread::await_redo_room(std::uint64_t record_bytes) noexcept {
  if (has_redo_room(*context_, record_bytes, &redo_at_)) return AbortCause::kNone;
  error_ = redo_log_->drain();
  if (error_ != Errc::kOk) return AbortCause::kNoSpace;
  if (has_redo_room(*context_, record_bytes, &redo_at_)) return AbortCause::kNone;
  redo_log_->free_room();  // the log's writer is between telling and freeing, or has died there
  return has_redo_room(*context_, record_bytes, &redo_at_) ? AbortCause::kNone
                                                           : AbortCause::kCapacity;
}

// REQUIRES: all written lines are locked by this context, or status is not yet PENDING and nobody
// else can store to them.
void SoftwareThread::encode_redo() noexcept {
  // Relaxed: this thread's.
  const std::uint64_t head = context_->redo_head.load(std::memory_order_relaxed);
  if (redo_at_ != head) {
    const RedoHeader skip{redo_at_ - head, 0, 0, 0};
    std::memcpy(context_->redo + head % kRedoBytes, &skip, sizeof skip);
  }
  std::byte *const record = context_->redo + redo_at_ % kRedoBytes;
  const RedoHeader header{redo_bytes_, 0, platform::wall_clock_ns(), redo_reserved_};
  std::memcpy(record, &header, sizeof header);
  std::byte *at = record + sizeof header;
  for (std::size_t i = 0; i < by_place_.size();) {
    const storage::PageId page = page_of(context_->writes[by_place_[i]].at);
    const std::size_t first = i;
    storage::PageDeltaV1 delta{static_cast<std::uint64_t>(page), 0};
    std::uint8_t masks[storage::kLinesPerPage] = {};
    for (; i < by_place_.size() && page_of(context_->writes[by_place_[i]].at) == page; ++i) {
      const LineWrite &entry = context_->writes[by_place_[i]];
      delta.lines |= storage::LineMask{1} << line_in_page(entry.at);
      masks[i - first] = words_of(entry.mask);
    }
    std::memcpy(at, &delta, sizeof delta);
    at += sizeof delta;
    const std::uint64_t masks_bytes = storage::round_up_8(i - first);
    std::memcpy(at, masks, masks_bytes);
    at += masks_bytes;
    for (std::size_t of_page = first; of_page < i; ++of_page) {
      const LineWrite &entry = context_->writes[by_place_[of_page]];
      std::byte *const home = writes_[by_place_[of_page]].home;
      for (unsigned word = 0; word < 8; ++word) {
        const std::uint64_t byte_mask = entry.mask >> (8 * word) & 0xff;
        if (byte_mask == 0) continue;
        std::uint64_t value = entry.data[word];
        if (byte_mask != 0xff) {
          const std::uint64_t bits = spread_byte_mask(byte_mask);
          const std::atomic_ref<std::uint64_t> now(
              *reinterpret_cast<std::uint64_t *>(home + 8 * word));
          // Relaxed: the line is locked.
          value = (now.load(std::memory_order_relaxed) & ~bits) | (value & bits);
        }
        std::memcpy(at, &value, sizeof value);
        at += sizeof value;
      }
    }
  }
  // Relaxed: published by COMMITTED.
  context_->redo_next.store(redo_at_ + redo_bytes_, std::memory_order_relaxed);
}

}  // namespace tmh::line
