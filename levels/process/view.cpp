// levels/process/view.cpp -- mappings of this task: copies, twins, holds.
#include "levels/process/view.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "levels/process/faults.h"
#include "levels/process/ground/kernel_call.h"
#include "levels/process/ground/system_calls.h"
#include "levels/process/own_pages.h"
#include "levels/process/rights.h"
#include "levels/process/turns.h"

namespace tmh::itm::pages {

namespace {

constexpr std::uint32_t kWindowMax =
    32;  // pages made ahead, of a transaction that goes through them
constexpr std::uint32_t kPlainWindowMax = 512;
constexpr std::uint32_t kFileTries = 1000;
// Mappings of home that turn() changes one by one, 1 us each, rather than that they go.
constexpr std::uint32_t kRunsTurned = 32;
// And all go now and then: those that are in use come back.
constexpr std::uint32_t kBeginsTurned = 64;
constexpr std::uint32_t kRunsSpare = 64;  // for pages that are given away
// Copies that turn() changes, 10 ns each and way, rather than that all are made again.
constexpr std::uint32_t kCopiesTurned = 512;
constexpr std::uint32_t kWrittenMax = 1u << 22, kForNowMax = 1u << 20, kRunsMax = 1u << 14;
// Comparing costs 0.1 us, a first store 5 us; protecting again 1 us.
constexpr std::uint16_t kIdleMax = 48, kIdlePulledMax = 6;
// Useless comparisons of all pages together that are as dear as protecting one.
constexpr std::uint32_t kComparedMax = 1024;

std::byte buffer[kWindowMax * kPageBytes] __attribute__((aligned(4096)));

void *private_memory(std::size_t bytes) noexcept {
  void *const memory = raw_mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

}  // namespace

void die(const char *what) noexcept {
  // The variable stderr may lie in memory of the program, which has no mapping here.
  char text[256];
  const int size = std::snprintf(text, sizeof text, "libitm (tmh): method pages: %s: %s\n", what,
                                 std::strerror(errno));
  kernel_call(SYS_write, STDERR_FILENO, reinterpret_cast<long>(text), size, 0, 0, 0);
  std::_Exit(127);
}

bool View::make_tables() noexcept {
  const std::size_t pages = Memory::pages();
  if (modes_ != nullptr) {  // the creator's
    raw_munmap(modes_, pages);
    raw_munmap(index_, pages * sizeof(*index_));
    written_count_ = for_now_count_ = runs_count_ = copies_ = owned_count_ = 0;
    Turns::forget_copies();
    free_twins_ = nullptr;
  } else {
    written_ = static_cast<Written *>(private_memory(kWrittenMax * sizeof(Written)));
    for_now_ = static_cast<PageNumber *>(private_memory(kForNowMax * sizeof(PageNumber)));
    runs_ = static_cast<Run *>(private_memory(kRunsMax * sizeof(Run)));
  }
  modes_ = static_cast<std::uint8_t *>(private_memory(pages));
  index_ = static_cast<std::uint32_t *>(private_memory(pages * sizeof(*index_)));
  return modes_ != nullptr && index_ != nullptr && written_ != nullptr && for_now_ != nullptr &&
         runs_ != nullptr;
}

bool View::put_base(PageNumber first, std::uint32_t count) noexcept {
  const std::uintptr_t at = Memory::address_of(first);
  const std::uint64_t bytes = count * kPageBytes;
  if (raw_mmap(reinterpret_cast<void *>(at), bytes, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) == MAP_FAILED)
    return false;
  if (has_keys() &&
      raw_pkey_mprotect(reinterpret_cast<void *>(at), bytes, PROT_READ | PROT_WRITE, copy_key) != 0)
    return false;
  uffdio_register range{};
  range.range.start = at;
  range.range.len = bytes;
  range.mode = UFFDIO_REGISTER_MODE_MISSING | UFFDIO_REGISTER_MODE_WP;
  return raw_ioctl(faults_, UFFDIO_REGISTER, &range) == 0;
}

bool View::put_home(PageNumber first, std::uint32_t count, Mapped as) noexcept {
  void *const at = reinterpret_cast<void *>(Memory::address_of(first));
  const std::uint64_t bytes = count * kPageBytes;
  const int rights = PROT_READ | (as == Mapped::kShared ? 0 : PROT_WRITE);
  return raw_mmap(at, bytes, rights, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, Memory::home_file(),
                  static_cast<off_t>(first * kPageBytes)) != MAP_FAILED &&
         (!has_keys() || as == Mapped::kOwned ||
          raw_pkey_mprotect(at, bytes, rights, shared_key) == 0);
}

bool View::enter(std::uint64_t *clock) noexcept {
  if (!make_tables()) return false;
  // The creator's stays open: tasks share their descriptors.
  // From here on the number is the program's, which may close it.
  const std::int32_t kept = self().faults_file.exchange(0, std::memory_order_relaxed);
  if (kept != 0) kernel_call(SYS_close, kept - 1, 0, 0, 0, 0, 0);
  for (std::uint32_t tries = 0; tries < kFileTries; ++tries) {
    faults_ = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY));
    if (faults_ >= 0 || errno != EMFILE) break;
    const timespec pause{0, 1'000'000};  // another task was faster, and may close a file soon
    kernel_call(SYS_nanosleep, reinterpret_cast<long>(&pause), 0, 0, 0, 0, 0);
  }
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = UFFD_FEATURE_SIGBUS;
  if (faults_ < 0 || raw_ioctl(faults_, UFFDIO_API, &api) != 0) return false;
  self().faults_file.store(faults_ + 1, std::memory_order_relaxed);
  prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
  const Range own = Memory::stack_of(self_slot);
  for (std::uint32_t i = 0; i < Memory::regions(); ++i) {
    const Region &region = Memory::region(i);
    const auto put = [&region](std::uintptr_t begin, std::uintptr_t end) {
      return begin >= end ||
             put_base(region.first + static_cast<PageNumber>((begin - region.begin) / kPageBytes),
                      static_cast<std::uint32_t>((end - begin) / kPageBytes));
    };
    const std::uintptr_t hole_begin = std::clamp(own.begin, region.begin, region.end);
    const std::uintptr_t hole_end = std::clamp(own.begin + own.bytes, region.begin, region.end);
    if (!put(region.begin, hole_begin) || !put(std::max(hole_end, region.begin), region.end))
      return false;
  }
  const CommitLock lock;  // the end of the log and the clock fit together
  position_ = control->head.load(std::memory_order_relaxed);
  *clock = control->clock.load(std::memory_order_relaxed);
  return true;
}

bool View::start(std::uint64_t *clock) noexcept {
  take_keys();
  return enter(clock);
}

bool View::cover(const Region &region) noexcept {
  return put_base(region.first,
                  static_cast<std::uint32_t>((region.end - region.begin) / kPageBytes));
}

void View::forget_region(const Region &region) noexcept {
  const std::uint64_t now = control->clock.load(std::memory_order_acquire);
  const PageNumber end =
      region.first + static_cast<PageNumber>((region.end - region.begin) / kPageBytes);
  Turns::forget_region(region.first);
  for (PageNumber page = region.first; page < end; ++page) {
    const Mapped before = mapped(page);
    if (before == Mapped::kWritten) remove_twin(index_[page]);
    if (before == Mapped::kCopy || before == Mapped::kWritten) --copies_;
    if (before == Mapped::kHeld) release(page, now);
    if (before == Mapped::kShared) page_states[page].sharers.remove(self_slot);
    if (before == Mapped::kOwned) OwnPages::forget(page);
    modes_[page] = static_cast<std::uint8_t>(Mapped::kNothing);
  }
}

void View::open_stack(std::uint32_t slot) noexcept {
  const Range stack = Memory::stack_of(slot);
  const PageNumber first = Memory::page_of(stack.begin);
  give_up(false);  // pages of it may be held
  if (raw_mmap(reinterpret_cast<void *>(stack.begin), stack.bytes, PROT_READ | PROT_WRITE,
               MAP_SHARED | MAP_FIXED | MAP_NORESERVE, Memory::home_file(),
               static_cast<off_t>(first * kPageBytes)) == MAP_FAILED)
    die("a stack cannot be mapped");
}

void View::close_stack(std::uint32_t slot) noexcept {
  const Range stack = Memory::stack_of(slot);
  const PageNumber first = Memory::page_of(stack.begin);
  const auto count = static_cast<std::uint32_t>(stack.bytes / kPageBytes);
  std::memset(modes_ + first, 0, count);
  if (!put_base(first, count)) die("a stack cannot be mapped");
}

void View::enter_forked() noexcept {
  for (std::uint32_t i = 0; i < Memory::regions(); ++i) {
    const Region &region = Memory::region(i);
    const Range own = Memory::stack_of(self_slot);
    if (region.begin <= own.begin && own.begin < region.end) continue;  // its stack stays
    raw_mmap(reinterpret_cast<void *>(region.begin), region.end - region.begin,
             PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, Memory::home_file(),
             static_cast<off_t>(region.first * kPageBytes));
  }
  OwnPages::enter_forked();
}

// The page at the task's pin, from home and the log.
Made View::make(PageNumber page, std::byte *out) noexcept {
  PageState &state = page_states[page];
  if ((state.newest.load(std::memory_order_relaxed) & kTouched) == 0)
    state.newest.fetch_or(kTouched, std::memory_order_seq_cst);
  const std::uint64_t pin = self().pin.load(std::memory_order_relaxed);
  std::uint64_t released = 0, newest = 0;
  bool has_holders = false;
  for (std::uint32_t tries = 0;; ++tries) {
    // Before the bits: an owner counts itself behind its bit, and before it stores in place.
    const std::uint32_t owners = state.owners.load(std::memory_order_acquire);
    newest = state.newest.load(std::memory_order_acquire);
    if ((newest & kHasOwner) != 0) return Made::kUnclear;
    if ((newest & kBusy) == 0) {
      // Before the copy: a holder from before the touched bit may store and let go while the page
      // is copied. One that comes later says so in the log.
      has_holders = state.holders.has_others(self_slot);
      std::memcpy(out, Memory::home(page), kPageBytes);
      std::atomic_thread_fence(std::memory_order_seq_cst);
      released = state.released.load(std::memory_order_acquire);
      if (state.newest.load(std::memory_order_acquire) == newest &&
          state.owners.load(std::memory_order_acquire) == owners)
        break;
    } else if (tries % 1024 == 1023) {
      const CommitLock lock;  // repairs what a dead committer left
    }
    __builtin_ia32_pause();
  }
  const Entry *oldest_image = nullptr;
  for (Position position = newest & ~kBits;
       position != 0 && position >= control->tail.load(std::memory_order_acquire);) {
    const Entry &entry = *Log::at(position);
    if (entry.stamp <= pin) break;
    undo(entry, out);
    if (entry.kind == EntryKind::kImage) oldest_image = &entry;
    position = entry.previous;
  }
  bool is_clear = true;
  if (oldest_image != nullptr) {
    is_clear = oldest_image->released <= pin && oldest_image->others == 0;
  } else {
    // A stack is stored to plainly at any time.
    is_clear = released <= pin && ((!has_holders && Memory::stack_slot_of(page) == kTasksMax) ||
                                   control->committed.load(std::memory_order_seq_cst) <= pin);
  }
  // seq_cst: pairs with trim(), which gives a chunk away behind its store
  if (control->trimmed.load(std::memory_order_seq_cst) > pin) return Made::kTooOld;
  if (!is_clear) return Made::kUnclear;
  return !has_holders && Memory::stack_slot_of(page) == kTasksMax ? Made::kKept : Made::kForNow;
}

void View::protect(PageNumber page, bool is_protected) noexcept {
  uffdio_writeprotect range{};
  range.range.start = Memory::address_of(page);
  range.range.len = kPageBytes;
  range.mode = is_protected ? UFFDIO_WRITEPROTECT_MODE_WP : 0;
  if (raw_ioctl(faults_, UFFDIO_WRITEPROTECT, &range) != 0) die("a page cannot be protected");
}

void View::add_twin(PageNumber page, const std::byte *content, bool is_pulled) noexcept {
  std::byte *twin = free_twins_;
  if (twin != nullptr) {
    std::memcpy(&free_twins_, twin, sizeof free_twins_);
  } else {
    static std::byte *pool = nullptr;
    static std::size_t left = 0;
    if (left == 0) {
      left = 256;
      pool = static_cast<std::byte *>(private_memory(left * kPageBytes));
      if (pool == nullptr) die("no memory for copies");
    }
    twin = pool + --left * kPageBytes;
  }
  std::memcpy(twin, content, kPageBytes);
  note_written(page, twin, is_pulled);
  modes_[page] = static_cast<std::uint8_t>(Mapped::kWritten);
}

void View::note_written(PageNumber page, std::byte *twin, bool is_pulled) noexcept {
  if (written_count_ == kWrittenMax) die("too many pages are written");
  index_[page] = written_count_;
  written_[written_count_++] = {page, 0, is_pulled, twin};
}

void View::remove_twin(std::uint32_t index) noexcept {
  Written &gone = written_[index];
  std::memcpy(gone.twin, &free_twins_, sizeof free_twins_);
  free_twins_ = gone.twin;
  remove_written(index);
}

void View::remove_written(std::uint32_t index) noexcept {
  Written &gone = written_[index];
  gone = written_[--written_count_];
  index_[gone.page] = index;
}

bool View::fill(PageNumber first, std::uint32_t count, const std::byte *content,
                bool is_writable) noexcept {
  uffdio_copy copy{};
  copy.dst = Memory::address_of(first);
  copy.src = reinterpret_cast<std::uintptr_t>(content);
  copy.len = count * kPageBytes;
  copy.mode = is_writable ? 0 : UFFDIO_COPY_MODE_WP;
  if (raw_ioctl(faults_, UFFDIO_COPY, &copy) != 0) return false;
  pages::count(Count::kCopies, count);
  copies_ += count;
  if (!has_keys()) Turns::note_copy(first);
  return true;
}

Made View::open_for_transaction(PageNumber page, bool is_store) noexcept {
  const Mapped before = mapped(page);
  if (before == Mapped::kWritten) return Made::kKept;
  if (before == Mapped::kCopy) {
    if (!is_store) return Made::kKept;
    count(Count::kFirstStores);
    protect(page, false);
    add_twin(page, reinterpret_cast<const std::byte *>(Memory::address_of(page)), false);
    return Made::kKept;
  }
  if (before == Mapped::kShared || before == Mapped::kHeld) {
    if (!put_base(page, 1)) die("a page cannot be mapped");
    // Its own plain stores were before its begin.
    if (before == Mapped::kHeld) release(page, self().pin.load(std::memory_order_relaxed));
    if (before == Mapped::kShared) page_states[page].sharers.remove(self_slot);
    modes_[page] = static_cast<std::uint8_t>(Mapped::kNothing);
    last_opened_ = kNoPage;
  }
  const std::uint32_t stack = Memory::stack_slot_of(page);
  if (stack != kTasksMax) {
    // Its own transactions store there in place: none may run while this one reads.
    Slot &owner = control->slots[stack];
    if (owner.is_stack_shared.load(std::memory_order_relaxed) == 0)
      owner.is_stack_shared.store(1, std::memory_order_seq_cst);
    if (owner.pin.load(std::memory_order_seq_cst) != kOutside) return Made::kUnclear;
  }
  window_ = page == last_opened_ + 1 ? std::min(2 * window_, kWindowMax) : 1;
  Made made = make(page, buffer);
  if (made != Made::kKept && made != Made::kForNow) return made;
  std::uint32_t ahead = 1;
  if (made == Made::kKept && !is_store) {
    const Region &region = Memory::region_of(page);
    const PageNumber end =
        region.first + static_cast<PageNumber>((region.end - region.begin) / kPageBytes);
    while (ahead < window_ && page + ahead < end && mapped(page + ahead) == Mapped::kNothing &&
           (page_states[page + ahead].newest.load(std::memory_order_relaxed) & kTouched) != 0 &&
           make(page + ahead, buffer + ahead * kPageBytes) == Made::kKept)
      ++ahead;
  }
  last_opened_ = page + ahead - 1;
  bool is_filled = fill(page, ahead, buffer, is_store);
  if (!is_filled && errno == ENOENT && ahead > 1) {
    // The kernel copies into one of its mappings at a time: another one begins among these pages.
    ahead = 1;
    last_opened_ = page;
    is_filled = fill(page, ahead, buffer, is_store);
  }
  if (!is_filled) die("a page cannot be copied");
  if (is_store) {
    add_twin(page, buffer, false);
  } else {
    std::memset(modes_ + page, static_cast<int>(Mapped::kCopy), ahead);
  }
  if (made == Made::kForNow) {
    if (for_now_count_ == kForNowMax) die("too many pages are in plain use");
    for_now_[for_now_count_++] = page;
    // The holders let go of it when they begin a transaction.
    page_states[page].holders.for_each_other(self_slot, [](std::uint32_t slot) {
      control->slots[slot].is_wanted.store(1, std::memory_order_relaxed);
    });
  }
  return made;
}

void View::drop(PageNumber page) noexcept {
  if (mapped(page) == Mapped::kWritten) remove_twin(index_[page]);
  modes_[page] = static_cast<std::uint8_t>(Mapped::kNothing);
  raw_madvise(reinterpret_cast<void *>(Memory::address_of(page)), kPageBytes, MADV_DONTNEED);
  --copies_;
  count(Count::kDropped);
}

void View::drop_all_copies() noexcept {
  if (copies_ == 0) return;
  // Without keys: where there are no copies, there are all rights.
  const bool was_turned = Turns::is_to_copies();
  if (!has_keys()) Turns::turn(true);
  for (std::uint32_t i = 0; i < Memory::regions(); ++i) {
    const Region &region = Memory::region(i);
    const PageNumber end =
        region.first + static_cast<PageNumber>((region.end - region.begin) / kPageBytes);
    // Found by words: most of the table is zero, and was never used.
    for (PageNumber page = region.first; page < end && copies_ != 0;) {
      if (mapped(page) == Mapped::kCopy || mapped(page) == Mapped::kWritten) {
        PageNumber last = page;
        while (last < end && (mapped(last) == Mapped::kCopy || mapped(last) == Mapped::kWritten)) {
          if (mapped(last) == Mapped::kWritten) remove_twin(index_[last]);
          modes_[last++] = 0;
          --copies_;
        }
        raw_madvise(reinterpret_cast<void *>(Memory::address_of(page)),
                    static_cast<std::size_t>(last - page) * kPageBytes, MADV_DONTNEED);
        page = last;
      } else {
        ++page;
      }
    }
  }
  for_now_count_ = 0;
  Turns::forget_copies();
  if (!has_keys()) Turns::turn(was_turned);
}

// Plain code is going to use the page.
void View::enter_home(PageNumber page, bool is_store) noexcept {
  PageState &state = page_states[page];
  Memory::note_holder(page);
  state.sharers.add(self_slot);
  if (is_store) state.holders.add(self_slot);
  if ((state.newest.load(std::memory_order_seq_cst) & kHasOwner) != 0)
    OwnPages::wait_for_owner(page);
  if (is_store && (state.newest.load(std::memory_order_seq_cst) & kTouched) != 0) log_image(page);
}

// Copies of it exist: they end, and older snapshots find the page as it was.
void View::log_image(PageNumber page) noexcept {
  PageState &state = page_states[page];
  const CommitLock lock;
  constexpr std::uint32_t kBytes = sizeof(Entry) + kPageBytes;
  Entry *const entry = Log::reserve(kBytes);
  const std::uint64_t stamp = control->clock.load(std::memory_order_relaxed) + 1;
  *entry = {};
  entry->stamp = stamp;
  entry->previous = state.newest.load(std::memory_order_relaxed) & ~kBits;
  entry->page = page;
  entry->size = kBytes;
  entry->kind = EntryKind::kImage;
  entry->slot = static_cast<std::uint8_t>(self_slot);
  entry->others = state.holders.has_others(self_slot);
  entry->released = state.released.load(std::memory_order_acquire);
  std::memcpy(entry->content(), Memory::home(page), kPageBytes);
  Log::publish(stamp, false);
  count(Count::kImages);
}

// REQUIRES: the page is not mapped writable any more.
void View::release(PageNumber page, std::uint64_t now) noexcept {
  PageState &state = page_states[page];
  // In this order: a reader that finds no holder finds when the last one let go.
  raise(&state.released, now);
  state.holders.remove(self_slot);
  state.sharers.remove(self_slot);
}

void View::open_for_plain(PageNumber page, bool is_store) noexcept {
  count(Count::kPlainTouches);
  // Mappings are limited (vm.max_map_count).
  if (runs_count_ >= kRunsMax - kRunsSpare) give_up(false);
  const Region &region = Memory::region_of(page);
  const PageNumber end =
      region.first + static_cast<PageNumber>((region.end - region.begin) / kPageBytes);
  static PageNumber next = kNoPage;
  static std::uint32_t window = 1;
  window = page == next ? std::min(2 * window, kPlainWindowMax) : 1;
  std::uint32_t pages = 1;
  // Ahead only what no transaction uses, or what is only read.
  while (pages < window && page + pages < end && mapped(page + pages) == Mapped::kNothing &&
         Memory::stack_slot_of(page + pages) == kTasksMax &&
         (page_states[page + pages].newest.load(std::memory_order_relaxed) & kHasOwner) == 0 &&
         (!is_store ||
          (page_states[page + pages].newest.load(std::memory_order_relaxed) & kTouched) == 0))
    ++pages;
  next = page + pages;
  const Mapped before = mapped(page);
  const bool is_copy = before == Mapped::kCopy || before == Mapped::kWritten;
  const bool is_candidate = is_copy && OwnPages::is_candidate(page);
  is_store = is_store || is_candidate;
  if (is_candidate) next = page + (pages = 1);
  for (std::uint32_t i = 0; i < pages; ++i) enter_home(page + i, is_store);
  if (is_copy) {
    if (before == Mapped::kWritten) remove_twin(index_[page]);
    --copies_;
    modes_[page] = static_cast<std::uint8_t>(Mapped::kNothing);
  }
  if (is_candidate && OwnPages::take(page)) return;
  const Mapped as = is_store ? Mapped::kHeld : Mapped::kShared;
  if (!put_home(page, pages, as)) die("a page cannot be shared");
  std::memset(modes_ + page, static_cast<int>(as), pages);
  runs_[runs_count_++] = {page, pages};
}

void View::note_call_use(std::uintptr_t at, std::size_t bytes) noexcept {
  const PageNumber first = Memory::page_of(at);
  if (first == kNoPage) return;
  call_uses_[call_use_++ % kCallUses] = {
      first, static_cast<std::uint32_t>((at % kPageBytes + bytes + kPageBytes - 1) / kPageBytes)};
}

bool View::is_in_call_use(PageNumber page) noexcept {
  return std::any_of(call_uses_, call_uses_ + std::min(call_use_, kCallUses),
                     [page](const Run &each) { return page - each.first < each.count; });
}

void View::give_up(bool touched_only, bool is_in_call) noexcept {
  touched_only ? OwnPages::give_away_wanted() : OwnPages::give_away_all();
  give_up_runs(touched_only, !touched_only && runs_count_ >= kRunsMax / 2, is_in_call);
}

void View::give_up_many() noexcept {
  if (has_keys()) return;
  static std::uint32_t begins = 0;
  if (runs_count_ > kRunsTurned || ++begins % kBeginsTurned == 0) give_up_runs(false, true, false);
}

void View::give_up_runs(bool touched_only, bool shared_too, bool is_in_call) noexcept {
  const std::uint64_t now = control->clock.load(std::memory_order_acquire);
  std::uint32_t kept = 0;
  for (std::uint32_t i = 0; i < runs_count_; ++i) {
    const Run run = runs_[i];
    bool is_kept = false;
    const auto goes = [&](PageNumber each) {
      if (is_in_call && is_in_call_use(each)) return false;
      if (mapped(each) == Mapped::kShared) return shared_too;
      return mapped(each) == Mapped::kHeld &&
             (!touched_only ||
              (page_states[each].newest.load(std::memory_order_relaxed) & kTouched) != 0);
    };
    for (PageNumber page = run.first; page < run.first + run.count;) {
      if (!goes(page)) {
        is_kept = is_kept || mapped(page) == Mapped::kHeld || mapped(page) == Mapped::kShared;
        ++page;
        continue;
      }
      PageNumber last = page;
      while (last < run.first + run.count && goes(last)) ++last;
      if (!put_base(page, last - page)) die("a page cannot be mapped");
      for (; page < last; ++page) {
        if (mapped(page) == Mapped::kHeld) {
          release(page, now);
        } else {
          page_states[page].sharers.remove(self_slot);
        }
        modes_[page] = static_cast<std::uint8_t>(Mapped::kNothing);
      }
    }
    if (is_kept) runs_[kept++] = run;
  }
  runs_count_ = kept;
}

void View::leave() noexcept { give_up(false); }

void View::ask(PageNumber page) noexcept {
  page_states[page].wanted.store(1, std::memory_order_seq_cst);
  page_states[page].holders.for_each_other(self_slot, [](std::uint32_t each) {
    Slot &slot = control->slots[each];
    slot.is_wanted.store(1, std::memory_order_seq_cst);
    const std::int32_t pid = slot.pid.load(std::memory_order_relaxed);
    if (pid > 0) syscall(SYS_tgkill, pid, pid, recall_signal());
    count(Count::kRecalls);
  });
}

void View::recall(PageNumber page) noexcept {
  const Slots &holders = page_states[page].holders;
  Slots asked{};
  holders.for_each_other(self_slot, [&asked](std::uint32_t each) { asked.add(each); });
  ask(page);
  const auto is_held = [&] {
    bool is_any = false;
    asked.for_each_other(self_slot,
                         [&](std::uint32_t each) { is_any = is_any || holders.has(each); });
    return is_any;
  };
  for (std::uint32_t tries = 0; tries < 200 && is_held(); ++tries) {
    OwnPages::answer();  // the other may wait for a page of this task
    const timespec pause{0, 20'000};
    kernel_call(SYS_nanosleep, reinterpret_cast<long>(&pause), 0, 0, 0, 0, 0);
  }
}

void View::forget() noexcept {
  drop_all_copies();
  position_ = control->head.load(std::memory_order_acquire);
}

bool View::pull(std::uint64_t from, std::uint64_t clock) noexcept {
  const Position head = control->head.load(std::memory_order_acquire);
  for (Position at = Log::skip(position_); at < head; at = Log::skip(position_)) {
    const Entry &entry = *Log::at(at);
    const EntryKind kind = entry.kind;
    const std::uint64_t stamp = entry.stamp;
    const PageNumber page = entry.page;
    const std::uint32_t size = entry.size, slot = entry.slot;
    // Behind the loads: what was read was an entry (Log::trim()).
    if (control->trimmed.load(std::memory_order_seq_cst) > from) return false;
    if (kind != EntryKind::kSkip) {
      if (stamp > clock) break;
      const Mapped now = mapped(page);
      if (slot != self_slot && (now == Mapped::kCopy || now == Mapped::kWritten)) {
        if (kind == EntryKind::kImage) {
          drop(page);
        } else {
          auto *const copy = reinterpret_cast<std::byte *>(Memory::address_of(page));
          if (now == Mapped::kCopy) {
            protect(page, false);
            add_twin(page, copy, true);
          }
          redo(entry, copy);
          redo(entry, written_[index_[page]].twin);
          // Otherwise another chunk's bytes may be in the copy: the caller drops all copies.
          if (control->trimmed.load(std::memory_order_seq_cst) > from) return false;
        }
      }
    }
    position_ = at + size;
  }
  return true;
}

void View::restore() noexcept {
  for (std::uint32_t i = 0; i < written_count_; ++i) {
    auto *const copy = reinterpret_cast<std::byte *>(Memory::address_of(written_[i].page));
    if (std::memcmp(copy, written_[i].twin, kPageBytes) != 0)
      std::memcpy(copy, written_[i].twin, kPageBytes);
  }
}

void View::tidy() noexcept {
  for (std::uint32_t i = 0; i < for_now_count_; ++i) {
    const Mapped now = mapped(for_now_[i]);
    if (now == Mapped::kCopy || now == Mapped::kWritten) drop(for_now_[i]);
  }
  for_now_count_ = 0;
  if (!has_keys() && copies_ > kCopiesTurned) drop_all_copies();
  OwnPages::give_away_idle();
  // The more pages are compared at each commit, the sooner one goes that is not stored to.
  const std::uint32_t share = kComparedMax / (written_count_ + 1);
  const std::uint32_t idle_max = std::min<std::uint32_t>(kIdleMax, share);
  const std::uint32_t idle_pulled_max = std::min<std::uint32_t>(kIdlePulledMax, share);
  for (std::uint32_t i = 0; i < written_count_;) {
    const Written &each = written_[i];
    if (mapped(each.page) == Mapped::kOwned ||
        each.idle <= (each.is_pulled ? idle_pulled_max : idle_max)) {
      ++i;
      continue;
    }
    protect(each.page, true);
    modes_[each.page] = static_cast<std::uint8_t>(Mapped::kCopy);
    remove_twin(i);
  }
}

}  // namespace tmh::itm::pages
