// levels/page/engine.cpp -- an engine's life: joining the domain, mapping views, beginning
// instances, leaving.
#include "levels/page/engine.h"

#include <cstdlib>
#include <string>
#include <utility>

#include "levels/page/engine_thread.h"
#include "platform/disk.h"
#include "platform/failure.h"
#include "platform/fault_handler.h"
#include "platform/probes.h"
#include "platform/process.h"
#include "platform/steps.h"

namespace tmh::page {

using platform::Step;
using platform::step;
using storage::Count;

constinit thread_local EngineThread engine_thread __attribute__((tls_model("initial-exec")));

namespace {
// Versions sent home per slow begin: enough to keep up with others' commits, little enough (50 us)
// not to hold the lock long.
constexpr std::size_t kCollectPerBegin = 256;
}  // namespace

Engine::Engine(DomainMemory &memory, std::uint32_t slot, Detection detection)
    : memory_(memory),
      slot_(slot),
      own_(memory.participant(slot)),
      instance_(own_),
      detection_(detection),
      tree_(memory, slot, ConsistencyTree::Role::kKeepsSlots),
      accesses_(memory, slot),
      reaper_(memory, slot, tree_, accesses_),
      lock_(memory,
            platform::lock_tag(
                slot, memory.participant(slot).incarnation.load(std::memory_order_relaxed)),
            reaper_),
      turn_(memory, slot, lock_),
      views_(memory, tracking_, lists_),
      sets_(memory, own_, tracking_, views_, lists_),
      stand_ins_(memory, tree_, views_, lists_, keeping_, instance_),
      touches_(memory, tracking_, views_, lists_, keeping_, instance_),
      snapshot_(memory, tracking_, tree_, views_, lists_, touches_, instance_, detection) {}

Errc Engine::start(Tracking wanted, bool alone) noexcept {
  if (const Errc error = lists_.reserve(); error != Errc::kOk) return error;
  if (const Errc error = tracking_.choose(wanted, detection_); error != Errc::kOk) return error;
  if (alone)
    if (const Errc error = memory_.reserve_links(); error != Errc::kOk) return error;
  const DomainLock::Held held = lock_.take();
  if (alone) reaper_.start_over(held);
  reaper_.reap_dead(held);
  tree_.collect(held, ~std::size_t{0});
  snapshot_.start(held);
  return Errc::kOk;
}

// A thread's faults may not be listed any more: the process has dropped its privileges since the
// open, or entered a sandbox. Where `auto` has chosen, every touch raises SIGSEGV from here on, in
// all threads. REQUIRES: no instance is running.
Errc Engine::give_up_kernel_tracking() noexcept {
  if (!tracking_.may_give_up()) return Errc::kTrackingUnavailable;
  std::string reason = "kernel tracking does not work here any more: " + platform::failure_detail();
  vacate();
  views_.forget_guards();
  tracking_.give_up(std::move(reason));
  if (const Errc error = remap(); error != Errc::kOk) {
    platform::write_sentence(
        "tmh: a segment cannot be mapped again, for want of areas or memory; the first of them at",
        reinterpret_cast<std::uintptr_t>(views_.of(views_.mapped().front()).base));
    std::abort();
  }
  return Errc::kOk;
}

Errc Engine::map(std::uint32_t segment, Placement placement, std::byte **out) noexcept {
  if (const Errc error = views_.add(segment, placement, {this, on_fault}, out); error != Errc::kOk)
    return error;
  if (silent()) {
    const DomainLock::Held held = lock_.take();
    views_.guard_pending(held, segment);
  }
  return Errc::kOk;
}

Errc Engine::unmap(std::uint32_t segment) noexcept {
  if (views_.of(segment).base == nullptr) return Errc::kNotMapped;
  if (instance_.is_running) return Errc::kSegmentInUse;
  views_.remove(segment);
  return Errc::kOk;
}

void Engine::vacate() noexcept {
  views_.vacate();
  ahead_ = 0;
}

Errc Engine::begin(bool is_query, std::uint64_t age, ConflictPolicy policy) noexcept {
  step(Step::kBeginStart);
  storage::Participant &own = self();
  if (!engine_thread.takes_faults) [[unlikely]] {
    platform::unblock_faults();
    engine_thread.takes_faults = true;
  }
  if (silent()) {
    Errc error = tracking_.open_ring();  // a thread's first instance
    if (error == Errc::kTrackingUnavailable) error = give_up_kernel_tracking();
    if (error != Errc::kOk) return error;
    if (silent() && !thread_ring().empty()) touches_.discard_outside();
  }
  if (memory_.segment_generation() != memory_.segments_opened_at()) {
    if (const Errc error = memory_.open_segments(); error != Errc::kOk) return error;
  }
  snapshot_.note_segments();
  instance_.begin(is_query, policy);
  stand_ins_.begin_instance();
  own.age.store(age, std::memory_order_relaxed);
  own.begin_ns.store(platform::coarse_ns(), std::memory_order_relaxed);
  own.is_query.store(is_query ? 1 : 0, std::memory_order_relaxed);
  own.instance.store(instance_.number, std::memory_order_relaxed);
  own.add(is_query ? Count::kQueries : Count::kBegins, 1);
  if (!snapshot_.pin_without_lock()) {
    views_.set_access(platform::KeyAccess::kOpen);  // pull() stores to private pages
    const DomainLock::Held held = lock_.take();
    step(Step::kBeginLocked);
    if (is_query && platform::is_planted(platform::Planted::kQueryUncounted))
      own.add(Count::kQueries, ~0ull);
    reaper_.reap_suspects(held, platform::coarse_ns());
    tree_.collect(held, kCollectPerBegin);
    snapshot_.pin(held);
  }
  step(Step::kBeginPinned);
  instance_.began_with_kept = !lists_.kept.empty();
  instance_.is_running = true;
  engine_thread.running = this;
  views_.set_access(is_query ? platform::KeyAccess::kReadOnly : platform::KeyAccess::kOpen);
  platform::probe::begin(platform::probe::kPages, instance_.number, is_query ? 1 : 0);
  return Errc::kOk;
}

std::uint64_t Engine::collect() noexcept {
  (void)memory_.open_segments();
  const DomainLock::Held held = lock_.take();
  reaper_.reap_dead(held);
  tree_.collect(held, ~std::size_t{0});
  tree_.fold_all(held);
  const std::uint64_t left = memory_.versions_live();
  tree_.shrink(held);
  return left;
}

void Engine::detach() noexcept {
  step(Step::kDetachStart);
  turn_.leave();
  (void)memory_.open_segments();
  const DomainLock::Held held = lock_.take();
  reaper_.reap_dead(held);
  tree_.collect(held, ~std::size_t{0});
  tree_.release_reserved(held);
  accesses_.remove_all(held, slot_);
  self().state.store(0, std::memory_order_release);
}

}  // namespace tmh::page
