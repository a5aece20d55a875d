// levels/page/versions/past.cpp -- keeping, finding and giving back before-images; names of
// moments.
#include "levels/page/versions/past.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>

#include "levels/page/shared/shared.h"
#include "observe/planted.h"
#include "observe/steps.h"
#include "platform/assert.h"
#include "platform/process.h"

namespace tmh::page {

using observe::Step;
using observe::step;

namespace {
// The time of one commit is noted in so long; thinned out, it is a 256th of what is held.
constexpr std::uint64_t kSamplePeriodNs = 10'000'000;
// Before-images given back per commit, beside those that make room for others.
constexpr std::size_t kRetiredAtMost = 256;
constexpr std::uint64_t kSlotBytes = kPageBytes + sizeof(VersionHead);
static_assert(kNamedMax == kMomentsMax && kNameBytes == kMomentNameMax + 1);
}  // namespace

void Past::want(const DomainLock::Held &held, std::uint64_t ns, std::uint64_t slots) noexcept {
  TMH_ASSERT(held.is_valid());
  TMH_ASSERT(slots > 0);
  PastState &past = state();
  const std::uint64_t before = past.history_slots.load(std::memory_order_relaxed);
  if (before == 0)
    past.horizon.store(memory_.state().clock.load(std::memory_order_relaxed),
                       std::memory_order_relaxed);
  // 0: for ever.
  const bool is_unbounded = ns == 0 || (before != 0 && past.history_ns == 0);
  past.history_ns = is_unbounded ? 0 : std::max(past.history_ns, ns);
  past.history_slots.store(std::max(before, slots), std::memory_order_relaxed);
  if (past.sample_period_ns == 0) past.sample_period_ns = kSamplePeriodNs;
  note_time(platform::coarse_ns());
  past.sampled_ns = 0;  // the next commit's time takes no place of this one
}

std::uint64_t Past::horizon() const noexcept {
  const PastState &past = state();
  return past.history_slots.load(std::memory_order_relaxed) != 0
             ? past.horizon.load(std::memory_order_relaxed)
             : memory_.state().clock.load(std::memory_order_relaxed);
}

std::uint64_t Past::unfolded_after() const noexcept {
  if (state().history_slots.load(std::memory_order_relaxed) == 0 ||
      observe::is_planted(observe::Planted::kPastFolded))
    return ~0ull;
  return state().horizon.load(std::memory_order_relaxed);
}

bool Past::gather_moments(const DomainLock::Held &held) noexcept {
  TMH_ASSERT(held.is_valid());
  kept_.clear();
  is_blind_ = false;
  PastState &past = state();
  const std::uint32_t high = past.may_have_readers != 0 ? memory_.participants_high() : 0;
  for (const PastName &name : past.names)
    if (past.named_count != 0 && name.clock != 0) kept_.push_back(name.clock);
  // A death between count and name has left one too many.
  past.named_count = static_cast<std::uint32_t>(kept_.size());
  bool has_reader = false;
  for (std::uint32_t i = 0; i < high; ++i) {
    const std::uint64_t moment = memory_.participant(i).past.load(std::memory_order_acquire);
    if (moment == 0) continue;
    has_reader = true;
    try {
      kept_.push_back(moment);
    } catch (const std::bad_alloc &) {
      is_blind_ = true;
    }
  }
  past.may_have_readers = has_reader ? 1 : 0;
  std::sort(kept_.begin(), kept_.end());
  return keeps_time();
}

// The last one before a commit; 0: none.
std::uint64_t Past::kept_before(std::uint64_t stamp) const noexcept {
  const auto after = std::lower_bound(kept_.begin(), kept_.end(), stamp);
  return after == kept_.begin() ? 0 : *(after - 1);
}

bool Past::save(const DomainLock::Held &held, Slot version) noexcept {
  TMH_ASSERT(held.is_valid());
  TMH_ASSERT(version != 0);
  if (observe::is_planted(observe::Planted::kNoBeforeImage)) return true;
  PastState &past = state();
  const VersionHead &head = memory_.version(version);
  const std::uint64_t stamp = head.stamp.load(std::memory_order_relaxed);
  const std::uint64_t slots = past.history_slots.load(std::memory_order_relaxed);
  if (stamp <= horizon() && kept_before(stamp) == 0) return true;
  const Slot above = memory_.meta(PageId{head.page}).past;
  // A holder of the lock that died has saved it, and perhaps stored half of it.
  if (above != 0 && stamp_of(above) >= stamp) return true;
  if (is_blind_) return false;
  while (slots != 0 && past.oldest != 0 && bounded_count() >= slots) retire_oldest();
  Slot image = slots_.take_free(held);
  while (image == 0 && past.oldest != 0) {
    retire_oldest();
    image = slots_.take_free(held);
  }
  if (image == 0) return false;
  step(Step::kPastTaken);
  VersionHead &to = memory_.version(image);
  to.page = head.page;
  to.lines = head.lines;
  to.owner = head.owner;
  copy_lines(memory_.version_data(image), memory_.home(PageId{head.page}), head.lines);
  step(Step::kPastFilled);
  // From here on a repair takes it for one. release: pairs with nobody; a death orders nothing else
  std::atomic_signal_fence(std::memory_order_seq_cst);
  to.stamp.store(stamp | kPastBit, std::memory_order_release);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  step(Step::kPastStamped);
  link(image);
  step(Step::kPastLinked);
  return true;
}

// The newest of its page, and of all.
void Past::link(Slot image) noexcept {
  PastState &past = state();
  VersionHead &head = memory_.version(image);
  head.newer = head.older = 0;
  if (memory_.knows(PageId{head.page})) {
    PageMeta &meta = memory_.meta(PageId{head.page});
    head.older = meta.past;
    if (head.older != 0) memory_.version(head.older).newer = image;
    meta.past = image;
  }
  head.list_newer = 0;
  head.list_older = past.newest;
  (past.newest != 0 ? memory_.version(past.newest).list_newer : past.oldest) = image;
  past.newest = image;
  past.count.store(past.count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

void Past::reset() noexcept {
  PastState &past = state();
  past.oldest = past.newest = past.kept = past.kept_count = 0;
  past.count.store(0, std::memory_order_relaxed);
}

void Past::forget_chain(PageId page) noexcept {
  if (memory_.knows(page) && memory_.meta_to_read(page).past != 0) memory_.meta(page).past = 0;
}

void Past::drop(Slot image) noexcept {
  const VersionHead &head = memory_.version(image);
  if (head.older != 0) memory_.version(head.older).newer = head.newer;
  if (head.newer != 0)
    memory_.version(head.newer).older = head.older;
  else if (memory_.knows(PageId{head.page}))
    memory_.meta(PageId{head.page}).past = head.older;
  PastState &past = state();
  past.count.store(past.count.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  step(Step::kPastRetired);
  slots_.free(image);
}

// No moment between the horizon and the present needs it. Does a name, or a reader? One that stands
// between it and the next older before-image of its page; where none does, they become one.
bool Past::is_let_go(Slot image) noexcept {
  const VersionHead &head = memory_.version(image);
  const std::uint64_t moment = kept_before(stamp_of(image));
  if (is_blind_) return false;
  if (moment == 0) return true;
  if (!memory_.knows(PageId{head.page})) return false;
  const Slot older = head.older;
  if (older == 0 || stamp_of(older) <= moment) return false;
  VersionHead &below = memory_.version(older);
  // Data before mask: twice is once, when a repair finds both.
  const LineMask added = head.lines & ~below.lines;
  copy_lines(memory_.version_data(older), memory_.version_data(image), added);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  below.lines |= added;
  return true;
}

std::uint64_t Past::bounded_count() const noexcept {
  return state().count.load(std::memory_order_relaxed) - state().kept_count;
}

// To those that a name, or a reader, needs; or it is given back. REQUIRES gather_moments().
void Past::retire_oldest() noexcept {
  PastState &past = state();
  const Slot image = past.oldest;
  TMH_ASSERT(image != 0);
  const std::uint64_t stamp = stamp_of(image);
  if (past.horizon.load(std::memory_order_relaxed) < stamp)
    past.horizon.store(stamp, std::memory_order_relaxed);
  VersionHead &head = memory_.version(image);
  past.oldest = head.list_newer;
  (past.oldest != 0 ? memory_.version(past.oldest).list_older : past.newest) = 0;
  if (is_let_go(image)) return drop(image);
  head.list_newer = past.kept;
  past.kept = image;
  ++past.kept_count;
}

void Past::sweep_kept() noexcept {
  PastState &past = state();
  Slot still = 0;
  past.kept_count = 0;
  for (Slot image = past.kept; image != 0;) {
    VersionHead &head = memory_.version(image);
    const Slot next = head.list_newer;
    if (is_let_go(image)) {
      drop(image);
    } else {
      head.list_newer = still;
      still = image;
      ++past.kept_count;
    }
    image = next;
  }
  past.kept = still;
}

void Past::tend(const DomainLock::Held &held, std::uint64_t now_ns) noexcept {
  TMH_ASSERT(held.is_valid());
  PastState &past = state();
  if (past.sample_period_ns != 0) note_time(now_ns);
  const bool has_history = past.history_slots.load(std::memory_order_relaxed) != 0;
  if (has_history && past.history_ns != 0 && now_ns > past.history_ns) {
    const std::uint64_t clock = clock_at(now_ns - past.history_ns, &PastSample::monotonic_ns);
    if (clock > past.horizon.load(std::memory_order_relaxed))
      past.horizon.store(clock, std::memory_order_relaxed);
  }
  const bool is_stale = past.is_stale.load(std::memory_order_relaxed) != 0;
  const bool is_due = past.oldest != 0 && stamp_of(past.oldest) <= horizon();
  if (!is_due && !is_stale) return;
  (void)gather_moments(held);
  for (std::size_t i = 0;
       i < kRetiredAtMost && past.oldest != 0 && stamp_of(past.oldest) <= horizon(); ++i)
    retire_oldest();
  if (!is_stale) return;
  past.is_stale.store(0, std::memory_order_relaxed);
  sweep_kept();
}

void Past::bound_versions(const DomainLock::Held &held) noexcept {
  PastState &past = state();
  const std::uint64_t slots = past.history_slots.load(std::memory_order_relaxed);
  if (slots == 0) return;
  const std::uint64_t live = memory_.versions_live();
  if (bounded_count() + live <= slots) return;
  (void)gather_moments(held);
  for (std::size_t i = 0; i < kRetiredAtMost && past.oldest != 0 && bounded_count() + live > slots;
       ++i)
    retire_oldest();
  if (past.oldest == 0 && live > slots)
    past.horizon.store(memory_.state().clock.load(std::memory_order_relaxed),
                       std::memory_order_relaxed);
}

// Under the lock: the clock stands. Within a period the last commit's takes the place of those
// before it.
void Past::note_time(std::uint64_t now_ns) noexcept {
  PastState &past = state();
  if (past.sample_count == 0 || now_ns >= past.sampled_ns + past.sample_period_ns) {
    if (past.sample_count >= kSamplesMax) thin_samples();
    TMH_ASSERT(past.sample_count < kSamplesMax);
    past.samples[past.sample_count].clock = 0;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    ++past.sample_count;
    past.sampled_ns = now_ns;
  }
  PastSample &sample = past.samples[past.sample_count - 1];
  sample.clock = 0;
  std::atomic_signal_fence(std::memory_order_seq_cst);  // death in between: no sample
  sample.wall_ns = platform::wall_clock_ns();
  sample.monotonic_ns = now_ns;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  sample.clock = memory_.state().clock.load(std::memory_order_relaxed);
}

// Those before the horizon go, but for the last of them; where that is not half of them, every
// second one does. Each sample stays true wherever a death leaves this.
void Past::thin_samples() noexcept {
  PastState &past = state();
  const std::uint64_t from = horizon();
  std::uint32_t first = 0;
  while (first + 1 < past.sample_count && past.samples[first + 1].clock <= from) ++first;
  std::uint32_t still = 0;
  const std::uint32_t stride = first >= kSamplesMax / 2 ? 1 : 2;
  for (std::uint32_t i = first; i < past.sample_count; i += stride) {
    PastSample &to = past.samples[still++];
    const PastSample from_there = past.samples[i];
    to.clock = 0;
    std::atomic_signal_fence(std::memory_order_seq_cst);  // as in note_time()
    to.wall_ns = from_there.wall_ns;
    to.monotonic_ns = from_there.monotonic_ns;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    to.clock = from_there.clock;
  }
  past.sample_count = still;
  if (stride == 2) past.sample_period_ns *= 2;
}

// 0: none is known to be that old.
std::uint64_t Past::clock_at(std::uint64_t ns, std::uint64_t PastSample::*when) const noexcept {
  const PastState &past = state();
  std::uint64_t clock = 0;
  for (std::size_t i = 0; i < std::min<std::size_t>(past.sample_count, kSamplesMax); ++i)
    if (past.samples[i].*when <= ns) clock = std::max(clock, past.samples[i].clock);
  return clock;
}

PastName *Past::find(std::string_view name) const noexcept {
  for (PastName &entry : state().names) {
    const std::string_view text(entry.name, strnlen(entry.name, kNameBytes));
    if (entry.clock != 0 && text == name) return &entry;
  }
  return nullptr;
}

bool Past::is_named(std::uint64_t clock) const noexcept {
  return std::any_of(std::begin(state().names), std::end(state().names),
                     [&](const PastName &entry) { return entry.clock == clock; });
}

Errc Past::enter(const DomainLock::Held &held, storage::Participant &reader, const Moment &moment,
                 std::uint64_t *clock) noexcept {
  TMH_ASSERT(held.is_valid());
  const std::uint64_t now = memory_.state().clock.load(std::memory_order_relaxed);
  std::uint64_t wanted = moment.number();
  if (moment.kind() == Moment::Kind::kName) {
    const PastName *const entry = find(moment.name());
    if (entry == nullptr) return Errc::kNotHeld;
    wanted = entry->clock;
  } else if (moment.kind() == Moment::Kind::kTime) {
    if (moment.number() > platform::wall_clock_ns()) return Errc::kNotHeld;
    wanted = clock_at(moment.number(), &PastSample::wall_ns);
  }
  if (wanted == 0 || wanted > now) return Errc::kNotHeld;
  if (wanted < horizon() && !is_named(wanted)) return Errc::kNotHeld;
  *clock = wanted;
  state().may_have_readers = 1;
  // release: what collectors read under the lock, later
  reader.past.store(wanted, std::memory_order_release);
  return Errc::kOk;
}

void Past::leave(storage::Participant &reader) noexcept {
  // release: its reads come before what it has read may go
  reader.past.store(0, std::memory_order_release);
  state().is_stale.store(1, std::memory_order_relaxed);
}

Errc Past::keep(const DomainLock::Held &held, std::string_view name, PastName *made) noexcept {
  TMH_ASSERT(held.is_valid());
  TMH_ASSERT(!name.empty() && name.size() < kNameBytes);
  if (find(name) != nullptr) return Errc::kBadArgument;
  PastState &past = state();
  for (PastName &entry : past.names) {
    if (entry.clock != 0) continue;
    std::memset(entry.name, 0, sizeof entry.name);
    std::memcpy(entry.name, name.data(), name.size());
    entry.wall_ns = platform::wall_clock_ns();
    const std::uint64_t clock = memory_.state().clock.load(std::memory_order_relaxed);
    // Counted first: a death in between leaves a name too many counted, which costs a look.
    ++past.named_count;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    entry.clock = clock;
    *made = entry;
    return Errc::kOk;
  }
  return Errc::kTooManyMoments;
}

Errc Past::forget(const DomainLock::Held &held, std::string_view name) noexcept {
  TMH_ASSERT(held.is_valid());
  PastName *const entry = find(name);
  if (entry == nullptr) return Errc::kNotHeld;
  PastState &past = state();
  entry->clock = 0;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (past.named_count > 0) --past.named_count;
  past.is_stale.store(1, std::memory_order_relaxed);
  // Unlinked, a page of an unknown segment may point at what is given back: tend() does it later.
  if ((memory_.state().repair_again & kRepairVersions) != 0) return Errc::kOk;
  (void)gather_moments(held);
  past.is_stale.store(0, std::memory_order_relaxed);
  sweep_kept();
  return Errc::kOk;
}

PastInfo Past::info(const DomainLock::Held &held) const {
  TMH_ASSERT(held.is_valid());
  const PastState &past = state();
  PastInfo out;
  out.oldest = horizon();
  out.now = memory_.state().clock.load(std::memory_order_relaxed);
  out.history.time = std::chrono::milliseconds(past.history_ns / 1'000'000);
  out.history.bytes = past.history_slots.load(std::memory_order_relaxed) * kSlotBytes;
  out.pages = past.count.load(std::memory_order_relaxed);
  out.bytes = out.pages * kSlotBytes;
  for (const PastName &entry : past.names) {
    if (entry.clock == 0) continue;
    NamedMoment moment;
    moment.name.assign(entry.name, strnlen(entry.name, kNameBytes));
    moment.clock = entry.clock;
    moment.time = std::chrono::system_clock::time_point(
        std::chrono::duration_cast<std::chrono::system_clock::duration>(
            std::chrono::nanoseconds(entry.wall_ns)));
    out.moments.push_back(std::move(moment));
  }
  return out;
}

bool Past::has_later_home(PageId page, std::uint64_t moment) const noexcept {
  const Slot image = memory_.meta_to_read(page).past;
  return image != 0 && stamp_of(image) > moment;
}

void Past::undo(PageId page, std::uint64_t moment, std::byte *to) const noexcept {
  for (Slot image = memory_.meta_to_read(page).past; image != 0 && stamp_of(image) > moment;
       image = memory_.version(image).older)
    copy_lines(to, memory_.version_data(image), memory_.version(image).lines);
}

void Past::visit_later_homes(std::uint64_t moment, std::vector<PageId> *pages) const {
  const auto visit = [&](Slot first) {
    for (Slot image = first; image != 0; image = memory_.version(image).list_newer)
      if (stamp_of(image) > moment) pages->push_back(PageId{memory_.version(image).page});
  };
  visit(state().oldest);
  visit(state().kept);
}

}  // namespace tmh::page
