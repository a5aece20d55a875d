// levels/line/software_access.cpp -- the long way of a load or store: own writes, other segments, the capacity model, lines that are locked,
// in U or newer than the snapshot.
#include <algorithm>
#include <cassert>
#include <cstring>

#include "levels/line/software.h"
#include "platform/process.h"

namespace tmh::line {

namespace {

// Little-endian: the value's low bytes are the word's.
static_assert(std::endian::native == std::endian::little);

template <class Unsigned>
std::uint64_t load_word(const std::byte *at) noexcept {
  // acquire: pairs with the release of line-write-back (detail::line_load() says why)
  auto *word = reinterpret_cast<Unsigned *>(const_cast<std::byte *>(at));
  return std::atomic_ref<Unsigned>(*word).load(std::memory_order_acquire);
}

std::uint64_t load_bytes(const std::byte *at, std::uint32_t bytes) noexcept {
  switch (bytes) {
    case 1:
      return load_word<std::uint8_t>(at);
    case 2:
      return load_word<std::uint16_t>(at);
    case 4:
      return load_word<std::uint32_t>(at);
    default:
      return load_word<std::uint64_t>(at);
  }
}

// Memory that only this thread uses. By cases: a copy of a length that the compiler does not know is a call.
std::uint64_t own_bytes(const std::byte *at, std::uint32_t bytes) noexcept {
  std::uint64_t value = 0;
  switch (bytes) {
    case 1:
      std::memcpy(&value, at, 1);
      break;
    case 2:
      std::memcpy(&value, at, 2);
      break;
    case 4:
      std::memcpy(&value, at, 4);
      break;
    default:
      std::memcpy(&value, at, 8);
  }
  return value;
}

void store_own_bytes(std::byte *at, std::uint64_t value, std::uint32_t bytes) noexcept {
  switch (bytes) {
    case 1:
      std::memcpy(at, &value, 1);
      break;
    case 2:
      std::memcpy(at, &value, 2);
      break;
    case 4:
      std::memcpy(at, &value, 4);
      break;
    default:
      std::memcpy(at, &value, 8);
  }
}

// Bytes of a line that an access means, as LineWrite::mask has them.
std::uint64_t mask_of(std::uint64_t offset, std::uint32_t bytes) noexcept {
  return ((1ull << bytes) - 1) << (offset % kLineBytes);
}

std::byte *bytes_in(LineWrite &entry, std::uint64_t offset) noexcept {
  return reinterpret_cast<std::byte *>(entry.data) + offset % kLineBytes;
}

}  // namespace

// Not of the segment used last. Null: plain memory.
LineSegment *SoftwareThread::use_segment_of(std::uintptr_t address) noexcept {
  LineSegment *segment = memory_.find(address);
  if (segment != nullptr) use(*segment, address - segment->view);
  return segment;
}

// From now on accesses near the offset take the short way.
void SoftwareThread::use(LineSegment &segment, std::uint64_t offset) noexcept {
  segment_ = &segment;
  mappings_seen_ = segment.mappings.load(std::memory_order_relaxed);
  std::uint64_t end = 0;
  memory_.loadable_around(segment, offset, &window_begin_, &end);
  window_bytes_ = end - window_begin_;
  show_window();
}

// REQUIRES: loads take blocks. Throws when there is none.
void SoftwareThread::make_loadable(LineSegment &segment, std::uint64_t offset) {
  if (memory_.allocate_home(segment, offset) != Errc::kOk) fail(AbortCause::kNoSpace);
  if (offset - window_begin_ >= window_bytes_) use(segment, offset);
}

std::uint64_t SoftwareThread::load_long(std::uintptr_t address, std::uint32_t size) {
  LineSegment *const segment = segment_of_address(address);
  if (segment == nullptr) return load_bytes(reinterpret_cast<const std::byte *>(address), size);
  const std::uint64_t offset = address - segment->view;
  if (segment->loads_take_blocks) make_loadable(*segment, offset);
  LineWord *const word = segment->words + offset / kLineBytes;
  if (maybe_written(offset)) {
    if (LineWrite *const entry = entry_of(word); entry != nullptr) return load_over(*segment, offset, size, *entry);
  }
  if (is_limited_ && read_lines_.find(reinterpret_cast<std::uintptr_t>(word)) == LineTable::kNone) {
    read_lines_.insert(reinterpret_cast<std::uintptr_t>(word), 0);
    check(use_->read(model_now_ns()));
  }
  return read_home(*segment, offset, size);
}

// The line is in the redo log: its written bytes come from there.
std::uint64_t SoftwareThread::load_over(LineSegment &segment, std::uint64_t offset, std::uint32_t size,
                                        LineWrite &entry) {
  const std::uint64_t wanted = mask_of(offset, size);
  if ((entry.mask & wanted) == wanted) [[likely]] {
    return own_bytes(bytes_in(entry, offset), size);
  }
  std::uint64_t value = read_home(segment, offset, size);
  for (std::uint32_t i = 0; i < size; ++i) {
    if ((entry.mask >> (offset % kLineBytes + i) & 1) == 0) continue;
    const auto byte = static_cast<std::uint64_t>(bytes_in(entry, offset)[i]);
    value = (value & ~(0xffull << (8 * i))) | byte << (8 * i);
  }
  return value;
}

std::uint64_t SoftwareThread::read_home(LineSegment &segment, std::uint64_t offset, std::uint32_t size) {
  const LineWord &word = segment.words[offset / kLineBytes];
  for (;;) {
    // As detail::line_load(), which has the reasons for these orders.
    const std::uint64_t seen = word.load(std::memory_order_acquire);
    if (seen > access_->rv) {
      settle(segment, offset, seen);
      continue;
    }
    const std::uint64_t value = load_bytes(segment.home + offset, size);
    if (word.load(std::memory_order_relaxed) != seen) continue;
    note_read(&word, seen);
    return value;
  }
}

void SoftwareThread::note_read(const LineWord *word, std::uint64_t seen) {
  if (access_->log_top->word == word) return;
  if (access_->log_top == access_->log_end) {
    const auto used = static_cast<std::size_t>(access_->log_top - log_.data());
    log_.resize(2 * log_.size());
    access_->log_top = log_.data() + used;
    access_->log_end = log_.data() + log_.size() - 1;
  }
  *++access_->log_top = {word, seen};
  access_->line = detail::kNoLine;
}

// Does something about a line that cannot be read at this snapshot as it is. Throws when nothing helps.
void SoftwareThread::settle(LineSegment &segment, std::uint64_t offset, std::uint64_t seen) {
  if (is_locked(seen)) {
    meet_locked(segment.words[offset / kLineBytes], seen);
  } else if (is_upper(seen)) {
    meet_upper(page_of(where(segment.number, offset)));
  } else if (!extend()) {
    fail(AbortCause::kValidation);
  }
}

void SoftwareThread::meet_upper(storage::PageId page) {
  const UpperAnswer answer = upper_.ask(page, attempt_);
  if (answer == UpperAnswer::kGranted) return;
  refuse(answer);
  throw detail::LineAbort{};
}

void SoftwareThread::refuse(UpperAnswer answer) noexcept {
  doom(AbortCause::kCrossLevel);
  if (answer == UpperAnswer::kBusy) status_ = AbortStatus{kStatusConflict | kStatusRetry};
}

void SoftwareThread::meet_locked(const LineWord &word, std::uint64_t seen) {
  if (spin_until_changed(word, seen, kReadSpinRounds)) return;
  if (decide(word, seen) == Met::kFailSelf || !wait_until_changed(word, seen)) {
    wait_at_begin(word, seen);
    fail(AbortCause::kConflictSelf);
  }
}

void SoftwareThread::store_long(std::uintptr_t address, std::uint64_t value, std::uint32_t size) {
  LineSegment *const segment = segment_of_address(address);
  if (segment == nullptr) return store_own_bytes(reinterpret_cast<std::byte *>(address), value, size);
  if (is_query_) fail(AbortCause::kQueryWrote);
  const std::uint64_t offset = address - segment->view;
  LineWrite &entry = write_entry(*segment, offset);
  store_own_bytes(bytes_in(entry, offset), value, size);
  entry.mask |= mask_of(offset, size);
}

LineWrite &SoftwareThread::write_entry(LineSegment &segment, std::uint64_t offset) {
  LineWord *const word = segment.words + offset / kLineBytes;
  if (maybe_written(offset)) {
    if (LineWrite *const known = entry_of(word); known != nullptr) return *known;
  }
  const auto index = static_cast<std::uint32_t>(writes_.size());
  if (index == writes_allocated_) grow_writes();
  if (memory_.allocate_home(segment, offset) != Errc::kOk) fail(AbortCause::kNoSpace);
  if (is_limited_) check(use_->write((segment.view + offset) / kLineBytes, model_now_ns()));
  // A line in U is asked for now, not at the commit, where it would cost the whole attempt. relaxed: line-lock looks again.
  while (is_upper(word->load(std::memory_order_relaxed))) meet_upper(page_of(where(segment.number, offset)));
  const std::uint64_t line_offset = offset - offset % kLineBytes;
  LineWrite &entry = context_->writes[index];
  entry.at = where(segment.number, line_offset);
  entry.mask = 0;
  access_->written |= 1ull << filter_bit(offset);
  // No memory: the user gets the exception, and may go on without this store. So both lists take the line, or none.
  if (index == writes_.capacity()) writes_.reserve(2 * std::size_t{index} + 64);
  write_index_.insert(reinterpret_cast<std::uintptr_t>(word), index);
  writes_.push_back({word, segment.home + line_offset, &segment});
  written_last_ = word;
  written_last_index_ = index;
  access_->line = detail::kNoLine;  // loads of this line look into the redo log first
  return entry;
}

void SoftwareThread::grow_writes() {
  if (writes_allocated_ == kWritesMax) fail(AbortCause::kCapacity);
  const std::uint32_t count = std::min(4 * writes_allocated_, kWritesMax);
  if (memory_.allocate_writes(number_, count) != Errc::kOk) fail(AbortCause::kNoSpace);
  writes_allocated_ = count;
}

}  // namespace tmh::line
