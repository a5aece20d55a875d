// levels/line/process_thread.cpp -- the long ways: lines that others have locked or that are newer
// than the snapshot, blocks, waiting.
#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include "levels/line/process_inline.h"
#include "levels/line/read_line.h"
#include "platform/assert.h"
#include "platform/try.h"

namespace tmh::line {

namespace {

const std::byte *bytes_at(std::uintptr_t at) noexcept {
  return reinterpret_cast<const std::byte *>(at);
}
const std::byte *line_of(std::uintptr_t at) noexcept {
  return bytes_at(at / kLineBytes * kLineBytes);
}

std::uint64_t load_shared(std::uintptr_t at) noexcept {
  // acquire: as in detail::line_load_by()
  return std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t *>(at))
      .load(std::memory_order_acquire);
}

template <class Word>
void copy_word(std::byte *to, const std::byte *from) noexcept {
  const auto word = detail::load_large<Word>(from);
#ifdef __SANITIZE_THREAD__
  for (std::size_t i = 0; i < sizeof word; ++i)  // as in detail::load_large()
    __atomic_store_n(to + i, reinterpret_cast<const std::byte *>(&word)[i], __ATOMIC_RELEASE);
#else
  std::memcpy(to, &word, sizeof word);
#endif
}

// Bytes of a line that another thread may be storing to; who asks looks at its word afterwards. To
// private memory, or a line that this thread has locked: no byte beside them is stored to, as other
// threads may store plainly there. By 8 bytes: a larger load from words that were just stored one
// by one would wait until they have left the processor.
[[gnu::always_inline]] inline void copy_shared(std::byte *to, const std::byte *from,
                                               std::uint32_t size) noexcept {
  if (size >= 8) {
    for (std::uint32_t at = 0; at + 8 < size; at += 8) copy_word<std::uint64_t>(to + at, from + at);
    return copy_word<std::uint64_t>(to + size - 8, from + size - 8);
  }
  if (size >= 4) {
    copy_word<std::uint32_t>(to, from);
    return copy_word<std::uint32_t>(to + size - 4, from + size - 4);
  }
  for (std::uint32_t at = 0; at < size; ++at) copy_word<std::uint8_t>(to + at, from + at);
}

// 5 us: the holder of priority mostly ends sooner.
constexpr std::uint32_t kBriefRounds = 128;
// Pauses for a line that another thread has locked: 2 us for one that holds locks itself; 50 us
// for one that does not, and keeps nobody waiting.
constexpr std::uint32_t kHolderSpinRounds = 64, kReaderSpinRounds = 50 * kRoundsPerLook;

}  // namespace

Errc ProcessThread::attach(std::uint32_t slot, std::uint64_t incarnation) noexcept {
  TMH_TRY(SoftwareThread::attach(slot, incarnation));
  static_cast<void>(window_.find(*this, 0));
  try {
    undo_.make_room();
  } catch (const std::bad_alloc &) {
    SoftwareThread::detach();
    return Errc::kOutOfMemory;
  }
  return Errc::kOk;
}

void ProcessThread::detach() noexcept {
  if (!is_attached_) return;
  if (is_running_) abandon();
  SoftwareThread::detach();
}

void ProcessThread::wait_to_begin_again(std::uint32_t attempt) noexcept {
  rivals_.wait_for_blocker();
  rivals_.forget_blocker();
  if (attempt >= kPriorityAttempts) priority_.take(number_);
}

[[gnu::noinline]] void ProcessThread::wait_briefly() const noexcept {
  const std::uint64_t holder = state_->priority.load(std::memory_order_relaxed);
  if (holder != 0) static_cast<void>(spin_until_changed(state_->priority, holder, kBriefRounds));
}

// Another thread has asked: a commit waits for instances at older snapshots.
[[gnu::noinline]] void ProcessThread::answer() {
  if (is_doomed_) fail(ending_);
  std::atomic_ref<std::uint64_t>(bytes).store(kProcessBytes, std::memory_order_relaxed);
  const std::size_t count = reads().size();
  // Fewer reads than then: that was another instance.
  if (moved_at_rv_ == rv && count >= moved_at_reads_ &&
      count < moved_at_reads_ + moved_at_reads_ / 4)
    return;
  if (!extend()) fail(AbortCause::kValidation);
  moved_at_rv_ = rv;
  moved_at_reads_ = count;
}

// Does something about a line that another thread has locked, or that is newer than the snapshot.
void ProcessThread::settle(LineWord &word, std::uint64_t seen) {
  if (!is_locked(seen)) {
    if (!extend()) fail(AbortCause::kValidation);
    return;
  }
  const bool holds_nothing = undo_.empty();
  if (spin_until_changed(word, seen, holds_nothing ? kReaderSpinRounds : kHolderSpinRounds)) return;
  // Others that hold a lock give way.
  if (priority_.is_mine() && rivals_.wait_until_changed(word, seen)) return;
  observe::probe::conflict(observe::probe::kLines, reinterpret_cast<std::uintptr_t>(&word));
  rivals_.wait_at_begin(word, seen);
  fail(AbortCause::kConflictSelf);
}

// load: copies what is there. It may run several times.
template <class Load>
[[gnu::always_inline]] inline void ProcessThread::read(std::uintptr_t from, const Load &load) {
  if (from >= kProcessBytes) [[unlikely]]
    return load();
  if (process_window_bytes(*this) == 0) [[unlikely]]
    answer();
  LineWord &word = word_of(from);
  read_line<false>(
      *this, log_, word, load,
      [&](std::uint64_t seen) {
        if (is_own(seen)) return true;
        settle(word, seen);
        return false;
      },
      [] {});
}

std::uint64_t ProcessThread::load_word(std::uintptr_t from, std::uint32_t size) {
  TMH_ASSERT(from % size == 0);
  std::uint64_t value = 0;
  const std::uint32_t before = static_cast<std::uint32_t>(from % 8);
  read(from, [&] { value = load_shared(from - before) >> (8 * before); });
  return size == 8 ? value : value & ((1ull << (8 * size)) - 1);
}

void ProcessThread::load_block(void *to, std::uintptr_t from, std::uint32_t size) {
  TMH_ASSERT(from % kLineBytes + size <= kLineBytes);
  read(from, [&] { copy_shared(static_cast<std::byte *>(to), bytes_at(from), size); });
}

// The line becomes the newest, and has kept these bytes.
[[gnu::always_inline]] inline void ProcessThread::prepare(std::uintptr_t to, std::uint32_t size) {
  if (to - newest >= kLineBytes) open_process_line(to);
  if (size == kLineBytes && detail::newest_mask(*this) == 0) {
    std::memcpy(newest_bytes, bytes_at(to), kLineBytes);
    detail::newest_mask(*this) = ~0ull;
  } else {
    keep(to, size);
  }
}

bool ProcessThread::store_block(std::uintptr_t to, const void *from, std::uint32_t size) {
  TMH_ASSERT(to % kLineBytes + size <= kLineBytes);
  if (to >= kProcessBytes) return false;
  prepare(to, size);
  copy_shared(reinterpret_cast<std::byte *>(to), static_cast<const std::byte *>(from), size);
  return true;
}

void ProcessThread::copy_lines(std::uintptr_t to, std::uintptr_t from, std::size_t size) {
  for (std::size_t ahead = kLineBytes; ahead < size; ahead += kLineBytes)
    __builtin_prefetch(bytes_at(from + ahead));
  const std::uintptr_t end = to + size, distance = from - to;
  while (to != end) {
    const std::uintptr_t line_end = std::min((to / kLineBytes + 1) * kLineBytes, end);
    prepare(to, static_cast<std::uint32_t>(line_end - to));
    while (to != line_end) {
      const std::uintptr_t at = to + distance;
      const auto part =
          static_cast<std::uint32_t>(std::min(kLineBytes - at % kLineBytes, line_end - to));
      read(at, [&] { copy_shared(reinterpret_cast<std::byte *>(to), bytes_at(at), part); });
      to += part;
    }
  }
}

// Some of the bytes are kept, as they were before others were stored.
[[gnu::noinline]] void ProcessThread::keep_more(std::uint64_t mask) noexcept {
  mask &= ~detail::newest_mask(*this);
  detail::newest_mask(*this) |= mask;
  for (; mask != 0; mask &= mask - 1) {
    const auto i = static_cast<std::size_t>(std::countr_zero(mask));
    newest_bytes[i] = *reinterpret_cast<const std::byte *>(newest + i);
  }
}

bool ProcessThread::has_locked(std::uintptr_t at) noexcept {
  if (undo_.empty() || at >= kProcessBytes) return false;
  // relaxed: only what this thread has stored counts
  const std::uint64_t seen = word_of(at).load(std::memory_order_relaxed);
  return is_own(seen) && undo_.find(entry_of(seen), line_of(at), 0) != nullptr;
}

[[gnu::noinline]] void ProcessThread::open_any_process_line(std::uintptr_t at) {
  if (is_doomed_) fail(ending_);
  // Before it holds a lock, which others would meet.
  if (undo_.empty()) priority_.let_go_first(number_);
  if (process_window_bytes(*this) == 0) answer();
  undo_.make_room();
  LineWord &word = word_of(at);
  for (;;) {
    // acquire: as a load's
    std::uint64_t seen = word.load(std::memory_order_acquire);
    if (is_own(seen)) {
      LineUndo *const entry = undo_.find(entry_of(seen), line_of(at), layer_);
      if (entry != nullptr) return use(*entry);
      const std::uint32_t newest_entry = entry_of(seen);
      // relaxed: for others it stays locked
      word.store(locked_by(number_, undo_.size()), std::memory_order_relaxed);
      return add_entry(word, at, undo_[newest_entry].before, newest_entry);
    }
    if (seen > rv) {
      settle(word, seen);
      continue;
    }
    // acquire: as in open_process_line()
    if (!word.compare_exchange_strong(seen, locked_by(number_, undo_.size()),
                                      std::memory_order_acquire, std::memory_order_relaxed))
      continue;
    return add_entry(word, at, seen, kNoEntry);
  }
}

}  // namespace tmh::line
