// levels/process/transaction.cpp -- begin, commit, rollback of this task's transactions.
#include "levels/process/transaction.h"

#include <immintrin.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "levels/process/alone.h"
#include "levels/process/commit_lock.h"
#include "levels/process/copies.h"
#include "levels/process/ground/ground.h"
#include "levels/process/heap/heap.h"
#include "levels/process/holds.h"
#include "levels/process/keys.h"
#include "levels/process/modules.h"
#include "levels/process/own_pages.h"
#include "levels/process/requests.h"
#include "levels/process/rights.h"
#include "levels/process/turns.h"
#include "platform/patience.h"

namespace tmh::itm::pages {

namespace {

constexpr std::uint32_t kPageWords = kPageBytes / 8;
constexpr std::uint32_t kEntryMax = sizeof(Entry) + kPageWords * (sizeof(Word) + sizeof(Place));
static_assert(kEntryMax + 7 <= Log::kChunkBytes / 2);  // Log::reserve()

Function restart_function = nullptr, irrevocable_function = nullptr, died_function = nullptr;
std::uintptr_t stack_begin = 0, stack_end = 0;
std::vector<std::byte> stack_copy;
std::vector<std::byte> thread_copy;  // thread_local variables of the program
std::uint64_t pulled = 0;            // the clock that copies stand at
bool is_alone_by_itself = false;     // others use its stack
std::vector<void *> allocated, freed;
struct Waiting {
  std::uint64_t stamp;
  void *block;
};
std::vector<Waiting> waiting;  // freed, but older snapshots may need them

// What the transaction stored, page by page, as entries of the log are.
struct Draft {
  std::vector<std::byte> bytes;
  std::size_t used = 0;
  std::uint32_t entries = 0;
} draft;

struct Saved {
  PageNumber page;
  std::vector<std::byte> content;
};
struct Mark {
  std::uintptr_t stack;
  std::vector<Saved> pages;
  std::vector<std::byte> stack_copy, thread_copy;
  std::size_t allocated, freed;
};
std::vector<Mark> marks;

std::byte *copy_of(PageNumber page) noexcept {
  return reinterpret_cast<std::byte *>(Memory::address_of(page));
}

void save_stack(std::uintptr_t begin, std::vector<std::byte> *out) {
  const auto *const from = reinterpret_cast<const std::byte *>(begin);
  TMH_ASSERT(begin <= stack_end);
  const std::size_t bytes = stack_end - begin;
  if (out->size() < bytes) out->resize(bytes + 4096);
  std::memcpy(out->data(), from, bytes);
}
void restore_stack(std::uintptr_t begin, const std::vector<std::byte> &copy) noexcept {
  TMH_ASSERT(begin <= stack_end && stack_end - begin <= copy.size());
  std::memcpy(reinterpret_cast<void *>(begin), copy.data(), stack_end - begin);
}

// Blocks of thread_local variables of the program and its libraries, of the calling thread.
struct Blocks {
  std::byte *begin[16];
  std::size_t bytes[16];
  std::size_t count = 0, all = 0;
};
Blocks blocks;
bool has_blocks = false;

int find_blocks(dl_phdr_info *info, std::size_t, void *) {
  if (info->dlpi_tls_data == nullptr ||
      (is_runtime_module(info->dlpi_name) && !is_cxx_runtime(info->dlpi_name)))
    return 0;
  for (std::size_t i = 0; i < info->dlpi_phnum && blocks.count < std::size(blocks.begin); ++i)
    if (info->dlpi_phdr[i].p_type == PT_TLS) {
      blocks.begin[blocks.count] = static_cast<std::byte *>(info->dlpi_tls_data);
      blocks.bytes[blocks.count++] = info->dlpi_phdr[i].p_memsz;
      blocks.all += info->dlpi_phdr[i].p_memsz;
    }
  return 0;
}

void save_thread(std::vector<std::byte> *out) {
  if (!has_blocks) {
    blocks = {};
    dl_iterate_phdr(find_blocks, nullptr);
    has_blocks = true;
  }
  if (blocks.all == 0) return;
  out->resize(blocks.all);
  std::byte *to = out->data();
  for (std::size_t i = 0; i < blocks.count; to += blocks.bytes[i++])
    std::memcpy(to, blocks.begin[i], blocks.bytes[i]);
}
void restore_thread(const std::vector<std::byte> &copy) noexcept {
  if (blocks.all == 0) return;
  TMH_ASSERT(copy.size() == blocks.all);
  const std::byte *from = copy.data();
  for (std::size_t i = 0; i < blocks.count; from += blocks.bytes[i++])
    std::memcpy(blocks.begin[i], from, blocks.bytes[i]);
}

// The first line of the page from `line` on that differs; the page's end: none does.
[[gnu::target("avx2")]] std::uint32_t next_difference_wide(const std::byte *copy,
                                                           const std::byte *twin,
                                                           std::uint32_t line) noexcept {
  for (; line < kPageBytes; line += 64) {
    const auto *const a = reinterpret_cast<const __m256i *>(copy + line);
    const auto *const b = reinterpret_cast<const __m256i *>(twin + line);
    const __m256i different =
        _mm256_or_si256(_mm256_xor_si256(a[0], b[0]), _mm256_xor_si256(a[1], b[1]));
    if (_mm256_testz_si256(different, different) == 0) break;
  }
  return line;
}
std::uint32_t next_difference_any(const std::byte *copy, const std::byte *twin,
                                  std::uint32_t line) noexcept {
  while (line < kPageBytes && std::memcmp(copy + line, twin + line, 64) == 0) line += 64;
  return line;
}
using NextDifference = std::uint32_t (*)(const std::byte *, const std::byte *, std::uint32_t);
const NextDifference next_difference =
    __builtin_cpu_supports("avx2") ? next_difference_wide : next_difference_any;

// Adds an entry for the words of the page that differ. False: none does.
bool draft_page(PageNumber page, const std::byte *copy, const std::byte *twin) {
  std::uint32_t line = next_difference(copy, twin, 0);
  if (line == kPageBytes) return false;
  if (draft.bytes.size() - draft.used < kEntryMax)
    draft.bytes.resize(2 * draft.bytes.size() + kEntryMax);
  auto *const entry = reinterpret_cast<Entry *>(draft.bytes.data() + draft.used);
  auto *const words = reinterpret_cast<Word *>(entry->content());
  Place places[kPageWords];
  std::uint32_t count = 0;
  for (; line < kPageBytes; line = next_difference(copy, twin, line + 64)) {
    for (std::uint32_t at = line; at < line + 64; at += 8) {
      std::uint64_t after = 0, before = 0;
      std::memcpy(&after, copy + at, 8);
      std::memcpy(&before, twin + at, 8);
      const std::uint64_t bits = after ^ before;
      if (bits == 0) continue;
      // Each byte that differs becomes a bit.
      const __m128i is_same =
          _mm_cmpeq_epi8(_mm_cvtsi64_si128(static_cast<long long>(bits)), _mm_setzero_si128());
      const auto bytes = static_cast<std::uint8_t>(~_mm_movemask_epi8(is_same));
      words[count] = {before, after};
      places[count++] = {static_cast<std::uint16_t>(at / 8), bytes, 0};
    }
  }
  TMH_ASSERT(count != 0 && count <= kPageWords);
  *entry = {};
  entry->page = page;
  entry->kind = EntryKind::kWords;
  entry->words = static_cast<std::uint16_t>(count);
  entry->slot = static_cast<std::uint8_t>(self_slot);
  std::memcpy(words + count, places, count * sizeof(Place));
  const std::size_t bytes = sizeof(Entry) + count * (sizeof(Word) + sizeof(Place));
  entry->size = static_cast<std::uint32_t>((bytes + 7) & ~7ull);
  draft.used += entry->size;
  TMH_ASSERT(draft.used <= draft.bytes.size() && draft.used % 8 == 0);
  ++draft.entries;
  return true;
}

void make_draft() {
  draft.used = 0;
  draft.entries = 0;
  Mappings::Written *const list = Mappings::written();
  for (std::uint32_t i = 0; i < Mappings::written_count(); ++i) {
    Mappings::Written &each = list[i];
    if (draft_page(each.page, copy_of(each.page), each.twin)) {
      each.idle = 0;
      each.is_pulled = false;
    } else {
      ++each.idle;
    }
  }
}

template <class Function>
void for_each_entry(Function function) {
  for (std::size_t at = 0; at < draft.used;) {
    auto *const entry = reinterpret_cast<Entry *>(draft.bytes.data() + at);
    function(*entry);
    at += entry->size;
  }
}

// Has another transaction committed, since the pin, to a word that this one has stored to?
bool conflicts(const Entry &own, std::uint64_t pin) noexcept {
  TMH_ASSERT(own.kind == EntryKind::kWords && own.words != 0);
  std::uint64_t stored[kPageWords / 64] = {};
  bool is_filled = false;
  for (Position position = page_states[own.page].newest.load(std::memory_order_relaxed) & ~kBits;
       position != 0 && position >= control->tail.load(std::memory_order_relaxed);) {
    const Entry &entry = *Log::at(position);
    if (entry.stamp <= pin) return false;
    if (entry.kind == EntryKind::kWords) {
      if (!is_filled)
        for (std::uint32_t i = 0; i < own.words; ++i)
          stored[own.places()[i].word / 64] |= 1ull << own.places()[i].word % 64;
      is_filled = true;
      for (std::uint32_t i = 0; i < entry.words; ++i)
        if ((stored[entry.places()[i].word / 64] >> entry.places()[i].word % 64 & 1) != 0)
          return true;
    }
    position = entry.previous;
  }
  return false;
}

// Has plain code changed what this transaction is going to overwrite, since it was copied? It would
// be lost: an atomic counter, say, that functions count in inside and outside of transactions.
bool is_changed_at_home(const Entry &own) noexcept {
  const std::byte *const home = Memory::home(own.page);
  for (std::uint32_t i = 0; i < own.words; ++i) {
    const Place place = own.places()[i];
    const std::uint64_t now = __atomic_load_n(
        reinterpret_cast<const std::uint64_t *>(home) + place.word, __ATOMIC_RELAXED);
    const std::uint64_t different = now ^ own.word_list()[i].before;
    if (different == 0) continue;
    for (std::uint32_t byte = 0; byte < 8; ++byte)
      if ((place.bytes >> byte & 1) != 0 && (different >> 8 * byte & 0xff) != 0) return true;
  }
  return false;
}

// Has another task become its owner since it was copied?
bool is_anothers(PageNumber page) noexcept {
  return (page_states[page].newest.load(std::memory_order_relaxed) & kHasOwner) != 0;
}

// Serializable: has any page of which this task has a copy been committed to since the pin?
// REQUIRES: the commit lock; the log has what was committed since.
bool was_read_page_changed(std::uint64_t pin) noexcept {
  const Position head = control->head.load(std::memory_order_relaxed);
  for (Position at = Log::skip(Copies::position()); at < head; at = Log::skip(at)) {
    const Entry &entry = *Log::at(at);
    at += entry.size;
    if (entry.kind != EntryKind::kWords || entry.stamp <= pin || entry.slot == self_slot) continue;
    if (is_copy(Mappings::mapped(entry.page))) return true;
  }
  return false;
}

// Is what this transaction has read still so? REQUIRES: the task is alone.
bool is_newest() noexcept {
  TMH_ASSERT(is_alone());
  const std::uint64_t pin = self().pin.load(std::memory_order_relaxed);
  const CommitLock lock;  // plain code of others may add to the log, and give its oldest chunk away
  return control->trimmed.load(std::memory_order_relaxed) <= pin && !was_read_page_changed(pin);
}

// Makes what the draft has the newest state. False: a conflict.
bool publish_draft() {
  const std::uint64_t pin = self().pin.load(std::memory_order_relaxed);
  TMH_ASSERT(draft.entries != 0 && pin != kOutside);
  const CommitLock lock;
  if (control->trimmed.load(std::memory_order_relaxed) > pin) {
    count(Count::kTooOld);
    return false;
  }
  bool has_conflict = false;
  for_each_entry([&](const Entry &own) {
    if (Mappings::mapped(own.page) == Mapped::kOwned) return;  // no other task has stored there
    has_conflict =
        has_conflict || is_anothers(own.page) || conflicts(own, pin) || is_changed_at_home(own);
  });
  if (has_conflict || (is_serializable && was_read_page_changed(pin))) {
    count(Count::kConflicts);
    return false;
  }
  const std::uint64_t stamp = control->clock.load(std::memory_order_relaxed) + 1;
  TMH_ASSERT(stamp > pin);
  if (draft.used > Log::kCommitMax) {
    for_each_entry([](const Entry &own) { redo(own, Memory::home(own.page)); });
    self().last_commit.store(stamp, std::memory_order_seq_cst);
    Log::forget_all(stamp);
    return true;
  }
  for_each_entry([&](Entry &own) {
    own.stamp = stamp;
    Entry *const entry = Log::reserve(own.size);
    own.previous = page_states[own.page].newest.load(std::memory_order_relaxed) & ~kBits;
    std::memcpy(static_cast<void *>(entry), &own, own.size);
  });
  self().last_commit.store(stamp, std::memory_order_seq_cst);
  Log::publish(stamp, true);
  return true;
}

void update_twins() noexcept {
  for_each_entry([](const Entry &own) { redo(own, Mappings::twin_of(own.page)); });
}

void leave_inside() noexcept {
  TMH_ASSERT(is_running_inside);
  is_running_inside = false;
  self().pin.store(kOutside, std::memory_order_release);
  if (is_alone_by_itself) end_alone();
  is_alone_by_itself = false;
}

void release_waiting(std::size_t allowed) noexcept {
  if (waiting.size() <= allowed) return;
  const std::uint64_t least = least_pin();
  std::size_t kept = 0;
  for (const Waiting &each : waiting) {
    if (each.stamp <= least) {
      heap_release(each.block);
    } else {
      waiting[kept++] = each;
    }
  }
  waiting.resize(kept);
}

void start_anew() noexcept {
  const CommitLock lock;  // the clock and the end of the log fit together
  Copies::forget();
  pulled = control->clock.load(std::memory_order_relaxed);
}

// The pin is the clock; copies show it.
void take_snapshot() noexcept {
  for (;;) {
    wait_while_another_is_alone();
    // First the clock that the copies stand at, so that the log keeps what they miss.
    self().pin.store(pulled, std::memory_order_seq_cst);
    const std::uint32_t alone = control->alone.load(std::memory_order_seq_cst);
    const bool is_own = alone == self_slot + 1;
    // A toucher of this task's stack stores, then looks at the pin (Copies::open()).
    const bool must_wait = self().is_stack_shared.load(std::memory_order_seq_cst) != 0;
    if (is_own || (alone == 0 && !must_wait)) break;
    self().pin.store(kOutside, std::memory_order_release);
    if (must_wait && alone == 0) {
      be_alone();
      is_alone_by_itself = true;
    }
  }
  set_rights(Rights::kBoth);
  if (!has_keys()) Turns::turn(true);
  if (control->trimmed.load(std::memory_order_seq_cst) > pulled) {
    start_anew();
  } else {
    const std::uint64_t now = control->clock.load(std::memory_order_acquire);
    if (Copies::pull(pulled, now)) {
      pulled = now;
    } else {
      start_anew();
    }
  }
  self().pin.store(pulled, std::memory_order_seq_cst);
  TMH_ASSERT(pulled <= control->clock.load(std::memory_order_relaxed));
}

// Transactions that fail one another try again at different times.
void wait_to_begin_again(std::uint32_t attempt) noexcept {
  static std::uint32_t random = 0x9e3779b9u * (self_slot + 1);
  random = random * 1664525u + 1013904223u;
  const std::uint32_t turns = (random >> 16) % (16u << std::min(attempt, 10u));
  for (std::uint32_t i = 0; i < turns; ++i) _mm_pause();
}

bool commit_inside() {
  TMH_ASSERT(is_running_inside && current_rights() == Rights::kBoth);
  make_draft();
  if (draft.entries == 0) {
    count(Count::kReadOnly);
  } else {
    const bool is_large = draft.used > Log::kCommitMax && !is_alone();
    if (is_large) OwnPages::give_away_all();  // such a commit leaves no entries in the log
    if (is_large && !try_be_alone()) return false;
    const bool is_published = publish_draft();
    if (is_large) end_alone();
    if (!is_published) return false;
    update_twins();
  }
  count(Count::kCommits);
  leave_inside();
  Copies::tidy();
  set_rights(Rights::kPlain);
  const std::uint64_t stamp = control->clock.load(std::memory_order_relaxed);
  for (void *const block : freed) waiting.push_back({stamp, block});
  freed.clear();
  allocated.clear();
  marks.clear();
  release_waiting(32);
  return true;
}

void release_allocated(std::size_t kept) noexcept {
  for (std::size_t i = kept; i < allocated.size(); ++i) heap_release(allocated[i]);
  allocated.resize(kept);
}

}  // namespace

void Transaction::begin(std::uintptr_t stack, std::uint32_t attempt) noexcept {
  TMH_ASSERT(has_view && !is_running_inside && marks.empty() && stack < stack_end);
  TMH_ASSERT(allocated.empty() && freed.empty());
  if (attempt != 0) wait_to_begin_again(attempt);
  stack_begin = stack;
  const Busy busy;
  if (self().is_wanted.load(std::memory_order_relaxed) != 0) {
    self().is_wanted.store(0, std::memory_order_seq_cst);
    Holds::give_up(true);
  }
  Holds::give_up_many();
  OwnPages::keep_images();
  save_stack(stack, &stack_copy);
  save_thread(&thread_copy);
  count(Count::kBegins);
  take_snapshot();
  is_running_inside = true;
}

bool Transaction::commit() noexcept {
  const Busy busy;
  set_rights(Rights::kBoth);
  return commit_inside();
}

void Transaction::roll_back() noexcept {
  const Busy busy;
  set_rights(Rights::kBoth);
  Copies::restore();
  restore_stack(stack_begin, stack_copy);
  restore_thread(thread_copy);
  leave_inside();
  Copies::tidy();
  set_rights(Rights::kPlain);
  release_allocated(0);
  freed.clear();
  marks.clear();
}

bool Transaction::go_alone() noexcept {
  set_rights(Rights::kBoth);
  if (!try_be_alone()) return false;
  is_alone_by_itself = false;  // it stays alone
  const Busy busy;
  // What follows sees the newest state: what was read must be it.
  if (is_newest() && commit_inside()) return true;
  end_alone();
  return false;
}

std::size_t Transaction::mark() noexcept {
  TMH_ASSERT(is_running_inside);
  const OwnRights rights;
  const Busy busy;  // a page that is given away moves in the list
  Mark &mark = marks.emplace_back();
  mark.allocated = allocated.size();
  mark.freed = freed.size();
  for (std::uint32_t i = 0; i < Mappings::written_count(); ++i) {
    const Mappings::Written &each = Mappings::written()[i];
    const std::byte *const copy = copy_of(each.page);
    if (std::memcmp(copy, each.twin, kPageBytes) != 0)
      mark.pages.push_back({each.page, std::vector<std::byte>(copy, copy + kPageBytes)});
  }
  save_thread(&mark.thread_copy);
  return marks.size();
}

void Transaction::save_stack_of_mark(std::uintptr_t stack) noexcept {
  const OwnRights rights;
  TMH_ASSERT(!marks.empty() && stack <= stack_end);
  marks.back().stack = stack;
  save_stack(stack, &marks.back().stack_copy);
}

void Transaction::drop_mark() noexcept {
  const OwnRights rights;
  TMH_ASSERT(is_running_inside && !marks.empty());
  marks.pop_back();
}

void Transaction::roll_back_to_mark() noexcept {
  const OwnRights rights;  // of the requests, too, that busy answers at its end
  const Busy busy;
  TMH_ASSERT(is_running_inside && !marks.empty());
  const Mark mark = std::move(marks.back());
  marks.pop_back();
  for (std::uint32_t i = 0; i < Mappings::written_count(); ++i) {
    const Mappings::Written &each = Mappings::written()[i];
    const auto saved = std::find_if(mark.pages.begin(), mark.pages.end(),
                                    [&each](const Saved &page) { return page.page == each.page; });
    std::memcpy(copy_of(each.page), saved == mark.pages.end() ? each.twin : saved->content.data(),
                kPageBytes);
  }
  restore_stack(mark.stack, mark.stack_copy);
  restore_thread(mark.thread_copy);
  TMH_ASSERT(mark.allocated <= allocated.size() && mark.freed <= freed.size());
  release_allocated(mark.allocated);
  freed.resize(mark.freed);
}

void Transaction::note_failure(Failure failure) noexcept {
  count(failure == Failure::kTooOld ? Count::kTooOld : Count::kPlain);
}

void Transaction::die(int) noexcept {
  roll_back();
  end_alone();
  died_function();
  count(Count::kDeaths);
}

std::uintptr_t Transaction::stack() noexcept { return stack_begin; }

void Transaction::restart() noexcept {
  TMH_ASSERT(restart_function != nullptr);
  restart_function();
  __builtin_unreachable();
}

void Transaction::set_functions(Function restart, Function irrevocable, Function died) noexcept {
  died_function = died;
  restart_function = restart;
  irrevocable_function = irrevocable;
}

void Transaction::go_irrevocable() { irrevocable_function(); }

void Transaction::note_allocated(void *block) noexcept {
  TMH_ASSERT(is_running_inside && block != nullptr);
  if (allocated.size() == allocated.capacity()) {
    const OwnRights rights;
    allocated.reserve(2 * allocated.size() + 64);
  }
  allocated.push_back(block);
}

void Transaction::note_freed(void *block) noexcept {
  if (is_running_inside) {
    if (freed.size() == freed.capacity()) {
      const OwnRights rights;
      freed.reserve(2 * freed.size() + 64);
    }
    freed.push_back(block);
  } else if (!are_rights_on() || least_pin() == kOutside) {
    heap_release(block);
  } else {
    waiting.push_back({control->clock.load(std::memory_order_seq_cst), block});
    release_waiting(256);
  }
}

// Blocks that a long reader still needs have no owner afterwards: they stay in use.
void Transaction::leave() noexcept {
  TMH_ASSERT(!is_running_inside);
  release_waiting(0);
}

// A new task has its creator's objects.
void Transaction::enter(std::uint64_t clock, std::uintptr_t end) noexcept {
  stack_end = end;
  is_running_inside = false;
  pulled = clock;
  has_blocks = false;
  allocated.clear();
  freed.clear();
  waiting.clear();
  marks.clear();
}

}  // namespace tmh::itm::pages
