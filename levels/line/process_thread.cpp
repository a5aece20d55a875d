// levels/line/process_thread.cpp -- blocks, and single lines of the writes.
#include "levels/line/process_inline.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "platform/assert.h"
#include "platform/try.h"

namespace tmh::line {

namespace {

std::uint64_t load_shared(std::uintptr_t at) noexcept {
  // acquire: as in detail::line_load()
  return std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t *>(at))
      .load(std::memory_order_acquire);
}

// Of the thread's own.
std::uint64_t word_in(const std::byte *at, std::uint32_t size) noexcept {
  const auto as = [at](auto word) {
    std::memcpy(&word, at, sizeof word);
    return std::uint64_t{word};
  };
  return size == 8   ? as(std::uint64_t{})
         : size == 4 ? as(std::uint32_t{})
         : size == 2 ? as(std::uint16_t{})
                     : as(std::uint8_t{});
}

void store_bytes(std::byte *to, std::uint64_t value, std::uint32_t count) noexcept {
  for (std::uint32_t i = 0; i < count; ++i) to[i] = static_cast<std::byte>(value >> (8 * i));
}

// At most a line. Inline: a call of memcpy() costs as much as a word's store.
inline void copy_small(std::byte *to, const void *from, std::uint32_t size) noexcept {
  const auto *in = static_cast<const std::byte *>(from);
  for (; size >= 8; size -= 8) {
    std::memcpy(to, in, 8);
    to += 8;
    in += 8;
  }
  if ((size & 4) != 0) {
    std::memcpy(to, in, 4);
    to += 4;
    in += 4;
  }
  if ((size & 2) != 0) {
    std::memcpy(to, in, 2);
    to += 2;
    in += 2;
  }
  if ((size & 1) != 0) *to = *in;
}

// Bytes of a line that a committer may be storing to: by the whole words that they lie in. Word by
// word from a register: a larger load from words that were just stored one by one would wait until
// they have left the processor.
void copy_shared(std::byte *to, std::uintptr_t from, std::uint32_t size) noexcept {
  if (const auto before = static_cast<std::uint32_t>(from % 8); before != 0) {
    const std::uint32_t part = std::min(8 - before, size);
    store_bytes(to, load_shared(from - before) >> (8 * before), part);
    to += part;
    from += part;
    size -= part;
  }
  for (; size >= 8; size -= 8) {
    const std::uint64_t word = load_shared(from);
    std::memcpy(to, &word, sizeof word);
    to += 8;
    from += 8;
  }
  if (size != 0) store_bytes(to, load_shared(from), size);
}

// The same, by larger loads: of a large block, which was hardly stored just before. What is torn is
// not used, as in detail::line_load().
inline void copy_wide(std::byte *to, std::uintptr_t from, std::uint32_t size) noexcept {
#ifdef __SANITIZE_THREAD__
  copy_shared(to, from, size);  // as detail::load_large()
#else
  for (; size >= 16; size -= 16) {
    std::memcpy(to, reinterpret_cast<const void *>(from), 16);
    to += 16;
    from += 16;
  }
  copy_small(to, reinterpret_cast<const void *>(from), size);
  std::atomic_thread_fence(std::memory_order_acquire);
#endif
}

}  // namespace

Errc ProcessThread::attach(std::uint32_t slot, std::uint64_t incarnation) noexcept {
  TMH_TRY(SoftwareThread::attach(slot, incarnation));
  static_cast<void>(window_.find(*this, 0));
  return Errc::kOk;
}

namespace {
// An attempt that has read and written so many lines before it failed takes priority at once: it
// holds no lock meanwhile that would keep others from failing it again.
constexpr std::size_t kLinesOfLong = 8;
// 5 us: the holder of priority mostly ends sooner.
constexpr std::uint32_t kBriefRounds = 128;
}  // namespace

void ProcessThread::wait_to_begin_again(std::uint32_t attempt) noexcept {
  rivals_.wait_for_blocker();
  rivals_.forget_blocker();
  if (attempt >= kPriorityAttempts || commit_.writes().size() >= kLinesOfLong)
    priority_.take(number_);
}

[[gnu::noinline]] void ProcessThread::wait_briefly() const noexcept {
  const std::uint64_t holder = state_->priority.load(std::memory_order_relaxed);
  if (holder != 0) static_cast<void>(spin_until_changed(state_->priority, holder, kBriefRounds));
}

// Another thread has asked: a commit waits for instances at older snapshots.
[[gnu::noinline]] void ProcessThread::answer() {
  std::atomic_ref<std::uint64_t>(bytes).store(kProcessBytes, std::memory_order_relaxed);
  const std::size_t count = reads().size();
  if (moved_at_rv_ == rv && count < moved_at_reads_ + moved_at_reads_ / 4) return;
  if (!extend()) fail(AbortCause::kValidation);
  moved_at_rv_ = rv;
  moved_at_reads_ = count;
}

// The word from home, where the attempt has not written its line. False: it takes a longer way.
inline bool ProcessThread::read_word(std::uintptr_t from, std::uint32_t size,
                                     std::uint64_t *value) {
  const std::uint64_t line = from / kLineBytes;
  const LineWord *const word = memory_.segment(0).words + process_word_number(line);
  // As detail::line_load().
  const std::uint64_t seen = word->load(std::memory_order_acquire);
  if (seen > rv) return false;
  const std::uint32_t before = static_cast<std::uint32_t>(from % 8);
  *value = load_shared(from - before) >> (8 * before);
  if (size < 8) *value &= (1ull << (8 * size)) - 1;
  return word->load(std::memory_order_relaxed) == seen && ReadLog::note(*this, *word);
}

// As SoftwareThread::make_whole(). False: it takes a longer way.
inline bool ProcessThread::make_whole(LineWrite &entry, std::uintptr_t at) {
  const std::uint64_t line = at / kLineBytes;
  const LineWord *const word = memory_.segment(0).words + process_word_number(line);
  // As detail::line_load().
  const std::uint64_t seen = word->load(std::memory_order_acquire);
  if (seen > rv) return false;
  std::uint64_t home[kLineBytes / 8];
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kLineBytes / 8; ++i) home[i] = load_shared(line * kLineBytes + 8 * i);
  if (word->load(std::memory_order_relaxed) != seen || !ReadLog::note(*this, *word)) return false;
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kLineBytes / 8; ++i) {
    const std::uint64_t written_bytes = entry.mask >> (8 * i) & 0xff;
    if (written_bytes == 0xff) continue;
    const std::uint64_t bits = written_bytes == 0 ? 0 : spread_byte_mask(written_bytes);
    entry.data[i] = (entry.data[i] & bits) | (home[i] & ~bits);
  }
  entry.kept = detail::Kept::kWhole;
  return true;
}

// If so, or once it is, it is the newest.
inline bool ProcessThread::is_whole(LineWrite &entry, std::uintptr_t at) {
  if (entry.kept != detail::Kept::kWhole &&
      (entry.kept != detail::Kept::kNo || !make_whole(entry, at)))
    return false;
  newest = at / kLineBytes * kLineBytes;
  newest_bytes = reinterpret_cast<std::byte *>(entry.data);
  return true;
}

std::uint64_t ProcessThread::load_word(std::uintptr_t from, std::uint32_t size) {
  if (window_bytes(*this) == 0) answer();
  if (from >= kProcessBytes) return load_long(from, size);
  if (LineWrite *const entry = find_entry(from); entry != nullptr) {
    if (!is_whole(*entry, from)) return load_long(from, size);
    return word_in(newest_bytes + from % kLineBytes, size);
  }
  std::uint64_t value = 0;
  return read_word(from, size, &value) ? value : load_long(from, size);
}

// As detail::line_load(). False: it takes a longer way.
template <class Copy>
[[gnu::always_inline]] inline bool ProcessThread::read_block(std::byte *to, std::uintptr_t from,
                                                             std::uint32_t size, const Copy &copy) {
  const std::uint64_t line = from / kLineBytes;
  const LineWord *const word = memory_.segment(0).words + process_word_number(line);
  const std::uint64_t seen = word->load(std::memory_order_acquire);
  if (seen > rv) [[unlikely]]
    return false;
  copy(to, from, size);
  return word->load(std::memory_order_relaxed) == seen && ReadLog::note(*this, *word);
}

void ProcessThread::load_block(void *to, std::uintptr_t from, std::uint32_t size) {
  TMH_ASSERT(from % kLineBytes + size <= kLineBytes);
  auto *const out = static_cast<std::byte *>(to);
  if (from < kProcessBytes && window_bytes(*this) != 0 &&
      !may_have_written(*this, from / kLineBytes) && read_block(out, from, size, copy_shared))
      [[likely]]
    return;
  load_block_long(out, from, size);
}

[[gnu::noinline]] void ProcessThread::load_block_long(std::byte *out, std::uintptr_t from,
                                                      std::uint32_t size) {
  if (window_bytes(*this) == 0) [[unlikely]]
    answer();
  if (from < kProcessBytes) {
    if (LineWrite *const entry = find_entry(from); entry == nullptr) {
      if (read_block(out, from, size, copy_shared)) return;
    } else if (is_whole(*entry, from)) {
      copy_small(out, newest_bytes + from % kLineBytes, size);
      return;
    }
  }
  while (size != 0) {
    // The largest word that begins here and ends in the block.
    const std::uint32_t aligned = std::min(8u, 1u << std::countr_zero(from | 8));
    const std::uint32_t part = std::min(aligned, std::bit_floor(size));
    store_bytes(out, load_long(from, part), part);
    out += part;
    from += part;
    size -= part;
  }
}

bool ProcessThread::store_block(std::uintptr_t to, const void *from, std::uint32_t size) {
  TMH_ASSERT(to % kLineBytes + size <= kLineBytes);
  if (to - newest >= kLineBytes) {
    if (to >= kProcessBytes) return false;
    open_process_line(to);
  }
  copy_small(newest_bytes + to % kLineBytes, from, size);
  detail::newest_mask(*this) |= byte_mask(to, size);
  return true;
}

void ProcessThread::copy_lines(std::uintptr_t to, std::uintptr_t from, std::size_t size) {
  const LineWord *const table = memory_.segment(0).words;
  __builtin_prefetch(table + process_word_number((from + size - 1) / kLineBytes));
  for (std::size_t ahead = kLineBytes; ahead < size; ahead += kLineBytes)
    __builtin_prefetch(reinterpret_cast<const void *>(from + ahead));
  // The lines that are opened below have no byte of this block.
  const std::uint64_t written_before = written;
  while (size != 0) {
    // Which line is the newest may change while the block is loaded.
    LineWrite &entry = open_process_line(to);
    auto *out = reinterpret_cast<std::byte *>(entry.data) + to % kLineBytes;
    const auto part =
        static_cast<std::uint32_t>(std::min(kLineBytes - to % kLineBytes, std::uint64_t{size}));
    for (std::uint32_t left = part; left != 0;) {
      const auto in_line = static_cast<std::uint32_t>(kLineBytes - from % kLineBytes);
      const std::uint32_t step = std::min(in_line, left);
      if ((written_before >> (from / kLineBytes % 64) & 1) != 0 ||
          !read_block(out, from, step, copy_wide)) [[unlikely]]
        load_block_long(out, from, step);
      out += step;
      from += step;
      left -= step;
    }
    entry.mask |= byte_mask(to, part);
    to += part;
    size -= part;
  }
}

[[gnu::noinline]] LineWrite &ProcessThread::open_any_process_line(std::uintptr_t at) {
  if (window_bytes(*this) == 0) answer();
  const std::uint64_t line = at / kLineBytes;
  auto *const home = reinterpret_cast<std::byte *>(line * kLineBytes);
  LineWord *const word = memory_.segment(0).words + process_word_number(line);
  WriteSet &writes = commit_.writes();
  LineWrite *entry = may_have_written(*this, line) ? writes.find(home) : nullptr;
  if (entry == nullptr) {
    __builtin_prefetch(word, 1);
    __builtin_prefetch(home, 1);
    if (const AbortCause cause = writes.make_room(memory_, number_); cause != AbortCause::kNone)
        [[unlikely]]
      fail(cause);
    entry = &writes.insert({word, home}, where(0, line * kLineBytes));
  }
  make_newest(*this, *entry, line, word, line * kLineBytes);
  return *entry;
}

// Null: the attempt has written nothing there.
LineWrite *ProcessThread::find_entry(std::uintptr_t at) noexcept {
  if (at - newest < kLineBytes)
    return reinterpret_cast<LineWrite *>(newest_bytes - offsetof(LineWrite, data));
  if (at >= kProcessBytes || !may_have_written(*this, at / kLineBytes)) return nullptr;
  return commit_.writes().find(reinterpret_cast<std::byte *>(at / kLineBytes * kLineBytes));
}

void ProcessThread::store_now(std::uintptr_t at, std::uint32_t size) noexcept {
  LineWrite *const entry = find_entry(at);
  if (entry == nullptr) return;
  const auto *const data = reinterpret_cast<const std::byte *>(entry->data) + at % kLineBytes;
  for (std::uint32_t i = 0; i < size; ++i)
    if ((entry->mask >> (at % kLineBytes + i) & 1) != 0)
      reinterpret_cast<std::byte *>(at)[i] = data[i];
  entry->mask &= ~byte_mask(at, size);
}

void ProcessThread::never_keep(std::uintptr_t at) noexcept {
  LineWrite *const entry = find_entry(at);
  if (entry == nullptr) return;
  entry->kept = detail::Kept::kNever;
  newest = detail::kNoLine;
}

}  // namespace tmh::line
