// levels/page/engine.cpp -- an engine's life: choosing the tracking, mapping views, leaving.
#include "levels/page/engine.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <new>

#include "levels/page/engine_thread.h"
#include "platform/disk.h"
#include "platform/failure.h"
#include "platform/steps.h"

namespace tmh::page {

using platform::fail;
using platform::Step;
using platform::step;
using storage::kNoPin;

constinit thread_local EngineThread engine_thread __attribute__((tls_model("initial-exec")));

Engine::Engine(DomainMemory &memory, std::uint32_t slot, Detection detection)
    : memory_(memory),
      slot_(slot),
      own_(memory.participant(slot)),
      detection_(detection),
      key_(memory.view_key()),
      tree_(memory, slot, ConsistencyTree::Role::kKeepsSlots),
      accesses_(memory, slot),
      reaper_(memory, slot, tree_, accesses_),
      lock_(memory,
            platform::lock_tag(
                slot, memory.participant(slot).incarnation.load(std::memory_order_relaxed)),
            reaper_),
      turn_(memory, slot, lock_),
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
  if (const Errc error = tracking_.choose(wanted, detection_); error != Errc::kOk) return error;
  if (alone)
    if (const Errc error = memory_.reserve_links(); error != Errc::kOk) return error;
  const DomainLock::Held held = lock_.take();
  if (alone) reaper_.start_over(held);
  reaper_.reap_dead(held);
  tree_.collect(held, ~std::size_t{0});
  synced_ = kept_synced_ = memory_.state().clock.load(std::memory_order_relaxed);
  synced_position_ = memory_.state().log_head.load(std::memory_order_relaxed);
  repairs_seen_ = memory_.state().repairs.load(std::memory_order_relaxed);
  resync_needed_ = false;
  return Errc::kOk;
}

// A thread's faults may not be listed any more: the process has dropped its privileges since the
// open, or entered a sandbox. Where `auto` has chosen, every touch raises SIGSEGV from here on, in
// all threads. REQUIRES: no instance is running.
Errc Engine::give_up_kernel_tracking() noexcept {
  if (!tracking_.may_give_up()) return Errc::kTrackingUnavailable;
  std::string reason = "kernel tracking does not work here any more: " + platform::failure_detail();
  vacate();
  // guards are not listed
  for (const std::uint32_t segment : mapped_) views_[segment].pages_memory.forget_from(0);
  tracking_.give_up(std::move(reason));
  if (const Errc error = remap(); error != Errc::kOk) {
    platform::write_sentence(
        "tmh: a segment cannot be mapped again, for want of areas or memory; the first of them at",
        reinterpret_cast<std::uintptr_t>(views_[mapped_.front()].base));
    std::abort();
  }
  return Errc::kOk;
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
  Errc error = silent() ? tracking_.fault_around().switch_off(base, view.bytes) : Errc::kOk;
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
    if (const Errc error = tracking_.fault_around().switch_off(view.base, view.bytes);
        error != Errc::kOk)
      return error;
  }
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
