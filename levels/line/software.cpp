// levels/line/software.cpp -- life of a thread's instances: attach, begin, end, the snapshot; and
// the long way of a load or store: own writes, other segments, the capacity model, lines that are
// locked, in U or newer than the snapshot.
#include "levels/line/software.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include "levels/line/read_line.h"
#include "levels/line/rtm.h"
#include "levels/line/software_inline.h"
#include "observe/planted.h"
#include "observe/probes.h"
#include "observe/steps.h"
#include "platform/assert.h"
#include "platform/try.h"
#include "storage/participants.h"

namespace tmh::detail {

constinit thread_local LineAccess *line_access = nullptr;

bool line_open(LineAccess &access, const void *address) {
  TMH_ASSERT(!access.is_in_pages);
  return static_cast<line::SoftwareThread &>(access).open_line(
      reinterpret_cast<std::uintptr_t>(address));
}

}  // namespace tmh::detail

namespace tmh::line {

namespace {

// A reader spins longer than a committer, which others wait for.
constexpr std::uint32_t kReaderSpinRounds = 64;

// Little-endian: the value's low bytes are the word's.
static_assert(std::endian::native == std::endian::little);

[[maybe_unused]] bool is_access_size(std::uint32_t bytes) noexcept {
  return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
}

template <class Unsigned>
std::uint64_t load_word(const std::byte *at) noexcept {
  TMH_ASSERT(reinterpret_cast<std::uintptr_t>(at) % sizeof(Unsigned) == 0);
  // acquire: pairs with the release of line-write-back (detail::line_load_by() says why)
  auto *word = reinterpret_cast<Unsigned *>(const_cast<std::byte *>(at));
  return std::atomic_ref<Unsigned>(*word).load(std::memory_order_acquire);
}

std::uint64_t load_bytes(const std::byte *at, std::uint32_t bytes) noexcept {
  TMH_ASSERT(is_access_size(bytes));
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

const std::byte *bytes_in(const LineWrite &entry, std::uint64_t offset) noexcept {
  return reinterpret_cast<const std::byte *>(entry.data) + offset % kLineBytes;
}

bool has_all(const LineWrite &entry, std::uint64_t offset, std::uint32_t size) noexcept {
  return entry.kept == detail::Kept::kWhole || (~entry.mask & byte_mask(offset, size)) == 0;
}

// `value` with the bytes that the entry has written.
std::uint64_t with_written(std::uint64_t value, const LineWrite &entry, std::uint64_t offset,
                           std::uint32_t size) noexcept {
  if ((entry.mask & byte_mask(offset, size)) == 0) return value;
  for (std::uint32_t i = 0; i < size; ++i) {
    if ((entry.mask >> (offset % kLineBytes + i) & 1) == 0) continue;
    const auto byte = static_cast<std::uint64_t>(bytes_in(entry, offset)[i]);
    value = (value & ~(0xffull << (8 * i))) | byte << (8 * i);
  }
  return value;
}

// Fails the attempt if that is what the verdict says.
void check(SoftwareThread &thread, const Ending &verdict) {
  if (verdict.is_abort()) [[unlikely]]
    thread.fail(verdict);
}

// The attempt's own writes to a line; null: none.
LineWrite *find_entry(const SoftwareCommit &commit, const detail::LineAccess &access,
                      const LineSegment &segment, std::uint64_t offset) noexcept {
  const std::uint64_t line = offset / kLineBytes;
  return may_have_written(access, line) ? commit.writes().find(segment.home_at(line * kLineBytes))
                                        : nullptr;
}

}  // namespace

Errc SoftwareThread::attach(std::uint32_t slot, std::uint64_t incarnation) noexcept {
  TMH_ASSERT(!is_attached_);
  TMH_ASSERT(slot < storage::kParticipantsMax);
  try {
    log_.allocate(*this);
  } catch (const std::bad_alloc &) {
    return Errc::kOutOfMemory;
  }
  TMH_TRY(memory_.take_context(slot, incarnation, &number_));
  TMH_ASSERT(number_ < kContextsMax);
  context_ = &memory_.context(number_);
  state_ = &memory_.state();
  commit_.writes().clear();
  written = 0;
  newest = detail::kNoLine;
  commit_.writes().attach(*context_);
  commit_.attach(number_);
  is_attached_ = true;
  return Errc::kOk;
}

void SoftwareThread::detach() noexcept {
  if (!is_attached_) return;
  if (is_running_) abandon();
  is_attached_ = false;
  if (commit_.redo().is_on()) commit_.redo().give_room_back();
  memory_.give_back(number_);
}

void SoftwareThread::begin_again() noexcept {
  rivals_.wait_for_blocker();
  if (insists_ != Insists::kNo &&
      attempt_ >= (is_query_ ? kQueryPriorityAttempts : kPriorityAttempts))
    priority_.take(number_);
}

void SoftwareThread::abandon(AbortCause cause) noexcept { (void)end_aborted(cause); }

void SoftwareThread::doom(const Ending &ending) noexcept {
  TMH_ASSERT(ending.is_abort());
  TMH_ASSERT(is_running_);
  observe::probe::abort(observe::probe::kLines, static_cast<std::uint32_t>(ending.cause));
  ending_ = ending;
  is_doomed_ = true;
  window_.shut(*this);  // so that the short ways end, too
  newest = detail::kNoLine;
}

void SoftwareThread::fail(const Ending &ending) {
  leave_rtm(*this, code_of_abandoned(ending.cause));
  if (!is_doomed_) doom(ending);
  if (leave_ != nullptr) leave_(*this);
  throw detail::LineAbort{};
}

void SoftwareThread::nest(std::uint32_t depth) {
  if (capacity_.nest(depth) != AbortCause::kNone)
    fail({AbortCause::kCapacity, AbortStatus{kStatusCapacity | kStatusNested}});
}

bool SoftwareThread::extend() noexcept {
  // It locks no line before its commit.
  return extend([](std::uint32_t) { return kLocked; });
}

std::uint64_t SoftwareThread::durable_at() const noexcept {
  // Its own record comes after all that it depends on.
  if (!commit_.writes().empty()) return commit_.stamp();
  if (!keeps_log(*this)) return rv;
  std::uint64_t needed = 0;
  // A word that has changed since was not above the snapshot. acquire: as a read's
  for (const LineWord *const word : reads())
    needed = std::max(needed, std::min(word->load(std::memory_order_acquire), rv));
  return needed;
}

std::uint64_t SoftwareThread::load_long(std::uintptr_t address, std::uint32_t size) {
  if (const std::uint64_t in_line = address - newest;
      in_line < kLineBytes && (byte_mask(in_line, size) & ~newest_mask(*this)) == 0)
    return load_bytes(newest_bytes + in_line, size);
  LineSegment *const segment = segment_of(address);
  if (segment == nullptr) return load_bytes(reinterpret_cast<const std::byte *>(address), size);
  const std::uint64_t offset = address - segment->view;
  if (window_.make_loadable(*this, *segment, offset) != Errc::kOk) fail(AbortCause::kNoSpace);
  LineWrite *const entry = find_entry(commit_, *this, *segment, offset);
  if (entry != nullptr) {
    if (!has_all(*entry, offset, size)) make_whole(*segment, offset, *entry);
    if (has_all(*entry, offset, size)) return load_bytes(bytes_in(*entry, offset), size);
  } else if (capacity_.is_on()) {
    check(*this, capacity_.read(segment->word_at(offset)));
  }
  std::uint64_t value = 0;
  read_home(*segment, offset, [&](const std::byte *home) { value = load_bytes(home, size); });
  return entry == nullptr ? value : with_written(value, *entry, offset, size);
}

// The entry gets the bytes that are not written from home, so that later loads need not look there.
[[gnu::noinline]] void SoftwareThread::make_whole(LineSegment &segment, std::uint64_t offset,
                                                  LineWrite &entry) {
  const std::uint64_t line_offset = offset / kLineBytes * kLineBytes;
  std::uint64_t words_seen[kLineBytes / 8];
  read_home(segment, line_offset, [&](const std::byte *home) {
    for (std::size_t i = 0; i < kLineBytes / 8; ++i)
      words_seen[i] = load_word<std::uint64_t>(home + 8 * i);
  });
  for (std::size_t i = 0; i < kLineBytes / 8; ++i) {
    const std::uint64_t written_bytes = entry.mask >> (8 * i) & 0xff;
    if (written_bytes == 0xff) continue;
    const std::uint64_t bits = written_bytes == 0 ? 0 : spread_byte_mask(written_bytes);
    entry.data[i] = (entry.data[i] & bits) | (words_seen[i] & ~bits);
  }
  entry.kept = detail::Kept::kWhole;
  newest = segment.view + line_offset;
  newest_bytes = reinterpret_cast<std::byte *>(entry.data);
}

// load: copies from home what is there, with acquire. It may run several times.
template <class Load>
inline void SoftwareThread::read_home(LineSegment &segment, std::uint64_t offset,
                                      const Load &load) {
  read_line<true>(
      *this, log_, *segment.word_at(offset), [&] { load(segment.home_at(offset)); },
      [&](std::uint64_t seen) {
        settle(segment, offset, seen);
        return false;
      },
      [&] { fail(AbortCause::kCapacity); });
}

// Does something about a line that cannot be read at this snapshot as it is. Throws when nothing
// helps.
void SoftwareThread::settle(LineSegment &segment, std::uint64_t offset, std::uint64_t seen) {
  leave_rtm(*this, is_locked(seen) ? AbortCode::kLineLocked : AbortCode::kUpperHolds);
  if (is_locked(seen)) {
    meet_locked(*segment.word_at(offset), seen);
  } else if (is_upper(seen)) {
    meet_upper(page_of(where(segment.number, offset)));
  } else if (!extend()) {
    fail(AbortCause::kValidation);
  }
}

[[gnu::noinline]] void SoftwareThread::meet_upper(storage::PageId page) {
  leave_rtm(*this, AbortCode::kUpperHolds);
  const ReleaseAnswer answer = commit_.ask_for(page, insists());
  if (answer != ReleaseAnswer::kGranted) fail(refused_by(answer));
}

void SoftwareThread::meet_locked(const LineWord &word, std::uint64_t seen) {
  if (spin_until_changed(word, seen, kReaderSpinRounds)) return;
  if (rivals_.decide(word, seen) == Rivals::Met::kFailSelf ||
      !rivals_.wait_until_changed(word, seen)) {
    rivals_.wait_at_begin(word, seen);
    fail(AbortCause::kConflictSelf);
  }
}

// Nearly every first store to a line is in the window, to a line that the attempt has not written
// and no committer has locked.
bool SoftwareThread::open_line(std::uintptr_t address) {
  const std::uint64_t offset = address - view;
  if (offset >= bytes || is_query_) [[unlikely]]
    return open_any_line(address);
  const std::uint64_t line = offset / kLineBytes;
  LineWord *const word = window_.word(*this, line);
  WriteSet &writes = commit_.writes();
  // relaxed: line-lock looks again
  if (may_have_written(*this, line) || !writes.has_listed_room() || !window_.has_blocks(offset) ||
      !is_free(word->load(std::memory_order_relaxed))) [[unlikely]]
    return open_any_line(address);
  const std::uintptr_t first_byte = address - offset % kLineBytes;
  auto *const home = reinterpret_cast<std::byte *>(first_byte + home_minus_view);
  // Beyond the segment's end this is SIGBUS, see write_entry().
  static_cast<void>(load_word<std::uint8_t>(home));
  make_newest(*this, writes.insert_listed({word, home}, window_.where(offset)), line, word,
              first_byte);
  return true;
}

[[gnu::noinline]] bool SoftwareThread::open_any_line(std::uintptr_t address) {
  LineSegment *const segment = segment_of(address);
  if (segment == nullptr) return false;
  if (is_query_) fail(AbortCause::kQueryWrote);
  const std::uint64_t offset = address - segment->view, line = offset / kLineBytes;
  make_newest(*this, write_entry(*segment, offset), line, segment->word_at(offset),
              address - offset % kLineBytes);
  return true;
}

bool SoftwareThread::has_written(const void *address) const noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const LineSegment *const segment = memory_.find(at);
  return segment != nullptr &&
         commit_.writes().has(segment->home_at((at - segment->view) / kLineBytes * kLineBytes));
}

// Null: plain memory. Throws when the attempt has been aborted.
LineSegment *SoftwareThread::segment_of(std::uintptr_t address) {
  if (is_doomed_) fail(ending_);
  return window_.find(*this, address);
}

LineWrite &SoftwareThread::write_entry(LineSegment &segment, std::uint64_t offset) {
  TMH_ASSERT(is_running_ && !is_query_);
  TMH_ASSERT(segment.words != nullptr);
  if (LineWrite *const entry = find_entry(commit_, *this, segment, offset); entry != nullptr)
    return *entry;
  LineWord *const word = segment.word_at(offset);
  // No memory: the user gets the exception, and may go on without this store.
  check(*this, commit_.writes().make_room(memory_, number_));
  if (memory_.allocate_home(segment, offset) != Errc::kOk) fail(AbortCause::kNoSpace);
  // Beyond the segment's end this is SIGBUS, as a plain store's. At line-write-back it would be,
  // too, for this process and for each that recovers it.
  static_cast<void>(load_word<std::uint8_t>(segment.home_at(offset)));
  if (capacity_.is_on()) [[unlikely]]
    check(*this, capacity_.write((segment.view + offset) / kLineBytes));
  // A line in U is asked for now, not at the commit, where it would cost the whole attempt.
  // relaxed: line-lock looks again.
  while (is_upper(word->load(std::memory_order_relaxed)))
    [[unlikely]] meet_upper(page_of(where(segment.number, offset)));
  const std::uint64_t line_offset = offset / kLineBytes * kLineBytes;
  return commit_.writes().insert({word, segment.home_at(line_offset)},
                                 where(segment.number, line_offset));
}

Status SoftwareThread::end_aborted(const Ending &ending) noexcept {
  if (!is_doomed_) doom(ending);
  context_->add(line_abort_count(observe::is_planted(observe::Planted::kAbortMiscounted)
                                     ? AbortCause::kQueryWrote
                                     : ending_.cause),
                1);
  finish();
  return Status::kAborted;
}

}  // namespace tmh::line
