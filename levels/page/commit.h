// levels/page/commit.h -- an update's commit, at its end: content first (page_content.h), so that a
// full disk is an error before the commit point; then, under the domain lock, validation and
// publishing (publisher.h). commit.cpp tells the protocol.
// Ordering:  see consistency_tree.h for pins and clock.
// Contexts:  not in handlers.
// Source:    thesis, section 3.3, step 3; docs/mechanisms.md, "What every load rests on".
#pragma once

#include <cstddef>
#include <cstdint>

#include "levels/page/page_content.h"
#include "levels/page/page_sets.h"
#include "levels/page/publish/publish.h"
#include "levels/page/reaper.h"
#include "levels/page/redo/redo.h"
#include "levels/page/shared/shared.h"
#include "levels/page/touch/touch.h"
#include "levels/page/versions/versions.h"
#include "levels/page/views/views.h"

namespace tmh::page {

class Commit {
 public:
  // All outlive it.
  Commit(SharedFiles &memory, DomainLock &lock, Turn &turn, ConsistencyTree &tree, Reaper &reaper,
         const TrackingChoice &tracking, const Views &views, PageSets &sets, Snapshot &snapshot,
         Claimer &claimer, Instance &instance) noexcept
      : memory_(memory),
        lock_(lock),
        tree_(tree),
        reaper_(reaper),
        tracking_(tracking),
        sets_(sets),
        snapshot_(snapshot),
        claimer_(claimer),
        instance_(instance),
        content_(memory, lock, tree, views, sets, snapshot),
        publisher_(memory, turn, tree) {}

  // Durable domains: before the first instance.
  void use_log(DurableLog *log) noexcept {
    content_.use_plan();
    publisher_.use_log(log);
  }
  void use_recaller(Recaller *recaller) noexcept { publisher_.use_recaller(recaller); }

  // Publishes what PageSets::writes() lists. will_wait: the caller waits until it is durable.
  [[nodiscard]] Outcome publish(bool will_wait) noexcept;

 private:
  void tidy(const DomainLock::Held &held) noexcept;
  void sweep(const DomainLock::Held &held, std::uint64_t now_ns) noexcept;

  SharedFiles &memory_;
  DomainLock &lock_;
  ConsistencyTree &tree_;
  Reaper &reaper_;
  const TrackingChoice &tracking_;
  PageSets &sets_;
  Snapshot &snapshot_;
  Claimer &claimer_;
  Instance &instance_;
  PageContent content_;
  Publisher publisher_;
  std::uint64_t next_sweep_ns_ = 0;
};

}  // namespace tmh::page
