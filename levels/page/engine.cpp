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
    : memory_(memory),
      detection_(detection),
      instance_(memory.participant(slot)),
      tree_(memory, slot, ConsistencyTree::Role::kKeepsSlots),
      access_table_(memory, slot),
      reaper_(memory, slot),
      lock_(memory,
            platform::lock_tag(slot, instance_.own.incarnation.load(std::memory_order_relaxed)),
            reaper_),
      turn_(memory, slot, lock_),
      views_(memory, tracking_, lists_),
      blocks_(memory, views_, lists_),
      stand_ins_(memory, tracking_, lock_, tree_, views_, lists_, keeping_, snapshot_, instance_),
      touches_(memory, tracking_, views_, lists_, keeping_, instance_),
      snapshot_(memory, tracking_, tree_, views_, lists_, touches_, instance_,
                claim_kind(detection)),
      claimer_(memory, slot, lock_, access_table_, snapshot_, instance_, claim_kind(detection)),
      maker_(memory, lock_, tree_, views_, lists_, stand_ins_, touches_, snapshot_, instance_),
      ahead_(memory, lock_, tree_, views_, blocks_, lists_, snapshot_, instance_),
      opener_(memory, views_, blocks_, lists_, stand_ins_, touches_, claimer_, maker_, ahead_,
              instance_),
      first_touch_(memory, tracking_, views_, stand_ins_, touches_, opener_, ahead_, instance_),
      sets_(memory, lock_, tree_, tracking_, views_, lists_, snapshot_, instance_),
      commit_(memory, lock_, turn_, tree_, reaper_, tracking_, views_, sets_, snapshot_, claimer_,
              instance_),
      transaction_({.memory = memory,
                    .lock = lock_,
                    .turn = turn_,
                    .tree = tree_,
                    .reaper = reaper_,
                    .tracking = tracking_,
                    .lists = lists_,
                    .views = views_,
                    .sets = sets_,
                    .keeping = keeping_,
                    .stand_ins = stand_ins_,
                    .touches = touches_,
                    .snapshot = snapshot_,
                    .claimer = claimer_,
                    .first_touch = first_touch_,
                    .commit = commit_,
                    .instance = instance_}) {
  reaper_.add(tree_);
  reaper_.add(access_table_);
}

void Engine::use_recaller(Recaller *recaller) noexcept {
  views_.use_lower();
  reaper_.add(*recaller);
  stand_ins_.use_recaller(recaller);
  snapshot_.use_recaller(recaller);
  maker_.use_recaller(recaller);
  ahead_.use_recaller(recaller);
  commit_.use_recaller(recaller);
}

Errc Engine::start(Tracking wanted, bool alone) noexcept {
  TMH_TRY(lists_.reserve());
  TMH_TRY(snapshot_.reserve());
  TMH_TRY(tracking_.choose(wanted, detection_));
  if (alone) TMH_TRY(memory_.reserve_links());
  const DomainLock::Held held = lock_.take();
  if (alone) reaper_.start_over(held);
  reaper_.reap_dead(held);
  tree_.collect(held, ~std::size_t{0});
  snapshot_.start(held);
  return Errc::kOk;
}

Errc Engine::record_skew(std::uint32_t slot) noexcept try {
  const DomainState &state = memory_.state();
  observe::SkewOwner owner;
  owner.slot = slot;
  owner.domain_id[0] = state.domain_id[0];
  owner.domain_id[1] = state.domain_id[1];
  owner.life = state.life;
  owner.incarnation = instance_.own.incarnation.load(std::memory_order_relaxed);
  owner.name = instance_.own.name;
  const Errc error = observe::SkewRecorder::open(memory_.folder(), owner, &recorder_);
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
  TMH_TRY(views_.add(segment, placement, first_touch_.faults(), out));
  if (tracking_.is_silent()) views_.guard_pending(lock_.take(), segment);
  return Errc::kOk;
}

Errc Engine::unmap(std::uint32_t segment) noexcept {
  if (views_.of(segment).base == nullptr) return Errc::kNotMapped;
  if (instance_.is_running) return Errc::kSegmentInUse;
  views_.remove(segment);
  return Errc::kOk;
}

std::uint64_t Engine::collect() noexcept {
  (void)memory_.open_segments();
  const DomainLock::Held held = lock_.take();
  reaper_.reap_dead(held);
  tree_.collect(held, ~std::size_t{0});
  tree_.fold_all(held);
  if (tree_.past().is_on(held) && tree_.is_linked()) tree_.past().tend(held, platform::coarse_ns());
  const std::uint64_t left = memory_.versions_live();
  tree_.slots().shrink(held);
  return left;
}

void Engine::detach() noexcept {
  step(Step::kDetachStart);
  turn_.leave();
  (void)memory_.open_segments();
  const DomainLock::Held held = lock_.take();
  reaper_.reap_dead(held);
  tree_.collect(held, ~std::size_t{0});
  tree_.slots().release(held);
  claimer_.give_back(held);
  instance_.own.state.store(0, std::memory_order_release);
}

}  // namespace tmh::page
