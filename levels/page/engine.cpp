// levels/page/engine.cpp -- an engine's life: choosing the tracking, mapping views, the domain
// lock, the dead, the turn.
#include "levels/page/engine.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <new>

#include "levels/page/engine_thread.h"
#include "observe/planted.h"
#include "platform/failure.h"
#include "platform/futex.h"
#include "platform/steps.h"

namespace tmh::page {

using platform::fail;
using platform::Step;
using platform::step;
using storage::Count;
using storage::kNoPin;

constinit thread_local EngineThread engine_thread __attribute__((tls_model("initial-exec")));

namespace {
// Looking after the dead costs 20 us per suspect: often enough for the second of docs/design.md 8,
// seldom enough to be free.
constexpr std::uint64_t kReapPeriodNs = 100'000'000;
constexpr std::uint64_t kSuspectAfterNs = 50'000'000;
// A turn holder commits within a few instances; 10 waits of 20 ms bound what a stopped one can cost
// others.
constexpr long kTurnWaitNs = 20'000'000;
constexpr int kTurnWaitsMax = 10;
}  // namespace

Engine::Engine(DomainMemory &memory, std::uint32_t slot, Detection detection)
    : memory_(memory),
      slot_(slot),
      own_(memory.participant(slot)),
      lock_(memory,
            platform::lock_tag(
                slot, memory.participant(slot).incarnation.load(std::memory_order_relaxed)),
            *this),
      detection_(detection),
      key_(memory.view_key()),
      tree_(memory, slot, ConsistencyTree::Role::kKeepsSlots),
      accesses_(memory, slot),
      views_(std::make_unique<View[]>(storage::kSegmentsMax)) {
  mapped_.reserve(storage::kSegmentsMax);  // map() has nowhere to throw to
  instance_ = self().incarnation.load(std::memory_order_relaxed)
              << 32;  // numbers never repeat in the domain, whoever had the slot before
  engines_here_.fetch_add(1, std::memory_order_relaxed);
}

Engine::~Engine() {
  engines_here_.fetch_sub(1, std::memory_order_relaxed);
  while (!mapped_.empty()) (void)unmap(mapped_.back());
}

Errc Engine::start(Tracking wanted, bool alone) noexcept {
  for (PageList *list :
       {&kept_, &private_, &fresh_, &blocks_, &undone_, &standing_in_, &resident_}) {
    if (const Errc error = list->reserve(); error != Errc::kOk) return error;
  }
  if (const Errc error = twins_.reserve(); error != Errc::kOk) return error;
  if (const Errc error = choose_tracking(wanted); error != Errc::kOk) return error;
  kind_ = tracking_.tracking;
  chose_freely_ = wanted == Tracking::kAuto;
  if (alone)
    if (const Errc error = memory_.reserve_links(); error != Errc::kOk) return error;
  const DomainLock::Held held = lock_.take();
  if (alone) {  // nobody vouches for the links, pins and entries that are there
    for (std::uint32_t i = 0; i < memory_.participants_high(); ++i) {
      storage::Participant &other = memory_.participant(i);
      if (i == slot_) continue;
      other.accesses.store(0, std::memory_order_relaxed);
      other.pin.store(kNoPin, std::memory_order_relaxed);
      if (other.state.load(std::memory_order_relaxed) > 1)
        other.state.store(0, std::memory_order_relaxed);
    }
    tree_.repair(held);
    accesses_.rebuild(held);
    lower_->repair(held);
  }
  reap_dead(held);
  tree_.collect(held, ~std::size_t{0});
  synced_ = kept_synced_ = memory_.state().clock.load(std::memory_order_relaxed);
  synced_position_ = memory_.state().log_head.load(std::memory_order_relaxed);
  repairs_seen_ = memory_.state().repairs.load(std::memory_order_relaxed);
  resync_needed_ = false;
  return Errc::kOk;
}

Errc Engine::choose_tracking(Tracking wanted) noexcept {
  if (eager()) {
    if (wanted != Tracking::kAuto && wanted != Tracking::kSignal)
      return fail(Errc::kBadTracking,
                  std::string(to_string(wanted))
                      .append(" finds touches too late for eager detection; use signal"));
    tracking_ = {Tracking::kSignal,
                 "eager detection must run code at every first touch, so each raises SIGSEGV"};
    (void)page_map_.open();
    return Errc::kOk;
  }
  if (wanted == Tracking::kSignal || wanted == Tracking::kSignalHot) {
    tracking_ = {wanted, "asked for"};
    // without it (a process that is not dumpable) pages of blocks are compared one by one
    (void)page_map_.open();
    return Errc::kOk;
  }
  const Errc permitted = open_kernel_tracking();
  if (permitted == Errc::kOk) {
    tracking_ = {wanted == Tracking::kAuto ? Tracking::kKernelHot : wanted,
                 wanted == Tracking::kAuto ? "kernel lists first touches (perf page faults, "
                                             "userfaultfd WP_ASYNC, guards): the cheapest way"
                                           : "asked for"};
    return Errc::kOk;
  }
  if (wanted != Tracking::kAuto) return permitted;
  (void)page_map_.open();
  tracking_ = {Tracking::kSignalHot,
               "kernel tracking does not work here: " + platform::failure_detail()};
  return Errc::kOk;
}

Errc Engine::open_ring() noexcept try {
  platform::FaultRing &ring = thread_ring();
  return ring.is_open() ? Errc::kOk : ring.open();
} catch (const std::bad_alloc &) {
  return platform::fail_for_memory("the list of a thread's page faults");
}

// A thread's faults may not be listed any more: the process has dropped its privileges since the
// open, or entered a sandbox. Where `auto` has chosen, every touch raises SIGSEGV from here on, in
// all threads. REQUIRES: no instance is running.
Errc Engine::give_up_kernel_tracking() noexcept {
  if (kind_ != Tracking::kKernelHot || !chose_freely_) return Errc::kTrackingUnavailable;
  std::string reason = "kernel tracking does not work here any more: " + platform::failure_detail();
  vacate();
  // guards are not listed
  for (const std::uint32_t segment : mapped_) views_[segment].pages_memory.forget_from(0);
  kind_ = Tracking::kSignalHot;
  if (const Errc error = remap(); error != Errc::kOk) {
    platform::write_sentence(
        "tmh: a segment cannot be mapped again, for want of areas or memory; the first of them at",
        reinterpret_cast<std::uintptr_t>(views_[mapped_.front()].base));
    std::abort();
  }
  later_tracking_ = {kind_, std::move(reason)};
  report_.store(&later_tracking_, std::memory_order_release);
  return Errc::kOk;
}

Errc Engine::open_kernel_tracking() noexcept {
  if (const Errc error = page_map_.open(); error != Errc::kOk) return error;
  if (const Errc error = open_ring(); error != Errc::kOk) return error;
  if (const Errc error = fault_around_.open(); error != Errc::kOk) return error;
  return try_guards();
}

// Kernel versions and configurations say less than a trial: one page read must be listed alone, and
// guards must hold on a file view.
Errc Engine::try_guards() noexcept {
  constexpr std::size_t kTrialPages = 16;  // one fault-around window
  platform::FileDescriptor file(memfd_create("tmh-trial", MFD_CLOEXEC));
  if (!file || ftruncate(file.get(), kTrialPages * kPageBytes) != 0)
    return platform::fail_errno(Errc::kTrackingUnavailable, "memfd_create of a trial's pages");
  void *shared = mmap(nullptr, kTrialPages * kPageBytes, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_POPULATE, file.get(), 0);
  void *view = platform::map_when_touched(nullptr, kTrialPages * kPageBytes, PROT_READ | PROT_WRITE,
                                          MAP_PRIVATE | MAP_NORESERVE, file.get(), 0);
  Errc result = Errc::kOk;
  if (shared == MAP_FAILED || view == MAP_FAILED)
    result = platform::fail_errno(Errc::kTrackingUnavailable, "mapping a trial's pages");
  else
    result = fault_around_.switch_off(view, kTrialPages * kPageBytes);
  if (result == Errc::kOk) {
    (void)thread_ring().drain([](std::uintptr_t) {});
    (void)std::atomic_ref<std::uint64_t>(*static_cast<std::uint64_t *>(view))
        .load(std::memory_order_relaxed);
    std::size_t listed = 0;
    const auto base = reinterpret_cast<std::uintptr_t>(view);
    (void)thread_ring().drain([&](std::uintptr_t address) {
      listed += address - base < kTrialPages * kPageBytes ? 1 : 0;
    });
    platform::PageKind kinds[kTrialPages];
    std::size_t present = 0;
    if (page_map_.read(base, kTrialPages, kinds))
      for (const auto kind : kinds) present += kind != platform::PageKind::kAbsent ? 1 : 0;
    const auto ignore = [](void *, const platform::PageMap::Run &) {};
    if (listed != 1 || present != 1)
      result = fail(Errc::kTrackingUnavailable,
                    "a trial read of one page was not listed exactly once and alone");
    else if (!page_map_.scan(base, kTrialPages * kPageBytes, ignore, nullptr))
      result = fail(Errc::kTrackingUnavailable, "PAGEMAP_SCAN (Linux 6.7) is missing");
    else if (!platform::guard_install(view, kPageBytes) ||
             !platform::guard_remove(view, kPageBytes))
      result = fail(Errc::kTrackingUnavailable,
                    "MADV_GUARD_INSTALL on file views (Linux 6.15) is missing");
  }
  if (shared != MAP_FAILED) munmap(shared, kTrialPages * kPageBytes);
  if (view != MAP_FAILED) munmap(view, kTrialPages * kPageBytes);
  return result;
}

Errc Engine::map(std::uint32_t segment, Placement placement, std::byte **out) noexcept {
  const storage::SegmentRecordV1 &record = memory_.control().segments[segment];
  View &view = views_[segment];
  view.engine = this;
  view.segment = segment;
  try {
    view.name = record.name;
  } catch (const std::bad_alloc &) {
    return platform::fail_for_memory("the name of a view");
  }
  view.bytes = record.max_bytes;
  if (const Errc error =
          view.pages_memory.reserve(record.max_bytes / kPageBytes * sizeof(LocalPage));
      error != Errc::kOk)
    return error;
  view.pages = reinterpret_cast<LocalPage *>(view.pages_memory.base());
  if (has_lower_)
    if (const Errc error = view.open_blocks.reserve(record.max_bytes / kPageBytes / 512 + 1);
        error != Errc::kOk)
      return error;
  std::byte *base = nullptr;
  const std::uintptr_t address = placement == Placement::kCommon ? record.address : 0;
  // For open_block(), that it may open all but what others will make of the view.
  const std::uint64_t tail_at = !silent() && has_lower_
                                    ? memory_.segment_size(segment).load(std::memory_order_acquire)
                                    : record.max_bytes;
  if (const Errc error =
          memory_.segment(segment).home.map_view(address, silent() && !has_lower_, &base, tail_at);
      error != Errc::kOk)
    return error;
  Errc error = silent() ? fault_around_.switch_off(base, view.bytes) : Errc::kOk;
  if (error == Errc::kOk)
    error = platform::publish_fault_range(reinterpret_cast<std::uintptr_t>(base), view.bytes,
                                          on_fault, &view, view.name.c_str());
  if (error != Errc::kOk) {
    munmap(base, view.bytes);
    view.pages_memory.release();
    return error;
  }
  view.base = base;
  mapped_.push_back(segment);
  if (silent()) {
    const DomainLock::Held held = lock_.take();
    guard_pending(held, segment);
  }
  *out = base;
  return Errc::kOk;
}

Errc Engine::unmap(std::uint32_t segment) noexcept {
  View &view = views_[segment];
  if (view.base == nullptr) return Errc::kNotMapped;
  if (running_) return Errc::kSegmentInUse;
  drop_all();
  lose_all(segment);
  last_bytes_ = 0;
  platform::withdraw_fault_range(reinterpret_cast<std::uintptr_t>(view.base));
  munmap(view.base, view.bytes);
  view.base = nullptr;
  view.pages = nullptr;
  view.pages_memory.release();
  view.open_blocks.release();
  std::erase(mapped_, segment);
  return Errc::kOk;
}

Errc Engine::remap() noexcept {
  for (const std::uint32_t segment : mapped_) {
    const View &view = views_[segment];
    if (const Errc error = memory_.segment(segment).home.map_view_again(view.base);
        error != Errc::kOk)
      return error;
    if (!silent()) continue;
    if (const Errc error = fault_around_.switch_off(view.base, view.bytes); error != Errc::kOk)
      return error;
  }
  return Errc::kOk;
}

bool Engine::slot_alive(void *context, std::uint32_t slot) noexcept {
  const auto *engine = static_cast<const Engine *>(context);
  return slot < storage::kParticipantsMax && engine->memory_.participant(slot).is_alive();
}

void Engine::mend(const DomainLock::Held &held, DomainLock::Context context,
                  platform::Locked how) noexcept {
  // In a handler no file can be opened: what is unknown here stays unlinked, and repair_again stays
  // set for the next holder.
  if (context == DomainLock::Context::kNormal) (void)memory_.open_segments();
  tree_.repair(held);
  accesses_.rebuild(held);
  lower_->repair(held);
  self().add(Count::kLockRecoveries, how == platform::Locked::kInherited ? 1 : 0);
  next_reap_ns_.store(0, std::memory_order_relaxed);
}

void Engine::reap(const DomainLock::Held &held, std::uint32_t slot) noexcept {
  TMH_ASSERT(held.is_valid());
  step(Step::kReapStart);
  finish_reaping(held, slot);
  storage::Participant &dead = memory_.participant(slot);
  DomainState &state = memory_.state();
  if (dead.is_counted_running() && !observe::is_planted(observe::Planted::kDeathUncounted))
    dead.add(storage::abort_count(AbortCause::kDied),
             observe::is_planted(observe::Planted::kDeathCountedTwice) ? 2 : 1);
  tree_.release_reserved_of(held, slot);
  accesses_.remove_all(held, slot);
  lower_->reap(held, slot);
  std::uint32_t turn = state.turn.load(std::memory_order_relaxed);
  if (turn != 0 && holder_of(turn) == slot &&
      state.turn.compare_exchange_strong(turn, 0, std::memory_order_relaxed))
    platform::futex_wake(state.turn);
  dead.instance.store(0, std::memory_order_relaxed);
  dead.pin.store(kNoPin, std::memory_order_release);
  count_reaped(held, slot);
  step(Step::kReapCounted);
  dead.state.store(0, std::memory_order_release);
  std::atomic_signal_fence(std::memory_order_seq_cst);  // death in between: counted, and nobody's
  state.reaping = 0;
  step(Step::kReapDone);
}

// Who died while reaping has perhaps counted that death, and not freed the slot: it comes first.
void Engine::finish_reaping(const DomainLock::Held &held, std::uint32_t wanted) noexcept {
  DomainState &state = memory_.state();
  const auto slot = static_cast<std::uint32_t>(state.reaping_slot);
  if (state.reaping == 0 || slot == wanted || slot >= memory_.participants_high()) return;
  const storage::Participant &dead = memory_.participant(slot);
  // Its slot may be free by now, or another's.
  if (dead.incarnation.load(std::memory_order_relaxed) == state.reaping && dead.is_gone())
    reap(held, slot);
  state.reaping = 0;
}

// Each death once: the new total is there before the intent, and storing it twice is once.
void Engine::count_reaped(const DomainLock::Held &held, std::uint32_t slot) noexcept {
  TMH_ASSERT(held.is_valid());
  DomainState &state = memory_.state();
  const std::uint64_t incarnation =
      memory_.participant(slot).incarnation.load(std::memory_order_relaxed);
  if (state.reaping != incarnation) {
    state.reaped_next = state.reaped + 1;
    state.reaping_slot = slot;
    std::atomic_signal_fence(std::memory_order_seq_cst);  // death in between: not begun
    state.reaping = incarnation;
    std::atomic_signal_fence(std::memory_order_seq_cst);  // death in between: begun, and done again
  }
  state.reaped = state.reaped_next;
}

void Engine::reap_dead(const DomainLock::Held &held) noexcept {
  const std::uint32_t high = memory_.participants_high();
  for (std::uint32_t i = 0; i < high; ++i) {
    storage::Participant &other = memory_.participant(i);
    if (i == slot_ || !other.is_gone()) continue;
    reap(held, i);
  }
}

void Engine::reap_suspects(const DomainLock::Held &held, std::uint64_t now) noexcept {
  if (now < next_reap_ns_.load(std::memory_order_relaxed)) return;
  next_reap_ns_.store(now + kReapPeriodNs, std::memory_order_relaxed);
  const std::uint32_t high = memory_.participants_high();
  for (std::uint32_t i = 0; i < high; ++i) {
    storage::Participant &other = memory_.participant(i);
    const bool runs = other.instance.load(std::memory_order_relaxed) != 0 ||
                      other.pin.load(std::memory_order_relaxed) != kNoPin;
    if (i == slot_ || !runs) continue;
    if (now < other.begin_ns.load(std::memory_order_relaxed) + kSuspectAfterNs || !other.is_gone())
      continue;
    reap(held, i);
  }
}

std::uint64_t Engine::collect() noexcept {
  (void)memory_.open_segments();
  const DomainLock::Held held = lock_.take();
  reap_dead(held);
  tree_.collect(held, ~std::size_t{0});
  tree_.fold_all(held);
  const std::uint64_t left = memory_.versions_live();
  tree_.shrink(held);
  return left;
}

void Engine::detach() noexcept {
  step(Step::kDetachStart);
  leave_turn();
  (void)memory_.open_segments();
  const DomainLock::Held held = lock_.take();
  reap_dead(held);
  tree_.collect(held, ~std::size_t{0});
  tree_.release_reserved(held);
  accesses_.remove_all(held, slot_);
  self().state.store(0, std::memory_order_release);
}

void Engine::take_turn() noexcept {
  DomainState &state = memory_.state();
  for (int wait = 0; wait < kTurnWaitsMax; ++wait) {
    std::uint32_t turn = 0;
    if (state.turn.compare_exchange_strong(turn, slot_ + 1, std::memory_order_relaxed) ||
        turn == slot_ + 1) {
      self().add(Count::kTurns, 1);
      return;
    }
    wait_for_turn(turn);
  }
}

// Of an instance that will be irrevocable: others do not pass it. From a holder that may abort it
// is taken when that does not end; from an irrevocable one never, but by its death.
void Engine::take_turn_for_good() noexcept {
  DomainState &state = memory_.state();
  for (int wait = 0;; ++wait) {
    std::uint32_t turn = state.turn.load(std::memory_order_relaxed);
    const bool is_free =
        turn == 0 || turn == slot_ + 1 || (!is_irrevocable(turn) && wait >= kTurnWaitsMax);
    if (!is_free)
      wait_for_turn(turn);
    else if (state.turn.compare_exchange_strong(turn, kIrrevocable | (slot_ + 1),
                                                std::memory_order_relaxed))
      return;
  }
}

// What a dead holder leaves is taken away under the lock, where its slot cannot pass to somebody
// who takes the turn, too: the word would be the same.
void Engine::wait_for_turn(std::uint32_t turn) noexcept {
  DomainState &state = memory_.state();
  if (!platform::futex_wait(state.turn, turn, kTurnWaitNs) || slot_alive(this, holder_of(turn)))
    return;
  const DomainLock::Held held = lock_.take();
  if (!slot_alive(this, holder_of(turn)))
    state.turn.compare_exchange_strong(turn, 0, std::memory_order_relaxed);
}

void Engine::leave_turn() noexcept {
  std::uint32_t turn = memory_.state().turn.load(std::memory_order_relaxed);
  if (turn == 0 || holder_of(turn) != slot_) return;
  if (memory_.state().turn.compare_exchange_strong(turn, 0, std::memory_order_relaxed))
    platform::futex_wake(memory_.state().turn);
}

DomainLock::Held Engine::lock_when_turn_allows() noexcept {
  for (int wait = 0;; ++wait) {
    DomainLock::Held held = lock_.take();
    const std::uint32_t turn = memory_.state().turn.load(std::memory_order_relaxed);
    if (turn == 0 || holder_of(turn) == slot_ || (!is_irrevocable(turn) && wait >= kTurnWaitsMax))
      return held;
    held.release();
    wait_for_turn(turn);
  }
}

}  // namespace tmh::page
