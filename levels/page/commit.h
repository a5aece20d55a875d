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
#include "levels/page/redo/redo.h"
#include "levels/page/shared/shared.h"
#include "levels/page/touch/touch.h"
#include "levels/page/versions/versions.h"
#include "levels/page/views/views.h"

namespace tmh::page {

class Commit {
 public:
  // All outlive it.
  Commit(Ours &ours, Mine &mine, PageSets &sets, Snapshot &snapshot, Claimer &claimer) noexcept
      : ours_(ours),
        mine_(mine),
        sets_(sets),
        snapshot_(snapshot),
        claimer_(claimer),
        content_(ours, mine.views, sets, snapshot),
        publisher_(ours) {}

  // Durable domains: before the first instance.
  void use_log(DurableLog *log) noexcept {
    content_.use_plan();
    publisher_.use_log(log);
  }

  // Publishes what PageSets::writes() lists. will_wait: the caller waits until it is durable.
  [[nodiscard]] Outcome publish(bool will_wait) noexcept;

 private:
  void tidy(const DomainLock::Held &held) noexcept;
  void sweep(const DomainLock::Held &held, std::uint64_t now_ns) noexcept;

  Ours &ours_;
  Mine &mine_;
  PageSets &sets_;
  Snapshot &snapshot_;
  Claimer &claimer_;
  PageContent content_;
  Publisher publisher_;
  std::uint64_t next_sweep_ns_ = 0;
};

}  // namespace tmh::page
