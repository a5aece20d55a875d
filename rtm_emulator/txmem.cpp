// rtm_emulator/txmem.cpp -- touching, validating and publishing lines.
#include "rtm_emulator/txmem.h"

#include <atomic>

#include "rtm_emulator/assert.h"
#include "rtm_emulator/mappings.h"
#include "rtm_emulator/publish.h"

namespace tmh::rtm {

namespace {

constexpr std::uint32_t kTableBits = 16;  // four times kLinesMax: short probes
constexpr std::uint32_t kTableEntries = 1u << kTableBits;
constexpr std::uint32_t kPageEntries = 1024;
constexpr std::uint32_t kSetsMax = 1u << 16;
// Elision reads its lock first; comparing these at each new line finds a native lock holder before
// what it writes can mislead us.
constexpr std::uint32_t kFirstLines = 4;
static_assert(kTableEntries == 4 * kLinesMax);
static_assert(kLinesMax <= 1u << 20, "an entry of the table has 20 bits for a line");
static_assert(kStagedBytes == kLinesMax * kLineBytes, "a commit may change every line");

std::uint32_t hash_of(std::uint64_t line_address, std::uint32_t bits) noexcept {
  return static_cast<std::uint32_t>(line_address / kLineBytes * 0x9E37'79B9'7F4A'7C15u >>
                                    (64 - bits));
}

// No memcpy: it is a call into libc.
void copy_line(std::uint8_t *to, const std::uint8_t *from) noexcept {
  for (std::size_t i = 0; i < kLineBytes; i += 8) {
    std::uint64_t word = 0;
    __builtin_memcpy(&word, from + i, 8);
    __builtin_memcpy(to + i, &word, 8);
  }
}

}  // namespace

bool TxMemory::allocate() noexcept {
  const auto take = [](std::size_t bytes) { return map_memory(bytes, Sharing::kPrivate); };
  lines_ = static_cast<Line *>(take(kLinesMax * sizeof(Line)));
  data_ = static_cast<std::uint8_t *>(take(kLinesMax * 2 * kLineBytes));
  table_ = static_cast<std::uint64_t *>(take(kTableEntries * sizeof *table_));
  pages_ = static_cast<std::uint64_t *>(take(kPageEntries * sizeof *pages_));
  page_numbers_ = static_cast<std::uint64_t *>(take(kPageEntries * sizeof *page_numbers_));
  ways_ = static_cast<std::uint8_t *>(take(kSetsMax));
  return lines_ != nullptr && data_ != nullptr && table_ != nullptr && pages_ != nullptr &&
         page_numbers_ != nullptr && ways_ != nullptr;
}

void TxMemory::begin(const Knobs &knobs, std::uint32_t slot, Dice *dice) noexcept {
  TMH_ASSERT(knobs.sets <= kSetsMax && (knobs.sets & (knobs.sets - 1)) == 0);
  TMH_ASSERT(knobs.read_lines <= kLinesMax && knobs.ways <= 255);  // ways_ counts in bytes
  TMH_ASSERT(slot < kSlots && dice != nullptr);
  knobs_ = knobs;
  slot_ = slot;
  dice_ = dice;
  ++generation_;
  ++page_generation_;
  changes_ = mapping_changes();
  pages_are_checked_ = true;
  count_ = 0;
  last_ = kLinesMax;
  seq_ = even_seq();
  shared().slots[slot].doomed.store(
      0, std::memory_order_relaxed);  // relaxed: whoever dooms us found a line of ours, later
}

bool TxMemory::read(std::uint64_t address, void *to, std::size_t bytes) noexcept {
  auto *out = static_cast<std::uint8_t *>(to);
  while (bytes != 0) {
    std::uint32_t line = 0;
    if (!touch(address & ~(kLineBytes - 1), Intent::kRead, &line)) return false;
    const std::uint64_t offset = address % kLineBytes;
    const std::size_t part = bytes < kLineBytes - offset ? bytes : kLineBytes - offset;
    if (part == 8)
      __builtin_memcpy(out, current(line) + offset, 8);
    else
      copy_bytes(out, current(line) + offset, part);
    out += part;
    address += part;
    bytes -= part;
  }
  return true;
}

bool TxMemory::write(std::uint64_t address, const void *from, std::size_t bytes) noexcept {
  const auto *in = static_cast<const std::uint8_t *>(from);
  while (bytes != 0) {
    std::uint32_t line = 0;
    if (!touch(address & ~(kLineBytes - 1), Intent::kWrite, &line)) return false;
    const std::uint64_t offset = address % kLineBytes;
    const std::size_t part = bytes < kLineBytes - offset ? bytes : kLineBytes - offset;
    if (part == 8)
      __builtin_memcpy(current(line) + offset, in, 8);
    else
      copy_bytes(current(line) + offset, in, part);
    in += part;
    address += part;
    bytes -= part;
  }
  return true;
}

bool TxMemory::touch(std::uint64_t address, Intent intent, std::uint32_t *line) noexcept {
  TMH_ASSERT(address % kLineBytes == 0);
  if (last_ < count_ && lines_[last_].address == address) {
    *line = last_;
  } else {
    std::uint32_t at = hash_of(address, kTableBits);
    while (table_[at] >> 20 == generation_ && lines_[table_[at] & 0xF'FFFF].address != address)
      at = (at + 1) % kTableEntries;
    if (table_[at] >> 20 != generation_) {
      if (!add(address, intent, at, line)) return false;
    } else {
      *line = static_cast<std::uint32_t>(table_[at] & 0xF'FFFF);
    }
    last_ = *line;
  }
  return intent == Intent::kRead || lines_[*line].written != 0 || mark_written(*line);
}

bool TxMemory::add(std::uint64_t address, Intent intent, std::uint32_t table_index,
                   std::uint32_t *line) noexcept {
  TMH_ASSERT(table_index < kTableEntries);
  if (count_ >= knobs_.read_lines) return fail(Cause::kCapacity);
  if (!copy_stable(address, intent, count_)) return false;
  copy_line(current(count_), original(count_));
  lines_[count_] = {address, 0};
  table_[table_index] = generation_ << 20 | count_;
  *line = count_++;
  take_line(address, intent);
  if (!is_valid(count_ < kFirstLines ? count_ : kFirstLines) || is_doomed())
    return fail(Cause::kConflict);
  if (dice_->falls(knobs_.conflict_ppm)) {
    count(shared().counters.injected);
    return fail(Cause::kConflict);
  }
  if (dice_->falls(knobs_.capacity_ppm)) {
    count(shared().counters.injected);
    return fail(Cause::kCapacity);
  }
  if (dice_->falls(knobs_.spurious_ppm)) return fail(Cause::kSpurious);
  return true;
}

bool TxMemory::mark_written(std::uint32_t line) noexcept {
  TMH_ASSERT(line < count_ && lines_[line].written == 0);
  const std::uint64_t address = lines_[line].address;
  if (!page_allows(address, Intent::kWrite)) return fail(Cause::kPageFault);
  std::uint8_t &in_set = ways_[address / kLineBytes & (knobs_.sets - 1)];  // end() clears it
  if (in_set >= knobs_.ways) return fail(Cause::kCapacity);
  ++in_set;
  take_line(address, Intent::kWrite);
  lines_[line].written = 1;
  return true;
}

void TxMemory::end() noexcept {
  const std::uint64_t keep = ~(std::uint64_t{1} << slot_ % 64);
  for (std::uint32_t line = 0; line < count_; ++line) {
    const std::uint64_t address = lines_[line].address;
    if (lines_[line].written != 0) ways_[address / kLineBytes & (knobs_.sets - 1)] = 0;
    if (knobs_.requester_wins != 0) {
      const std::uint32_t word = hash_of(address, 12);
      shared().readers[word].fetch_and(keep);
      shared().writers[word].fetch_and(keep);
    }
  }
}

// Requester wins: all that have the line in a conflicting way are doomed; a hash that two lines
// share dooms one too many.
void TxMemory::take_line(std::uint64_t address, Intent intent) noexcept {
  if (knobs_.requester_wins == 0) return;
  static_assert(kConflictWords == 1 << 12);
  const std::uint32_t word = hash_of(address, 12);
  const std::uint64_t self = std::uint64_t{1} << slot_ % 64;
  (intent == Intent::kRead ? shared().readers : shared().writers)[word].fetch_or(self);
  std::uint64_t losers = shared().writers[word].load() & ~self;
  if (intent == Intent::kWrite) losers |= shared().readers[word].load() & ~self;
  for (std::uint32_t other = 0; losers != 0 && other < shared().slots_used.load(); ++other)
    if ((losers >> other % 64 & 1) != 0 && other != slot_) shared().slots[other].doomed.store(1);
}

bool TxMemory::is_doomed() const noexcept {
  return knobs_.requester_wins != 0 &&
         shared().slots[slot_].doomed.load(std::memory_order_acquire) != 0;
}

bool TxMemory::page_allows(std::uint64_t address, Intent intent) noexcept {
  if (knobs_.strict_first_touch == 0) return true;
  const std::uint64_t page = address / kPageBytes;
  const std::uint64_t bit = intent == Intent::kRead ? 1 : 3;  // what may be written may be read
  const auto entry = static_cast<std::uint32_t>(page % kPageEntries);
  if (page_numbers_[entry] == page && pages_[entry] >> 2 == page_generation_ &&
      (pages_[entry] & bit) == bit)
    return true;
  if (!(intent == Intent::kRead ? is_page_readable(page) : is_page_writable(page, &mappings_)))
    return false;
  page_numbers_[entry] = page;
  pages_[entry] = page_generation_ << 2 | bit;
  return true;
}

bool TxMemory::copy_stable(std::uint64_t address, Intent intent, std::uint32_t line) noexcept {
  for (;;) {
    const std::uint32_t seq = even_seq();
    const MappingsInUse in_use;
    // A snapshot that others have committed over must not see one line more.
    if (seq != seq_ && !is_valid_in_use(count_)) return fail(Cause::kConflict);
    note_mapping_changes();
    if (!page_allows(address, intent)) return fail(Cause::kPageFault);
    if (!try_copy_bytes(original(line), reinterpret_cast<const void *>(address), kLineBytes))
      return fail(Cause::kPageFault);
    std::atomic_thread_fence(std::memory_order_acquire);  // the copy before the second look at seq
    if (shared().seq.load(std::memory_order_seq_cst) == seq) {
      seq_ = seq;
      return true;
    }
  }
}

void TxMemory::note_mapping_changes() noexcept {
  if (const std::uint64_t now = mapping_changes(); now != changes_) {
    changes_ = now;
    ++page_generation_;
    pages_are_checked_ = false;
  }
}

bool TxMemory::is_valid(std::uint32_t lines) noexcept {
  const MappingsInUse in_use;
  return is_valid_in_use(lines);
}

bool TxMemory::is_valid_in_use(std::uint32_t lines) noexcept {
  TMH_ASSERT(lines <= count_);
  note_mapping_changes();
  for (std::uint32_t line = 0; line < lines; ++line) {
    if (!pages_are_checked_ && !page_allows(lines_[line].address, Intent::kRead)) return false;
    bool equal = false;
    if (!try_compare_bytes(original(line), reinterpret_cast<const void *>(lines_[line].address),
                           kLineBytes, &equal) ||
        !equal)
      return false;
  }
  if (lines == count_) pages_are_checked_ = true;
  return true;
}

bool TxMemory::make_writable() noexcept {
  std::uint64_t done = 0;
  for (std::uint32_t line = 0; line < count_; ++line) {
    const std::uint64_t page = lines_[line].address & ~(kPageBytes - 1);
    if (lines_[line].written == 0 || page == done) continue;
    if (!populate_for_writing(page)) return false;
    done = page;
  }
  return true;
}

// Only words that differ: a line may lie beside something that no registered thread writes. Until
// see() answers false.
template <class See>
bool TxMemory::changed_words(See see) noexcept {
  for (std::uint32_t line = 0; line < count_; ++line) {
    if (lines_[line].written == 0) continue;
    for (std::size_t i = 0; i < kLineBytes; i += 8) {
      std::uint64_t now = 0, then = 0;
      __builtin_memcpy(&now, current(line) + i, 8);
      __builtin_memcpy(&then, original(line) + i, 8);
      if (now != then && !see(lines_[line].address + i, now)) return false;
    }
  }
  return true;
}

void TxMemory::publish() noexcept {
  if (several_processes(slot_)) {  // only then does anybody outlive a kill
    Staging staging;
    if (changed_words([&](std::uint64_t address, std::uint64_t word) {
          return staging.add(address, word);
        }) &&
        staging.store())
      return;
  }
  bool delayed = knobs_.commit_delay_us == 0;
  (void)changed_words([&](std::uint64_t address, std::uint64_t word) {
    // relaxed: who could look is stopped, and goes on after seq is even; native code that is not
    // known to us is a limit.
    std::atomic_ref<std::uint64_t>(*reinterpret_cast<std::uint64_t *>(address))
        .store(word, std::memory_order_relaxed);
    if (!delayed) sleep_ns(std::uint64_t{knobs_.commit_delay_us} * 1000);
    delayed = true;
    return true;
  });
}

bool TxMemory::commit() noexcept {
  if (dice_->falls(knobs_.conflict_ppm)) {
    count(shared().counters.injected);
    return fail(Cause::kConflict);
  }
  if (dice_->falls(knobs_.spurious_ppm)) return fail(Cause::kSpurious);
  if (count_ == 0) {
    count(shared().counters.empty_commits);
    return true;
  }
  begin_publication(slot_, knobs_.stop_others != 0 ? Others::kStop : Others::kRunOn);
  const bool done = validate_and_publish();
  end_publication();
  return done;
}

bool TxMemory::validate_and_publish() noexcept {
  const MappingsInUse in_use;
  if (!is_valid_in_use(count_) || is_doomed()) return fail(Cause::kConflict);
  if (knobs_.commit_delay_us != 0) sleep_ns(std::uint64_t{knobs_.commit_delay_us} * 1000);
  if (!make_writable()) return fail(Cause::kPageFault);
  publish();
  return true;
}

}  // namespace tmh::rtm
