// levels/page/engine_end.cpp -- ends: finding the writeset, validating, committing, rolling back,
// deciding what stays mapped.
// Source:    thesis, section 3.3, step 3; EXCITE-VM, sections 3 and 4 (line differences against a
//            clean copy); docs/mechanisms.md, "What every load rests on".
#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include "levels/page/engine.h"
#include "levels/page/engine_thread.h"
#include "levels/page/lines.h"
#include "observe/planted.h"
#include "platform/failure.h"
#include "platform/probes.h"
#include "platform/steps.h"

namespace tmh::page {

using platform::Step;
using platform::step;
using storage::abort_count;
using storage::Count;
using storage::kNoPin;

namespace {
// What lacked room said so with a code alone, some of it in a handler: without words of its own the
// error would have those of an earlier one.
Errc no_room(Errc error) noexcept {
  return error == Errc::kNotMapped ? error
                                   : platform::fail(error, "no room for the instance's versions");
}

// Comparing a kept page costs 0.07 us, copying it again after a drop 2 us: after 30 useless
// comparisons dropping was the better choice.
constexpr std::uint8_t kUselessComparesMax = 30;
// A page that is kept only because its version is not home yet goes after so many: then it mostly
// is.
constexpr std::uint8_t kPendingCompares = 4;
// Beyond these, keeping pages costs more memory and comparisons than it saves faults.
constexpr std::size_t kKeptPagesMax = 16384;
constexpr std::size_t kPrivatePagesMax = 4096;
// Kept pages are a superset of what is read. The period after which they are dropped halves at each
// conflict (1: exact) and doubles after this many quiet commits; 65,536 bounds how long a page that
// is no longer used can cause false conflicts.
constexpr std::uint32_t kCalmCommits = 64;
constexpr std::uint64_t kKeepPeriodMax = 1u << 16;
// Versions that somebody's pin keeps from going home, before all pins are read again. Reading them
// costs two moves of a line (150 ns) for each process that works at the same time: 10 ns per hot
// commit. Exact tracking pays 1 us for each touch of a page whose version is not home, which is
// worth looking more often.
constexpr std::size_t kPatienceKeeping = 16, kPatienceExact = 2;
// Slots reserved in one go: a few commits' worth, so that the list of free slots is visited seldom.
constexpr std::size_t kReservedAtLeast = 16, kReservedAtMost = 64;

bool invalid_by(PageId page) noexcept {
  platform::probe::conflict(platform::probe::kPages, static_cast<std::uint64_t>(page));
  return false;
}
}  // namespace

std::byte *Engine::clean_copy(PageId page, const LocalPage &l) const noexcept {
  // Without a twin the copy was made by the kernel from home, which cannot have changed since under
  // our pin.
  return l.twin != 0 ? twins_.data(l.twin) : memory_.home(page);
}

// A large instance's take megabytes of the heap, which may be used up.
Errc Engine::find_writes() noexcept {
  writes_.clear();
  for (const PageId page : private_) {
    LocalPage &l = local(page);
    if (l.state != PageState::kPrivate || (l.lists & kStandsIn) != 0) continue;
    const LineMask lines = differing_lines(address_of(page), clean_copy(page, l));
    if (lines != 0) {
      try {
        writes_.push_back(Write{page, lines, 0});
      } catch (const std::bad_alloc &) {
        return Errc::kOutOfMemory;
      }
      l.unchanged_compares = 0;
    } else if (l.unchanged_compares < 255) {
      ++l.unchanged_compares;
    }
  }
  return Errc::kOk;
}

// Lazy: no page of the read set was committed since the
// snapshot.
bool Engine::is_valid(const DomainLock::Held &held) noexcept {
  TMH_ASSERT(held.is_valid());
  if (failed_) return false;
  if (irrevocable_) return true;  // nobody else has committed since it was valid
  DomainState &state = memory_.state();
  if (was_failed()) {
    failed_cause_ = AbortCause::kConflictOther;
    return false;
  }
  if (state.clock.load(std::memory_order_relaxed) == snapshot_) return true;
  failed_cause_ = AbortCause::kValidation;
  if (observe::is_planted(observe::Planted::kPageNoValidation)) return true;
  if (read_everything_) return false;  // the read set is not known page by page
  const std::uint64_t head = state.log_head.load(std::memory_order_relaxed);
  const std::uint64_t behind = head - synced_position_;
  // Whichever is less to look at. Stamps of one's own pages mostly lie in one's own cache, others'
  // log entries never do.
  if (eager() || behind > kLogEntries || kept_.size() < behind + 16) {
    for (const PageId page : kept_) {
      const PageState kind = local(page).state;
      if (kind == PageState::kAbsent || kind == PageState::kGuarded) continue;
      if (memory_.meta_to_read(page).stamp.load(std::memory_order_relaxed) > snapshot_)
        return invalid_by(page);
    }
    return true;
  }
  for (std::uint64_t at = synced_position_; at < head; ++at) {
    const CommitLogEntry &entry = memory_.log_entry(at);
    const PageId page{entry.page};
    if (entry.stamp.load(std::memory_order_relaxed) <= snapshot_ || entry.lines == 0 ||
        !is_mapped(page))
      continue;
    const PageState kind = local(page).state;
    if (kind != PageState::kAbsent && kind != PageState::kGuarded) return invalid_by(page);
  }
  return true;
}

Engine::Outcome Engine::end(bool will_wait) noexcept {
  step(Step::kCommitStart);
  collect_touched();
  const Errc found = find_writes();
  Outcome outcome;
  if (query_) {
    if (query_wrote_ == 0 && !writes_.empty()) query_wrote_ = first_difference(writes_.front());
    outcome.query_wrote = query_wrote_;
    outcome.status = Status::kCommitted;
    outcome.durable_at = snapshot_;
    outcome.durable_line = line_snapshot_;
    if (query_wrote_ != 0) {
      outcome.status = Status::kAborted;
      outcome.cause = AbortCause::kQueryWrote;
    }
  } else if (failed_ || was_failed()) {
    outcome.cause = failed_ ? failed_cause_ : AbortCause::kConflictOther;
    if (failed_ && failed_error_ != Errc::kOk) outcome.error = no_room(failed_error_);
  } else if (found != Errc::kOk) {
    outcome.cause = AbortCause::kNoSpace;
    outcome.error = no_room(found);
  } else if (writes_.empty()) {
    // read-only: consistent at its snapshot, which is where it stands in the serial order
    outcome.status = Status::kCommitted;
    outcome.durable_at = snapshot_;
    outcome.durable_line = line_snapshot_;
  } else {
    outcome = commit_writes(will_wait);
  }
  if (outcome.status == Status::kAborted) {
    roll_back();
    count_abort(outcome.cause);
    adapt(outcome.cause == AbortCause::kValidation);
  } else {
    if (writes_.empty()) settle_private();
    // What wrote is counted where it was published.
    if (query_ || writes_.empty()) self().add(query_ ? Count::kQueryEnds : Count::kCommits, 1);
    platform::probe::commit(platform::probe::kPages, outcome.durable_at, writes_.size());
    self().add(Count::kPagesRead, kept_.size());
    adapt(false);
  }
  finish_instance();
  return outcome;
}

std::uintptr_t Engine::first_difference(const Write &write) const noexcept {
  const std::byte *now = address_of(write.page);
  const std::byte *clean = clean_copy(write.page, local(write.page));
  const std::byte *at = std::mismatch(now, now + kPageBytes, clean).first;
  return reinterpret_cast<std::uintptr_t>(at);
}

// Before anything is promised: a store to home or metadata must not raise SIGBUS because the disk
// is full. Asking costs 3 to 50 us each time, hence blocks of 64 KiB, and of 2 MiB where an eighth
// of it is written: a segment written at single far-apart pages takes up to 16 times its pages on
// disk.
Errc Engine::allocate_blocks() noexcept {
  constexpr std::uint64_t kSmallBlockPages = 16, kLargeBlockPages = 512;
  for (std::size_t i = 0; i < writes_.size(); ++i) {
    if ((local(writes_[i].page).lists & kHasBlocks) != 0) continue;
    const std::uint32_t segment = storage::segment_number(writes_[i].page);
    const auto index = static_cast<std::uint64_t>(storage::page_index(writes_[i].page));
    const std::uint64_t large_end = index / kLargeBlockPages * kLargeBlockPages + kLargeBlockPages;
    const std::size_t dense = i + kLargeBlockPages / 8;  // writes are almost sorted by page
    const bool is_dense =
        dense < writes_.size() && writes_[dense].page > writes_[i].page &&
        writes_[dense].page < storage::page_id(segment, storage::PageIndex{large_end});
    const std::uint64_t block = is_dense ? kLargeBlockPages : kSmallBlockPages;
    const std::uint64_t usable =
        memory_.segment_size(segment).load(std::memory_order_acquire) / kPageBytes;
    if (index >= usable) return memory_.fail_behind_end(writes_[i].page);
    const std::uint64_t first = index / block * block;
    std::uint64_t count = std::min(block, usable - first);
    PageId first_page = storage::page_id(segment, storage::PageIndex{first});
    Errc error = memory_.allocate_blocks(first_page, count);
    if (error == Errc::kDiskFull) {  // the page alone may fit, or have its block already
      first_page = writes_[i].page;
      count = 1;
      error = memory_.allocate_blocks(first_page, count);
    }
    if (error != Errc::kOk) return error;
    for (std::uint64_t j = 0; j < count; ++j)
      local(PageId{static_cast<std::uint64_t>(first_page) + j}).lists |= kHasBlocks;
  }
  return Errc::kOk;
}

// What has been written so far gets its room here: nothing of that can fail at the end. Others that
// are past their own look at the turn hold the lock, so when we have it they are done.
Errc Engine::become_irrevocable(bool *is_pending) noexcept {
  *is_pending = true;
  if (irrevocable_) return Errc::kOk;
  take_turn_for_good();
  step(Step::kIrrevocableTurn);
  if (reads_durable_only_) {  // nobody else commits from here on
    if (const Errc error = log_->flush_all(); error != Errc::kOk) {
      leave_turn();
      *is_pending = false;
      return error;
    }
  }
  collect_touched();
  Errc error = find_writes();
  if (error == Errc::kOk) error = allocate_blocks();
  DomainLock::Held held = lock_.take();
  if (error == Errc::kOk && !failed_ && tree_.reserved() < writes_.size())
    error = tree_.reserve(held, writes_.size());
  // All of it: pages that go down meanwhile are announced in it, too.
  if (error == Errc::kOk && !failed_) error = memory_.make_log_room(held, kLogEntries);
  if (error == Errc::kOk) {
    irrevocable_ = is_valid(held) && extend(held);
    if (!irrevocable_ && !failed_)
      fail_instance(failed_cause_ != AbortCause::kNone ? failed_cause_ : AbortCause::kValidation);
  }
  held.release();
  if (!irrevocable_) {
    leave_turn();
    *is_pending = false;
    return error == Errc::kOk ? error : no_room(error);
  }
  self().add(Count::kIrrevocables, 1);
  step(Step::kIrrevocable);
  return Errc::kOk;
}

Errc Engine::fill_slots() noexcept {
  if (tree_.reserved() < writes_.size()) {
    const DomainLock::Held held = lock_.take();
    if (const Errc error = tree_.reserve(held, std::max(writes_.size(), kReservedAtLeast));
        error != Errc::kOk)
      return error;
  }
  step(Step::kCommitSlotsReserved);
  if (const Errc error = allocate_blocks(); error != Errc::kOk) return error;
  if (log_ != nullptr)
    if (const Errc error = log_->plan_reserve(writes_.size()); error != Errc::kOk) return error;
  for (Write &write : writes_) {
    write.slot = tree_.take();
    copy_lines(memory_.version_data(write.slot), address_of(write.page), write.lines);
  }
  memory_.prepare_log(synced_position_);
  if (log_ != nullptr) plan_log();
  step(Step::kCommitSlotsFilled);
  return Errc::kOk;
}

void Engine::plan_log() noexcept {
  // What the ring does not list is found by scanning, and must come out in the same order: see
  // DurableLog::append_wide().
  if (ConsistencyTree::is_wide(writes_.size()))
    std::sort(writes_.begin(), writes_.end(),
              [](const Write &a, const Write &b) { return a.page < b.page; });
  log_->plan_begin();
  for (const Write &write : writes_)
    log_->plan_write(write, address_of(write.page), clean_copy(write.page, local(write.page)));
}

// Takes the domain lock when there is room for what the commit enters into the ring, and for its
// log records.
std::optional<DomainLock::Held> Engine::lock_with_log_space(storage::Lsn *log_end,
                                                            Errc *error) noexcept {
  *log_end = 0;
  for (;;) {
    DomainLock::Held held = lock_when_turn_allows();
    *error = memory_.make_log_room(held, ConsistencyTree::entries_of(writes_.size()));
    if (*error != Errc::kOk) {
      held.release();
      *error = no_room(*error);
      return std::nullopt;
    }
    if (log_ == nullptr) return held;
    const DurableLog::Room room = log_->room(held, writes_.size(), log_end);
    if (room == DurableLog::Room::kYes) return held;
    held.release();
    if (*error = log_->make_room(room, *log_end); *error != Errc::kOk) return std::nullopt;
  }
}

Engine::Outcome Engine::commit_writes(bool will_wait) noexcept {
  Outcome outcome;
  const auto no_space = [&outcome](Errc error) {
    outcome.cause = AbortCause::kNoSpace;
    outcome.error = error;
    return outcome;
  };
  const auto take_slots_back = [this] {
    for (const Write &write : writes_) tree_.give_back(write.slot);
  };
  if (const Errc error = fill_slots(); error != Errc::kOk) return no_space(no_room(error));
  DomainState &state = memory_.state();
  storage::Lsn log_end = 0;
  Errc no_lock = Errc::kOk;
  std::optional<DomainLock::Held> locked = lock_with_log_space(&log_end, &no_lock);
  if (!locked) {
    take_slots_back();
    return no_space(no_lock);
  }
  DomainLock::Held &held = *locked;
  step(Step::kCommitLocked);
  if (!is_valid(held)) {
    outcome.cause = failed_cause_;
    if (log_ != nullptr) log_->give_room_back(held);
    held.release();
    take_slots_back();
    return outcome;
  }
  const std::uint64_t versioned_before = state.versioned_stamp.load(std::memory_order_relaxed);
  const std::uint64_t stamp =
      tree_.publish(held, writes_, log_end, has_lower_ ? lower_->clock() : 0);
  outcome.durable_at = stamp;
  if (will_wait) log_->announce(stamp);
  // release: everything this instance read comes before home may change under it
  self().pin.store(kNoPin, std::memory_order_release);
  step(Step::kCommitUnpinned);
  // Valid means that no kept page was committed by others since the snapshot, so the kept pages
  // stand at our own commit. The views do when no other page can have got its first version in
  // between, by a commit or by a repair.
  kept_synced_ = stamp;
  const bool no_first_version = versioned_before <= synced_ && !follow_needed_ &&
                                state.repairs.load(std::memory_order_relaxed) == repairs_seen_;
  if (stamp == synced_ + 1 || !silent() || no_first_version) {
    synced_ = stamp;
    synced_position_ = state.log_head.load(std::memory_order_relaxed);
  }
  if (eager()) accesses_.remove_all(held, slot_);
  const std::uint64_t began_ns = self().begin_ns.load(std::memory_order_relaxed);
  if (tree_.is_tidying_due(held, began_ns, keeps() ? kPatienceKeeping : kPatienceExact))
    tree_.tidy_own(held, began_ns);
  if (began_ns >= next_sweep_ns_) sweep(held, began_ns);
  // begins that need no lock do not look after the dead
  if (tree_.holds_own(held)) reap_suspects(held, began_ns);
  // For the next instance, while the lock is ours anyway; when it fails the next instance learns
  // it.
  if (tree_.reserved() < std::min(writes_.size(), kReservedAtMost))
    (void)tree_.reserve(held, std::clamp(writes_.size(), kReservedAtLeast, kReservedAtMost));
  held.release();
  step(Step::kCommitUnlocked);
  settle_committed();
  outcome.status = Status::kCommitted;
  return outcome;
}

// Versions of owners that commit no more, because they idle, left or died, go home by those who
// still do. All at once would keep the lock for long, so as many as such a commit itself may take;
// until none is left, at each commit. What a pin
// keeps from going home is folded, some at each sweep.
void Engine::sweep(const DomainLock::Held &held, std::uint64_t now_ns) noexcept {
  constexpr std::size_t kSweepAtMost = 256;
  // slots in a row: 10 to 30 us, a thousandth of the period
  constexpr std::size_t kFoldAtMost = 1024;
  constexpr std::uint64_t kSweepPeriodNs =
      10'000'000;  // looking at every owner's list costs 70 ns each: 100 times a second is nothing
  if (tree_.collect(held, kSweepAtMost) >= kSweepAtMost) return;
  tree_.fold_some(held, kFoldAtMost);
  next_sweep_ns_ = now_ns + kSweepPeriodNs;
}

namespace {
// Most instances write one line of a page, and std::popcount (std::has_single_bit, too) is a call
// into libgcc where nothing says that the processor has POPCNT.
std::uint64_t line_count(std::uint64_t lines) noexcept {
  const bool is_one_or_none = (lines & (lines - 1)) == 0;
  return is_one_or_none ? std::uint64_t{lines != 0}
                        : static_cast<std::uint64_t>(std::popcount(lines));
}
}  // namespace

void Engine::settle_committed() noexcept {
  std::uint64_t lines = 0;
  for (const Write &write : writes_) {
    lines += line_count(write.lines);
    if (!keeps()) continue;
    LocalPage &l = local(write.page);
    const bool hot =
        l.written_epoch != 0 && static_cast<std::uint8_t>(epoch() - l.written_epoch) <= 2;
    l.written_epoch = epoch();
    if (l.twin != 0) {
      copy_lines(twins_.data(l.twin), address_of(write.page), write.lines);
      continue;
    }
    // Written twice in a short time: from here on it stays writable. One written once is dropped
    // (settle_private): keeping it would cost a twin, and a comparison in every instance to come.
    // But not before its version is home: dropping it would mean to guard it, and the next touch a
    // signal and two copies.
    const bool pending = memory_.meta(write.page).newest.load(std::memory_order_relaxed) != 0;
    if ((!hot && !pending) || (l.twin = twins_.take()) == 0) continue;
    std::memcpy(twins_.data(l.twin), address_of(write.page), kPageBytes);
    if (!hot) l.unchanged_compares = kUselessComparesMax - kPendingCompares;
  }
  storage::Participant &own = self();
  own.add(Count::kPagesWritten, writes_.size());
  own.add(Count::kLinesWritten, lines);
  settle_private();
}

// Private pages must have a twin to stay: home may move on while they do not.
bool Engine::stays_private(PageId page) noexcept {
  const LocalPage &l = local(page);
  return l.state == PageState::kPrivate && l.twin != 0 &&
         l.unchanged_compares <= kUselessComparesMax;
}

// What stays private; the rest is dropped, run by run.
void Engine::settle_private() noexcept {
  if (!keeps()) return;  // exact tracking drops everything in finish_instance()
  std::size_t still = 0;
  for (std::size_t i = 0; i < private_.size();) {
    const PageId page = private_[i];
    if (stays_private(page)) {
      private_[still++] = page;
      ++i;
      continue;
    }
    std::uint64_t run = 0;
    bool dropping = false;
    for (; i < private_.size() &&
           static_cast<std::uint64_t>(private_[i]) == static_cast<std::uint64_t>(page) + run;
         ++i, ++run) {
      LocalPage &l = local(private_[i]);
      const bool is_private = l.state == PageState::kPrivate;
      if (run > 0 && (stays_private(private_[i]) || is_private != dropping)) break;
      dropping = is_private;
      l.lists &= static_cast<std::uint8_t>(~kInPrivate);
    }
    if (dropping) drop_run(page, run);
  }
  private_.truncate(still);
}

void Engine::roll_back() noexcept {
  step(Step::kAbortStart);
  if (!keeps()) return;
  set_access(platform::KeyAccess::kOpen);
  for (const PageId page : private_) {
    LocalPage &l = local(page);
    if (l.state != PageState::kPrivate) continue;
    if (l.twin == 0) continue;  // dropped by settle_private()
    copy_lines(address_of(page), twins_.data(l.twin),
               differing_lines(address_of(page), twins_.data(l.twin)));
  }
  settle_private();
}

Engine::ReadSet Engine::read_set() noexcept {
  collect_touched();
  ReadSet set;
  set.is_exact = !began_with_kept_;
  set.has_stand_ins = !standing_in_.empty();
  set.line_snapshot = line_snapshot_;
  set.announcements = memory_.state().announcements.load(std::memory_order_relaxed);
  // what memory stood in for need not be kept
  for (PageList *const read : {&kept_, &standing_in_}) {
    for (const PageId page : *read) {
      set.segments.set(storage::segment_number(page));
      if (set.page_count < ReadSet::kPagesMax) set.pages[set.page_count] = page;
      ++set.page_count;
    }
  }
  if (read_everything_) {
    set.page_count = ReadSet::kPagesMax + 1;
    for (const std::uint32_t segment : mapped_) set.segments.set(segment);
  }
  return set;
}

void Engine::abort(AbortCause cause) noexcept {
  collect_touched();
  roll_back();
  count_abort(cause);
  finish_instance();
}

void Engine::count_abort(AbortCause cause) noexcept {
  const bool is_wrong = observe::is_planted(observe::Planted::kAbortMiscounted);
  self().add(abort_count(is_wrong ? AbortCause::kQueryWrote : cause), 1);
  platform::probe::abort(platform::probe::kPages, static_cast<std::uint32_t>(cause));
}

void Engine::finish_instance() noexcept {
  storage::Participant &own = self();
  running_ = false;
  irrevocable_ = false;
  engine_thread.running = nullptr;
  set_access(platform::KeyAccess::kShut);
  if (eager() && own.accesses.load(std::memory_order_relaxed) != 0) {
    const DomainLock::Held held = lock_.take();
    accesses_.remove_all(held, slot_);
  }
  for (const PageId page : standing_in_) stand_down(page);
  standing_in_.clear();
  for (const PageId page : undone_) drop_page(page);
  undone_.clear();
  // Of blocks that are open nobody looks later where their segment has grown, nor which versions
  // there are by then.
  if (!keeps() || !blocks_.empty()) drop_all();
  if (is_left_open_) close_views();
  // release: our reads come before home may change
  own.pin.store(kNoPin, std::memory_order_release);
  own.instance.store(0, std::memory_order_relaxed);
  step(Step::kAbortDone);
}

void Engine::adapt(bool conflicted) noexcept {
  if (!keeps()) return;
  ++quiet_ends_;
  if (steady_ends_ < kSteadyEnds) ++steady_ends_;
  if (conflicted) {
    keep_period_ = std::max<std::uint64_t>(1, keep_period_ / 2);
    calm_commits_ = 0;
  } else if (++calm_commits_ == kCalmCommits) {
    keep_period_ = std::min(kKeepPeriodMax, keep_period_ * 2);
    calm_commits_ = 0;
  }
  const bool too_many = kept_.size() > kKeptPagesMax || private_.size() > kPrivatePagesMax ||
                        protections_ > kBlocksAfter / 2;
  if (conflicted || too_many || quiet_ends_ >= keep_period_) {
    drop_all();
    quiet_ends_ = 0;
  }
}

Status Engine::validate() noexcept {
  collect_touched();
  if (!failed_ && !query_) {
    if (memory_.state().clock.load(std::memory_order_acquire) != snapshot_ || eager() ||
        was_failed()) {
      const DomainLock::Held held = lock_.take();
      if (!is_valid(held) && !failed_) {
        failed_ = true;  // certain from here on, even for an instance that stores nothing
        self().failed_instance.store(instance_, std::memory_order_relaxed);
      }
    }
  }
  return failed_ ? Status::kFailed : Status::kPending;
}

}  // namespace tmh::page
