// levels/page/engine.cpp -- an engine's life: joining the domain, mapping views, leaving.
#include "levels/page/engine.h"

#include <new>

#include "observe/steps.h"
#include "platform/failure.h"
#include "platform/process.h"
#include "platform/try.h"

namespace tmh::page {

using observe::Step;
using observe::step;

Engine::Engine(SharedFiles &memory, std::uint32_t slot, Detection detection)
    : detection_(detection),
      ours_(memory, slot),
      mine_(memory, slot),
      touching_(ours_, mine_, slot, claim_kind(detection)),
      transaction_(ours_, mine_, touching_) {}

Errc Engine::start(Tracking wanted, bool alone) noexcept {
  TMH_TRY(mine_.reserve());
  TMH_TRY(touching_.reserve());
  TMH_TRY(transaction_.reserve());
  TMH_TRY(mine_.tracking.choose(wanted, detection_));
  if (alone) TMH_TRY(ours_.memory.reserve_links());
  const DomainLock::Held held = ours_.lock.take();
  if (alone) ours_.reaper.start_over(held);
  ours_.reaper.reap_dead(held);
  ours_.tree.collect(held, ~std::size_t{0});
  touching_.snapshot.start(held);
  return Errc::kOk;
}

Errc Engine::record_skew(std::uint32_t slot) noexcept try {
  const DomainState &state = ours_.memory.state();
  observe::SkewOwner owner;
  owner.slot = slot;
  owner.domain_id[0] = state.domain_id[0];
  owner.domain_id[1] = state.domain_id[1];
  owner.life = state.life;
  owner.incarnation = mine_.instance.own.incarnation.load(std::memory_order_relaxed);
  owner.name = mine_.instance.own.name;
  const Errc error = observe::SkewRecorder::open(ours_.memory.folder(), owner, &recorder_);
  if (error == Errc::kOk) {
    transaction_.record_skew(recorder_.get());
    return Errc::kOk;
  }
  const std::string why = platform::failure_detail();
  detach();
  return platform::fail(error, why);
} catch (const std::bad_alloc &) {
  detach();
  return platform::fail_for_memory("the recorder of read sets");
}

Errc Engine::map(std::uint32_t segment, Placement placement, std::byte **out) noexcept {
  TMH_TRY(mine_.views.add(segment, placement, touching_.first_touch.faults(), out));
  if (mine_.tracking.is_silent()) mine_.views.guard_pending(ours_.lock.take(), segment);
  return Errc::kOk;
}

Errc Engine::unmap(std::uint32_t segment) noexcept {
  if (mine_.views.of(segment).base == nullptr) return Errc::kNotMapped;
  if (mine_.instance.is_running) return Errc::kSegmentInUse;
  mine_.views.remove(segment);
  return Errc::kOk;
}

std::uint64_t Engine::collect() noexcept {
  (void)ours_.memory.open_segments();
  const DomainLock::Held held = ours_.lock.take();
  ours_.reaper.reap_dead(held);
  ours_.tree.collect(held, ~std::size_t{0});
  ours_.tree.fold_all(held);
  if (ours_.tree.past().is_on(held) && ours_.tree.is_linked())
    ours_.tree.past().tend(held, platform::coarse_ns());
  const std::uint64_t left = ours_.memory.versions_live();
  ours_.tree.slots().shrink(held);
  return left;
}

void Engine::detach() noexcept {
  step(Step::kDetachStart);
  ours_.turn.leave();
  (void)ours_.memory.open_segments();
  const DomainLock::Held held = ours_.lock.take();
  ours_.reaper.reap_dead(held);
  ours_.tree.collect(held, ~std::size_t{0});
  ours_.tree.slots().release(held);
  touching_.claimer.give_back(held);
  mine_.instance.own.state.store(0, std::memory_order_release);
}

}  // namespace tmh::page
