// levels/page/versions/consistency_tree.cpp -- publishing, collecting and repairing versions.
#include "levels/page/versions/consistency_tree.h"

#include <algorithm>
#include <bit>
#include <new>

#include "levels/page/shared/shared.h"
#include "observe/counting.h"
#include "observe/planted.h"
#include "observe/steps.h"
#include "platform/assert.h"
#include "platform/disk.h"
#include "platform/fence.h"
#include "platform/process.h"

namespace tmh::page {

using observe::Step;
using observe::step;
using storage::kNoPin;

namespace {
constexpr std::uint64_t kUntidiedMaxNs = 100'000'000;
constexpr std::size_t kCollectAtLeast = 256;
}  // namespace

ConsistencyTree::ConsistencyTree(SharedFiles &memory, std::uint32_t self, Role role)
    : memory_(memory),
      self_(self),
      slots_(memory, self, role),
      lists_(memory),
      past_(memory, slots_) {
  TMH_ASSERT(self < storage::kParticipantsMax);
}

void ConsistencyTree::link(const Write &write, std::uint64_t stamp) noexcept {
  TMH_ASSERT(write.slot != 0);
  TMH_ASSERT(write.lines != 0);
  TMH_ASSERT(storage::segment_number(write.page) < storage::kSegmentsMax);
  VersionHead &head = memory_.version(write.slot);
  PageMeta &meta = memory_.meta(write.page);
  head.page = static_cast<std::uint64_t>(write.page);
  head.lines = write.lines;
  head.newer = 0;
  head.older = meta.newest.load(std::memory_order_relaxed);
  head.stamp.store(stamp, std::memory_order_relaxed);  // > clock: a repair would free it
  if (head.older != 0)
    memory_.version(head.older).newer = write.slot;
  else
    // the clock's store orders it
    memory_.state().versioned_stamp.store(stamp, std::memory_order_relaxed);
  lists_.append(write.slot);
  meta.stamp.store(stamp, std::memory_order_relaxed);
  meta.newest.store(write.slot, std::memory_order_release);
}

void ConsistencyTree::log(const std::vector<Write> &writes, std::uint64_t stamp,
                          std::uint64_t line) noexcept {
  DomainState &state = memory_.state();
  const std::uint64_t incarnation =
      memory_.participant(self_).incarnation.load(std::memory_order_relaxed);
  const std::uint64_t time_ns = memory_.log_state() != nullptr ? platform::wall_clock_ns() : 0;
  const auto pages = static_cast<std::uint32_t>(writes.size());
  std::uint64_t at = state.log_head.load(std::memory_order_relaxed);
  const auto enter = [&](std::uint64_t position, const Write &write, std::uint64_t page) {
    CommitLogEntry &entry = memory_.commits().entry(position);
    entry.stamp.store(stamp, std::memory_order_relaxed);  // the release store of log_head orders it
    entry.page = page;
    entry.lines = write.lines;
    entry.incarnation = incarnation;
    entry.slot = write.slot;
    entry.pages = pages;
    entry.time_ns = time_ns;
    entry.line = line;
  };
  if (is_wide(writes.size())) {
    // Too wide to list: all find the ring overtaken and start from the version list
    // instead.
    enter(at, writes.front(), kWideCommit);
    at += kLogEntries + 1;
  } else {
    for (const Write &write : writes) enter(at++, write, static_cast<std::uint64_t>(write.page));
  }
  // pairs with Snapshot::foreign_commits_are_elsewhere()
  state.log_head.store(at, std::memory_order_release);
}

namespace {
// Before the commit point, under the lock: who dies in between leaves the lock to somebody who
// repairs.
void count_commit(SharedFiles &memory, std::uint32_t slot, std::uint64_t stamp) noexcept {
  if constexpr (!observe::kCounts) return;
  memory.state().counting.store(counting_word(stamp, slot), std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);  // death in between: announced, not counted
  memory.participant(slot).add(storage::Count::kCommits, 1);
  std::atomic_signal_fence(std::memory_order_seq_cst);  // death in between: counted, not published
}
}  // namespace

std::uint64_t ConsistencyTree::publish(const DomainLock::Held &held,
                                       const std::vector<Write> &writes, storage::Lsn log_end,
                                       std::uint64_t line) noexcept {
  TMH_ASSERT(held.is_valid());
  TMH_ASSERT(!writes.empty());
  DomainState &state = memory_.state();
  // only lock holders store it
  const std::uint64_t stamp = state.clock.load(std::memory_order_relaxed) + 1;
  for (std::size_t i = 0; i < writes.size(); ++i) {
    link(writes[i], stamp);
    if (i == 0) step(Step::kCommitFirstLinked);
  }
  step(Step::kCommitLinked);
  log(writes, stamp, line);
  step(Step::kCommitLogged);
  if (memory_.log_state() != nullptr)
    memory_.log_state()->append_lsn[stamp & 1].store(log_end, std::memory_order_relaxed);
  count_commit(memory_, self_, stamp);
  step(Step::kCommitCounted);
  // the commit point; pairs with begins, and see oldest_pin()
  state.clock.store(stamp, std::memory_order_release);
  step(Step::kCommitPoint);
  // After the clock: a thread that acquires it and reads the clock then finds every entry below it
  // published.
  state.log_published.store(state.log_head.load(std::memory_order_relaxed),
                            std::memory_order_release);
  untidied_count_ += writes.size();
  unfolded_count_ += writes.size();
  step(Step::kCommitPublished);
  return stamp;
}

// The dead holder's instance has ended by its count, and never was: its reaper ends it otherwise.
// Twice is once.
void ConsistencyTree::take_count_back() noexcept {
  DomainState &state = memory_.state();
  const std::uint64_t counting = state.counting.load(std::memory_order_relaxed);
  const auto slot = static_cast<std::uint32_t>(counting & 0xffff);
  const std::uint64_t next = state.clock.load(std::memory_order_relaxed) + 1;
  if (counting != counting_word(next, slot) || slot >= memory_.participants_high()) return;
  storage::Participant &dead = memory_.participant(slot);
  if (!dead.is_counted_running() && !observe::is_planted(observe::Planted::kCountNotTakenBack))
    dead.add(storage::Count::kCommits, ~0ull);  // minus one
  // death in between: it counts as running until it is reaped
  std::atomic_signal_fence(std::memory_order_seq_cst);
  // before that: the next repair would take another one
  state.counting.store(0, std::memory_order_relaxed);
}

void ConsistencyTree::announce(const DomainLock::Held &held, PageId page) noexcept {
  TMH_ASSERT(storage::segment_number(page) < storage::kSegmentsMax);
  TMH_ASSERT(held.is_valid());
  DomainState &state = memory_.state();
  const std::uint64_t stamp = state.clock.load(std::memory_order_relaxed) + 1;
  const std::uint64_t at = state.log_head.load(std::memory_order_relaxed);
  CommitLogEntry &entry = memory_.commits().entry(at);
  entry.stamp.store(stamp, std::memory_order_relaxed);  // the release store of log_head orders it
  entry.page = static_cast<std::uint64_t>(page);
  entry.lines = 0;
  entry.incarnation = 0;  // no participant's own: the announcer's views lose the page as well
  entry.slot = 0;
  entry.pages = 1;
  entry.time_ns = 0;
  entry.line = 0;
  // pairs with Snapshot::foreign_commits_are_elsewhere()
  state.log_head.store(at + 1, std::memory_order_release);
  state.announcements.store(state.announcements.load(std::memory_order_relaxed) + 1,
                            std::memory_order_relaxed);  // the clock orders it
  // before the announcer's look at pins: see oldest_pin()
  state.clock.store(stamp, std::memory_order_seq_cst);
  state.log_published.store(at + 1, std::memory_order_release);  // as in publish()
}

std::uint64_t ConsistencyTree::oldest_pin() const noexcept {
  // after the clock of every commit so far: header's head
  platform::fence(std::memory_order_seq_cst);
  std::uint64_t oldest = kNoPin;
  const std::uint32_t high = memory_.participants_high();
  for (std::uint32_t i = 0; i < high; ++i) {
    // pairs with its withdrawal
    oldest = std::min(oldest, memory_.participant(i).pin.load(std::memory_order_acquire));
  }
  step(Step::kGapPinsRead);
  return oldest;
}

std::uint64_t ConsistencyTree::oldest_stamp(const DomainLock::Held &held) const noexcept {
  TMH_ASSERT(held.is_valid());
  std::uint64_t oldest = ~0ull;
  const std::uint32_t high = memory_.participants_high();
  for (std::uint32_t owner = 0; owner < high; ++owner)
    oldest = std::min(oldest, lists_.oldest_stamp(owner));
  return oldest;
}

// False: no memory for them, so nothing can be folded now.
bool ConsistencyTree::gather_pins(const DomainLock::Held &held) noexcept {
  platform::fence(std::memory_order_seq_cst);  // as in oldest_pin()
  const std::uint32_t high = memory_.participants_high();
  try {
    const bool keeps_past = past_.prepare(held);
    if (keeps_past && past_.is_blind()) return false;
    pins_.reserve(std::size_t{high} + 1 + past_.moments().size());
    pins_.clear();
    if (keeps_past) pins_.assign(past_.moments().begin(), past_.moments().end());
  } catch (const std::bad_alloc &) {
    return false;
  }
  for (std::uint32_t i = 0; i < high; ++i) {
    // as above
    const std::uint64_t pin = memory_.participant(i).pin.load(std::memory_order_acquire);
    if (pin != kNoPin) pins_.push_back(pin);
  }
  if (memory_.state().fold_fence != 0) pins_.push_back(memory_.state().fold_fence);
  std::sort(pins_.begin(), pins_.end());
  step(Step::kGapPinsRead);
  return true;
}

bool ConsistencyTree::pinned_between(std::uint64_t from, std::uint64_t to) const noexcept {
  if (to > past_.unfolded_after()) return true;
  const auto first = std::lower_bound(pins_.begin(), pins_.end(), from);
  return first != pins_.end() && *first < to;
}

void ConsistencyTree::unlink(Slot slot) noexcept {
  TMH_ASSERT(slot != 0);
  VersionHead &head = memory_.version(slot);
  if (head.older != 0) memory_.version(head.older).newer = head.newer;
  if (head.newer != 0)
    memory_.version(head.newer).older = head.older;
  else
    // release: home's lines precede "no version"
    memory_.meta(PageId{head.page}).newest.store(head.older, std::memory_order_release);
  lists_.remove(slot);
}

void ConsistencyTree::fold_into(Slot newer) noexcept {
  TMH_ASSERT(newer != 0);
  VersionHead &head = memory_.version(newer);
  const Slot older = head.older;
  VersionHead &below = memory_.version(older);
  // Data before mask: a reader of `newer` (under the lock, later) must not find a line claimed and
  // missing. Doing this twice is once.
  const LineMask added = below.lines & ~head.lines;
  copy_lines(memory_.version_data(newer), memory_.version_data(older), added);
  // They belong to the older commit, whose record is durable: when the newer one's is made of this
  // slot they must not count.
  if (memory_.log_state() != nullptr)
    for (LineMask lines = added; lines != 0; lines &= lines - 1)
      head.words[std::countr_zero(lines)] = 0;
  step(Step::kMergeFilled);
  // release: pairs with RedoEncoder::append_wide(), which has no lock and must find the words of
  //          what it sees added taken away.
  std::atomic_ref(head.lines).store(head.lines | added, std::memory_order_release);
  step(Step::kMergeMasked);
  unlink(older);
  slots_.recycle(older);
}

// The version and, before it, the older ones of its page: other owners' lists hold them, and theirs
// may be visited later. A collector that may send a version home may send what is older: it is
// durable before, and no pin precedes it. Returns how many went: fewer, where there is no room for
// what they replace and the past has need of it.
std::size_t ConsistencyTree::send_home(const DomainLock::Held &held, Slot slot) noexcept {
  TMH_ASSERT(slot != 0);
  const bool has_level_below = memory_.has_level_below();
  Slot next = slot;
  while (memory_.version(next).older != 0) next = memory_.version(next).older;
  for (std::size_t sent = 1;; ++sent) {
    const VersionHead &head = memory_.version(next);
    if (keeps_past_ && !past_.save(held, next)) return sent - 1;
    const Slot newer = head.newer;
    std::byte *const home = memory_.home(PageId{head.page});
    if (has_level_below)
      copy_lines_home(home, memory_.version_data(next), head.lines);
    else
      copy_lines(home, memory_.version_data(next), head.lines);
    if (platform::disk_is_watched()) memory_.tell_home_written(PageId{head.page}, head.lines);
    step(Step::kGcHomeCopied);
    unlink(next);
    step(Step::kGcUnlinked);
    slots_.recycle(next);
    step(Step::kGcFreed);
    if (next == slot) return sent;
    next = newer;
  }
}

std::size_t ConsistencyTree::collect_from(const DomainLock::Held &held, std::uint32_t owner,
                                          std::uint64_t up_to, std::size_t limit) noexcept {
  const storage::VersionList &list = lists_.of(owner);
  keeps_past_ = past_.prepare(held);
  std::size_t sent = 0;
  while (list.oldest != 0 && sent < limit) {
    const VersionHead &head = memory_.version(list.oldest);
    if (head.stamp.load(std::memory_order_relaxed) > up_to || !memory_.knows(PageId{head.page}))
      break;
    if (sent == 0) step(Step::kGcStart);
    const Slot oldest = list.oldest;
    sent += send_home(held, oldest);
    if (list.oldest == oldest) break;
  }
  return sent;
}

std::size_t ConsistencyTree::collect(const DomainLock::Held &held, std::size_t limit,
                                     std::uint64_t up_to) noexcept {
  TMH_ASSERT(held.is_valid());
  if (!is_linked()) return 0;
  const std::uint32_t high = memory_.participants_high();
  // What is not durable stays here (docs/design.md D2): a data file may be written back at any
  // time.
  up_to = std::min(up_to, memory_.durable_clock());
  bool pins_are_read = false;
  std::size_t sent = 0;
  for (std::uint32_t owner = 0; owner < high && sent < limit; ++owner) {
    if (lists_.oldest_stamp(owner) > up_to) continue;
    if (!pins_are_read) up_to = std::min(up_to, oldest_pin());
    pins_are_read = true;
    sent += collect_from(held, owner, up_to, limit - sent);
  }
  return sent;
}

bool ConsistencyTree::is_tidying_due(const DomainLock::Held &held, std::uint64_t now_ns,
                                     std::size_t patience) const noexcept {
  TMH_ASSERT(held.is_valid());
  if (!holds_own() || lists_.oldest_stamp(self_) > memory_.durable_clock()) return false;
  return !blocked_ || untidied_count_ >= patience || now_ns - tidied_ns_ > kUntidiedMaxNs;
}

void ConsistencyTree::tidy_own(const DomainLock::Held &held, std::uint64_t now_ns) noexcept {
  TMH_ASSERT(held.is_valid());
  if (!is_linked()) return;
  const std::size_t limit = std::max(kCollectAtLeast, 2 * untidied_count_);
  const std::uint64_t pin = oldest_pin();
  const bool all_tried =
      collect_from(held, self_, std::min(pin, memory_.durable_clock()), limit) < limit;
  blocked_ = all_tried && holds_own() && lists_.oldest_stamp(self_) > pin;
  if (blocked_) fold_new(held);  // what no pin keeps goes home anyway, and soon
  untidied_count_ = 0;
  tidied_ns_ = now_ns;
}

// Newest first: each version takes in what lies below it in its page, and stays itself. Nothing
// that is not durable is folded: it is looked at again, but not before as many new ones were
// published, so that each is looked at twice on average, however far the log is behind.
void ConsistencyTree::fold_new(const DomainLock::Held &held) noexcept {
  if (unfolded_count_ < undurable_count_ || !gather_pins(held)) return;
  const std::uint64_t durable = memory_.durable_clock();
  const Slot newest = lists_.of(self_).newest;
  unfolded_count_ = undurable_count_ = 0;
  for (Slot slot = newest; slot != 0; slot = memory_.version(slot).list_older) {
    const std::uint64_t stamp = memory_.version(slot).stamp.load(std::memory_order_relaxed);
    if (stamp <= folded_stamp_) break;
    if (stamp > durable) ++undurable_count_;
    fold_below(slot);
  }
  folded_stamp_ = std::min(durable, memory_.version(newest).stamp.load(std::memory_order_relaxed));
}

// The whole chain, whichever slots own its versions. Where a pin stands between two, those below
// are looked at as well: while W writers work, an instance of another one mostly stands between a
// page's newest two versions, and it has gone when a third one comes.
void ConsistencyTree::fold_below(Slot slot) noexcept {
  if (!memory_.knows(PageId{memory_.version(slot).page})) return;
  // a version is what its log record will be made of
  const std::uint64_t durable = memory_.durable_clock();
  // Chains are long above the horizon of a history, and nothing of it is folded.
  if (memory_.version(slot).stamp.load(std::memory_order_relaxed) > past_.unfolded_after()) return;
  for (Slot newer = slot;;) {
    const VersionHead &head = memory_.version(newer);
    if (head.older == 0) return;
    const std::uint64_t older = memory_.version(head.older).stamp.load(std::memory_order_relaxed);
    if (older > durable) return;
    if (pinned_between(older, head.stamp.load(std::memory_order_relaxed)))
      newer = head.older;
    else
      fold_into(newer);
  }
}

// By slots and not by lists: so nothing is forgotten whoever owns it, and the place to go on from
// is a number.
void ConsistencyTree::fold_some(const DomainLock::Held &held, std::size_t slots) noexcept {
  TMH_ASSERT(held.is_valid());
  if (!blocked_ || !is_linked() || !gather_pins(held)) return;
  const std::uint64_t unfolded_after = past_.unfolded_after();
  const Slot capacity = memory_.state().version_capacity.load(std::memory_order_relaxed);
  for (; slots > 0; --slots, ++fold_next_) {
    if (fold_next_ >= capacity) fold_next_ = 1;
    if (fold_next_ >= capacity) return;
    const VersionHead &head = memory_.version(fold_next_);
    const std::uint64_t stamp = head.stamp.load(std::memory_order_relaxed);
    if (stamp == 0 || stamp == kReservedStamp || is_past(stamp)) continue;
    // A chain is folded from its newest version, or from the newest one up to the horizon.
    const bool is_top =
        head.newer == 0 ||
        (stamp <= unfolded_after &&
         memory_.version(head.newer).stamp.load(std::memory_order_relaxed) > unfolded_after);
    if (is_top) fold_below(fold_next_);
  }
}

void ConsistencyTree::fold_all(const DomainLock::Held &held) noexcept {
  TMH_ASSERT(held.is_valid());
  if (!is_linked() || !gather_pins(held)) return;
  const std::uint32_t high = memory_.participants_high();
  for (std::uint32_t owner = 0; owner < high; ++owner) {
    for (Slot slot = lists_.of(owner).newest; slot != 0; slot = memory_.version(slot).list_older)
      fold_below(slot);
  }
}

namespace {
// A version that a snapshot at `snapshot` reads. Freed and reserved slots are none, wherever a link
// to them was left.
bool is_visible(std::uint64_t stamp, std::uint64_t snapshot) noexcept {
  return stamp != 0 && stamp != kReservedStamp && stamp <= snapshot;
}
}  // namespace

bool ConsistencyTree::has_version(const DomainLock::Held &held, PageId page,
                                  std::uint64_t stamp) const noexcept {
  TMH_ASSERT(held.is_valid());
  for (Slot slot = memory_.meta_to_read(page).newest.load(std::memory_order_relaxed); slot != 0;
       slot = memory_.version(slot).older) {
    if (is_visible(memory_.version(slot).stamp.load(std::memory_order_relaxed), stamp)) return true;
  }
  return false;
}

bool ConsistencyTree::may_have_version(PageId page) const noexcept {
  // Without the lock: 0 is final for this snapshot, because versions stamped <= snapshot only ever
  // disappear into home. acquire: pairs with the release in unlink(), so that home's lines are
  // seen.
  const bool has_version = memory_.meta_to_read(page).newest.load(std::memory_order_acquire) != 0;
  step(Step::kGapTouchLooked);
  return has_version;
}

void ConsistencyTree::read(const DomainLock::Held &held, PageId page, std::uint64_t stamp,
                           LineMask lines, std::byte *to) const noexcept {
  TMH_ASSERT(held.is_valid());
  for (Slot slot = memory_.meta_to_read(page).newest.load(std::memory_order_relaxed);
       slot != 0 && lines != 0;) {
    const VersionHead &head = memory_.version(slot);
    if (is_visible(head.stamp.load(std::memory_order_relaxed), stamp)) {
      copy_lines(to, memory_.version_data(slot), lines & head.lines);
      lines &= ~head.lines;
    }
    slot = head.older;
  }
  if (lines == 0) return;
  if (memory_.has_level_below())
    copy_lines_of_home(to, memory_.home(page), lines);
  else
    copy_lines(to, memory_.home(page), lines);
}

std::vector<PageId> ConsistencyTree::pages_of_past(const DomainLock::Held &held,
                                                   std::uint64_t moment) const {
  TMH_ASSERT(held.is_valid());
  std::vector<PageId> pages;
  const std::uint32_t high = memory_.participants_high();
  for (std::uint32_t owner = 0; owner < high; ++owner) {
    for (Slot slot = lists_.of(owner).oldest; slot != 0; slot = memory_.version(slot).list_newer)
      pages.push_back(PageId{memory_.version(slot).page});
  }
  past_.visit_later_homes(moment, &pages);
  return pages;
}

LineMask ConsistencyTree::lines_since(const DomainLock::Held &held, PageId page,
                                      std::uint64_t stamp) const noexcept {
  TMH_ASSERT(held.is_valid());
  if (!is_linked()) return ~LineMask{0};
  LineMask lines = 0;
  for (Slot slot = memory_.meta_to_read(page).newest.load(std::memory_order_relaxed); slot != 0;) {
    const VersionHead &head = memory_.version(slot);
    if (head.stamp.load(std::memory_order_relaxed) <= stamp) break;
    lines |= head.lines;
    slot = head.older;
  }
  return lines;
}

Slot ConsistencyTree::merge_by_stamp(Slot a, Slot b) noexcept {
  Slot first = 0;
  Slot *link_to = &first;
  while (a != 0 && b != 0) {
    Slot &smaller = memory_.version(b).stamp.load(std::memory_order_relaxed) <
                            memory_.version(a).stamp.load(std::memory_order_relaxed)
                        ? b
                        : a;
    *link_to = smaller;
    link_to = &memory_.version(smaller).list_newer;
    smaller = *link_to;
  }
  *link_to = a != 0 ? a : b;
  return first;
}

// Merge sort on the list links themselves: this may run in a handler, where there is no heap.
Slot ConsistencyTree::sort_by_stamp(Slot unsorted) noexcept {
  Slot runs[33] = {};  // runs[i]: sorted list of 2^i versions
  while (unsorted != 0) {
    const Slot next = memory_.version(unsorted).list_newer;
    memory_.version(unsorted).list_newer = 0;
    Slot run = unsorted;
    std::size_t i = 0;
    for (; runs[i] != 0; ++i) {
      run = merge_by_stamp(runs[i], run);
      runs[i] = 0;
    }
    runs[i] = run;
    unsorted = next;
  }
  Slot sorted = 0;
  for (const Slot run : runs) sorted = merge_by_stamp(run, sorted);
  return sorted;
}

void ConsistencyTree::settle(const DomainLock::Held &held, std::uint32_t slot) noexcept {
  slots_.release_of(held, slot);
  past_.leave(memory_.participant(slot));
}

void ConsistencyTree::repair(const DomainLock::Held &held) noexcept {
  TMH_ASSERT(held.is_valid());
  step(Step::kRepairStart);
  DomainState &state = memory_.state();
  const std::uint64_t clock = state.clock.load(std::memory_order_relaxed);
  take_count_back();
  if (storage::LogState *log = memory_.log_state(); log != nullptr) log->give_back_of_dead(clock);
  slots_.forget_free();
  lists_.reset(self_);
  past_.reset();
  const std::uint32_t owners = std::max(memory_.participants_high(), self_ + 1);
  bool all_known = true;
  Slot living = 0, images = 0;
  for (Slot slot = 1; slot < state.version_capacity.load(std::memory_order_relaxed); ++slot) {
    VersionHead &head = memory_.version(slot);
    const PageId page{head.page};
    const std::uint64_t stamp = head.stamp.load(std::memory_order_relaxed);
    // A page's head points at a slot that still names the page, living or freed: mark them all,
    // then link the living again. Never 0 in between: to a reader without the lock 0 says that home
    // holds everything.
    // A slot that was never used names page 0, which may have no block.
    if (memory_.knows(page) &&
        memory_.meta_to_read(page).newest.load(std::memory_order_relaxed) != 0)
      memory_.meta(page).newest.store(kRelinking, std::memory_order_relaxed);
    past_.forget_chain(page);
    // Also for a slot that is freed below: a page of a segment unknown here may still point at it.
    all_known = all_known && (!memory_.exists(page) || memory_.knows(page));
    if (stamp == kReservedStamp) continue;
    if (head.owner >= owners) head.owner = self_;  // damaged
    if (is_past(stamp) && (stamp & ~kPastBit) <= clock && memory_.exists(page)) {
      head.list_newer = images;
      images = slot;
      continue;
    }
    // free, never committed, or damaged
    if (stamp == 0 || stamp > clock || !memory_.exists(page)) {
      slots_.free(slot);
      continue;
    }
    head.list_newer = living;
    living = slot;
  }
  for (Slot slot = sort_by_stamp(living); slot != 0;) {
    VersionHead &head = memory_.version(slot);
    const Slot next = head.list_newer;
    const PageId page{head.page};
    head.newer = head.older = 0;
    if (memory_.knows(page)) {
      const Slot below = memory_.meta(page).newest.load(std::memory_order_relaxed);
      head.older = below == kRelinking ? 0 : below;
      if (head.older != 0) memory_.version(head.older).newer = slot;
      memory_.meta(page).newest.store(slot, std::memory_order_release);
    }
    lists_.append(slot);
    slot = next;
  }
  for (Slot image = sort_by_stamp(images); image != 0;) {
    const Slot next = memory_.version(image).list_newer;
    past_.link(image);
    image = next;
  }
  for (Slot slot = 1; slot < state.version_capacity.load(std::memory_order_relaxed);
       ++slot) {  // pages without versions
    const PageId page{memory_.version(slot).page};
    if (memory_.knows(page) &&
        memory_.meta_to_read(page).newest.load(std::memory_order_relaxed) == kRelinking)
      memory_.meta(page).newest.store(0, std::memory_order_release);
  }
  std::uint64_t head = state.log_head.load(std::memory_order_relaxed);
  for (std::uint64_t i = 0;
       i < kLogEntries && head > 0 &&
       memory_.commits().entry(head - 1).stamp.load(std::memory_order_relaxed) > clock;
       ++i)
    head -= memory_.commits().entry(head - 1).page == kWideCommit && head > kLogEntries
                ? kLogEntries + 1
                : 1;
  state.log_head.store(head, std::memory_order_release);
  state.log_published.store(head, std::memory_order_release);
  // A segment that this process has not opened yet: the next holder of the lock outside a handler
  // opens it and repairs again.
  state.repair_again = all_known ? 0 : kRepairVersions;
  state.repairs.fetch_add(1, std::memory_order_relaxed);  // the clock's next store orders it
  step(Step::kRepairDone);
}

}  // namespace tmh::page
