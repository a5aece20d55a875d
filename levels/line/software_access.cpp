// levels/line/software_access.cpp -- the long way of a load or store: own writes, other segments,
// the capacity model, lines that are locked, in U or newer than the snapshot.
#include <algorithm>
#include <cassert>
#include <cstring>

#include "levels/line/software.h"
#include "platform/process.h"
#include "platform/steps.h"

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

// Bytes of a line that an access means, as LineWrite::mask has them.
std::uint64_t mask_of(std::uint64_t offset, std::uint32_t bytes) noexcept {
  return ((1ull << bytes) - 1) << (offset % kLineBytes);
}

std::byte *bytes_in(LineWrite &entry, std::uint64_t offset) noexcept {
  return reinterpret_cast<std::byte *>(entry.data) + offset % kLineBytes;
}

// A copy of as many bytes as are known only at run time would be a call.
void put_bytes(std::byte *at, std::uint64_t value, std::uint32_t bytes) noexcept {
  switch (bytes) {
    case 1:
      std::memcpy(at, &value, 1);
      return;
    case 2:
      std::memcpy(at, &value, 2);
      return;
    case 4:
      std::memcpy(at, &value, 4);
      return;
    default:
      std::memcpy(at, &value, 8);
  }
}

void put(LineWrite &entry, std::uint64_t offset, std::uint64_t value,
         std::uint32_t bytes) noexcept {
  put_bytes(bytes_in(entry, offset), value, bytes);
  entry.mask |= mask_of(offset, bytes);
}

}  // namespace

// Null: plain memory. Throws when the attempt has been aborted.
LineSegment *SoftwareThread::segment_of_address(std::uintptr_t address) {
  if (is_doomed_) throw detail::LineAbort{};
  if (segment_ != nullptr) {
    // acquire: pairs with LineMemory::add_segment() and grow_segment(). Before the rest: it may be
    // mapped again at this moment.
    const std::uint64_t segment_bytes = segment_->bytes.load(std::memory_order_acquire);
    if (segment_bytes != 0 && address - segment_->view < segment_bytes) return segment_;
  }
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
  view = segment.view + window_begin_;
  home_minus_view = reinterpret_cast<std::uintptr_t>(segment.home) - segment.view;
  words = segment.words + window_begin_ / kLineBytes;
  open_window();
}

void SoftwareThread::look_again() noexcept {
  // acquire: as in segment_of_address()
  if (segment_->bytes.load(std::memory_order_acquire) != 0) return use(*segment_, 0);
  segment_ = nullptr;
  bytes = bytes_beside_ = 0;
  last = detail::kNoLine;
}

// REQUIRES: loads take blocks. Throws when there is none.
void SoftwareThread::make_loadable(LineSegment &segment, std::uint64_t offset) {
  if (memory_.allocate_home(segment, offset) != Errc::kOk) fail(AbortCause::kNoSpace);
  if (offset - window_begin_ >= window_bytes_) use(segment, offset);
}

// First what an instance that writes mostly loads: lines that it has not written. They are read as
// detail::line_load() does, which has the reasons for these orders.
std::uint64_t SoftwareThread::load_long(std::uintptr_t address, std::uint32_t size) {
  const std::uint64_t offset = address - view;
  const std::uint64_t line = offset / kLineBytes;
  const LineWord *const word = words + line;
  if (offset >= bytes_beside_ || (may_be_written(line) && has_entry(word)))
    return load_longest(address, size);
  const std::uint64_t seen = word->load(std::memory_order_acquire);
  platform::step(platform::Step::kGapLineLooked);
  const std::uint64_t value =
      load_bytes(reinterpret_cast<const std::byte *>(address + home_minus_view), size);
  const LineWord **const top = log_top + 1;
  if (seen > rv || word->load(std::memory_order_relaxed) != seen || top > log_end) [[unlikely]]
    return load_longest(address, size);
  *top = word;
  last_word = word;
  log_top = top;
  last = address;
  return value;
}

std::uint64_t SoftwareThread::load_longest(std::uintptr_t address, std::uint32_t size) {
  if (address - stored_line_ < kLineBytes) {
    const std::uint64_t wanted = mask_of(address, size);
    if ((stored_->mask & wanted) == wanted) return load_bytes(bytes_in(*stored_, address), size);
  }
  LineSegment *const segment = segment_of_address(address);
  if (segment == nullptr) return load_bytes(reinterpret_cast<const std::byte *>(address), size);
  const std::uint64_t offset = address - segment->view;
  if (segment->loads_take_blocks) make_loadable(*segment, offset);
  LineWord *const word = segment->words + offset / kLineBytes;
  if (may_be_written(offset / kLineBytes)) {
    const std::uint32_t index = write_index_.find(reinterpret_cast<std::uintptr_t>(word));
    if (index != LineTable::kNone)
      return load_over(*segment, offset, size, context_->writes[index]);
  }
  if (is_limited_ && read_lines_.find(reinterpret_cast<std::uintptr_t>(word)) == LineTable::kNone) {
    read_lines_.insert(reinterpret_cast<std::uintptr_t>(word), 0);
    check(use_->read(model_now_ns()));
  }
  return read_home(*segment, offset, size);
}

// The line is in the redo log: its written bytes come from there.
std::uint64_t SoftwareThread::load_over(LineSegment &segment, std::uint64_t offset,
                                        std::uint32_t size, LineWrite &entry) {
  const std::uint64_t wanted = mask_of(offset, size);
  if ((entry.mask & wanted) == wanted) return load_bytes(bytes_in(entry, offset), size);
  std::uint64_t value = read_home(segment, offset, size);
  if ((entry.mask & wanted) == 0) return value;
  for (std::uint32_t i = 0; i < size; ++i) {
    if ((entry.mask >> (offset % kLineBytes + i) & 1) == 0) continue;
    const auto byte = static_cast<std::uint64_t>(bytes_in(entry, offset)[i]);
    value = (value & ~(0xffull << (8 * i))) | byte << (8 * i);
  }
  return value;
}

std::uint64_t SoftwareThread::read_home(LineSegment &segment, std::uint64_t offset,
                                        std::uint32_t size) {
  const LineWord &word = segment.words[offset / kLineBytes];
  for (;;) {
    // As detail::line_load(), which has the reasons for these orders.
    const std::uint64_t seen = word.load(std::memory_order_acquire);
    if (seen > rv) {
      settle(segment, offset, seen);
      continue;
    }
    platform::step(platform::Step::kGapLineLooked);
    const std::uint64_t value = load_bytes(segment.home + offset, size);
    if (word.load(std::memory_order_relaxed) != seen) continue;
    note_read(&word);
    return value;
  }
}

void SoftwareThread::note_read(const LineWord *word) {
  if (*log_top == word) return;
  if (log_top == log_end) {
    const auto used = static_cast<std::size_t>(log_top - log_.data());
    if (used == reads_max_) fail(AbortCause::kCapacity);
    log_.resize(2 * log_.size());
    log_top = log_.data() + used;
    set_log_end();
  }
  *++log_top = word;
  last = detail::kNoLine;
}

// Does something about a line that cannot be read at this snapshot as it is. Throws when nothing
// helps.
void SoftwareThread::settle(LineSegment &segment, std::uint64_t offset, std::uint64_t seen) {
  if (is_locked(seen)) {
    meet_locked(segment.words[offset / kLineBytes], seen);
  } else if (is_upper(seen)) {
    meet_upper(page_of(where(segment.number, offset)));
  } else if (!extend()) {
    fail(AbortCause::kValidation);
  }
}

[[gnu::noinline]] void SoftwareThread::meet_upper(storage::PageId page) {
  const UpperAnswer answer = upper_.ask(page, insists());
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
  if (address - stored_line_ < kLineBytes) return put(*stored_, address, value, size);
  LineSegment *const segment =
      address - view < bytes_beside_ ? segment_ : segment_of_address(address);
  if (segment == nullptr) return put_bytes(reinterpret_cast<std::byte *>(address), value, size);
  if (is_query_) fail(AbortCause::kQueryWrote);
  const std::uint64_t offset = address - segment->view;
  LineWrite &entry = write_entry(*segment, offset);
  put(entry, offset, value, size);
  stored_line_ = address - offset % kLineBytes;
  stored_ = &entry;
}

bool SoftwareThread::has_written(const void *address) const noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const LineSegment *const segment = memory_.find(at);
  if (segment == nullptr) return false;
  const LineWord *const word = segment->words + (at - segment->view) / kLineBytes;
  return write_index_.find(reinterpret_cast<std::uintptr_t>(word)) != LineTable::kNone;
}

LineWrite &SoftwareThread::write_entry(LineSegment &segment, std::uint64_t offset) {
  LineWord *const word = segment.words + offset / kLineBytes;
  if (may_be_written(offset / kLineBytes)) {
    const std::uint32_t index = write_index_.find(reinterpret_cast<std::uintptr_t>(word));
    if (index != LineTable::kNone) return context_->writes[index];
  }
  const auto index = static_cast<std::uint32_t>(writes_.size());
  if (index == writes_room_) [[unlikely]]
    make_room_for_write();
  if (memory_.allocate_home(segment, offset) != Errc::kOk) fail(AbortCause::kNoSpace);
  // Beyond the segment's end this is SIGBUS, as a plain store's. At line-write-back it would be,
  // too, for this process and for each that recovers it.
  static_cast<void>(load_word<std::uint8_t>(segment.home + offset));
  if (is_limited_) [[unlikely]]
    check(use_->write((segment.view + offset) / kLineBytes, model_now_ns()));
  // A line in U is asked for now, not at the commit, where it would cost the whole attempt.
  // relaxed: line-lock looks again.
  while (is_upper(word->load(std::memory_order_relaxed)))
    [[unlikely]] meet_upper(page_of(where(segment.number, offset)));
  const std::uint64_t line_offset = offset - offset % kLineBytes;
  LineWrite &entry = context_->writes[index];
  entry.at = where(segment.number, line_offset);
  entry.mask = 0;
  write_filter_ |= filter_bit(offset / kLineBytes);
  write_index_.insert(reinterpret_cast<std::uintptr_t>(word), index);
  writes_.push_back({word, segment.home + line_offset});
  open_window();  // from now on loads look into the redo log first
  return entry;
}

// No memory: the user gets the exception, and may go on without this store. So all lists have room
// for the line before one takes it; the commit asks for no more.
void SoftwareThread::make_room_for_write() {
  const std::size_t count = writes_.size();
  if (count == writes_allocated_) {
    if (writes_allocated_ == kWritesMax) fail(AbortCause::kCapacity);
    const std::uint32_t more = std::min(4 * writes_allocated_, kWritesMax);
    if (memory_.allocate_writes(number_, more) != Errc::kOk) fail(AbortCause::kNoSpace);
    writes_allocated_ = more;
  }
  if (count == writes_.capacity()) writes_.reserve(2 * count + 64);
  if (redo_log_ != nullptr) by_place_.reserve(writes_.capacity());
  writes_room_ = std::min<std::size_t>(writes_allocated_, writes_.capacity());
}

}  // namespace tmh::line
