// hierarchy/exchange/directory.cpp -- recall (level 2 takes a page) and release (level 1 gets it
// back), step by step as in PROTOCOL.md.
#include "hierarchy/exchange/directory.h"

#include <immintrin.h>

#include <algorithm>

#include "hierarchy/exchange/ask_to_abort.h"
#include "levels/line/recovery.h"
#include "levels/page/shared/shared.h"
#include "observe/planted.h"
#include "observe/probes.h"
#include "observe/steps.h"
#include "platform/assert.h"
#include "platform/fence.h"
#include "platform/patience.h"
#include "platform/process.h"
#include "platform/try.h"
#include "storage/segment_files.h"

namespace tmh::hierarchy {

using observe::is_planted;
using observe::Planted;
using observe::Step;
using observe::step;
using storage::PageId;

namespace {

// A committer is between line-lock and line-unlock for 0.1 to 10 us. When it takes this long it was
// preempted, stopped or killed.
constexpr int kSpinsBeforeLook = 4000;
}  // namespace

Directory::Directory(page::SharedFiles &memory, line::LineMemory &lines, std::uint32_t slot)
    : memory_(memory),
      lines_(lines),
      hardware_(lines),
      slot_(slot),
      tree_(memory, slot, page::ConsistencyTree::Role::kGivesBack),
      segments_(new SegmentDirectory[storage::kSegmentsMax]) {}

Errc Directory::open_segment(std::uint32_t number, std::uint64_t max_bytes) noexcept {
  TMH_ASSERT(number < storage::kSegmentsMax);
  TMH_ASSERT(max_bytes > 0 && max_bytes % kPageBytes == 0);
  SegmentDirectory &segment = segments_[number];
  if (segment.records.load(std::memory_order_relaxed) != nullptr) return Errc::kOk;
  const std::uint64_t bytes = max_bytes / kPageBytes * sizeof(DirectoryRecord);
  constexpr auto kFile = storage::SegmentFile::kDirectory;
  TMH_TRY(segment.file.open(memory_.folder() + "/" + storage::name_of(kFile, number), bytes, bytes,
                            platform::GrowingFile::Blocks::kSparse));
  TMH_TRY(memory_.in_place().enter(kFile, number, segment.file.fd(), bytes));
  // release: pairs with the acquire in knows()
  segment.records.store(reinterpret_cast<DirectoryRecord *>(segment.file.base()),
                        std::memory_order_release);
  return Errc::kOk;
}

void Directory::remove_files(const std::string &folder) noexcept {
  storage::remove_segment_files(folder, {storage::name_before(storage::SegmentFile::kDirectory)});
  HardwarePages::remove_file(folder);
}

// Records stay when this process unmaps the segment; its line words do not.
bool Directory::knows(PageId page) const noexcept {
  TMH_ASSERT(storage::segment_number(page) < storage::kSegmentsMax);
  const std::uint32_t number = storage::segment_number(page);
  // pairs with LineMemory::add_segment()
  return segments_[number].records.load(std::memory_order_acquire) != nullptr &&
         lines_.segment(number).bytes.load(std::memory_order_acquire) != 0;
}

DirectoryRecord &Directory::record(PageId page) const noexcept {
  TMH_ASSERT(storage::segment_number(page) < storage::kSegmentsMax);
  TMH_ASSERT(segments_[storage::segment_number(page)].records.load(std::memory_order_relaxed) !=
             nullptr);
  return segments_[storage::segment_number(page)].records.load(
      std::memory_order_relaxed)[static_cast<std::uint64_t>(storage::page_index(page))];
}

std::uint64_t Directory::clock() const noexcept {
  return lines_.state().clock.load(std::memory_order_seq_cst);
}

std::uint64_t Directory::newest(PageId page) const noexcept {
  const line::LineWord *words = lines_.page_words(page);
  std::uint64_t newest = 0;
  for (std::size_t i = 0; i < storage::kLinesPerPage; ++i)
    newest = std::max(newest, words[i].load(std::memory_order_relaxed) & line::kVersionMask);
  return newest;
}

// The record before the words, as level 1 does. A mover that dies between the two, or before the
// page moves, leaves blocks that read as zeros.
Errc Directory::prepare(PageId page) noexcept {
  TMH_ASSERT(storage::segment_number(page) < storage::kSegmentsMax);
  const std::uint64_t at = static_cast<std::uint64_t>(storage::page_index(page)) * kRecordBytes;
  platform::GrowingFile &records = segments_[storage::segment_number(page)].file;
  TMH_TRY(records.reserve(at, kRecordBytes));
  return lines_.reserve_words(page);
}

bool Directory::is_prepared(PageId page) const noexcept {
  const std::uint64_t at = static_cast<std::uint64_t>(storage::page_index(page)) * kRecordBytes;
  return segments_[storage::segment_number(page)].file.is_reserved(at, kRecordBytes) &&
         lines_.has_words(page);
}

// A committer's first store to a line word comes before its first one to home, and a word is never
// 0 again.
bool Directory::read_unchanged(PageId page, std::byte *content) noexcept {
  memory_.read_home(page, content);
  platform::fence(std::memory_order_acquire);  // home before the words
  return lines_.has_no_word_stored(page);
}

std::uint64_t Directory::take(const page::DomainLock::Held &held, PageId page) noexcept {
  TMH_ASSERT(held.is_valid());
  DirectoryRecord &r = record(page);
  const std::uint64_t newest_before = is_planted(Planted::kRecallReadsFirst) ? newest(page) : 0;
  const PageLevel level = r.level.load(std::memory_order_relaxed);
  if (level == PageLevel::kLines) recall(held, page);
  if (level == PageLevel::kHardware) recall_from_hardware(held, page);
  r.residents.fetch_or(bit(slot_), std::memory_order_relaxed);  // under the lock
  return is_planted(Planted::kRecallReadsFirst) ? newest_before : newest(page);
}

// A look first, then the take: what a committer does in between is waited for, briefly, and its
// version is looked at again.
bool Directory::take_ahead(const page::DomainLock::Held &held, PageId page,
                           std::uint64_t snapshot) noexcept {
  TMH_ASSERT(held.is_valid());
  // asking for blocks may take a system call, and the domain lock is held
  if (!is_prepared(page)) return false;
  // Every page that leaves the hardware level aborts its transactions, all of them: not for one
  // that may never be touched.
  if (record(page).level.load(std::memory_order_relaxed) == PageLevel::kHardware) return false;
  const line::LineWord *words = lines_.page_words(page);
  for (std::size_t i = 0; i < storage::kLinesPerPage; ++i) {
    const std::uint64_t seen = words[i].load(std::memory_order_relaxed);  // a hint
    if (line::is_locked(seen) || (seen & line::kVersionMask) > snapshot) return false;
  }
  return take(held, page) <= snapshot;
}

// Level 1 goes on meanwhile: each line is read as level 1 reads it, and what it has committed since
// the snapshot is undone. It has seen the pin, so the undo words are there, and stay.
bool Directory::read_beside(const page::DomainLock::Held &held, PageId page, std::uint64_t snapshot,
                            std::byte *content) noexcept {
  TMH_ASSERT(held.is_valid());
  // In H: our pin has stopped RTM, which the recall costs nothing more.
  if (record(page).level.load(std::memory_order_relaxed) != PageLevel::kLines) return false;
  const line::LineWord *words = lines_.page_words(page);
  const bool is_used =
      std::any_of(words, words + storage::kLinesPerPage, [](const line::LineWord &word) {
        return word.load(std::memory_order_relaxed) != 0;  // a hint
      });
  if (!is_used) return false;
  std::uint64_t versions[storage::kLinesPerPage];
  std::uint64_t newest = 0;
  for (std::size_t line = 0; line < storage::kLinesPerPage; ++line) {
    versions[line] = read_line(held, page, line, content);
    newest = std::max(newest, versions[line]);
  }
  if (newest == line::kUpper) return false;
  if (newest > snapshot) line::undo_page(lines_, page, snapshot, versions, content);
  return true;
}

// In H: our pin has stopped RTM, and what RTM had committed before is in home.
bool Directory::is_above(const page::DomainLock::Held &held, PageId page,
                         std::uint64_t *newest_of_lines) const noexcept {
  TMH_ASSERT(held.is_valid() && newest_of_lines != nullptr);
  if (record(page).level.load(std::memory_order_relaxed) == PageLevel::kLines) return false;
  *newest_of_lines = newest(page);
  return true;
}

// The line's version; or kUpper, of a dead mover's page: take() ends its move.
std::uint64_t Directory::read_line(const page::DomainLock::Held &held, PageId page,
                                   std::size_t line, std::byte *content) noexcept {
  TMH_ASSERT(held.is_valid());
  TMH_ASSERT(line < storage::kLinesPerPage && content != nullptr);
  line::LineWord &word = lines_.page_words(page)[line];
  const std::byte *home =
      memory_.segment(storage::segment_number(page)).home.base() + storage::page_offset(page);
  for (;;) {
    // acquire: pairs with the release of line-unlock, whose stores to home we are to see.
    const std::uint64_t seen = word.load(std::memory_order_acquire);
    if (line::is_upper(seen)) return line::kUpper;
    if (line::is_locked(seen)) {
      await_committer(held, word);
      continue;
    }
    step(Step::kGapBesideLooked);
    page::copy_lines_of_home(content, home, page::LineMask{1} << line);
    platform::fence(std::memory_order_acquire);  // home before the word's second look
    if (word.load(std::memory_order_relaxed) == seen || is_planted(Planted::kBesideTrusts))
      return seen;
  }
}

void Directory::recall(const page::DomainLock::Held &held, PageId page) noexcept {
  TMH_ASSERT(held.is_valid());
  line::LineStateV1 &state = lines_.state();
  state.moving.store(static_cast<std::uint64_t>(page), std::memory_order_relaxed);
  step(Step::kRecallStart);
  mark_lines(held, page);
  step(Step::kRecallMark);
  record(page).level.store(PageLevel::kPages, std::memory_order_relaxed);
  state.moving.store(line::kNoPage,
                     // after the record: an heir must not find the move half done
                     std::memory_order_release);
  ++memory_.state().recalls;
  const std::uint64_t earlier = recalls_here_.fetch_add(1, std::memory_order_relaxed);
  observe::probe::recall(static_cast<std::uint64_t>(page), earlier + 1);
  step(Step::kRecallDone);
}

// Its line words have the U bit already, and keep it.
void Directory::recall_from_hardware(const page::DomainLock::Held &held, PageId page) noexcept {
  TMH_ASSERT(held.is_valid());
  hardware_.left(held, page);
  step(Step::kHardwareLeft);
  record(page).level.store(PageLevel::kPages, std::memory_order_relaxed);
  recalls_here_.fetch_add(1, std::memory_order_relaxed);
}

void Directory::mark_lines(const page::DomainLock::Held &held, PageId page) noexcept {
  TMH_ASSERT(held.is_valid());
  line::LineWord *words = lines_.page_words(page);
  for (std::size_t i = 0; i < storage::kLinesPerPage; ++i) {
    std::uint64_t seen = words[i].load(std::memory_order_relaxed);
    for (;;) {
      if (line::is_locked(seen)) {
        if (is_planted(Planted::kRecallNoWait)) break;
        await_committer(held, words[i]);
        seen = words[i].load(std::memory_order_relaxed);
        continue;
      }
      // acquire: pairs with the release of line-unlock, whose stores to home we are to see.
      //          release: nothing of ours must be seen with it.
      if ((seen & line::kUpper) != 0 ||
          words[i].compare_exchange_weak(seen, seen | line::kUpper, std::memory_order_acq_rel,
                                         std::memory_order_relaxed))
        break;
    }
  }
  // words that had the U bit already were unlocked by others' commits
  platform::fence(std::memory_order_acquire);
  step(Step::kGapRecallMarked);
  // A committer that stamps later must validate: see line-validate's short way in PROTOCOL.md.
  if (!is_planted(Planted::kRecallClockStands))
    lines_.state().clock.fetch_add(1, std::memory_order_seq_cst);
  lines_.state().changed.notify();  // to an instance that has read the line the U bit is a change
}

// The committer goes on or lets go by itself; a dead one's context is recovered here.
void Directory::await_committer(const page::DomainLock::Held &held, line::LineWord &word) noexcept {
  TMH_ASSERT(held.is_valid());
  const std::uint64_t began_ns = platform::monotonic_ns();
  platform::Patience patience;
  for (int spins = kSpinsBeforeLook;; spins = 1) {
    for (int spin = 0; spin < spins; ++spin) {
      if (!line::is_locked(word.load(std::memory_order_relaxed))) return;
      _mm_pause();
    }
    const std::uint64_t seen = word.load(std::memory_order_relaxed);
    if (!line::is_locked(seen)) return;
    if (const std::uint32_t number = line::context_of(seen); number < line::kContextsMax) {
      const line::Owner owner = lines_.context(number).owner.load(std::memory_order_relaxed);
      recover_if_dead(held, line::slot_of(owner), line::incarnation_of(owner));
    }
    patience.pause(platform::monotonic_ns() - began_ns);
  }
}

bool Directory::is_resident(const page::DomainLock::Held &held, PageId page) const noexcept {
  TMH_ASSERT(held.is_valid());
  const DirectoryRecord &r = record(page);
  return r.level.load(std::memory_order_relaxed) == PageLevel::kPages &&
         (r.residents.load(std::memory_order_relaxed) & bit(slot_)) != 0;
}

void Directory::as_of(const page::DomainLock::Held &held, PageId page, std::uint64_t snapshot,
                      std::byte *content) noexcept {
  TMH_ASSERT(held.is_valid());
  line::undo_page(lines_, page, snapshot, nullptr, content);
}

template <class Visit>
void Directory::for_users(std::uint64_t residents, Visit visit) const noexcept {
  const std::uint32_t high = memory_.participants_high();
  for (std::uint32_t i = 0; i < high; ++i) {
    if ((residents & bit(i)) == 0) continue;
    storage::Participant &other = memory_.participant(i);
    // seq_cst: after the store of the clock in announce(), see the file head
    if (other.pin.load(std::memory_order_seq_cst) != storage::kNoPin) visit(other);
  }
}

// On the disk, too. Durable domains: the log's ring keeps the entries of what is not written yet
// (LogRoom::reserve_planned()).
bool Directory::make_room_for_announcement(const page::DomainLock::Held &held) noexcept {
  TMH_ASSERT(held.is_valid());
  if (memory_.commits().make_room(held, 1) != Errc::kOk) return false;
  const storage::LogState *log = memory_.log_state();
  if (log == nullptr) return true;
  // under the lock
  const std::uint64_t head = memory_.state().log_head.load(std::memory_order_relaxed);
  // as there
  return head - log->durable_position.load(std::memory_order_acquire) < page::kLogEntries;
}

// What every release of a page by level 2 begins with: kReleased: no instance at level 2 uses it,
// and all there will ask.
Release Directory::give_up(const page::DomainLock::Held &held, PageId page) noexcept {
  TMH_ASSERT(held.is_valid());
  step(Step::kReleaseStart);
  const std::uint64_t residents = record(page).residents.load(std::memory_order_relaxed);
  const auto used = [&] {  // by a dead one's instance, too, until it is reaped
    Release by = Release::kReleased;
    if (is_planted(Planted::kReleaseBlind)) return by;
    for_users(residents, [&](const storage::Participant &other) {
      if (by == Release::kReleased)
        used_by_ = {&other, other.instance.load(std::memory_order_relaxed)};
      // the pin, which was stored later, has been read
      if (other.is_query.load(std::memory_order_relaxed) != 0)
        by = Release::kQueried;
      else if (by == Release::kReleased)
        by = Release::kRunning;
    });
    return by;
  };
  // Before anything is told: an entry in the log costs the next begin of each participant.
  if (const Release by = used(); by != Release::kReleased) return by;
  if (memory_.meta_to_read(page).newest.load(std::memory_order_relaxed) != 0) {
    tree_.collect(held, ~std::size_t{0});
    if (memory_.meta_to_read(page).newest.load(std::memory_order_relaxed) != 0)
      return Release::kVersions;
  }
  if (!make_room_for_announcement(held)) return Release::kVersions;
  if (is_planted(Planted::kReleaseLooksFirst)) step(Step::kReleaseLook);
  tree_.announce(held, page);
  step(Step::kReleaseTold);
  if (!is_planted(Planted::kReleaseLooksFirst)) {
    if (const Release by = used(); by != Release::kReleased) return by;
    step(Step::kReleaseLook);
  }
  return Release::kReleased;
}

Release Directory::release_to_hardware(const page::DomainLock::Held &held, PageId page) noexcept {
  DirectoryRecord &r = record(page);
  switch (r.level.load(std::memory_order_relaxed)) {
    case PageLevel::kHardware:
      return Release::kReleased;
    case PageLevel::kLines:
      recall(held, page);
      break;
    case PageLevel::kPages:
      if (const Release given = give_up(held, page); given != Release::kReleased) return given;
      r.residents.store(0, std::memory_order_relaxed);
  }
  r.level.store(PageLevel::kHardware, std::memory_order_relaxed);
  step(Step::kHardwareOpen);
  hardware_.came(held, page);
  step(Step::kHardwareCame);
  return Release::kReleased;
}

void Directory::open_ahead(const page::DomainLock::Held &held, PageId page) noexcept {
  if (prepare(page) != Errc::kOk) return;  // a system call for 128 pages at most
  switch (record(page).level.load(std::memory_order_relaxed)) {
    case PageLevel::kHardware:
      hardware_.came(held, page);
      return;
    case PageLevel::kPages:
      return;
    case PageLevel::kLines:
      break;
  }
  const line::LineWord *words = lines_.page_words(page);
  for (std::size_t i = 0; i < storage::kLinesPerPage; ++i)
    if (words[i].load(std::memory_order_relaxed) != 0) return;
  (void)release_to_hardware(held, page);
}

bool Directory::has_upper_line(PageId page) const noexcept {
  const line::LineWord *words = lines_.page_words(page);
  return std::any_of(words, words + storage::kLinesPerPage, [](const line::LineWord &word) {
    return line::is_upper(word.load(std::memory_order_relaxed));  // under the lock
  });
}

Release Directory::release(const page::DomainLock::Held &held, PageId page) noexcept {
  DirectoryRecord &r = record(page);
  switch (r.level.load(std::memory_order_relaxed)) {
    case PageLevel::kLines:
      if (!has_upper_line(page) || is_planted(Planted::kMoveLeft)) return Release::kReleased;
      // The move of one who died, left by an heir who did not know the segment and has moved other
      // pages since: as repair_move().
      mark_lines(held, page);
      r.level.store(PageLevel::kPages, std::memory_order_relaxed);
      break;
    case PageLevel::kHardware:
      hardware_.left(held, page);  // no participant has it at level 2, so there is none to ask
      step(Step::kHardwareLeft);
      break;
    case PageLevel::kPages:
      if (const Release given = give_up(held, page); given != Release::kReleased) return given;
  }
  line::LineStateV1 &state = lines_.state();
  state.moving.store(static_cast<std::uint64_t>(page), std::memory_order_relaxed);
  r.residents.store(0, std::memory_order_relaxed);
  // Newer than whatever level 1 has read of the page before level 2 had it.
  const std::uint64_t version = state.clock.fetch_add(1, std::memory_order_seq_cst) + 1;
  const auto open_lines = [&] {
    line::LineWord *words = lines_.page_words(page);
    // release: pairs with the acquire of level 1's reads; home is complete.
    for (std::size_t i = 0; i < storage::kLinesPerPage; ++i)
      words[i].store(version, std::memory_order_release);
  };
  if (is_planted(Planted::kReleaseOpensFirst)) {
    open_lines();
    step(Step::kGapReleaseLevel);
  }
  // before any line is open (docs/design.md S1)
  r.level.store(PageLevel::kLines, std::memory_order_relaxed);
  step(Step::kGapReleaseLevel);
  open_lines();
  state.moving.store(line::kNoPage, std::memory_order_release);
  ++memory_.state().releases;
  step(Step::kReleaseOpen);
  return Release::kReleased;
}

void Directory::fail_users(const page::DomainLock::Held &held, PageId page) noexcept {
  // Queries never abort, nor do irrevocable instances: they are waited for; as one that has the
  // turn, because it was failed so often.
  const std::uint32_t turn = memory_.state().turn.load(std::memory_order_relaxed);
  for_users(
      record(page).residents.load(std::memory_order_relaxed), [&](storage::Participant &other) {
        if (turn != 0 && &other == &memory_.participant(page::holder_of(turn))) return;
        (void)fail_running(held, memory_, other, other.instance.load(std::memory_order_relaxed));
      });
}

void Directory::repair(const page::DomainLock::Held &held) noexcept {
  for (std::uint32_t i = 0; i < lines_.contexts_high(); ++i) {
    const line::Owner owner = lines_.context(i).owner.load(std::memory_order_relaxed);
    if (owner != line::Owner{})
      recover_if_dead(held, line::slot_of(owner), line::incarnation_of(owner));
  }
  repair_move(held);
}

// Whatever move the dead holder was at ends as a recall: the U bit only makes level 1 ask.
void Directory::repair_move(const page::DomainLock::Held &held) noexcept {
  line::LineStateV1 &state = lines_.state();
  const std::uint64_t moving = state.moving.load(std::memory_order_relaxed);
  if (moving == line::kNoPage || is_planted(Planted::kMoveLeft)) return;
  const PageId page{moving};
  if (!memory_.exists(page)) {
    state.moving.store(line::kNoPage, std::memory_order_relaxed);
    return;
  }
  if (!knows(page)) {
    memory_.state().repair_again |= page::kRepairRest;  // the next holder that has the segment open
    return;
  }
  mark_lines(held, page);
  record(page).level.store(PageLevel::kPages, std::memory_order_relaxed);
  state.moving.store(line::kNoPage, std::memory_order_release);
  step(Step::kMoveRepaired);
}

void Directory::settle(const page::DomainLock::Held &held, std::uint32_t slot) noexcept {
  recover(held, slot, memory_.participant(slot).incarnation.load(std::memory_order_relaxed));
}

// A context that names a segment which is not open here waits for a holder of the lock that knows
// it.
void Directory::recover(const page::DomainLock::Held &held, std::uint32_t slot,
                        std::uint64_t incarnation) noexcept {
  TMH_ASSERT(held.is_valid());
  if (storage::LogState *log = memory_.log_state(); log != nullptr)
    // release: as LogRoom::give_back_for_lower()
    log->pending_bytes.fetch_sub(line::take_reserved(lines_, slot, incarnation),
                                 std::memory_order_release);
  if (!line::recover_contexts(lines_, slot, incarnation))
    memory_.state().repair_again |= page::kRepairRest;
  lines_.state().changed.notify();  // the dead one's commits, when it died in one
}

void Directory::recover_if_dead(const page::DomainLock::Held &held, std::uint32_t slot,
                                std::uint64_t incarnation) noexcept {
  // without an owner: the context was given back between two looks
  if (slot >= storage::kParticipantsMax) return;
  const storage::Participant &owner = memory_.participant(slot);
  // A slot that is free already: its reaper did not know the segments that the context
  // names.
  const bool is_attached = owner.incarnation.load(std::memory_order_relaxed) == incarnation &&
                           owner.state.load(std::memory_order_acquire) != 0;
  if (is_attached && !owner.is_gone()) return;
  recover(held, slot, incarnation);
}

}  // namespace tmh::hierarchy
