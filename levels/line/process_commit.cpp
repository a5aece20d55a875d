// levels/line/process_commit.cpp -- the commit of an instance over all memory of the process: as
// software_commit.cpp, with the steps that another process, a rival or a level above would ask for
// left out, and with words that several lines share.
#include <bit>

#include "levels/line/process_thread.h"
#include "observe/probes.h"
#include "platform/assert.h"

namespace tmh::line {

namespace {

// As in software_commit.cpp; twice the pauses, as no rival is decided on in between.
constexpr std::uint32_t kCommitterSpinRounds = 64;
constexpr std::size_t kFetchedAhead = 8;
void fetch_to_store(const void *at) noexcept { __builtin_prefetch(at, 1); }

template <class Unsigned>
void store_part(std::byte *home, std::uint64_t value, std::size_t at) noexcept {
  // release: pairs with the acquire in detail::line_load()
  std::atomic_ref<Unsigned>(*reinterpret_cast<Unsigned *>(home + at))
      .store(static_cast<Unsigned>(value >> (8 * at)), std::memory_order_release);
}

// Bytes of one 8-byte word. Other threads may store plainly to those that the mask does not name:
// they are objects of their own. By the largest aligned parts.
[[gnu::noinline]] void store_bytes(std::byte *home, std::uint64_t value,
                                   std::uint64_t byte_mask) noexcept {
  for (std::size_t at = 0; at < 8;) {
    const auto has = [&](std::uint64_t bytes) { return (byte_mask >> at & bytes) == bytes; };
    if (at % 4 == 0 && has(0xf)) {
      store_part<std::uint32_t>(home, value, at);
      at += 4;
    } else if (at % 2 == 0 && has(0x3)) {
      store_part<std::uint16_t>(home, value, at);
      at += 2;
    } else {
      if (has(1)) store_part<std::uint8_t>(home, value, at);
      ++at;
    }
  }
}

// The bytes that the instance has written.
inline void store_line(const LineWrite &entry, std::byte *home) noexcept {
  TMH_ASSERT(reinterpret_cast<std::uintptr_t>(home) % kLineBytes == 0);
  if (entry.mask == ~0ull) {
#pragma GCC unroll 8
    for (std::size_t word = 0; word < kLineBytes / 8; ++word)
      store_part<std::uint64_t>(home + 8 * word, entry.data[word], 0);
    return;
  }
  for (std::uint64_t left = entry.mask; left != 0;) {
    const std::size_t word = static_cast<std::size_t>(std::countr_zero(left)) / 8;
    const std::uint64_t byte_mask = left >> (8 * word) & 0xff, value = entry.data[word];
    std::byte *const at = home + 8 * word;
    left &= ~(0xffull << (8 * word));
    if (byte_mask == 0xff)
      store_part<std::uint64_t>(at, value, 0);
    else if (byte_mask == 0x0f)
      store_part<std::uint32_t>(at, value, 0);
    else if (byte_mask == 0xf0)
      store_part<std::uint32_t>(at, value, 4);
    else
      store_bytes(at, value, byte_mask);
  }
}

}  // namespace

// False: another committer keeps the word.
inline bool ProcessThread::lock_word(LineWord &word, std::uint32_t number) noexcept {
  // relaxed: the CAS decides
  std::uint64_t seen = word.load(std::memory_order_relaxed);
  if (!is_free(seen)) [[unlikely]]
    return lock_word_in_use(word, number);
  // relaxed: this thread's
  commit_.writes().entry(number).before.store(seen, std::memory_order_relaxed);
  // acquire: pairs with the unlock of the last committer to the line
  if (word.compare_exchange_strong(seen, locked_by(number_, number), std::memory_order_acquire,
                                   std::memory_order_relaxed)) [[likely]]
    return true;
  return lock_word_in_use(word, number);
}

[[gnu::noinline]] bool ProcessThread::lock_word_in_use(LineWord &word,
                                                       std::uint32_t number) noexcept {
  std::atomic<std::uint64_t> &before = commit_.writes().entry(number).before;
  for (;;) {
    std::uint64_t seen = word.load(std::memory_order_relaxed);
    before.store(seen, std::memory_order_relaxed);  // relaxed: this thread's
    if (is_free(seen)) {
      // acquire: as in lock_word()
      if (word.compare_exchange_strong(seen, locked_by(number_, number), std::memory_order_acquire,
                                       std::memory_order_relaxed))
        return true;
      continue;
    }
    if (context_of(seen) == number_) return true;  // by this commit, for another line
    if (spin_until_changed(word, seen, kCommitterSpinRounds)) continue;
    observe::probe::conflict(observe::probe::kLines, reinterpret_cast<std::uintptr_t>(&word));
    rivals_.wait_at_begin(word, seen);  // holding nothing
    return false;
  }
}

// Gives the words of the first `count` lines back as they were. One that is locked for an earlier
// entry is that entry's.
[[gnu::noinline]] void ProcessThread::release_words(std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t before = commit_.writes().entry(i).before.load(std::memory_order_relaxed);
    // release: pairs with the acquire of the next one
    if (!is_locked(before))
      commit_.writes().target(i).word->store(before, std::memory_order_release);
  }
}

[[gnu::noinline]] bool ProcessThread::are_unchanged() noexcept {
  for (const LineWord *const word : reads()) {
    // acquire: as SoftwareCommit::are_unchanged()
    const std::uint64_t now = word->load(std::memory_order_acquire);
    if (now <= rv) continue;
    if (is_locked(now) && context_of(now) == number_ &&
        commit_.writes().entry(entry_of(now)).before.load(std::memory_order_relaxed) <= rv)
      continue;
    observe::probe::conflict(observe::probe::kLines, reinterpret_cast<std::uintptr_t>(word));
    return false;
  }
  return true;
}

Status ProcessThread::commit_writes() noexcept {
  TMH_ASSERT(is_doomed_ || !commit_.writes().empty());
  if (is_doomed_) return end_aborted(ending_);
  priority_.let_go_first(number_);
  const std::span<const WriteSet::Target> targets = commit_.writes().targets();
  const std::span<LineWrite> entries = commit_.writes().entries();
  const std::size_t count = targets.size();
  for (std::size_t i = 0; i < count; ++i) {
    if (!lock_word(*targets[i].word, static_cast<std::uint32_t>(i))) [[unlikely]] {
      release_words(i);
      return end_aborted(AbortCause::kConflictSelf);
    }
    if (i + 1 + kFetchedAhead >= count) continue;
    fetch_to_store(targets[i + 1 + kFetchedAhead].word);
    fetch_to_store(&entries[i + 1 + kFetchedAhead].before);
  }
  // After the locks. seq_cst: as SoftwareCommit::publish()
  const std::uint64_t stamp = state_->clock.fetch_add(1, std::memory_order_seq_cst) + 1;
  // No committer has stamped since: nothing that was read can have changed.
  if (stamp != rv + 1 && !are_unchanged()) [[unlikely]] {
    release_words(count);
    return end_aborted(AbortCause::kValidation);
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (i + kFetchedAhead < count) fetch_to_store(targets[i + kFetchedAhead].home);
    store_line(entries[i], targets[i].home);
  }
  for (std::size_t i = 0; i < count; ++i)
    // A word is the entry's that has locked it, and another committer's once that has unlocked it.
    // relaxed: this thread's
    if (!is_locked(entries[i].before.load(std::memory_order_relaxed)))
      // release: pairs with the acquire of the thread that reads or locks the line next
      targets[i].word->store(stamp, std::memory_order_release);
  rv = stamp;
  context_->add(LineCount::kCommits, 1);
  observe::probe::commit(observe::probe::kLines, stamp, count);
  end();
  return Status::kCommitted;
}

}  // namespace tmh::line
