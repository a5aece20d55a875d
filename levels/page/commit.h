// levels/page/commit.h -- an update's commit: version slots and log space first, so that a full
// disk is an error before the commit point; then, under the domain lock, validation and publishing.
// Invariant: ConsistencyTree::publish() stores the clock: that is the commit point. Nothing behind
//            it can fail.
// Ordering:  see consistency_tree.h for pins and clock.
// Contexts:  not in handlers.
// Source:    thesis, section 3.3, step 3; docs/mechanisms.md, "What every load rests on".
#pragma once

#include <cstdint>
#include <optional>

#include "levels/page/consistency_tree.h"
#include "levels/page/domain_lock.h"
#include "levels/page/durable_log.h"
#include "levels/page/eager_accesses.h"
#include "levels/page/instance.h"
#include "levels/page/outcome.h"
#include "levels/page/page_sets.h"
#include "levels/page/reaper.h"
#include "levels/page/recaller.h"
#include "levels/page/shared_files.h"
#include "levels/page/snapshot.h"
#include "levels/page/tracking_choice.h"
#include "levels/page/turn.h"
#include "levels/page/views.h"
#include "platform/assert.h"

namespace tmh::page {

class Commit {
 public:
  // All outlive it.
  Commit(SharedFiles &memory, DomainLock &lock, Turn &turn, ConsistencyTree &tree, Reaper &reaper,
         const TrackingChoice &tracking, const Views &views, PageSets &sets, Snapshot &snapshot,
         EagerAccesses &accesses, Instance &instance) noexcept
      : memory_(memory),
        lock_(lock),
        turn_(turn),
        tree_(tree),
        reaper_(reaper),
        tracking_(tracking),
        views_(views),
        sets_(sets),
        snapshot_(snapshot),
        accesses_(accesses),
        instance_(instance) {}

  // Durable domains: before the first instance.
  void use_log(DurableLog *log) noexcept { log_ = log; }
  void use_recaller(Recaller *recaller) noexcept {
    TMH_ASSERT(recaller != nullptr);
    recaller_ = recaller;
    has_lower_ = true;
  }

  // Publishes what PageSets::writes() lists. will_wait: the caller waits until it is durable.
  [[nodiscard]] Outcome publish(bool will_wait) noexcept;

 private:
  [[nodiscard]] Errc fill_slots() noexcept;
  void take_slots_back() noexcept;
  void plan_log() noexcept;
  // Takes the domain lock when there is room for what the commit enters into the ring, and for its
  // log records. Empty: *error says why.
  [[nodiscard]] std::optional<DomainLock::Held> lock_with_log_space(storage::Lsn *log_end,
                                                                    Errc *error) noexcept;
  void tidy(const DomainLock::Held &held) noexcept;
  void sweep(const DomainLock::Held &held, std::uint64_t now_ns) noexcept;

  SharedFiles &memory_;
  DomainLock &lock_;
  Turn &turn_;
  ConsistencyTree &tree_;
  Reaper &reaper_;
  const TrackingChoice &tracking_;
  const Views &views_;
  PageSets &sets_;
  Snapshot &snapshot_;
  EagerAccesses &accesses_;
  Instance &instance_;
  // Durable domains only.
  DurableLog *log_ = nullptr;
  Recaller *recaller_ = &NothingToRecall::here();
  // Asked where the hot path would otherwise call *recaller_.
  bool has_lower_ = false;
  std::uint64_t next_sweep_ns_ = 0;
};

}  // namespace tmh::page
